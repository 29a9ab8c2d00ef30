"""The class edition holds no solution, in whatever form a file may hold one; and the site none of a problem set."""

import html
import json
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from sphinx.search.en import SearchEnglish

import pages

SITE = pages.ROOT / "_build" / "html"
CLASS = pages.CLASS
TEXT = {".html", ".ipynb", ".js", ".json", ".txt", ".md", ".css", ".svg", ".xml", ".inv", ".buildinfo", ""}
BEGIN = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.S)
WITH_EXERCISES = [page for page in pages.pages() if "{exercise}" in page.source.read_text(encoding="utf8")]


# what must not be found


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def solutions(page: pages.Page) -> Iterator[str]:
    """The solutions of a page: cells that are tagged so, and the words between solution-start and solution-end."""
    text = page.source.read_text(encoding="utf8")
    yield from (c.source for c in page.notebook.cells if "solution" in c.metadata.get("tags", []))
    for part in re.findall(r"^:::+ *\{solution-start\}.*?\n:::+\n(.*?)^:::+ *\{solution-end\}", text, re.M | re.S):
        yield re.sub(r"^```.*?^```", "", part, flags=re.M | re.S)


def lines(text: str) -> Iterator[str]:
    """The telling parts of a solution: lines of code, and runs of words that no markup interrupts."""
    for line in text.splitlines():
        line = re.split(r"\s{2,}#", line)[0]
        for part in [line, *re.split(r"[$`{}\[\]*\\]", line)]:
            if len(squeezed(part)) >= 16 and re.search(r"[a-z]{2}", part):
                yield squeezed(part)


def open_text(page: pages.Page) -> str:
    """What everyone may read: the page without its solutions."""
    text = page.source.read_text(encoding="utf8")
    for part in solutions(page):
        text = text.replace(part.strip(), "") if part.strip() else text
    return text


def telling(parts: list[str], everyone: str) -> set[str]:
    known = squeezed(everyone)
    return {line for part in parts for line in lines(part) if line not in known}


def secrets(root_pages: list[pages.Page]) -> set[str]:
    everyone = "\n".join(open_text(page) for page in root_pages)
    return telling([part for page in root_pages for part in solutions(page)], everyone)


def problem_sets() -> list[Path]:
    return sorted((pages.ROOT / "assignments").glob("*.md"))


def set_secrets() -> set[str]:
    """Lines of the solutions and hidden tests of all problem sets that no page has, and pairs of lines in a row."""
    texts = [file.read_text(encoding="utf8") for file in problem_sets()]
    hidden = [part for text in texts for _, part in BEGIN.findall(text)]
    public = squeezed("\n".join(BEGIN.sub("", text) for text in texts))
    book = squeezed("\n".join(page.source.read_text(encoding="utf8") for page in pages.pages()))
    found = {line for line in telling(hidden, public) if len(line) >= 24 and line not in book}
    for part in hidden:
        code = [
            squeezed(line) for line in part.splitlines() if line.strip() and not re.match(r"\s*(import|from)\b", line)
        ]
        found |= {
            pair for pair in map("".join, zip(code, code[1:], strict=False)) if len(pair) >= 48 and pair not in public
        }
    return found


# where it is looked for


def forms(data: bytes, suffix: str) -> Iterator[str]:
    """A file's content as it stands, and as a reader or a program gets it: without tags, without escapes."""
    if suffix == ".inv":
        data = zlib.decompress(data.split(b"\n", 4)[4])
    text = data.decode("utf8")
    yield text
    if suffix == ".html":
        yield html.unescape(re.sub(r"<[^>]+>", "", text))
    if suffix in (".ipynb", ".json"):
        yield "\n".join(strings(json.loads(text)))


