"""Grading with nbgrader in the sandbox: right, blank, wrong and hostile submissions, and files that are none."""

import csv
import html
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="make assignments tries this, in the environment for grading")

from hostile import CELLS, FORGED
from paper import wrong

import grade
import sandbox
from assignments import COURSE, OUT, answered, hidden_lines, id_of, kind_of, sets, solutions, stubs, write
from grade import Course, found, main, own_points, tidied
from pages import ROOT, BookError

SETS = sets()
SECRET = "the other student's words"
WRITTEN = "A very good page.\n\n<script>alert(1)</script> <img src=http://a.example/x.png onerror=alert(2)>"
try:
    sandbox.require()
    NO_SANDBOX = ""
except sandbox.NoSandbox as error:
    NO_SANDBOX = str(error)
locked_up = pytest.mark.skipif(bool(NO_SANDBOX), reason=NO_SANDBOX)


def release(part: str) -> nbformat.NotebookNode:
    file = OUT / "release" / f"{part}.ipynb"
    assert file.exists(), "make assignments builds the release first"
    return nbformat.read(file, 4)


def right(part: str, **changes: str) -> nbformat.NotebookNode:
    """The release with right answers, and these cells changed."""
    answers = solutions(SETS[part]) | {f"{part}-written": WRITTEN, f"{part}-student": 'student = "ada"'}
    return answered(release(part), answers | changes)


