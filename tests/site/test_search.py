"""The search finds symbols, however they are written, and the names of models, and says where on a page they are."""

import re
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe

import pages

SITE = pages.ROOT / "_build" / "html"
NOTATION = "chapters/appendix/notation"
FINISHED = "() => /Search finished|did not match/.test(document.querySelector('#search-results').innerText)"


@pytest.fixture
def search(visit, address):
    """The pages that a query finds, best first, each as (docname, title, [links to its sections])."""

    def found(query: str, at: str = address, **options) -> list[tuple[str, str, list[str]]]:
        page = visit(f"{at}/search.html?q={quote(query)}", **options)
        page.wait_for_function(FINISHED)
        page.wait_for_load_state("networkidle")
        rows = page.locator("#search-results ul.search > li").evaluate_all(
            "all => all.map(li => [li.querySelector('a').getAttribute('href'), li.querySelector('a').textContent,"
            " [...li.querySelectorAll('ul.found a')].map(a => a.getAttribute('href').replace(/^\\.\\//, ''))])"
        )
        return [(href.partition(".html")[0], title, links) for href, title, links in rows]

    return found


def names(results) -> list[str]:
    return list(dict.fromkeys(name for name, _, _ in results))


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("h_kv", "chapters/sparse/block-selection"),
        ("β", "chapters/linear/delta-rule"),
        ("beta", "chapters/linear/delta-rule"),
        ("Γ", "chapters/linear/gating"),
        ("S", "chapters/linear/linear-attention"),
        ("lse", "chapters/exact/flash-attention"),
        ("φ", "chapters/linear/linear-attention"),
        ("GQA", "chapters/kv_cache/kv-tables"),
    ],
)
def test_a_symbol_leads_to_the_notation_and_to_the_page_that_uses_it(search, query, wanted):
    found = names(search(query))
    assert found[0] == NOTATION
    assert wanted in found


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("Llama 3 8B", "chapters/kv_cache/kv-tables"),
        ("DeepSeek-V3", "chapters/kv_cache/kv-tables"),
        ("KDA", "chapters/linear/gating"),
        ("Mamba-2", "chapters/linear/state-space"),
        ("H100", "chapters/appendix/hardware"),
        ("Longformer", "chapters/sparse/fixed-patterns"),
    ],
)
def test_a_name_leads_to_the_page_that_counts_it(search, query, wanted):
    assert wanted in names(search(query))


@pytest.mark.parametrize(
    "spellings",
    [("β_t", "beta_t", r"\beta_t", r"$\beta_{t}$"), ("h_kv", "h_{kv}", r"h_{\text{kv}}"), ("Γ", "gamma", r"\Gamma")],
)
def test_every_spelling_of_a_symbol_finds_the_same(search, spellings):
    first, *others = (names(search(spelling)) for spelling in spellings)
    assert first
    assert all(other == first for other in others)


def test_a_page_that_is_about_it_comes_first(search):
    for query in ("FlashAttention", "flash attention"):
        assert names(search(query))[0] == "chapters/exact/flash-attention"
    assert names(search("delta rule"))[0] == "chapters/linear/delta-rule"


def test_all_words_are_wanted_and_no_word_is_cut_out_of_another(search):
    assert not search("Llama nonesuch")
    without_lse = [page.name for page in pages.pages() if "lse" not in re.split(r"[^a-z]+", text_of(page))]
    assert without_lse, "pages that only say else and false"
    assert not {name for name, _, _ in search("lse")} & set(without_lse)


def text_of(page) -> str:
    """A page's source and golden, in small letters."""
    return (page.source.read_text(encoding="utf8") + page.golden.read_text(encoding="utf8")).lower()


def test_results_have_the_pages_titles_and_lead_to_the_sections_that_hold_the_words(search):
    found = search("KDA")
    for name, title, links in found:
        assert title.startswith(re.sub(r"[$`]", "", pages.Page(name).title))
        for link in links:
            file, _, anchor = link.partition("#")
            assert file == f"{name}.html"
            assert f'id="{anchor}"' in (SITE / file).read_text(encoding="utf8")
    assert ["chapters/linear/gating.html#" in " ".join(links) for name, _, links in found if name.endswith("gating")]
    assert sum(bool(links) for _, _, links in found) >= 3


def test_a_visited_page_keeps_its_formulas(visit, address):
    """Marking a found "gamma" inside the source of a formula would break the formula."""
    page = visit(f"{address}/search.html?q=gamma")
    page.wait_for_function(FINISHED)
    page.wait_for_load_state("networkidle")  # leaving would cut off the texts of the results
    page.goto(f"{address}/chapters/linear/gating.html", wait_until="load")
    page.evaluate("async () => { await MathJax.startup.promise }")
    formulas = page.locator("span.math, div.math")
    assert formulas.evaluate_all("all => all.filter(one => !one.querySelector('mjx-container')).length") == 0
    assert page.locator("span.highlighted").count() == 0
    assert "Math input error" not in page.content()


def test_the_search_works_from_a_file(search):
    found = names(search("h_kv", at=SITE.as_uri(), offline_from="file://"))
    assert found[0] == NOTATION


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_among_results(visit, address, theme):
    page = visit(f"{address}/search.html?q=KDA", theme=theme)
    page.locator("#search-results ul.found").first.wait_for()
    page.wait_for_load_state("networkidle")
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    assert not found, "\n".join(f"{v['id']}: {n['target']} {n['html'][:120]}" for v in found for n in v["nodes"])


def test_book_and_browser_make_the_same_words(visit, address, monkeypatch):
    """The index is made by finding.py, the query is read by finding.js: splitting and stemming must agree."""
    monkeypatch.syspath_prepend(str(pages.ROOT / "_ext"))
    from attention_ledger.finding import Symbols, words

    text = "\n".join(page.source.read_text(encoding="utf8") for page in pages.pages())
    page = visit(f"{address}/search.html")
    typed = sorted({word for line in text.splitlines() for word in line.split()})
    here = [words(one) for one in typed]
    there = page.evaluate("all => all.map(splitQuery)", typed)
    different = [(one, a, b) for one, a, b in zip(typed, here, there, strict=True) if a[: len(b)] != b]
    assert not different
    language = Symbols({})
    vocabulary = sorted({word.lower() for each in here for word in each})
    stems = page.evaluate("all => { const s = new Stemmer(); return all.map(word => s.stemWord(word)) }", vocabulary)
    different = [
        (word, language.stem(word), stem)
        for word, stem in zip(vocabulary, stems, strict=True)
        if language.stem(word) != stem
    ]
    assert not different
