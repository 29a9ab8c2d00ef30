"""make assignments: assignments/*.md -> the students' release, the instructors' notebooks, and an nbgrader course.

A problem set is one MyST notebook. Its cells carry nbgrader's metadata, short: what is left out is filled in here. In
`_build/assignments/`: `release/` for students (no solutions, no hidden tests), `instructor/` (solutions, tests and
outputs), `course/` for nbgrader's own commands.
"""

import argparse
import ast
import copy
import os
import re
import shutil
import sys
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

import nbformat

from notebooks import setup_cell
from pages import ROOT, BookError, Page, _front_matter
from plain import Converter

OUT = ROOT / "_build" / "assignments"
COURSE = OUT / "course"
STUB = "return None  # your answer here"
WRITTEN = "*Write here, in place of this line.*"
MARKS = {
    "solution": ("### BEGIN SOLUTION", "### END SOLUTION"),
    "hidden": ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"),
}
SOLUTION = re.compile(rf"^([ \t]*){MARKS['solution'][0]}$.*?^[ \t]*{MARKS['solution'][1]}$", re.M | re.S)
HIDDEN = re.compile(rf"^{MARKS['hidden'][0]}$.*?^{MARKS['hidden'][1]}$", re.M | re.S)
PYTHON = {"display_name": "Python 3", "language": "python", "name": "python3"}


class ProblemSet(Page):
    """One problem set; `part` is its name, for example ``cost``."""

    @property
    def part(self) -> str:
        return self.source.stem

    @cached_property
    def front(self) -> dict:
        """The `assignment` block of the front matter: title and minutes."""
        return _front_matter(self.source).get("assignment", {})

    @cached_property
    def cells(self) -> list[nbformat.NotebookNode]:
        """The cells with nbgrader's metadata filled in and checked."""
        cells = copy.deepcopy(self.notebook.cells)
        for cell in cells:
            if "nbgrader" in cell.metadata:
                self._complete(cell)
        self._check(cells)
        return cells

    def ids(self, kind: str) -> list[str]:
        """The grade_ids of the ``"answer"``, ``"test"``, ``"written"`` or ``"locked"`` cells, in order."""
        return [id_of(cell) for cell in self.cells if kind_of(cell) == kind]

    @property
    def points(self) -> dict[str, float]:
        """What each test cell and the written task are worth."""
        return {id_of(c): c.metadata.nbgrader.points for c in self.cells if kind_of(c) in ("test", "written")}

    def answer_of(self, test: str) -> str:
        """The answer cell that a test cell tries: ``cost-2-cache`` for ``cost-2-cache-test``."""
        return max((a for a in self.ids("answer") if test.startswith(f"{a}-")), key=len)

    def complete_notebook(self) -> nbformat.NotebookNode:
        """The source notebook: set-up cell, plain markdown, each nbgrader cell's id on its first line.

        The id stands there for submissions that come back from an editor that drops metadata.
        """
        install = setup_cell()
        install.metadata["nbgrader"] = {"grade_id": f"{self.part}-install", "locked": True}
        self._complete(install)
        converter, cells = Converter(self, {}), [install]
        for cell in copy.deepcopy(self.cells):
            if cell.cell_type == "markdown" and "nbgrader" not in cell.metadata:
                cell.source = converter.convert(cell.source)
            cells.append(cell)
        for i, cell in enumerate(cells):
            cell["id"] = id_of(cell) or f"{self.part}-text-{i:02d}"
            if id_of(cell):
                cell.source = f"{mark(cell)}\n{cell.source}"
        metadata = {"kernelspec": PYTHON, "language_info": {"name": "python"}, "attnledger": {"assignment": self.part}}
        notebook = nbformat.v4.new_notebook(cells=[cell for cell in cells if cell.source], metadata=metadata)
        nbformat.validate(notebook)
        return notebook

    def _complete(self, cell: nbformat.NotebookNode) -> None:
        given = cell.metadata.nbgrader
        default = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3}
        if unknown := set(given) - {*default, "grade_id", "points", "cell_type", "checksum"}:
            raise BookError(f"{self.name}: {given.get('grade_id')}: nbgrader knows no {', '.join(sorted(unknown))}")
        cell.metadata.nbgrader = nbformat.from_dict({**default, "cell_type": cell.cell_type, **given})

    def _check(self, cells: list[nbformat.NotebookNode]) -> None:
        ids = [id_of(cell) for cell in cells if id_of(cell)]
        for name in ids:
            if ids.count(name) > 1 or not re.fullmatch(rf"{self.part}-[a-z0-9-]+", name):
                raise BookError(f"{self.name}: the grade_id {name!r} stands twice or does not begin with {self.part}-")
        if ids[:3] != [f"{self.part}-{word}" for word in ("setup", "student", "numbers")]:
            raise BookError(f"{self.name}: the first cells of nbgrader are {ids[:3]}, not setup, student, numbers")
        answers = [id_of(cell) for cell in cells if kind_of(cell) == "answer"]
        tests = [id_of(cell) for cell in cells if kind_of(cell) == "test"]
        for cell in cells:
            name, kind = id_of(cell), kind_of(cell)
            has = {mark: [cell.source.count(line) for line in MARKS[mark]] for mark in MARKS}
            if (kind == "answer") != (has["solution"] == [1, 1]) or (kind != "answer" and any(has["solution"])):
                raise BookError(f"{self.name}: {name}: solution marks belong into an answer cell, one pair each")
            if (kind == "test") != (has["hidden"] == [1, 1]) or (kind != "test" and any(has["hidden"])):
                raise BookError(f"{self.name}: {name}: hidden tests belong into a test cell, one pair each")
            if kind == "test" and not any(name.startswith(f"{answer}-") for answer in answers):
                raise BookError(f"{self.name}: {name}: no answer cell has a name that it begins with")
            if kind in ("test", "written") and not cell.metadata.nbgrader.get("points", 0) > 0:
                raise BookError(f"{self.name}: {name}: no points")
            if kind == "" and cell.cell_type == "code":
                raise BookError(f"{self.name}: a code cell without nbgrader metadata: {cell.source[:60]!r}")
        if missing := [a for a in answers if not any(test.startswith(f"{a}-") for test in tests)]:
            raise BookError(f"{self.name}: no test for {', '.join(missing)}")


