"""make pdf: the whole book as one PDF: its built pages printed by Chromium, page numbers, contents and bookmarks.

``make pdf EDITION=class`` prints the class edition.
"""

import argparse
import html
import io
import sys

import yaml
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter

import browser
from pages import CLASS, ROOT, Page, documents

SITE = ROOT / "_build" / "html"
PAPER = {"format": "A4", "print_background": True, "margin": dict.fromkeys(("top", "bottom", "left", "right"), "16mm")}
READY = "async () => { await window.MathJax?.startup?.promise; await document.fonts.ready; }"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the built site.")
    parser.add_argument("--edition", choices=["class"], help="the edition without solutions")
    edition = parser.parse_args(arguments).edition
    site, out = (CLASS / "docs", "the-attention-ledger-class") if edition else (SITE, "the-attention-ledger")
    path = browser.find()
    if path is None:
        print(browser.ADVICE, file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = chromium.new_page(color_scheme="light")
        parts = []
        for name in documents():
            tab.goto((site / f"{name}.html").as_uri(), wait_until="load")
            tab.evaluate(READY)
            tab.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
            parts.append((name, PdfReader(io.BytesIO(tab.pdf(**PAPER)))))
            print(f"{name}: {len(parts[-1][1].pages)} pages", flush=True)
        contents = print_contents(tab, parts)
        book = PdfWriter()
        book.append(contents, import_outline=False)
        for name, part in parts:
            book.append(part, outline_item=Page(name).title, import_outline=False)
        for page, number in zip(book.pages, print_numbers(tab, len(book.pages)).pages, strict=True):
            page.merge_page(number)
            page.compress_content_streams()
        chromium.close()
    book.add_metadata({"/Title": "The Attention Ledger"})
    file = ROOT / "_build" / f"{out}.pdf"
    book.write(file)
    print(f"{file.relative_to(ROOT)}: {len(book.pages)} pages, {file.stat().st_size / 2**20:.1f} MiB")
    return 0


def print_contents(tab, parts: list[tuple[str, PdfReader]]) -> PdfReader:
    """Title and table of contents; its own length shifts the page numbers, so it is printed twice."""
    length, captions = 1, opening()
    for _ in range(2):
        number, rows = length + 1, []
        for name, part in parts:
            if name in captions:
                rows.append(f"<tr><th colspan=2 align=left>{html.escape(captions[name])}</th></tr>")
            rows.append(f"<tr><td>{html.escape(Page(name).title)}</td><td align=right>{number}</td></tr>")
            number += len(part.pages)
        tab.set_content(
            "<style>body { font-family: serif } th { padding-top: 0.8em } td:first-child { padding-left: 1em }</style>"
            "<h1>The Attention Ledger</h1><p>An executable textbook on efficient attention</p>"
            f"<table width=100% cellpadding=3>{''.join(rows)}</table>"
        )
        contents = PdfReader(io.BytesIO(tab.pdf(**PAPER)))
        length = len(contents.pages)
    return contents


def opening() -> dict[str, str]:
    """The page that opens a part -> the part's name."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    return {part["chapters"][0]["file"]: part["caption"] for part in toc.get("parts", []) if "caption" in part}


def print_numbers(tab, count: int) -> PdfReader:
    """As many empty pages, with their number at the foot."""
    feet = "".join(f"<div><span>{number}</span></div>" for number in range(1, count + 1))
    tab.set_content(
        "<style>body { margin: 0; font: 9pt serif } div { position: relative; height: 297mm; break-after: page }"
        "div:last-child { break-after: auto } span { position: absolute; bottom: 7mm; width: 100%; text-align: center }"
        f"</style>{feet}"
    )
    return PdfReader(io.BytesIO(tab.pdf(format="A4", margin=dict.fromkeys(PAPER["margin"], "0"))))


if __name__ == "__main__":
    sys.exit(main())
