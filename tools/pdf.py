"""make pdf: the whole book as one PDF, its built pages printed by Chromium, with a table of contents and bookmarks."""

import html
import io
import sys

from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter

import browser
from pages import ROOT, Page, documents

SITE = ROOT / "_build" / "html"
OUT = ROOT / "_build" / "the-attention-ledger.pdf"
PAPER = {"format": "A4", "print_background": True, "margin": dict.fromkeys(("top", "bottom", "left", "right"), "16mm")}
READY = "async () => { await window.MathJax?.startup?.promise; await document.fonts.ready; }"


def main() -> int:
    path = browser.find()
    if path is None:
        print(browser.ADVICE, file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = chromium.new_page(color_scheme="light")
        parts = []
        for name in documents():
            tab.goto((SITE / f"{name}.html").as_uri(), wait_until="load")
            tab.evaluate(READY)
            tab.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
            parts.append((Page(name).title, PdfReader(io.BytesIO(tab.pdf(**PAPER)))))
            print(f"{name}: {len(parts[-1][1].pages)} pages", flush=True)
        contents = print_contents(tab, parts)
        chromium.close()
    book = PdfWriter()
    book.append(contents, import_outline=False)
    for title, part in parts:
        book.append(part, outline_item=title, import_outline=False)
    book.add_metadata({"/Title": "The Attention Ledger"})
    book.write(OUT)
    print(f"{OUT.relative_to(ROOT)}: {len(book.pages)} pages, {OUT.stat().st_size / 2**20:.1f} MiB")
    return 0


def print_contents(tab, parts: list[tuple[str, PdfReader]]) -> PdfReader:
    """Title and table of contents; its own length shifts the page numbers, so it is printed twice."""
    length = 1
    for _ in range(2):
        number, rows = length + 1, []
        for title, part in parts:
            rows.append(f"<tr><td>{html.escape(title)}</td><td align=right>{number}</td></tr>")
            number += len(part.pages)
        tab.set_content(
            "<body style='font-family:serif'><h1>The Attention Ledger</h1><p>An executable textbook on efficient "
            f"attention</p><table width=100% cellpadding=4>{''.join(rows)}</table></body>"
        )
        contents = PdfReader(io.BytesIO(tab.pdf(**PAPER)))
        length = len(contents.pages)
    return contents


if __name__ == "__main__":
    sys.exit(main())