def id_of(cell: nbformat.NotebookNode) -> str:
    found = cell.metadata.get("nbgrader", {})
    return found.get("grade_id", "") if isinstance(found, dict) else ""


def kind_of(cell: nbformat.NotebookNode) -> str:
    """``"answer"``, ``"test"``, ``"written"``, ``"student"``, ``"locked"``, or ``""`` for the cells between."""
    given = cell.metadata.get("nbgrader", {})
    if not given:
        return ""
    if given.get("grade"):
        return "written" if given.get("solution") else "test"
    if given.get("solution"):
        return "student" if given["grade_id"].endswith("-student") else "answer"
    return "locked"


def mark(cell: nbformat.NotebookNode) -> str:
    """The line that names a cell in its text."""
    return f"<!-- {id_of(cell)} -->" if cell.cell_type == "markdown" else f"# {id_of(cell)}"


@cache
def sets() -> dict[str, ProblemSet]:
    """All problem sets by part."""
    found = [ProblemSet(f"assignments/{file.stem}") for file in sorted((ROOT / "assignments").glob("*.md"))]
    return {each.part: each for each in found}


def hidden_lines(source: str) -> list[str]:
    """The lines of a cell (or of a whole source) between solution or hidden-test marks, without blank ones."""
    found, inside = [], False
    for line in source.splitlines():
        if line.strip() in (MARKS["solution"][0], MARKS["hidden"][0]):
            inside = True
        elif line.strip() in (MARKS["solution"][1], MARKS["hidden"][1]):
            inside = False
        elif inside and line.strip():
            found.append(line.strip())
    return found


def answered(notebook: nbformat.NotebookNode, answers: dict[str, str]) -> nbformat.NotebookNode:
    """A copy with the sources of these cells (by grade_id) replaced, each under its id; unknown ids raise KeyError."""
    notebook, left = copy.deepcopy(notebook), dict(answers)
    for cell in notebook.cells:
        if id_of(cell) in left:
            cell.source = f"{mark(cell)}\n{left.pop(id_of(cell)).strip()}"
    if left:
        raise KeyError(f"no cell has the grade_id {', '.join(left)}")
    return notebook


def solutions(part: ProblemSet) -> dict[str, str]:
    """The solved answer cells of a set, without marks: what a right submission types."""
    marks = {line for pair in MARKS.values() for line in pair}
    cells = (cell for cell in part.cells if kind_of(cell) in ("answer", "written"))
    return {
        id_of(cell): "\n".join(line for line in cell.source.splitlines() if line.strip() not in marks) for cell in cells
    }