def strings(value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file with text in `folder`, those inside zips included."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                yield from ((f"{name}!{inner}", archive.read(inner)) for inner in archive.namelist())
        else:
            yield name, file.read_bytes()


def leaks(folder: Path, wanted: set[str]) -> list[str]:
    """Where one of the squeezed texts stands in a file of `folder`."""
    assert wanted, "there is nothing to look for"
    found = []
    for name, data in files(folder):
        suffix = Path(name).suffix
        if suffix not in TEXT or "_static/mathjax" in name:
            continue
        text = "\n".join(squeezed(form) for form in forms(data, suffix))
        found += [f"{name}: {line}" for line in wanted if line in text]
    return found


def index_terms(folder: Path) -> set[str]:
    index = json.loads(re.sub(r"^Search\.setIndex\((.*)\)$", r"\1", (folder / "searchindex.js").read_text("utf8")))
    return {*index["terms"], *index["titleterms"], *map(str.lower, index["alltitles"])}


def only_in_solutions(book: list[pages.Page]) -> set[str]:
    """Names that occur in solutions alone, as the search index would file them."""
    stem = SearchEnglish({}).stem
    everyone = [*map(open_text, book), *(text for page in book for text in shown(page))]
    known = {form for word in re.findall(r"\w+", "\n".join(everyone)) for form in (word.lower(), stem(word.lower()))}
    found = re.findall(r"[A-Za-z_]\w{5,}", "\n".join(part for page in book for part in solutions(page)))
    words = {word.lower() for word in found}
    return {form for word in words if stem(word) not in known and word not in known for form in (word, stem(word))}


def shown(page: pages.Page) -> Iterator[str]:
    """What the cells of a page show, those of solutions excepted."""
    for cell in json.loads(page.golden.read_text(encoding="utf8"))["cells"]:
        if "solution" not in cell["metadata"].get("tags", []):
            yield from strings(cell.get("outputs", []))


# the real class edition


@pytest.fixture(scope="module")
def edition() -> Path:
    for command in (["tools/build.py", "--edition", "class"], ["tools/archive.py", "--edition", "class"]):
        made = subprocess.run([sys.executable, *command], cwd=pages.ROOT, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
    return CLASS


def test_every_page_with_exercises_has_something_to_hide():
    """Else the tests below would look for nothing."""
    for page in WITH_EXERCISES:
        assert telling(list(solutions(page)), open_text(page)), page.name
    assert len(secrets(pages.pages())) > 10 * len(WITH_EXERCISES)


def test_no_file_of_the_class_edition_holds_a_solution(edition):
    assert not (found := leaks(edition, secrets(pages.pages()))), "\n".join(found[:20])


def test_the_class_edition_in_one_zip_holds_no_solution(edition):
    archive = pages.ROOT / "_build" / "the-attention-ledger-class.zip"
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    assert len(names) == sum(path.is_file() for path in edition.rglob("*"))
    assert {name.split("/")[1] for name in names} == {"docs", "notebooks"}


def test_the_search_index_of_the_class_edition_knows_no_word_of_a_solution(edition):
    wanted = only_in_solutions(pages.pages())
    assert wanted & index_terms(SITE), "the ordinary index does not know them either, so this shows nothing"
    assert not (found := wanted & index_terms(edition / "docs")), sorted(found)
    assert "solutions" not in index_terms(edition / "docs")


@pytest.mark.parametrize("page", WITH_EXERCISES, ids=lambda page: page.short)
def test_a_class_page_has_its_exercises_hints_and_checks(edition, page):
    text = (edition / "docs" / f"{page.name}.html").read_text(encoding="utf8")
    ordinary = (SITE / f"{page.name}.html").read_text(encoding="utf8")
    for part in ('class="exercise admonition"', 'class="hint dropdown', "Not answered yet", 'class="drawing"'):
        assert text.count(part) <= ordinary.count(part)
        assert text.count(part) or not ordinary.count(part), part
    assert text.count("exercise admonition") == page.source.read_text(encoding="utf8").count("{exercise}")
    assert "solution" not in re.sub(r"<[^>]+>", " ", text.partition('id="exercises"')[2]).lower()
    book = json.loads((edition / "notebooks" / f"{page.short}.ipynb").read_text(encoding="utf8"))
    golden = json.loads(page.golden.read_text(encoding="utf8"))
    kept = [c for c in golden["cells"] if c["cell_type"] == "code" and "solution" not in c["metadata"].get("tags", [])]
    assert [c for c in book["cells"] if c["cell_type"] == "code"] == kept


def test_nothing_in_the_class_edition_leads_to_the_book_with_solutions(edition):
    url, _ = pages.repository()
    forbidden = (pages.config()["html"]["baseurl"], url, "https://colab.research.google.com", "https://mybinder.org")
    for name, data in files(edition):
        if Path(name).suffix in (".html", ".ipynb"):
            text = "\n".join(strings(json.loads(data))) if name.endswith(".ipynb") else data.decode("utf8")
            for link in re.findall(r'\b(?:href|src|content)="([^"]*)"|\]\(([^)\s]+)\)', text):
                assert not "".join(link).startswith(forbidden), f"{name} has {link}"


def test_every_link_inside_the_class_edition_leads_somewhere(edition):
    ids = {
        file: set(re.findall(r'\b(?:id|name)="([^"]+)"', file.read_text(encoding="utf8")))
        for file in (edition / "docs").rglob("*.html")
    }
    broken = []
    for file in ids:
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', file.read_text(encoding="utf8")):
            path, anchor = urldefrag(unquote(html.unescape(link)))
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (file.parent / path.split("?")[0]).resolve() if path else file
            if not target.exists():
                broken.append(f"{file.name}: {link}")
            elif target in ids and anchor and not anchor.startswith("explore-") and anchor not in ids[target]:
                broken.append(f"{file.name}: {link} (no such anchor)")
    for file in (edition / "notebooks").rglob("*.ipynb"):
        for cell in json.loads(file.read_text(encoding="utf8"))["cells"]:
            if cell["cell_type"] == "markdown":
                for link in re.findall(r"\]\(([^)#\s]+\.ipynb)", cell["source"]):
                    if not (file.parent / link).exists():
                        broken.append(f"{file.name}: {link}")
    assert not broken, "\n".join(broken)


# that these tests would see a leak


HOME = "def answer(x):\n    return x @ x.mT * weight_of_answer[:, None] - 1 < 2"
SECRET = {squeezed("return x @ x.mT * weight_of_answer[:, None] - 1 < 2")}
LEAKS = {
    "page.html": "<pre><span class='k'>return</span> <span>x</span> <span>@</span> x.mT\n* weight_of_answer[:,"
    " <span>None</span>] - 1 &lt; 2</pre>",
    "book.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": HOME}]}),
    "split.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": HOME.splitlines(keepends=True)}]}),
    "searchindex.js": f"Search.setIndex({json.dumps({'titles': [HOME]})})",
    "notes.txt": HOME,
}


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("packed", [False, True], ids=["file", "zip"])
def test_a_leak_is_seen(tmp_path, name, packed):
    (tmp_path / "site").mkdir()
    if packed:
        with zipfile.ZipFile(tmp_path / "site" / "all.zip", "w") as archive:
            archive.writestr(name, LEAKS[name])
    else:
        (tmp_path / "site" / name).write_text(LEAKS[name], encoding="utf8")
    assert leaks(tmp_path / "site", SECRET)
    assert not leaks(tmp_path / "site", {"somethingelsethatisnotthere"})


