"""What every page tells a reader: its facts, its letters, where to go; seen, printed, and without script."""

import html
import posixpath
import re
import subprocess
import sys

import pytest
import yaml
from pypdf import PdfReader

import pages

SITE = pages.ROOT / "_build" / "html"
PAGES = [page.name for page in pages.pages()]
DOCUMENTS = pages.documents()


def text_of(name: str) -> str:
    return (SITE / f"{name}.html").read_text(encoding="utf8")


def plain(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


# facts, neighbours, letters


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.short)
def test_a_page_says_how_long_it_takes_what_it_asks_and_what_it_needs(page):
    article = text_of(page.name).partition("<article")[2]
    title, _, facts = re.search(r"<h1>(.*?)</h1>(.*?)<div class=\"facts.*?<p>(.*?)</p>", article, re.S).groups()
    assert plain(title).rstrip("#") == re.sub(r"[$`]", "", page.title)
    said = plain(facts)
    assert said.startswith(f"{page.front['minutes']} minute")
    exercises = len(re.findall(r"^:::+ *\{exercise\}", page.source.read_text(encoding="utf8"), re.M))
    assert (f"{exercises} exercise" in said) == (exercises > 0)
    needed = [name if name == "intro" else f"chapters/{name}" for name in page.front["needs"]]
    links = [
        posixpath.normpath(posixpath.join(posixpath.dirname(page.name), to))
        for to in re.findall(r'href="([^"#]*)', facts)
    ]
    assert links == [f"{name}.html" for name in needed]
    assert all(pages.Page(name).title in said for name in needed)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_leads_to_its_neighbours_and_to_a_report_of_a_problem(name):
    text, here = text_of(name), DOCUMENTS.index(name)
    for kind, place in (("left-prev", here - 1), ("right-next", here + 1)):
        link = re.search(rf'<a class="{kind}"\s+href="([^"]*)"', text)
        if not 0 <= place < len(DOCUMENTS):
            assert not link
            continue
        assert posixpath.normpath(posixpath.join(posixpath.dirname(name), link[1])) == f"{DOCUMENTS[place]}.html"
    assert f"{pages.repository()[0]}/issues/new?title=Issue%20on%20page%20%2F{name}.html" in text


@pytest.mark.parametrize("name", [name for name in PAGES if text_of(name).count('class="math notranslate') > 10])
def test_letters_say_what_they_stand_for(name):
    """In their own words on the notation page: a letter's title begins a meaning that stands there."""
    titles = re.findall(r'<span title="([^"]*)" class="math notranslate', text_of(name))
    assert titles
    meanings = {plain(re.sub(r"[$`\\{}]", "", line)) for line in _meanings()}
    assert {re.sub(r"[^a-z]", "", html.unescape(title)) for title in titles} <= {
        re.sub(r"[^a-z]", "", meaning) for meaning in meanings
    }


def _meanings() -> list[str]:
    rows = re.findall(
        r"^\| \$.*?\$[^|]*\| (.*?) \|", pages.Page("chapters/appendix/notation").source.read_text("utf8"), re.M
    )
    return [re.sub(r"\{\w+\}`([^`<]*)[^`]*`", r"\1", row.replace("\\sqrt", "").replace("\\cdot", "")) for row in rows]


@pytest.mark.parametrize(
    "name, letter, meaning",
    [
        ("chapters/linear/gating", r"\Gamma", "product of a chunk's decays"),
        ("chapters/linear/delta-rule", r"\beta", "write strength"),
        ("chapters/linear/linear-attention", "S", "state after token t"),
        ("chapters/cost/softmax-attention", "S", "scores"),
        ("chapters/sparse/block-selection", "h_{kv}", "cached (key and value) heads"),
    ],
)
def test_a_letter_means_what_it_means_on_this_page(visit, address, name, letter, meaning):
    """And the hover text is still there once MathJax has drawn the letter."""
    found = re.findall(rf'title="([^"]*)" class="math[^>]*>\\\({re.escape(letter)}\\\)<', text_of(name))
    assert found and all(html.unescape(title).startswith(meaning) for title in found)
    drawn = visit(f"{address}/{name}.html").locator(f'span.math[title^="{meaning}"] mjx-container')
    assert drawn.count() >= len(found)


def test_the_landing_page_is_a_map_of_the_book():
    section = re.search(r'<section id="the-map">.*?</section>', text_of("intro"), re.S)[0]
    links = {link.removesuffix(".html") for link in re.findall(r'href="([^"#]+)"', section)}
    wanted = {name for name in PAGES if name != "intro" and not name.startswith("chapters/appendix/")}
    assert not wanted - links, "pages that the table in intro.md does not name"
    captions = [part["caption"] for part in yaml.safe_load((pages.ROOT / "_toc.yml").read_text("utf8"))["parts"]]
    rows = [plain(row) for row in re.findall(r"<tr.*?</tr>", section, re.S)]
    assert all(any(row.startswith(caption) for row in rows) for caption in captions[:-1])


# colours