def stubs(part: ProblemSet) -> dict[str, str]:
    """The answer cells as students get them, and an empty written task."""
    return {id_of(cell): public(cell) for cell in part.cells if kind_of(cell) in ("answer", "written")}


def write(notebook: nbformat.NotebookNode, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, file)


# what needs nbgrader


CONFIG = '''\
"""nbgrader's settings for this course, written by make assignments. Yours go below the last line, or into a file of
your own that nbgrader reads as well. The course works where it lies; if you move it, say here where the book is."""

import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(BOOK / "tools"))

from grade import settings  # noqa: E402

c = get_config()  # noqa: F821
c.merge(settings())
'''


def generate(parts: dict[str, ProblemSet], root: Path, api) -> None:
    """Sources and releases of these sets in an nbgrader course."""
    for part, problems in parts.items():
        write(problems.complete_notebook(), root / "source" / part / f"{part}.ipynb")
        result = api.generate_assignment(part, force=True)
        if not result["success"]:
            raise BookError(f"{problems.name}: nbgrader could not make the release\n{result.get('log', '')}")


def build(parts: dict[str, ProblemSet]) -> None:
    """The course, the release and the instructors' notebooks, from scratch."""
    from nbgrader.apps import NbGraderAPI

    from grade import settings

    shutil.rmtree(OUT, ignore_errors=True)
    COURSE.mkdir(parents=True)
    (COURSE / "nbgrader_config.py").write_text(CONFIG, encoding="utf8")
    config = settings()
    config.CourseDirectory.root = str(COURSE)
    generate(parts, COURSE, NbGraderAPI(config=config))
    for part, problems in parts.items():
        shutil.copytree(COURSE / "release" / part, OUT / "release", dirs_exist_ok=True)
        write(executed(problems.complete_notebook()), OUT / "instructor" / f"{part}.ipynb")
        print(f"{part}: {len(problems.ids('answer'))} tasks, {sum(problems.points.values()):g} points", flush=True)


def executed(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with its outputs; a failing cell is an author's mistake."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    try:
        client = NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            record_timing=False,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
            shutdown_kernel="immediate",  # as in tools/notebooks.py
        )
        client.execute()
    except CellExecutionError as error:
        raise BookError(f"{notebook.metadata.attnledger.assignment}: a cell of the solutions failed\n{error}") from None
    return notebook


def main(arguments: list[str] | None = None) -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        parts = sets()
        build(parts)
        check_release(parts)
    except BookError as error:
        print(f"make assignments: {error}", file=sys.stderr)
        return 1
    for folder, what in (("release", "for students"), ("instructor", "solved"), ("course", "for nbgrader")):
        print(f"{(OUT / folder).relative_to(ROOT).as_posix()}/  {what}")
    return 0


def check_release(parts: dict[str, ProblemSet]) -> None:
    """No line between marks may stand anywhere in a release, unless its set also shows it outside of marks."""
    for part, problems in parts.items():
        released = nbformat.read(OUT / "release" / f"{part}.ipynb", 4)
        if leaked := leaks(released, parts.values()):
            raise BookError(f"{problems.name}: the release shows {leaked[0]!r}, which stands between marks")
        for cell in released.cells:
            if cell.cell_type == "code":
                ast.parse(re.sub(r"^(\s*)%", r"\1pass  #", cell.source, flags=re.M))


def leaks(notebook: nbformat.NotebookNode, every: Iterable[ProblemSet]) -> list[str]:
    """The lines between marks of these sets that stand anywhere in a notebook: in text, outputs or metadata.

    Lines that a set also shows outside of marks are none, nor are scraps such as a bracket.
    """
    shown, secret = set(), set()
    for problems in every:
        for cell in problems.cells:
            secret |= set(cell.source.splitlines() if kind_of(cell) == "written" else hidden_lines(cell.source))
            shown |= {line.strip() for line in public(cell).splitlines()}
    there = {line.strip() for text in _strings(notebook) for line in text.splitlines()}
    return sorted(line for line in there & {line.strip() for line in secret} - shown if len(line) > 8)


def _strings(value) -> Iterable[str]:
    """Every text in a notebook, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def public(cell: nbformat.NotebookNode) -> str:
    """What a student sees of a cell."""
    if kind_of(cell) == "written":
        return WRITTEN
    return re.sub(HIDDEN, "", re.sub(SOLUTION, rf"\1{STUB}", cell.source))


if __name__ == "__main__":
    sys.exit(main())
