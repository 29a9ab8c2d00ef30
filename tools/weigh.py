"""make weigh: what a first visit costs, here and on a plain Jupyter Book page with the same sliders made by ipywidgets.

The plain page shows the same golden: its text, outputs and frames, under Jupyter Book's defaults (theme, MathJax), with
an ipywidgets slider and a stack of frames for each of the book's. The scripts such a page needs (html-manager,
require.js, MathJax) are packed by npm into a temporary folder and answered from there, so that neither page waits for a
network. Both are opened on localhost in the same Chromium with an empty cache, in turns; times are medians.

    python tools/weigh.py [chapters/part/page] [--visits 7]
"""

import argparse
import functools
import gzip
import html
import http.server
import itertools
import json
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml
from playwright.sync_api import Browser, sync_playwright

import browser
from build import RUN
from pages import ROOT, BookError, Page, pages

PACKED = ("requirejs@2.3.8", "@jupyter-widgets/html-manager@1.0.14", "mathjax@3.2.2")
SITE = ROOT / "_build" / "html"
WIDGET = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
OURS, THEIRS = ".explore input:enabled", ".widget-slider .noUi-handle"
# set by the page itself in the first frame that shows a slider
WATCH = """
const look = () => {
  const slider = document.querySelector(%s);
  if (slider && slider.getBoundingClientRect().height > 0) window.__usable = performance.now();
  else requestAnimationFrame(look);
};
look();
"""


@dataclass
class Visit:
    """One cold visit: gzipped bytes of the page and of all that came, milliseconds, addresses, errors."""

    page: int
    all: int
    requests: int
    ready: float
    usable: float
    elsewhere: set[str]
    errors: list[str]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Weigh a page against a plain Jupyter Book page with ipywidgets.")
    parser.add_argument("page", nargs="?", default="chapters/linear/linear-attention", help="a page with a slider")
    parser.add_argument("--visits", type=int, default=7, help="visits of each page (default 7)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="weigh-") as folder:
        try:
            page = _page(options.page)
            packages = pack(Path(folder) / "packages")
            plain = build_plain(page, Path(folder) / "plain", packages)
            ours, theirs = compare(page, plain, packages["mathjax"], options.visits)
        except BookError as error:
            print(f"weigh: {error}", file=sys.stderr)
            return 1
    print(report(page, ours, theirs))
    return 0


def _page(name: str) -> Page:
    found = next((page for page in pages() if page.name == name), None)
    if found is None:
        raise BookError(f"there is no page {name}; pages are named as in _toc.yml")
    if not (SITE / f"{name}.html").exists():
        raise BookError("there is no site; run make book")
    if not any("explore" in code for code in found.code):
        raise BookError(f"{name} has no slider to compare")
    return found


def pack(folder: Path) -> dict[str, Path]:
    """The npm packages, unpacked: name -> folder."""
    folder.mkdir(parents=True)
    npm = shutil.which("npm")
    if npm is None:
        raise BookError("npm is needed to fetch what a plain page loads; install Node.js")
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), *PACKED]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if result.returncode:
        raise BookError(f"npm could not fetch {', '.join(PACKED)} (no network?):\n{result.stderr.strip()[-600:]}")
    found = {}
    for archive in folder.glob("*.tgz"):
        with tarfile.open(archive) as packed:
            packed.extractall(folder / archive.stem, filter="data")
        name = json.loads((folder / archive.stem / "package" / "package.json").read_text(encoding="utf8"))["name"]
        found[name] = folder / archive.stem / "package"
    return found


# ---- the plain page --------------------------------------------------------------------------------------------------


def build_plain(page: Page, folder: Path, packages: dict[str, Path]) -> Path:
    """A Jupyter Book with the golden as its one page; the folder of its site."""
    static = folder / "_static_widgets"
    static.mkdir(parents=True)
    shutil.copy(packages["requirejs"] / "require.js", static / "require.js")
    shutil.copytree(packages["@jupyter-widgets/html-manager"] / "dist", static / "html-manager")
    scripts = {"require.js": {}, "html-manager/embed-amd.js": {}}
    config = {
        "title": "Plain",
        "execute": {"execute_notebooks": "off"},
        "sphinx": {"config": {"html_static_path": [static.name], "nb_ipywidgets_js": scripts}},
    }
    (folder / "_config.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf8")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: page\n", encoding="utf8")
    nbformat.write(with_widgets(nbformat.read(page.golden, 4)), folder / "page.ipynb")
    result = subprocess.run(
        [sys.executable, "-c", RUN, "build", ".", "-q"], cwd=folder, capture_output=True, text=True, encoding="utf8"
    )
    site = folder / "_build" / "html"
    if result.returncode or not (site / "page.html").exists():
        raise BookError(f"the plain page could not be built:\n{result.stderr[-1000:]}")
    return site


