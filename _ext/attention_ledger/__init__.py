"""The book's Sphinx extension: outputs from the goldens, facts about each page, a light site."""

from pathlib import Path

from sphinx.application import Sphinx

from . import edition, finding, furniture, goldens, weight


def finish(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.name == "html":
        goldens.download_golden(app)
        furniture.mend_citations(Path(app.outdir))
        notation = Path(app.srcdir) / "chapters" / "appendix" / "notation.md"
        if notation.exists():
            furniture.explain_symbols(Path(app.outdir), notation)
        weight.prune(Path(app.outdir))


def setup(app: Sphinx) -> dict:
    app.add_search_language(finding.Symbols)
    app.connect("config-inited", edition.configure)
    app.connect("builder-inited", goldens.fill_cache, priority=900)
    app.connect("source-read", edition.source_read)  # before anything else reads the page
    app.connect("source-read", furniture.source_read)
    app.connect("env-get-updated", furniture.number_by_page, priority=900)  # after Sphinx has numbered
    app.connect("html-page-context", goldens.offer_golden, priority=900)
    app.connect("html-page-context", weight.drop_scripts, priority=900)
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
