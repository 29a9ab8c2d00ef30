"""What a reader does with a page: enlarge, save, link to a setting; and WCAG 2.2."""

import pytest
from axe_playwright_python.sync_playwright import Axe

import pages

SITE = pages.ROOT / "_build" / "html"
PAGES = [page.name for page in pages.pages()]
SLIDERS = [name for name in PAGES if 'class="explore"' in (SITE / f"{name}.html").read_text(encoding="utf8")]
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
# one page is looked at whole; on the others the same highlighting of code (half of all elements) is not measured again
WHOLE = "chapters/linear/linear-attention"
REPEATED = {"exclude": [["div.highlight"], ["mjx-container"]]}


SLOWLY = """
addEventListener("DOMContentLoaded", () => {
  document.head.append(document.createElement("style"));
  document.head.lastChild.textContent = "* { transition-duration: 1s !important }";
})
"""


def test_a_visit_begins_when_the_colours_have_arrived(visit, address):
    page = visit(f"{address}/intro.html", theme="dark", before=lambda page: page.add_init_script(SLOWLY))
    color = "getComputedStyle(document.querySelector('.search-button__default-text')).color"
    first = page.evaluate(color)
    page.wait_for_timeout(1500)
    assert page.evaluate(color) == first


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", pages.documents())
def test_axe_finds_no_violation(visit, address, name, theme):
    page = visit(f"{address}/{name}.html", theme=theme)
    context = None if name == WHOLE else REPEATED
    found = Axe().run(page, context=context, options=WCAG).response["violations"]
    assert not found, "\n".join(f"{v['id']}: {n['target']} {n['html'][:120]}" for v in found for n in v["nodes"])


def test_a_drawing_opens_enlarged_by_click_and_by_enter(visit, address):
    page = visit(f"{address}/{SLIDERS[0]}.html")
    drawing = page.locator("svg.drawing:visible").first
    dialog = page.locator("dialog.enlarged")
    for open_it in (drawing.click, lambda: (drawing.focus(), page.keyboard.press("Enter"))):
        open_it()
        assert dialog.is_visible()
        assert dialog.locator("svg").bounding_box()["width"] > 1.3 * drawing.bounding_box()["width"]
        page.keyboard.press("Escape")
        assert not dialog.is_visible()


def test_the_contents_beside_the_page_show_where_one_is(visit, address):
    page = visit(f"{address}/{WHOLE}.html", width=1400)
    marked = "[...document.querySelectorAll('nav.page-toc .toc-h2 > a.active')].map((a) => a.hash).join()"
    page.mouse.move(700, 450)
    for link in page.locator("nav.page-toc .toc-h2 > a").all()[:-1]:  # the last section is too short to come so far up
        name = link.get_attribute("href")
        while page.locator(name).bounding_box()["y"] > 300:
            page.mouse.wheel(0, 200)
            page.wait_for_timeout(20)
        page.wait_for_function(f"{marked} === '{name}'", timeout=3000)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_drawing_can_be_saved(visit, address, tmp_path, kind):
    page = visit(f"{address}/{SLIDERS[0]}.html", theme="dark")
    page.locator("svg.drawing:visible").first.click()
    with page.expect_download() as download:
        page.locator(f"[data-save={kind}]").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    saved = file.read_bytes()
    assert file.suffix == f".{kind}"
    assert saved.startswith(b"\x89PNG") if kind == "png" else b"color:#010203" in saved


@pytest.mark.parametrize("name", SLIDERS)
def test_a_slider_setting_can_be_linked_to(visit, address, name):
    page = visit(f"{address}/{name}.html")
    box = page.locator(".explore").first
    for slider in box.locator("input").all():
        slider.focus()
        page.keyboard.press("End")
    shown, link = box.locator("output").all_inner_texts(), page.url
    assert "#explore-" in link
    again = visit(link)
    assert again.locator(".explore").first.locator("output").all_inner_texts() == shown


HEIGHTS = """
box => {
  const frames = [...box.querySelectorAll(".frame")];
  return frames.map(frame => {
    for (const other of frames) other.style.display = other === frame ? "" : "none";
    return frame.getBoundingClientRect().height;
  });
}
"""


@pytest.mark.parametrize("name", SLIDERS)
def test_the_page_does_not_jump_between_frames(visit, address, name):
    """All frames of a set are equally high, on a screen and on a phone."""
    page = visit(f"{address}/{name}.html")
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        for box in page.locator(".explore").all():
            heights = box.evaluate(HEIGHTS)
            assert max(heights) - min(heights) < 2, f"{width} pixels: from {min(heights):.0f} to {max(heights):.0f}"
