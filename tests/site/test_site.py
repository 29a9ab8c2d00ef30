"""The built site: no error, no outside request, sliders by keyboard, light, dark, wide, narrow, every link."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

import pytest

import pages

SITE = pages.ROOT / "_build" / "html"
DOCUMENTS = [*pages.documents(), "search", "genindex"]
PAGES = [page.name for page in pages.pages()]
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_page_opens_without_error_or_outside_request(visit, address, name):
    page = visit(f"{address}/{name}.html")
    assert page.locator("h1").count() >= 1
    assert "Math input error" not in page.content()


@pytest.mark.parametrize("name", pages.documents())
def test_page_works_from_a_file(visit, name):
    page = visit((SITE / f"{name}.html").as_uri(), offline_from="file://")
    formulas = page.locator(".math").count()
    assert not formulas or page.locator("mjx-container").count() >= formulas


@pytest.mark.parametrize("name", pages.documents())
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_never_scrolls_sideways(visit, address, name, theme):
    page = visit(f"{address}/{name}.html", theme=theme)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(TWO_FRAMES)  # the page hears of its new width in one, and has answered by the next
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        drawn = page.locator("svg.drawing").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().width)")
        assert max(drawn, default=0) <= width
        # a formula in a sentence fits, or scrolls in a line of its own
        cut = page.locator("span.math mjx-container").evaluate_all(
            "all => all.filter(one => !one.closest('table') && one.getBoundingClientRect().right >"
            " one.closest('p, li, h1, h2, h3, article').getBoundingClientRect().right + 1)"
            ".map(one => one.parentElement.outerHTML)"
        )
        assert not cut


@pytest.mark.parametrize("name", PAGES)
def test_drawings_follow_the_dark_theme(visit, address, name):
    page = visit(f"{address}/{name}.html", theme="dark")
    backgrounds = page.locator("svg.drawing").evaluate_all(
        "all => all.map(svg => getComputedStyle(svg.closest('.text_html') || svg).backgroundColor)"
    )
    assert all(color == "rgba(0, 0, 0, 0)" for color in backgrounds), backgrounds
    assert page.locator("svg.drawing:not([aria-label])").count() == 0
    assert "#010203" not in page.content()


@pytest.mark.parametrize("name", PAGES)
def test_every_slider_moves_by_keyboard(visit, address, name):
    """From one end to the other: the value's text, the shown frame and its sentence change, nothing else is shown."""
    page = visit(f"{address}/{name}.html")
    for box in page.locator(".explore").all():
        for slider in box.locator("input").all():
            assert slider.is_enabled()
            slider.focus()
            before = (slider.get_attribute("aria-valuetext"), _shown(box))
            page.keyboard.press("End")
            assert slider.input_value() == slider.get_attribute("max")
            after = (slider.get_attribute("aria-valuetext"), _shown(box))
            assert before[0] != after[0] and before[1] != after[1]
            assert box.locator("output").first.inner_text()
            page.keyboard.press("Home")
            assert (slider.get_attribute("aria-valuetext"), _shown(box)) == before


def _shown(box) -> str:
    frames = [frame for frame in box.locator(".frame").all() if frame.is_visible()]
    assert len(frames) == 1, f"{len(frames)} frames are shown at once"
    return frames[0].inner_html()


class _Links(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links += [found[key] for key in ("href", "src") if found.get(key)]


def test_every_link_inside_the_site_leads_somewhere():
    parsed = {file: _Links(file.read_text(encoding="utf8")) for file in SITE.rglob("*.html")}
    broken = []
    for file, content in parsed.items():
        for link in content.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            path, anchor = urldefrag(unquote(link))
            target = (file.parent / path.split("?")[0]).resolve() if path else file
            if not target.exists():
                broken.append(f"{file.relative_to(SITE)}: {link}")
            elif anchor and target.suffix == ".html" and anchor.partition("=")[0] not in parsed[target].anchors:
                broken.append(f"{file.relative_to(SITE)}: {link} (no such anchor)")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.short)
def test_buttons_and_download_offer_the_golden(page):
    text = (SITE / f"{page.name}.html").read_text(encoding="utf8")
    golden = page.golden.relative_to(pages.ROOT).as_posix()
    url, ref = pages.repository()
    colab = f"https://colab.research.google.com/github/{url.removeprefix('https://github.com/')}/blob/{ref}/{golden}"
    assert colab in text
    assert re.search(rf"mybinder\.org[^\"]*{re.escape(golden)}", text)
    offered, golden = SITE / "_sources" / f"{page.name}.ipynb", page.golden
    assert json.loads(offered.read_text(encoding="utf8")) == json.loads(golden.read_text(encoding="utf8"))
