"""Each kind of damage to a book is caught, by a message of one screen that names the place."""

import json

import pytest

PAGE = "chapters/part/page.md"
GOLDEN = "notebooks/part/page.ipynb"


def nbval(sample):
    """Re-execute the sample's goldens and compare every output, as make test does."""
    return sample.run("-m", "pytest", "notebooks", "--nbval", "--nbval-current-env", "-q", "--color=no", "-p", "no:mpl")


def caught(result, *words: str, lines: int = 60) -> None:
    output = result.stdout + result.stderr
    assert result.returncode != 0, "the damage passed unseen"
    for word in words:
        assert word in output, f"the message does not name {word!r}:\n{output[-3000:]}"
    assert len(output.splitlines()) <= lines, f"{len(output.splitlines())} lines do not fit a screen or two:\n{output}"


def test_the_undamaged_sample_passes_everything(sample):
    assert sample.run("tools/checks.py").returncode == 0
    assert sample.run("tools/build.py").returncode == 0
    result = nbval(sample)
    assert result.returncode == 0, result.stdout


def test_the_site_shows_the_goldens_outputs_and_executes_nothing(sample):
    """An output that no execution would give reaches the site, so it came from the golden."""
    sample.edit(GOLDEN, '<td class=\\"num\\">8</td>', '<td class=\\"num\\">424242</td>')
    assert sample.run("tools/build.py").returncode == 0
    assert "424242" in (sample.root / "_build/html/chapters/part/page.html").read_text(encoding="utf8")


def test_every_changed_output_is_caught_in_its_cell(sample):
    """Five damages, each in a cell of its own, in one run: nbval reports these five cells and no other."""
    glue = '"application/papermill.record/text/plain": "\'{}\'"'
    sample.edit(GOLDEN, glue.format("2,048"), glue.format("2,047"))  # a spoken number
    sample.edit(GOLDEN, "    8    2,048", "    8    2,049")  # a digit of a table
    # a figure's data: the frames of the slider have other slopes
    sample.edit("figures_src/part/slope.py", "slope * value for", "slope * value + (slope == 2.0) for")
    sample.edit(GOLDEN, "After three steps the line stands at 9.", "After three steps the line stands at 8.")  # a frame
    claims = sample.root / "lib/attnledger/data/claims.yaml"  # a verdict
    head, claim, tail = claims.read_text(encoding="utf8").partition("- id: kv-llama3-8b-per-layer")
    claims.write_text(head + claim + tail.replace("verdict: exact", "verdict: wrong", 1), encoding="utf8")
    result = nbval(sample)
    caught(result, "part/page.ipynb", "5 failed", lines=300)
    for place in ("say(", "table(", 'figure("part.slope")', "explore(", "recorded as 'wrong'"):
        assert place in result.stdout, f"no message names {place}"
    for value in ("2,047", "2,049"):
        assert value in result.stdout, f"no message shows {value}"


def test_a_golden_whose_prose_says_another_number(sample):
    sample.edit(GOLDEN, "speaks 2,048", "speaks 2,050")
    caught(sample.run("tools/checks.py"), "chapters/part/page", "speaks 2,050", lines=10)


def test_a_golden_deleted(sample):
    (sample.root / GOLDEN).unlink()
    caught(sample.run("tools/build.py"), "chapters/part/page", "no golden", "make notebooks", lines=10)
    caught(sample.run("tools/checks.py"), "chapters/part/page", "no golden", lines=10)


def test_a_code_cell_edited_without_regenerating(sample):
    sample.edit(PAGE, "heads, width = 8, 128", "heads, width = 8, 129")
    caught(sample.run("tools/build.py"), "chapters/part/page", "code cell 1", "make notebooks", lines=10)
    caught(sample.run("tools/checks.py"), "chapters/part/page", "code cell 1", lines=10)


def test_a_code_cell_added_without_regenerating(sample):
    sample.edit(PAGE, "## Solutions", "```{code-cell} ipython3\n1 + 1\n```\n\n## Solutions")
    caught(sample.run("tools/build.py"), "chapters/part/page", "make notebooks", lines=10)


@pytest.mark.parametrize("reference", ["{doc}`/chapters/part/pag`", "{numref}`fig-slop`", "{cite:p}`vaswani2018`"])
def test_a_broken_reference(sample, reference):
    sample.edit(PAGE, "It cites", f"{reference} It cites")
    caught(sample.run("tools/build.py"), "chapters/part/page", reference.split("`")[1].lstrip("/"), lines=12)
    caught(sample.run("tools/notebooks.py"), "chapters/part/page", reference.split("`")[1].lstrip("/"), lines=12)


def test_an_alt_text_removed(sample):
    sample.edit(GOLDEN, "A line through the origin with slope 2.0 After three steps the line stands at 6.", "")
    caught(sample.run("tools/checks.py"), "chapters/part/page", "alt text", lines=10)


def test_a_solution_above_the_solutions_heading(sample):
    golden = sample.root / GOLDEN
    book = json.loads(golden.read_text(encoding="utf8"))
    place = next(i for i, cell in enumerate(book["cells"]) if "solution" in cell["metadata"].get("tags", []))
    book["cells"].insert(1, book["cells"].pop(place))
    golden.write_text(json.dumps(book), encoding="utf8")
    caught(sample.run("tools/checks.py"), "chapters/part/page", "above the heading Solutions", lines=10)


def test_a_claim_on_two_pages(sample):
    cell = 'from attnledger.book import ledger\n\nh, w = 8, 128\nledger({"kv-llama3-8b-per-layer": 2 * h * w})'
    sample.edit("intro.md", "2 + 3", cell)
    caught(sample.run("tools/notebooks.py"), "kv-llama3-8b-per-layer", "intro", "part/page", lines=10)


def test_what_a_kernel_prints_on_its_way_out_is_not_the_books(sample):
    """A kernel that ends itself may report an error of its own (seen: a socket closed too early)."""
    sample.edit("intro.md", "2 + 3", "import atexit, os\n\nfarewell = atexit.register(os.write, 2, b'a farewell\\n')")
    made = sample.run("tools/notebooks.py")
    assert made.returncode == 0, made.stderr
    assert "intro: " in made.stdout and made.stderr == ""


def test_a_directive_that_no_notebook_could_show(sample):
    sample.edit(PAGE, "Twice as steep", ":::\n\n:::{tab-set}\nTwice as steep")
    caught(sample.run("tools/notebooks.py"), "chapters/part/page", "tab-set", lines=10)


def test_a_number_typed_into_prose(sample):
    sample.edit(PAGE, "Twice as steep", "Some 4711 tokens later, twice as steep")
    assert sample.run("tools/notebooks.py").returncode == 0
    caught(sample.run("tools/checks.py"), "chapters/part/page", "4711", lines=10)


def test_a_ledger_value_typed_in(sample):
    sample.edit(PAGE, '"kv-llama3-8b-per-layer": 2 * heads * width', '"kv-llama3-8b-per-layer": 2048')
    assert sample.run("tools/notebooks.py").returncode == 0
    caught(sample.run("tools/checks.py"), "kv-llama3-8b-per-layer", "typed in", lines=10)


def test_a_page_that_fails_names_the_cell(sample):
    sample.edit(PAGE, 'figure("part.slope")\n```', 'figure("part.slop")\n```')
    caught(sample.run("tools/notebooks.py"), "chapters/part/page", "did you mean 'part.slope'", lines=60)