def with_widgets(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The golden with ipywidgets in place of the book's sliders, their state saved as Jupyter saves it."""
    from ipywidgets.embed import dependency_state

    notebook.cells = [cell for cell in notebook.cells if "setup" not in cell.metadata.get("tags", [])]
    views = []
    for output in itertools.chain.from_iterable(cell.get("outputs", []) for cell in notebook.cells):
        text = output.get("data", {}).get("text/html", "")
        if 'class="explore"' in text:
            views.append(widget(text))
            view = {"version_major": 2, "version_minor": 0, "model_id": views[-1].model_id}
            output["data"] = {WIDGET: view, "text/plain": "VBox()"}
    state = {"version_major": 2, "version_minor": 0, "state": dependency_state(views)}
    notebook.metadata["widgets"] = {STATE: json.loads(json.dumps(state))}
    return notebook


def widget(saved: str):
    """Sliders linked to nested stacks of the same frames."""
    import ipywidgets

    labels = re.findall(r"<span[^>]*>(.*?)</span> <input", saved)
    values = [json.loads(html.unescape(found)) for found in re.findall(r'data-values="([^"]*)"', saved)]
    frames = re.findall(r'<div class="frame"[^>]*>(.*?)</div>\n(?=<div class="frame"|<script)', saved, re.S)
    sliders = [
        ipywidgets.SelectionSlider(options=list(zip(texts, range(len(texts)), strict=True)), description=label)
        for label, texts in zip(labels, values, strict=True)
    ]
    pictures = [ipywidgets.HTML(frame) for frame in frames]
    for slider, texts in zip(reversed(sliders), reversed(values), strict=True):
        stacks = [
            ipywidgets.Stack(pictures[i : i + len(texts)], selected_index=0)
            for i in range(0, len(pictures), len(texts))
        ]
        for stack in stacks:
            ipywidgets.jslink((slider, "index"), (stack, "selected_index"))
        pictures = stacks
    return ipywidgets.VBox([*sliders, *pictures])


# ---- the visits ------------------------------------------------------------------------------------------------------


def compare(page: Page, plain: Path, mathjax: Path, visits: int) -> tuple[list[Visit], list[Visit]]:
    """Visits of our page and of the plain one, in turns."""
    path = browser.find()
    if path is None:
        raise BookError(browser.ADVICE)
    ours, theirs = [], []
    with sync_playwright() as playwright, serve(SITE) as here, serve(plain) as there:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(visits):
            ours.append(visit(chromium, f"{here}/{page.name}.html", OURS, mathjax))
            theirs.append(visit(chromium, f"{there}/page.html", THEIRS, mathjax))
        chromium.close()
    return ours, theirs


class serve:
    """A folder on localhost."""

    def __init__(self, folder: Path):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        handler = functools.partial(Quiet, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_) -> None:
        self.server.shutdown()


def visit(chromium: Browser, url: str, slider: str, mathjax: Path) -> Visit:
    """Open `url` with an empty cache; MathJax asked of its usual host comes from its package."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    responses, elsewhere, errors = [], set(), []

    def outside(route) -> None:
        address = route.request.url
        elsewhere.add(address.partition("://")[2].partition("/")[0])
        found = re.search(r"/npm/mathjax@3[^/]*/([^?]+)", address)
        file = mathjax / found[1] if found else None
        if file and file.is_file():
            route.fulfill(path=file)
        else:
            route.abort()

    context.route(lambda address: not address.startswith(("http://127.0.0.1", "data:", "blob:")), outside)
    tab.on("response", lambda response: responses.append(response) if response.url.startswith("http") else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.add_init_script(WATCH % json.dumps(slider))
    tab.goto(url, wait_until="load")
    tab.wait_for_function("window.__usable", timeout=60_000)
    tab.evaluate("async () => { await window.MathJax?.startup?.promise; await document.fonts.ready; }")
    tab.wait_for_load_state("networkidle")
    ready = tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    usable = tab.evaluate("window.__usable")
    sizes = {response.url: len(gzip.compress(response.body())) for response in responses if response.ok}
    context.close()
    return Visit(sizes[url], sum(sizes.values()), len(sizes), ready, usable, elsewhere, errors)


def report(page: Page, ours: list[Visit], theirs: list[Visit]) -> str:
    """The table."""
    rows = [("", "this book", "plain, ipywidgets")]
    for label, attribute, scale, unit in (
        ("HTML, gzipped", "page", 1024, "KiB"),
        ("a first visit, gzipped", "all", 1024, "KiB"),
        ("requests", "requests", 1, ""),
        ("DOM ready", "ready", 1, "ms"),
        ("first slider usable", "usable", 1, "ms"),
    ):
        row = [label]
        for visits in (ours, theirs):
            numbers = [getattr(one, attribute) / scale for one in visits]
            spread = f" ({min(numbers):.0f}-{max(numbers):.0f})" if unit == "ms" else ""
            row.append(f"{statistics.median(numbers):.0f} {unit}{spread}".strip())
        rows.append(tuple(row))
    for label, attribute in (("other hosts asked", "elsewhere"), ("script errors", "errors")):
        rows.append((label, *(str(max(len(getattr(one, attribute)) for one in visits)) for visits in (ours, theirs))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    head = f"{page.name}, {len(ours)} visits of each in turns, empty cache, localhost, median (range)"
    foot = f"plain page: {', '.join(PACKED)}, answered from a folder; every response gzipped at level 9"
    return "\n".join([head, "", *lines, "", foot])


if __name__ == "__main__":
    sys.exit(main())