WEAK = """
(background) => {
  const light = (color) => {
    const [r, g, b] = color.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const weak = new Set();
  let seen = 0;
  for (const shape of document.querySelectorAll("svg.drawing :is(path, use, rect, circle, line, text)")) {
    if (shape.closest("defs, clipPath, pattern")) continue;
    const style = getComputedStyle(shape);
    let fade = 1;
    for (let e = shape; e.localName !== "svg"; e = e.parentElement) fade *= Number(getComputedStyle(e).opacity);
    const strength = (kind, whole) => {
      const parts = style[kind].match(/^rgba?\\(([^)]*)/);
      if (!parts) return 0; // none, or a pattern
      const color = parts[1].split(",").map(Number);
      const alpha = whole ? 1 : (color.length > 3 ? color[3] : 1) * fade * Number(style[kind + "Opacity"]);
      const mixed = color.slice(0, 3).map((x, i) => alpha * x + (1 - alpha) * background[i]);
      return alpha === 0 ? 0 : contrast(mixed, background);
    };
    const faint = fade < 1 || Number(style.fillOpacity) < 1;
    const isWash = faint && style.fill !== "none"; // a light area; its colour is judged at full strength
    const isGrid = Number(style.strokeOpacity) <= 0.3 && style.fill === "none";
    const best = Math.max(strength("fill", isWash), shape.localName === "text" ? 0 : strength("stroke", isWash));
    if (best === 0 || isGrid) continue;
    seen += 1;
    const what = `${shape.localName} ${shape.textContent} fill ${style.fill} stroke ${style.stroke}`;
    if (best < 3) weak.add(`${what}: ${best.toFixed(2)}`);
  }
  return [seen, [...weak]];
}
"""


@pytest.mark.parametrize("name", [name for name in PAGES if 'class="drawing"' in text_of(name)])
def test_what_a_drawing_draws_stands_out_in_both_themes(visit, address, name):
    """Every word, line and mark of every drawing and frame: 3:1 against the page. Grid lines are left out; a light wash
    under words is judged by the colour it is a wash of."""
    page = visit(f"{address}/{name}.html")
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        background = [int(part) for part in re.findall(r"\d+", color)][:3]
        assert (sum(background) > 600) == (theme == "light"), background
        seen, weak = page.evaluate(WEAK, background)
        assert seen > 3
        assert not weak, f"{theme}:\n" + "\n".join(weak)


# without script, and on paper


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_without_script(chromium, name):
    """First frames and values, formulas in their source, hints and solutions: nothing waits for a script."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((SITE / f"{name}.html").as_uri())
    assert page.locator("article h1").is_visible()
    _first_frames_and_values(page)
    assert page.locator(".explore input:enabled").count() == 0
    for part in (".admonition p", "span.math", "div.solution p", "details summary"):
        hidden = page.locator(f"article {part}").evaluate_all(
            "all => all.filter(one => !one.closest('details:not([open])') && !one.checkVisibility())"
            ".map(one => one.innerText)"
        )
        assert not hidden, f"{part}: {hidden[0]}"
    context.close()


def _first_frames_and_values(page) -> None:
    boxes = page.locator(".explore").evaluate_all(
        "all => all.map(box => [[...box.querySelectorAll('.frame')].map(one => one.checkVisibility()),"
        " [...box.querySelectorAll('output')].map(one => one.checkVisibility() && one.innerText)])"
    )
    for frames, values in boxes:
        assert frames[0] and sum(frames) == 1
        assert values and all(values)


@pytest.mark.parametrize("name", PAGES)
def test_paper_shows_first_frames_values_and_hidden_code(visit, address, name):
    page = visit(f"{address}/{name}.html")
    page.emulate_media(media="print")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    _first_frames_and_values(page)
    # at once: what fades in would be printed blank
    faded = page.locator("details *").evaluate_all(
        "all => all.filter(one => getComputedStyle(one).opacity !== '1' && !one.closest('svg, table, button')).length"
    )
    assert faded == 0
    for part in (".bd-sidebar-primary", ".bd-header-article", ".prev-next-footer", ".explore input", ".copybtn"):
        shown = page.locator(part).evaluate_all("all => all.filter(one => one.checkVisibility()).length")
        assert shown == 0, part
    assert page.locator("article").bounding_box()["width"] > 600
    assert len(page.pdf()) > 10_000


def test_the_printed_book_has_contents_numbers_and_bookmarks(tmp_path):
    """The page that the contents name for a chapter opens with the chapter's title, and carries that number."""
    chosen = ["intro", "chapters/linear/delta-rule", "chapters/appendix/notation"]
    (tmp_path / "_build").mkdir()
    (tmp_path / "_toc.yml").write_bytes((pages.ROOT / "_toc.yml").read_bytes())
    # in a process of its own: two of Playwright's drivers cannot live in one
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pathlib, pdf; pdf.ROOT = pathlib.Path(sys.argv[2]); "
        f"pdf.documents = lambda: {chosen!r}; sys.exit(pdf.main([]))"
    )
    run = [sys.executable, "-c", code, str(pages.ROOT / "tools"), str(tmp_path)]
    result = subprocess.run(run, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    book = PdfReader(tmp_path / "_build" / "the-attention-ledger.pdf")
    contents = book.pages[0].extract_text()
    for name, mark in zip(chosen, book.outline, strict=True):
        title = pages.Page(name).title
        number = book.get_destination_page_number(mark) + 1
        assert mark.title == title
        assert re.search(rf"{re.escape(title)}\s*{number}\b", contents)
        printed = book.pages[number - 1].extract_text()
        assert title in printed and printed.rstrip().endswith(str(number))


# moved pages


def test_a_page_that_moved_leads_on_from_its_old_address(sample, chromium):
    sample.edit("_config.yml", "redirects: {}", "redirects: {chapters/old/page: ../part/page.html}")
    result = sample.run("tools/build.py")
    assert result.returncode == 0, result.stderr
    page = chromium.new_page()
    page.goto((sample.root / "_build/html/chapters/old/page.html").as_uri())
    page.wait_for_url("**/chapters/part/page.html")
    assert page.locator("article h1").count() == 1
    page.close()
