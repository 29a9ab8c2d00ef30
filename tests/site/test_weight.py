"""What a visit costs: bytes, requests, the whole site."""

import gzip

import pytest

import pages

SITE = pages.ROOT / "_build" / "html"


@pytest.mark.parametrize("name", pages.documents())
def test_page_weighs_little(name):
    size = len(gzip.compress((SITE / f"{name}.html").read_bytes()))
    assert size <= 300 * 1024, f"{size / 1024:.0f} KiB gzipped"


def test_site_weighs_little():
    assert sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file()) <= 15 * 2**20


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.short)
def test_first_visit_transfers_little(visit, address, page, record_property):
    """HTML, styles, scripts, fonts and MathJax of a first visit, each gzipped as a server would send it."""
    seen: dict[str, int] = {}

    def count(response) -> None:
        if response.url.startswith("http"):
            seen[response.url] = len(gzip.compress(response.body()))

    visit(f"{address}/{page.name}.html", before=lambda tab: tab.on("response", count)).wait_for_timeout(300)
    record_property("transferred_kib", round(sum(seen.values()) / 1024))
    record_property("requests", len(seen))
    assert sum(seen.values()) <= 700 * 1024, f"{sum(seen.values()) / 1024:.0f} KiB"
    assert len(seen) <= 30, "\n".join(seen)
