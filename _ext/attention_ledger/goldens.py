"""Pages show the outputs of their goldens, and nothing is executed.

Before the build the execution cache is filled with each page's code cells and its golden's outputs; a page whose code
differs from its golden stops the build. Colab, Binder and the download button offer the golden.
"""

import html
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from . import edition

INK = "#010203"
NOT_FOR_SPHINX = ("application/vnd.attnledger.claims+json", "application/vnd.attnledger.cited+json")
_DRAWING = re.compile(r'<img class="drawing" alt="([^"]*)" width="(\d+)" src="data:image/svg\+xml,([^"]*)"[^>]*>')


def golden_of(app: Sphinx, docname: str) -> Path | None:
    """The golden of a page; None for a document that is not executed."""
    source = Path(app.srcdir) / f"{docname}.md"
    if not source.exists() or "kernelspec:" not in source.read_text(encoding="utf8")[:600]:
        return None
    return Path(app.srcdir) / "notebooks" / f"{docname.removeprefix('chapters/')}.ipynb"


def fill_cache(app: Sphinx) -> None:
    """Goldens -> execution cache."""
    path = Path(app.outdir).parent / ".jupyter_cache"
    shutil.rmtree(path, ignore_errors=True)
    app.config.nb_execution_cache_path = app.env.mystnb_config.execution_cache_path = str(path)
    cache = get_cache(path)
    for docname in sorted(app.project.discover(app.config.exclude_patterns)):
        if golden := golden_of(app, docname):
            source = Path(app.srcdir) / f"{docname}.md"
            bundle = CacheBundleIn(page_with_outputs(source, golden, docname), str(source))
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def page_with_outputs(source: Path, golden: Path, docname: str) -> nbformat.NotebookNode:
    """The page's own notebook carrying its golden's outputs; ExtensionError where the two differ."""
    command = f'python tools/notebooks.py "{docname}.md" (or make notebooks)'
    if not golden.exists():
        raise ExtensionError(f"{docname}: there is no golden {golden.name}; run {command}")
    page = read_myst_markdown_notebook(source.read_text(encoding="utf8"), path=source)
    cells = [cell for cell in page.cells if cell.cell_type == "code"]
    gold = [cell for cell in nbformat.read(golden, 4).cells if cell.cell_type == "code"]
    gold = [cell for cell in gold if "setup" not in cell.metadata.get("tags", [])]
    for i, (cell, kept) in enumerate(zip(cells, gold, strict=False), 1):
        if cell.source != kept.source:
            lines = zip([*cell.source.splitlines(), ""], [*kept.source.splitlines(), ""], strict=False)
            first = next(line for line, old in lines if line != old)
            raise ExtensionError(f"{docname}: code cell {i} differs from its golden at {first!r}; run {command}")
    if len(cells) != len(gold):
        raise ExtensionError(f"{docname}: {len(cells)} code cells, but {len(gold)} in its golden; run {command}")
    for cell, kept in zip(cells, gold, strict=True):
        cell.outputs, cell.execution_count = [for_site(output) for output in kept.outputs], kept.execution_count
    if edition.is_class():
        page.cells = edition.cut(page.cells)
    return page


def for_site(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output as the site shows it: drawings inline, without what Sphinx must not see."""
    if data := output.get("data"):
        for mime in NOT_FOR_SPHINX:
            data.pop(mime, None)
        if "text/html" in data:
            data["text/html"] = _DRAWING.sub(inline_svg, data["text/html"])
    return output


def inline_svg(match: re.Match) -> str:
    """A drawing as inline SVG that follows the page's theme."""
    alt, width, source = match.groups()
    svg = unquote(source).replace(INK, "currentColor").replace("font-family:sans-serif", "")
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', rf'<svg \1width="{width}"', svg, count=1)
    label = html.escape(html.unescape(alt))
    return svg.replace("<svg ", f'<svg class="drawing" role="img" aria-label="{label}" ', 1)


def offer_golden(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Launch buttons and downloads offer the golden notebook; the page's source is in the repository."""
    golden = golden_of(app, pagename)
    for group in context.get("header_buttons", []):
        buttons = group.get("buttons", [])
        for button in buttons:
            if golden and button.get("text") in ("Colab", "Binder"):
                there = golden.relative_to(app.srcdir).as_posix()
                button["url"] = button["url"].replace(f"{pagename}.md", there)
        buttons[:] = [button for button in buttons if not str(button.get("url", "")).endswith(".md")]


def download_golden(app: Sphinx) -> None:
    """The download is the golden with its outputs (MyST-NB writes a cached page without any), and nothing else."""
    for source in (Path(app.outdir) / "_sources").rglob("*.md"):
        source.unlink()
    for docname in app.env.found_docs:
        if golden := golden_of(app, docname):
            offered = Path(app.outdir) / "_sources" / f"{docname}.ipynb"
            text = edition.notebook(app, golden) if edition.is_class() else golden.read_text(encoding="utf8")
            packed = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
            offered.write_text(packed, encoding="utf8", newline="\n")
