"""The book's pages, ledgers and goldens are in order (tools/checks.py), asked page by page."""

import pytest

import checks
import pages

PAGES = pages.pages()


def test_there_are_pages():
    assert PAGES, "_toc.yml names no page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.short)
def test_page_and_golden_are_in_order(page):
    assert not (found := list(checks.problems(page))), "\n".join(found)


def test_every_claim_of_the_pages_topics_has_one_place():
    assert not (found := list(checks.completeness())), "\n".join(found)


def test_spoken_names_and_citations_fit_together():
    assert not (found := list(checks.across())), "\n".join(found)


def test_every_page_and_golden_is_listed():
    """No page lies beside the table of contents, no golden without a page."""
    listed = {page.source for page in PAGES} | {pages.ROOT / f"{name}.md" for name in pages.documents()}
    assert set((pages.ROOT / "chapters").rglob("*.md")) <= listed
    assert set((pages.ROOT / "notebooks").rglob("*.ipynb")) == {page.golden for page in PAGES}