def without_metadata(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """As an editor leaves it that knows nothing of nbgrader."""
    notebook.metadata = nbformat.from_dict({"colab": {"provenance": []}})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({"id": "x"})
    return notebook


def merged(part: str) -> list[tuple[dict, dict]]:
    """All typical mistakes in three submissions or more, none with two mistakes in one answer."""
    groups = [({}, {}) for _ in range(3)]
    for answers, cost in wrong(part).values():
        taken, points = next((g for g in groups if not set(g[0]) & set(answers)), (None, None))
        if taken is None:
            taken, points = {}, {}
            groups.append((taken, points))
        taken.update(answers)
        points.update(cost)
    return groups


def full(part: str) -> dict[str, float]:
    return {test: SETS[part].points[test] for test in SETS[part].ids("test")}


def dressed_up() -> nbformat.NotebookNode:
    """An unanswered notebook whose tests, points and kernel were changed."""
    notebook = release("cost")
    notebook.metadata.kernelspec = nbformat.from_dict({"name": "bash", "language": "bash", "display_name": "Bash"})
    for cell in notebook.cells:
        if kind_of(cell) == "test" and "hard" not in id_of(cell):
            cell.source = "42.0"
            cell.metadata.nbgrader.update(points=100, locked=False, solution=True, checksum="0")
        elif kind_of(cell) == "test":
            cell.cell_type = "markdown"
            del cell["outputs"], cell["execution_count"]
    return notebook


def shuffled() -> nbformat.NotebookNode:
    """Right answers; one cell twice, two deleted, one renamed, one of the student's own."""
    notebook = right("cost")
    cells = {id_of(cell): cell for cell in notebook.cells}
    twice = nbformat.from_dict(dict(cells["cost-1-decoder"]))
    twice.source = f"# cost-1-decoder\n{stubs(SETS['cost'])['cost-1-decoder']}"
    notebook.cells.insert(notebook.cells.index(cells["cost-1-decoder"]), twice)
    notebook.cells.remove(cells["cost-2-factor-test"])
    notebook.cells.remove(cells["cost-5-capped"])
    cells["cost-3-page"].metadata.nbgrader.grade_id = "mine"
    cells["cost-3-page"].source = cells["cost-3-page"].source.replace("# cost-3-page", "# mine")
    own = notebook.cells.index(cells["cost-numbers"]) + 1
    notebook.cells.insert(own, nbformat.v4.new_code_cell("trial = table = numbers = personal = fresh = None  # my own"))
    return notebook


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A folder of submissions, and what stands around it."""
    top = tmp_path_factory.mktemp("a course")
    folder = top / "handed in"
    for part in SETS:
        write(right(part), folder / "ada" / f"{part}.ipynb")
        write(release(part), folder / f"{part}_blank.ipynb")
        for i, (answers, _) in enumerate(merged(part)):
            write(right(part, **answers), folder / f"wrong{i}" / f"{part}.ipynb")
    write(without_metadata(right("cost")), folder / "colab.ipynb")
    write(right("linear"), folder / "mismatch" / "cost.ipynb")
    write(dressed_up(), folder / "dressed" / "cost.ipynb")
    write(shuffled(), folder / "shuffled" / "cost.ipynb")
    for name in ("twin/cost.ipynb", "cost_Twin.ipynb"):
        write(right("cost"), folder / name)
    (folder / "nothing").mkdir()
    files = {
        "empty/cost.ipynb": b"",
        "binary/cost.ipynb": bytes(range(256)) * 40,
        "cut/cost.ipynb": nbformat.writes(right("cost")).encode()[:5000],
        "json/cost.ipynb": b'{"a": 1}',
        "deep/cost.ipynb": b"[" * 100_000,
        "strange/cost.ipynb": nbformat.writes(nbformat.v4.new_notebook()).encode(),
        "a (1).ipynb": nbformat.writes(right("cost")).encode(),
        "readme.txt": b"hello",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text)
    (folder / "link").mkdir()
    if os.name != "nt":
        (folder / "link" / "cost.ipynb").symlink_to(folder / "ada" / "cost.ipynb")
    return top


class Listener:
    """Sockets on this machine that count who calls."""

    def __init__(self, folder: Path):
        self.calls, self.unix = 0, str(folder / "s")
        self.open = [socket.socket(), socket.socket(socket.AF_UNIX)]
        self.open[0].bind(("127.0.0.1", 0))
        self.open[1].bind(self.unix)
        self.port = self.open[0].getsockname()[1]
        for each in self.open:
            each.listen()
            threading.Thread(target=self.count, args=(each,), daemon=True).start()

    def count(self, each: socket.socket) -> None:
        while True:
            each.accept()
            self.calls += 1


def hostile(folder: Path, out: Path, listener: Listener) -> None:
    """The hostile submissions, some of them before the others by name."""
    words = {"folder": str(folder), "home": str(Path.home()), "grades": str(out), "book": str(ROOT), "secret": SECRET}
    words |= {"port": listener.port, "unix": listener.unix}
    write(right("cost", **{"cost-written": SECRET}), folder / "secretive" / "cost.ipynb")
    for name, (cell, source) in (CELLS | FORGED).items():
        write(
            right("cost", **{cell: source.format(**words) if name in CELLS else source}), folder / name / "cost.ipynb"
        )


class Graded:
    def __init__(self, out: Path):
        with open(out / "grades.csv", encoding="utf-8-sig", newline="") as file:
            self.rows = {(row["student"], row["set"]): row for row in csv.DictReader(file)}
        self.out = out

    def points(self, student: str, part: str) -> dict[str, float]:
        row = self.rows[student, part]
        return {test: float(row[test]) for test in SETS[part].ids("test")}

    def remarks(self, student: str, part: str = "cost") -> str:
        return self.rows[student, part]["remarks"]

    def text(self, student: str, part: str = "cost") -> str:
        """The words of the feedback."""
        return html.unescape(re.sub(r"<[^>]+>", "", self.feedback(student, part)))

    def feedback(self, student: str, part: str = "cost") -> str:
        return (self.out / "feedback" / student / f"{part}.html").read_text(encoding="utf8")


@pytest.fixture(scope="session")
def graded(place) -> Graded:
    """Everything graded in one run, with the hostile ones where there is a sandbox."""
    out, folder = place / "grades", place / "handed in"
    before = sandbox.LIMITS
    sandbox.LIMITS = sandbox.Limits(cell=15)
    listener = None
    if not NO_SANDBOX:
        listener = Listener(place)
        hostile(folder, out, listener)
    try:
        assert grade.grade(folder, trust=bool(NO_SANDBOX), out=out) == 0
    finally:
        sandbox.LIMITS = before
    result = Graded(out)
    result.calls = listener.calls if listener else 0
    return result


parts = pytest.mark.parametrize("part", SETS)


@parts
def test_a_right_submission_gets_full_points(graded, part):
    assert graded.points("ada", part) == full(part)
    waits = f"{part}-written waits for your points."
    assert graded.remarks("ada", part) == waits and graded.rows["ada", part][f"{part}-written"] == ""


@parts
def test_a_blank_submission_gets_none(graded, part):
    row = graded.rows["blank", part]
    assert graded.points("blank", part) == dict.fromkeys(full(part), 0)
    assert (row["total"], row[f"{part}-written"], row["remarks"]) == ("0", "0", "No id is typed in it.")
    assert float(row["max"]) == sum(SETS[part].points.values())


@parts
def test_wrong_submissions_get_what_they_should_and_everything_else(graded, part):
    for i, (_, cost) in enumerate(merged(part)):
        assert graded.points(f"wrong{i}", part) == full(part) | cost


def test_personal_numbers_are_those_of_the_folders_id(graded):
    assert "The id typed in it is 'ada'." in graded.remarks("colab")
    assert "student = 'colab'" in graded.text("colab")


def test_a_notebook_that_lost_its_metadata_is_graded(graded):
    assert graded.points("colab", "cost") == full("cost")


def test_changed_tests_points_and_kernels_change_nothing(graded):
    assert graded.points("dressed", "cost") == dict.fromkeys(full("cost"), 0)
    assert graded.rows["dressed", "cost"]["max"] == "25"
    assert "Changed, and run as they were given out: cost-1-decoder-test," in graded.remarks("dressed")


def test_cells_that_are_missing_doubled_or_renamed_are_named(graded):
    assert graded.points("shuffled", "cost") == full("cost") | {"cost-5-capped-test": 0}
    said = graded.remarks("shuffled")
    assert "The set has no cell of this name: mine." in said and "cost-1-decoder stands 2 times" in said
    assert all(f"{name} is missing." in said for name in ("cost-5-capped", "cost-2-factor-test", "cost-3-page"))


@pytest.mark.parametrize(
    "student, said",
    [
        ("empty", "an empty file"),
        ("binary", "not a notebook, or a corrupted one"),
        ("cut", "not a notebook, or a corrupted one"),
        ("json", "not a notebook, or a corrupted one"),
        ("deep", "not a notebook, or a corrupted one"),
        ("strange", "a notebook, but of none of the problem sets"),
        ("mismatch", "the notebook of another set (linear)"),
        ("link", "a link or a folder, not a file"),
        ("twin", "two submissions of one student (cost_Twin.ipynb and twin/cost.ipynb): remove one"),
        ("Twin", "two submissions of one student (cost_Twin.ipynb and twin/cost.ipynb): remove one"),
    ],
)
def test_what_cannot_be_graded_is_named(graded, student, said):
    row = graded.rows[student, "cost"]
    assert row["remarks"].startswith(f"NOT GRADED: {said}") and row["total"] == ""


@pytest.mark.parametrize(
    "student, said",
    [
        ("nothing", "a folder without a notebook"),
        ("readme", "readme.txt is not a notebook"),
        ("a (1)", "the name holds no id"),
    ],
)
def test_what_belongs_to_no_set_is_named(graded, student, said):
    assert graded.rows[student, ""]["remarks"].startswith(f"NOT GRADED: {said}")


# harm

STOPPED = {
    "loops": "still running after 15 seconds",
    "stubborn": "it could not be interrupted after 15 seconds",
    "hungry": "",
    "hungry-family": "it took too much memory",
    "bomb": "too m",
    "fills": "",
    "floods": "it wrote into the folder of its sockets",
    "quits": "its process ended",
    "shouts": "",
}


@locked_up
@pytest.mark.parametrize("name", CELLS)
def test_a_hostile_submission_loses_its_own_points_and_those_after_at_most(graded, name):
    cell, tests = CELLS[name][0], SETS["cost"].ids("test")
    points = graded.points(name, "cost")
    own = [test for test in tests if SETS["cost"].answer_of(test) == cell]
    before = tests[: tests.index(own[0])]
    assert {test: points[test] for test in before} == {test: full("cost")[test] for test in before}
    assert not any(points[test] for test in own)
    assert STOPPED.get(name, "") in graded.remarks(name)


@locked_up
@pytest.mark.parametrize("name", [name for name in CELLS if CELLS[name][0] in ("cost-2-factor", "cost-3-page")])
def test_where_a_cell_can_be_interrupted_the_other_tasks_are_graded(graded, name):
    lost = [test for test in full("cost") if not graded.points(name, "cost")[test]]
    assert {SETS["cost"].answer_of(test) for test in lost} == {CELLS[name][0]}


@locked_up
def test_nobody_wrote_outside(graded, place):
    assert not list(place.rglob("attnledger-was-here"))
    for folder in (Path.home(), ROOT, Path("/"), Path("/usr"), Path("/etc"), ROOT / "lib"):
        assert not (folder / "attnledger-was-here").exists()
    assert "DONE" not in graded.text("writes") and "OSError /usr" in graded.text("writes")
    assert (place / "handed in" / "ada" / "cost.ipynb").exists() and not list(Path("/tmp").glob("al-*"))


@locked_up
def test_nobody_saw_hidden_tests_the_gradebook_or_another_submission(graded):
    assert "FOUND" not in graded.text("reads")
    assert SECRET in graded.feedback("secretive")


@locked_up
def test_nobody_was_called(graded):
    assert graded.calls == 0 and "CONNECTED" not in graded.text("calls")
    assert re.search("refused|unreachable|No such file|resolution", graded.feedback("calls"))


@locked_up
def test_nothing_lives_on(graded):
    time.sleep(0.5)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "ipykernel_launcher -f /tmp/al-" not in listed


@locked_up
@pytest.mark.parametrize("name", FORGED)
def test_a_disarmed_test_gives_no_points(graded, name):
    points = graded.points(name, "cost")
    own = [test for test in points if SETS["cost"].answer_of(test) == FORGED[name][0]]
    assert not any(points[test] for test in own)


@locked_up
@pytest.mark.parametrize("name", ["forges-trial", "forges-compare", "forges-source"])
def test_a_notebook_that_disarms_tests_is_to_be_looked_at(graded, name):
    assert "also passes with a spoiled answer: look at this notebook by hand" in graded.remarks(name)


# feedback


@locked_up
def test_feedback_runs_nothing_in_a_browser(graded):
    for page in (graded.feedback("browser"), graded.feedback("ada")):
        assert not re.search(r"<script|<iframe|<object|<[^>]+(javascript:|\sonerror)", page, re.I)
        assert "Content-Security-Policy" in page and "default-src 'none'" in page
        assert page.index("Content-Security-Policy") < page.index("<body")
    assert "<script>alert(1)</script> <img src=http://a.example" in graded.text("ada"), "HTML is shown as it was typed"


@parts
def test_feedback_shows_no_hidden_test(graded, part):
    page = {line.strip() for line in graded.text("wrong0", part).splitlines()}
    hidden = [line for cell in SETS[part].cells if kind_of(cell) == "test" for line in hidden_lines(cell.source)]
    lines = {line for line in hidden if len(line) > 30}
    public = {line.strip() for cell in release(part).cells for line in cell.source.splitlines()}
    assert lines - public and not (lines - public) & page


@locked_up
def test_feedback_stays_small_whatever_is_printed(graded):
    assert len(graded.feedback("prints")) < 2_000_000 and "more output than is kept" in graded.feedback("prints")


@pytest.mark.parametrize(
    "bad",
    [
        "<script>x</script>",
        "<SCRIPT SRC=//a.example></SCRIPT>",
        "<img src=x onerror=x>",
        "<svg/onload=x>",
        "<svg><script>x</script></svg>",
        "<a href='javascript:x'>a</a>",
        "<a href=' java\nscript:x'>a</a>",
        "<a href='data:text/html,x'>a</a>",
        "<iframe srcdoc=x></iframe>",
        "<img src='https://a.example/x.png'>",
        "<style>body { display: none }</style>",
        "<form action='https://a.example'><input></form>",
        "<base href='https://a.example'>",
        "<object data=x></object>",
    ],
)
def test_what_a_browser_would_run_or_fetch_is_taken_out(bad):
    page = f"<html><head><title>t</title></head><body><p>before</p>{bad}<p>after</p></body></html>"
    clean = grade.harmless(page)
    body = clean.partition("</head>")[2]
    assert "before" in body and "after" in body and "Content-Security-Policy" in clean.partition("</head>")[0]
    assert not re.search(r"script|onerror|onload|data:text|iframe|a\.example|style|<form|<object", body, re.I), body


def test_links_and_drawings_of_feedback_stay():
    page = (
        "<html><head></head><body><a href='https://a.example'>a</a><img src='data:image/png;base64,AA=='></body></html>"
    )
    assert "https://a.example" in grade.harmless(page) and "base64,AA==" in grade.harmless(page)


# the instructor's points


@pytest.fixture
def small(tmp_path) -> Path:
    write(right("cost"), tmp_path / "in" / "ada" / "cost.ipynb")
    write(right("cost"), tmp_path / "in" / "cost_bob.ipynb")
    return tmp_path


def run_small(small: Path) -> Graded:
    assert grade.grade(small / "in", trust=bool(NO_SANDBOX), out=small / "out") == 0
    return Graded(small / "out")


def test_points_of_the_instructor_are_kept_and_counted(small, capsys):
    first = run_small(small)
    assert first.rows["ada", "cost"]["total"] == "21" and "2 written answers wait" in capsys.readouterr().out
    file = small / "in" / "points.csv"
    assert file.read_text(encoding="utf8").splitlines() == [
        "student,set,task,points,comment",
        "ada,cost,cost-written,,",
        "bob,cost,cost-written,,",
    ]
    mine = (
        "student;set;task;points;comment;seen by\nada;cost;cost-written;3,5;Well argued;me\n"
        "ada;cost;cost-1-decoder-test;1;Right for the wrong reason;me\nbob;cost;cost-written;9;;\n"
        "carl;cost;cost-written;1;;\nbob;cost;nothing;1;;\n"
    )
    file.write_text(mine, encoding="utf8")
    (small / "out" / "feedback" / "gone").mkdir()
    second = run_small(small)
    said = capsys.readouterr().out
    assert file.read_text(encoding="utf8") == mine, "a file with every row is not touched"
    assert second.rows["ada", "cost"]["total"] == "23.5" and second.rows["ada", "cost"]["cost-written"] == "3.5"
    assert "Well argued" in second.feedback("ada") and "Right for the wrong reason" in second.feedback("ada")
    assert "line 4: '9' is not between 0 and 4" in said and "line 5: no graded submission of 'carl'" in said
    assert "line 6: cost has no task 'nothing'" in said and not (small / "out" / "feedback" / "gone").exists()


def test_a_points_file_with_another_head_stops_before_anything_is_run(small):
    (small / "in" / "points.csv").write_text("name,mark\nada,3\n", encoding="utf8")
    with pytest.raises(BookError, match="the first line has no student, set, task, points"):
        own_points(small / "in" / "points.csv")
    assert main([str(small / "in")]) == 1 and not (small / "out").exists()


# where there is no sandbox


def test_without_a_sandbox_nothing_is_run_unless_told(small, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(small))
    monkeypatch.setattr(os, "defpath", str(small))
    sandbox.require.cache_clear()
    monkeypatch.setattr(Course, "__init__", lambda *_, **__: pytest.fail("a course was made"))
    assert main([str(small / "in")]) == 1
    said = capsys.readouterr().err
    sandbox.require.cache_clear()
    assert "bwrap is missing" in said or "no sandbox on" in said
    assert "apt install bubblewrap" in said and "TRUST=1" in said and "Nothing was run" in said


def test_another_system_is_told_what_it_needs(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(sandbox.NoSandbox, match="no sandbox on darwin.*WSL 2"):
        sandbox.require.__wrapped__()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is a Linux program")
def test_a_bubblewrap_that_may_not_lock_up_is_told_from_one_that_is_missing(tmp_path, monkeypatch):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n", encoding="utf8")
    fake.chmod(0o755)
    monkeypatch.setattr(os, "defpath", f"{tmp_path}:{os.defpath}")
    with pytest.raises(sandbox.NoSandbox, match="Permission denied.*apparmor_restrict_unprivileged_userns"):
        sandbox.require.__wrapped__()


def test_told_to_trust_it_grades_without(small, capsys):
    assert main([str(small / "nowhere")]) == 1 and "there is no folder" in capsys.readouterr().err
    assert main([""]) == 1 and "SUBMISSIONS=folder" in capsys.readouterr().err
    assert grade.grade(small / "in", trust=True, out=small / "out") == 0
    assert Graded(small / "out").points("bob", "cost") == full("cost")
    assert "No sandbox, as you asked" in capsys.readouterr().out


# reading a folder and a notebook


def test_the_ways_a_folder_may_be_laid_out(tmp_path):
    write(release("cost"), tmp_path / "ada" / "my answers.ipynb")
    write(release("kv_cache"), tmp_path / "kv_cache_bob_2.ipynb")
    write(without_metadata(release("sparse")), tmp_path / "carl.ipynb")
    write(release("cost"), tmp_path / "Ada O'Neil_12_file_" / "cost.ipynb")
    (tmp_path / ".hidden").mkdir()
    named = {(each.student, each.part, each.problem) for each in found(tmp_path, SETS)}
    assert named == {
        ("ada", "cost", ""),
        ("bob_2", "kv_cache", ""),
        ("carl", "sparse", ""),
        ("Ada O'Neil_12_file_", "cost", ""),
    }


def test_only_type_and_text_of_a_cell_are_taken_over():
    notebook = right("cost")
    for cell in notebook.cells:
        cell.metadata["evil"] = "x" * 100
        cell["attachments" if cell.cell_type == "markdown" else "outputs"] = (
            {} if cell.cell_type == "markdown" else [nbformat.v4.new_output("stream", text="fake")]
        )
    notebook.metadata["evil"] = notebook.metadata["kernelspec"]["name"] = "evil"
    clean = nbformat.writes(tidied(notebook, SETS["cost"], "ada"))
    assert "evil" not in clean and "fake" not in clean
    again = tidied(nbformat.reads(clean, 4), SETS["cost"], "ada")
    assert again.metadata.attnledger.remarks == [] and [c.source for c in again.cells] == [
        c.source for c in nbformat.reads(clean, 4).cells
    ]


# nbgrader's own commands


@pytest.mark.skipif(os.name == "nt", reason="nbgrader's exchange needs a Unix file system")
def test_nbgraders_exchange_works_in_the_course(tmp_path):
    course, exchange, home = tmp_path / "course", tmp_path / "exchange", tmp_path / "home"
    shutil.copytree(COURSE, course)
    config = (course / "nbgrader_config.py").read_text(encoding="utf8")
    config = config.replace("Path(__file__).resolve().parents[3]", f"Path({str(ROOT)!r})")
    (course / "nbgrader_config.py").write_text(config + f"c.Exchange.root = {str(exchange)!r}\n", encoding="utf8")
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    home.mkdir()
    shutil.copy(course / "nbgrader_config.py", home)

    def nbgrader(folder: Path, *arguments: str) -> str:
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"USER": "ada"})
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    nbgrader(course, "release_assignment", "cost")
    assert "cost" in nbgrader(home, "list")
    nbgrader(home, "fetch_assignment", "cost")
    answers = answered(nbformat.read(home / "cost" / "cost.ipynb", 4), solutions(SETS["cost"]))
    write(answers, home / "cost" / "cost.ipynb")
    nbgrader(home, "submit", "cost")
    nbgrader(course, "collect", "cost")
    if NO_SANDBOX:
        return
    nbgrader(course, "autograde", "cost")
    nbgrader(course, "export", "--to", str(tmp_path / "grades.csv"))
    with open(tmp_path / "grades.csv", newline="", encoding="utf8") as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] == "cost"]
    assert [float(row["score"]) for row in rows if float(row["score"])] == [21.0]
