"""MyST to plain markdown: each role and directive of the closed list converts, and nothing else gets through."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import jupytext
import pytest

import pages
import plain

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""
PAGE = """\
# A page

$$ y = 2x $$ (eq-line)

:::{exercise} Count the bytes
:label: ex-bytes
*Easy.* How many?
:::

```{code-cell} ipython3
---
mystnb:
  figure:
    name: fig-first
    caption: One
---
1
```

```{code-cell} ipython3
2
```

$$
z = 3x
$$ (eq-cube)

```{code-cell} ipython3
---
mystnb:
  figure:
    name: fig-second
    caption: Two
---
3
```
"""
BIB = r"""
@article{one2020, author = {Katharopoulos, Angelos}, title = {T}, year = {2020}, eprint = {2006.16236}}
@article{two2021, author = {Schlag, Imanol and Irie, Kazuki}, title = {T}, year = {2021}, doi = {10.1/x}}
@article{many2017, author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki}, title = {T}, year = {2017},
         eprint = {1706.03762}, url = {https://example.org/other}}
@misc{team2025, author = {{Kimi Team}}, title = {T}, year = {2025}, url = {https://example.org/kimi}}
@misc{von2019, author = {van der Maaten, Laurens}, title = {T}, url = {https://example.org/tsne}}
"""


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch) -> Path:
    """The sample book with a bibliography of its own."""
    shutil.copytree(ROOT / "tests" / "sample", tmp_path, dirs_exist_ok=True)
    shutil.copy(ROOT / "_config.yml", tmp_path)
    (tmp_path / "chapters" / "appendix").mkdir()
    (tmp_path / "chapters" / "appendix" / "bibliography.md").write_text("# Bibliography\n", encoding="utf8")
    (tmp_path / "references.bib").write_text(BIB, encoding="utf8")
    for module in (pages, plain):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for cached in (plain._labels, plain._bibliography):
        cached.cache_clear()
    yield tmp_path
    for cached in (plain._labels, plain._bibliography):
        cached.cache_clear()


def converter(text: str = PAGE, **spoken: str) -> plain.Converter:
    notebook = jupytext.reads(HEAD + text, "md:myst")
    return plain.Converter(SimpleNamespace(name="chapters/part/page", notebook=notebook), spoken)


def convert(text: str, **spoken: str) -> str:
    return converter(**spoken).convert(text)


def site(name: str) -> str:
    return pages.address(name)


def test_every_role_and_directive_of_the_list_is_tried_here():
    tried = Path(__file__).read_text(encoding="utf8")
    for role in plain._ROLES:
        assert f"{{{role}}}`" in tried, f"no test uses the role {role}"
    for directive in plain._DIRECTIVES:
        assert f":::{{{directive}}}" in tried, f"no test uses the directive {directive}"


def test_ordinary_markdown_stays_as_it_is():
    words = "## A heading\n\nWords, **bold**, `code {n}`, $x_{i}$, [a link](x.md)."
    text = f"{words}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two"
    assert convert(text) == text


# roles


def test_a_spoken_number_is_spoken():
    assert convert("From {glue:text}`kv` tokens.", kv="2,048") == "From 2,048 tokens."


def test_doc_becomes_a_link_to_the_site_with_the_pages_title():
    assert convert("See {doc}`/chapters/part/page`.") == f"See [A page]({site('chapters/part/page')})."
    assert convert("{doc}`our page </chapters/part/page>`") == f"[our page]({site('chapters/part/page')})"


def test_ref_becomes_a_link_to_the_heading():
    assert convert("{ref}`sample-page`") == f"[A page]({site('chapters/part/page')}#sample-page)"
    assert convert("{ref}`there <sample-page>`") == f"[there]({site('chapters/part/page')}#sample-page)"


def test_ref_to_an_exercise_of_the_page_names_it():
    assert convert("In {ref}`ex-bytes`, or {ref}`below <ex-bytes>`.") == "In exercise *Count the bytes*, or below."


def test_figures_count_from_one_over_the_page():
    assert convert("{numref}`fig-first` and {numref}`fig-second`") == "Figure 1 and Figure 2"


def test_equations_count_from_one_over_the_page():
    assert convert("By {eq}`eq-line` and {eq}`eq-cube`.") == "By (1) and (2)."


@pytest.mark.parametrize(
    "key, in_parentheses, in_text",
    [
        ("one2020", "([Katharopoulos, 2020]({}))", "Katharopoulos ([2020]({}))"),
        ("two2021", "([Schlag and Irie, 2021]({}))", "Schlag and Irie ([2021]({}))"),
        ("many2017", "([Vaswani et al., 2017]({}))", "Vaswani et al. ([2017]({}))"),
        ("team2025", "([Kimi Team, 2025]({}))", "Kimi Team ([2025]({}))"),
        ("von2019", "([van der Maaten, n.d.]({}))", "van der Maaten ([n.d.]({}))"),
    ],
)
def test_a_citation_is_author_and_year(key, in_parentheses, in_text):
    link = {
        "one2020": "https://arxiv.org/abs/2006.16236",
        "two2021": "https://doi.org/10.1/x",
        "many2017": "https://arxiv.org/abs/1706.03762",
        "team2025": "https://example.org/kimi",
        "von2019": "https://example.org/tsne",
    }[key]
    assert convert(f"{{cite:p}}`{key}`") == in_parentheses.format(link)
    assert convert(f"{{cite:t}}`{key}`") == in_text.format(link)


def test_several_citations_stand_in_one_pair_of_parentheses():
    assert convert("{cite:p}`one2020, team2025`") == (
        "([Katharopoulos, 2020](https://arxiv.org/abs/2006.16236); [Kimi Team, 2025](https://example.org/kimi))"
    )
    assert convert("{cite:t}`one2020,team2025`").count("; ") == 1


# directives


def test_an_admonition_becomes_a_quotation():
    text = ":::{admonition} Takeaway\n:class: takeaway\nOne line.\n\nAnd {numref}`fig-first`.\n:::"
    assert convert(text) == "> **Takeaway**\n>\n> One line.\n>\n> And Figure 1."


def test_a_hint_is_folded():
    text = ":::{admonition} Hint 1\n:class: hint dropdown\nCount the heads.\n:::"
    assert convert(text) == "<details>\n<summary><b>Hint 1</b></summary>\n\nCount the heads.\n\n</details>"


def test_an_exercise_keeps_its_title_and_text():
    text = ":::{exercise} Count the bytes\n:label: ex-bytes\n*Easy.* How many?\n:::"
    assert convert(text) == "**Exercise: Count the bytes**\n\n*Easy.* How many?"


def test_a_solution_names_its_exercise_and_its_end_leaves_nothing():
    assert convert(":::{solution-start} ex-bytes\n:class: dropdown\n:::") == "**Solution: Count the bytes**"
    assert convert(":::{solution-end}\n:::") == ""


def test_a_block_of_mathematics_becomes_dollars():
    assert convert(":::{math}\ny = 2x\n:::") == "$$\ny = 2x\n$$"


def test_text_around_and_between_directives_stays():
    text = "Before.\n\n:::{admonition} One\nA.\n:::\n\nBetween.\n\n::::{admonition} Two\nB.\n::::\n\nAfter."
    assert convert(text) == "Before.\n\n> **One**\n>\n> A.\n\nBetween.\n\n> **Two**\n>\n> B.\n\nAfter."


# labels, equations, captions


def test_a_numbered_equation_carries_its_number():
    assert convert("$$ y = 2x $$ (eq-line)") == "$$ y = 2x \\tag{1}\n$$"
    assert convert("$$\nz = 3x\n$$ (eq-cube)\n\nSo.") == "$$\nz = 3x\\tag{2}\n$$\n\nSo."


def test_an_equation_without_a_label_carries_none():
    assert convert("$$ y = 2x $$") == "$$ y = 2x $$"


def test_the_label_of_a_heading_is_dropped():
    assert convert("(a-label)=\n## A heading") == "## A heading"


def test_a_caption_has_the_figures_number():
    assert converter().caption("fig-second", "A line {eq}`eq-line`, {cite:t}`one2020`.") == (
        "**Figure 2.** A line (1), Katharopoulos ([2020](https://arxiv.org/abs/2006.16236))."
    )


# what is rejected


@pytest.mark.parametrize(
    "text, what",
    [
        ("{math}`x`", "the role {math}"),
        ("{cite}`one2020`", "the role {cite}"),
        ("{glue:figure}`kv`", "the role {glue:figure}"),
        (":::{note}\nWords.\n:::", "the directive {note}"),
        (":::{tab-set}\nWords.\n:::", "the directive {tab-set}"),
        ("::::{tab-set}\n:::{tab-item}\nWords.\n:::\n::::", "the directive {tab-set}"),
        ("```{note}\nWords.\n```", "the directive ```{note}"),
        ("````{code-block} python\n1\n````", "the directive ````{code-block}"),
        (":::{admonition} Never closed\nWords.", "the directive :::{admonition}"),
    ],
)
def test_what_is_not_on_the_list_is_rejected_with_its_page(text, what):
    with pytest.raises(pages.BookError, match=re.escape(what)) as caught:
        convert(f"Before.\n\n{text}\n\nAfter.")
    assert str(caught.value).startswith("chapters/part/page: ")


@pytest.mark.parametrize(
    "text, message",
    [
        ("{glue:text}`kv`", "no spoken number 'kv'"),
        ("{doc}`/chapters/part/pag`", "'chapters/part/pag', which _toc.yml does not list"),
        ("{ref}`no-label`", "no label 'no-label'"),
        ("{numref}`fig-third`", "no figure 'fig-third'"),
        ("{eq}`eq-none`", "no equation 'eq-none'"),
        ("{cite:p}`nobody1999`", "no reference 'nobody1999'"),
        ("{cite:t}`one2020, nobody1999`", "no reference 'nobody1999'"),
        (":::{solution-start} ex-none\n:::", "no exercise 'ex-none'"),
    ],
)
def test_what_points_nowhere_is_rejected_with_its_page(text, message):
    with pytest.raises(pages.BookError, match=re.escape(message)) as caught:
        convert(text)
    assert str(caught.value).startswith("chapters/part/page: ")