# problem sets


@pytest.mark.skipif(not problem_sets(), reason="there are no problem sets")
@pytest.mark.parametrize("built", ["html", "class"])
def test_no_file_of_a_site_holds_a_solution_of_a_problem_set(edition, built):
    found = leaks(pages.ROOT / "_build" / built, set_secrets())
    assert not found, "\n".join(found[:20])


# the sample book


def built(sample, *options: str):
    result = sample.run("tools/build.py", *options)
    return result, sample.root / "_build" / "class"


def test_the_sample_builds_without_its_solution_and_the_ordinary_site_stays(sample):
    assert sample.run("tools/build.py").returncode == 0
    before = {name: data for name, data in files(sample.root / "_build" / "html")}
    result, made = built(sample, "--edition", "class")
    assert result.returncode == 0, result.stderr
    assert "_build/class" in result.stdout and "docs/" in result.stdout
    assert dict(files(sample.root / "_build" / "html")) == before
    assert leaks(sample.root / "_build" / "html", {"heads+width"})
    assert not leaks(made, {"heads+width"})
    assert "Solutions" not in (made / "docs" / "chapters" / "part" / "page.html").read_text(encoding="utf8")
    assert (made / "docs" / ".nojekyll").exists()


def test_a_course_gets_the_links(sample):
    result, made = built(sample, "--edition", "class", "--course", "https://github.com/dept/attention-class")
    assert result.returncode == 0, result.stderr
    page = (made / "docs" / "chapters" / "part" / "page.html").read_text(encoding="utf8")
    there = "https://colab.research.google.com/github/dept/attention-class/blob/main/notebooks"
    assert f"{there}/part/page.ipynb" in page
    assert "mybinder" not in page
    assert 'rel="canonical" href="https://dept.github.io/attention-class/chapters/part/page.html"' in page
    intro = (made / "notebooks" / "intro.ipynb").read_text(encoding="utf8")
    assert f"[in Colab]({there}/part/page.ipynb)" in intro
    assert "](https://dept.github.io/attention-class/chapters/part/page.html)" in intro
    site = pages.config()["html"]["baseurl"]
    assert all(site not in data.decode("utf8", "ignore") for _, data in files(made))


def test_a_solution_above_the_heading_stops_the_class_edition(sample):
    sample.edit("chapters/part/page.md", "## Solutions\n", "")
    assert sample.run("tools/notebooks.py").returncode == 0
    result, made = built(sample, "--edition", "class")
    assert result.returncode and "chapters/part/page" in result.stderr and "Solutions" in result.stderr
    assert not made.exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--edition", "clas"], "'clas'"),
        (["--course", "https://github.com/a/b"], "EDITION=class"),
        (["--edition", "class", "--course", "https://example.org/a/b"], "GitHub"),
        (["--edition", "class", "--course", "https://github.com/a"], "OWNER/NAME"),
    ],
)
def test_a_wrong_edition_is_named(sample, options, word):
    result, made = built(sample, *options)
    assert result.returncode == 1 and word in result.stderr
    assert len(result.stderr.splitlines()) <= 3
    assert not made.exists()
