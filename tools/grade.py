"""make grade SUBMISSIONS=folder: grade a folder of notebooks; `_build/grades/` gets a table and all feedback.

nbgrader does the grading in a course of its own. Three steps of it are replaced: `Tidy` puts a submission's cells back
in shape before nbgrader looks at them, `LockedUp` runs them in the sandbox, and `Harmless` takes hidden tests out
of the feedback. nbgrader's own commands use the same three in the course that `make assignments` writes.
"""

import argparse
import ast
import copy
import csv
import hashlib
import io
import json
import os
import re
import shutil
import sys
import sysconfig
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import sqlalchemy
from bs4 import BeautifulSoup
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader import preprocessors as steps
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets import Bool
from traitlets.config import Config

import sandbox
from assignments import HIDDEN, PYTHON, STUB, WRITTEN, ProblemSet, generate, id_of, kind_of, mark, public, sets
from pages import ROOT, BookError

warnings.filterwarnings("ignore", category=sqlalchemy.exc.SAWarning)  # of nbgrader's own sessions
# nbgrader calls alembic by its name
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])

OUT = ROOT / "_build" / "grades"
LARGEST = 20 * 2**20  # bytes of a notebook file
POINTS = ["student", "set", "task", "points", "comment"]


def settings(*, trust: bool = False) -> Config:
    """nbgrader's settings for this book's problem sets."""
    c = Config()
    c.CourseDirectory.course_id = "attention-ledger"
    c.ClearSolutions.code_stub = {"python": STUB}
    c.ClearSolutions.text_stub = WRITTEN
    c.KeepNames.code_stub = {"python": STUB}
    c.KeepNames.text_stub = WRITTEN
    c.GenerateAssignment.preprocessors = [
        steps.LockCells,
        KeepNames,
        steps.ClearOutput,
        steps.CheckCellMetadata,
        steps.ComputeChecksums,
        steps.SaveCells,
        steps.ClearHiddenTests,
        steps.ComputeChecksums,
        steps.CheckCellMetadata,
    ]
    c.Autograde.sanitize_preprocessors = [
        Tidy,
        steps.ClearOutput,
        steps.DeduplicateIds,
        steps.OverwriteKernelspec,
        steps.OverwriteCells,
        steps.CheckCellMetadata,
    ]
    c.Autograde.autograde_preprocessors = [
        LockedUp,
        steps.SaveAutoGrades,
        steps.AssignLatePenalties,
        steps.CheckCellMetadata,
    ]
    c.LockedUp.trust = trust
    c.GenerateFeedback.preprocessors = [steps.GetGrades, Harmless, CSSHTMLHeaderPreprocessor]
    return c


# steps of nbgrader


class KeepNames(steps.ClearSolutions):
    """Clears solutions, and leaves the line that names a cell and the cell for the student's id."""

    def preprocess_cell(self, cell, resources, cell_index):
        if kind_of(cell) == "student":
            return cell, resources
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if kind_of(cell) == "written":
            cell.source = f"{mark(cell)}\n{cell.source}"
        return cell, resources


class Tidy(steps.NbGraderPreprocessor):
    """A submission of one of the book's sets gets its cells back, before anything is run."""

    def preprocess(self, nb, resources):
        problems = sets().get(resources["nbgrader"]["assignment"])
        return (tidied(nb, problems, resources["nbgrader"]["student"]) if problems else nb), resources


class LockedUp(steps.NbGraderPreprocessor):
    """Runs a submission in the sandbox and leaves in each test cell whether it failed."""

    trust = Bool(False, help="Run submissions as the user who grades, without a sandbox").tag(config=True)

    def preprocess(self, nb, resources):
        if not self.trust:
            sandbox.require()
        problems = sets().get(resources["nbgrader"]["assignment"])
        with sandbox.Kernel(resources["nbgrader"]["student"], trust=self.trust) as kernel:
            run(nb, kernel, problems)
        return nb, resources


class Harmless(steps.NbGraderPreprocessor):
    """Feedback without hidden tests, without the set-up cell and without a student's HTML; remarks come first."""

    def preprocess(self, nb, resources):
        problems = sets().get(resources["nbgrader"]["assignment"])
        ours = {cell.source for cell in problems.complete_notebook().cells} if problems else set()
        nb.cells = [cell for cell in nb.cells if not id_of(cell).endswith("-install")]
        for cell in nb.cells:
            if cell.cell_type == "markdown" and cell.source not in ours:
                text = cell.source.removeprefix(f"{mark(cell)}\n")
                cell.source = re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)
            cell.source = re.sub(HIDDEN, "# hidden tests", cell.source)
        if remarks := nb.metadata.get("attnledger", {}).get("remarks"):
            listed = "\n".join(f"- {remark}" for remark in remarks)
            nb.cells.insert(0, nbformat.v4.new_markdown_cell(f"**Remarks**\n\n{listed}"))
        return nb, resources


def tidied(nb: nbformat.NotebookNode, problems: ProblemSet, student: str) -> nbformat.NotebookNode:
    """A new notebook with the submission's cells: all of the set, each once, the locked ones as they were given out.

    Nothing but the type and text of a cell is taken over. What was amiss is in ``metadata.attnledger.remarks``.
    """
    given = {id_of(cell): cell for cell in problems.complete_notebook().cells if id_of(cell)}
    remarks: list[str] = []
    names = [_name(cell, given) for cell in nb.cells]
    if strange := sorted({i for cell in nb.cells if (i := _claimed(cell)) and i not in given}):
        shown = ", ".join(name for name in strange if re.fullmatch(r"[\w-]{1,60}", name)) or "something odd"
        remarks.append(f"The set has no cell of this name: {shown}.")
    cells, seen, order, changed = [], set(), [], []
    for i, (cell, name) in enumerate(zip(nb.cells, names, strict=True)):
        if name and names.count(name) > 1:
            same = [nb.cells[j] for j, other in enumerate(names) if other == name]
            chosen = next((c for c in same if not _untouched(c, given[name])), same[0])
            if name not in seen:
                remarks.append(f"{name} stands {len(same)} times; the first that was changed counts.")
                seen.add(name)
            if cell is not chosen:
                continue
        if name and kind_of(given[name]) in ("locked", "test") and not _untouched(cell, given[name]):
            changed.append(name)
        cells.append(_taken(cell, name, given, remarks, i))
        order += [name] if name else []
    if changed:
        remarks.append(f"Changed, and run as they were given out: {', '.join(changed)}.")
    for place, name in enumerate(given):
        if name not in order and kind_of(given[name]) == "answer":
            remarks.append(f"{name} is missing.")  # the student may have typed it into a cell without a name
        elif name not in order:
            before = [other for other in list(given)[:place] if other in order]
            at = next((i + 1 for i, c in enumerate(cells) if before and id_of(c) == before[-1]), 0)
            cells.insert(at, _original(given[name], name))
            order.insert(order.index(before[-1]) + 1 if before else 0, name)
            if kind_of(given[name]) != "locked":
                remarks.append(f"{name} is missing.")
    if order != [name for name in given if name in order]:
        remarks.append("The cells stand in another order than in the set.")
    for cell in cells:
        if kind_of(cell) == "student":
            typed = re.search(r"""^\s*student\s*=\s*["'](.*?)["']""", cell.source, re.M)
            if not typed or typed[1].strip().casefold() != student.strip().casefold():
                known = typed and re.fullmatch(r"[\w.@+ -]{1,60}", typed[1])
                remarks.append(f"The id typed in it is {typed[1]!r}." if known else "No id is typed in it.")
            cell.source = f"{mark(cell)}\nstudent = {student!r}"
    metadata = {"kernelspec": PYTHON, "language_info": {"name": "python"}, "attnledger": {"remarks": remarks}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _claimed(cell: nbformat.NotebookNode) -> str:
    found = id_of(cell)
    return found if isinstance(found, str) else ""


def _name(cell: nbformat.NotebookNode, given: dict) -> str:
    """Which cell of the set this is: by its metadata, or where an editor dropped them by its first line."""
    if (name := _claimed(cell)) in given:
        return name
    first = re.match(r"(?:# |<!-- )([\w-]+)(?: -->)?[ \t]*(?:\n|$)", cell.source)
    return first[1] if first and first[1] in given else ""


def _plain(source: str) -> list[str]:
    """The lines that count when two texts of a cell are compared."""
    return [line.rstrip() for line in HIDDEN.sub("", source).splitlines() if line.strip()]


def _untouched(cell: nbformat.NotebookNode, given: nbformat.NotebookNode) -> bool:
    """Whether a cell is as it was given out."""
    return _plain(cell.source) == _plain(_original(given, id_of(given)).source)


def _original(given: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """A cell of the set as it is run when the student did not change it."""
    cell = nbformat.from_dict(copy.deepcopy(given))
    if kind_of(given) == "answer":
        cell.source = public(given)
    elif kind_of(given) == "written":
        cell.source = f"{mark(given)}\n{WRITTEN}"
    return cell


def _taken(cell, name: str, given: dict, remarks: list[str], i: int) -> nbformat.NotebookNode:
    """One cell of the submission as it is graded."""
    if not name:
        new = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        return new(cell.source, id=f"own-{i}")
    original = _original(given[name], name)
    if kind_of(original) in ("locked", "test"):
        return original
    if cell.cell_type != original.cell_type:
        remarks.append(f"{name} was made a {cell.cell_type} cell.")
    original.source = cell.source
    return original


# running


def run(nb: nbformat.NotebookNode, kernel: sandbox.Kernel, problems: ProblemSet | None) -> None:
    """Run the cells; a test cell keeps an error or nothing, so that nothing it prints decides its points."""
    remarks = nb.metadata.setdefault("attnledger", {}).setdefault("remarks", [])
    passed = []
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        ran = kernel.run(cell.source)
        cell.execution_count, cell.outputs = None, ran.outputs
        if ran.stopped:
            cell.outputs.append(sandbox.error("Stopped", ran.stopped))
            if not ran.stopped.startswith("not run"):
                remarks.append(f"{id_of(cell) or 'A cell of the student'} was stopped: {ran.stopped}.")
        if kind_of(cell) == "test":
            cell.outputs = [output for output in cell.outputs if output.output_type == "error"][:1]
            passed += [] if ran.failed else [cell]
        elif ran.failed and not ran.stopped and kind_of(cell) in ("answer", "locked", "student"):
            remarks.append(f"{id_of(cell)} raised {cell.outputs[-1].get('ename', 'an error')}.")
    for cell in passed if problems else []:
        answer = problems.answer_of(id_of(cell))
        if not tells(kernel, cell.source, functions(problems, answer)):
            cell.outputs = [sandbox.error("Disabled", "this test also passes with a spoiled answer")]
            remarks.append(f"{id_of(cell)} also passes with a spoiled answer: look at this notebook by hand.")


def functions(problems: ProblemSet, answer: str) -> list[str]:
    """The names that an answer cell defines."""
    source = next(cell.source for cell in problems.cells if id_of(cell) == answer)
    return [node.name for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def tells(kernel: sandbox.Kernel, test: str, names: list[str]) -> bool:
    """Whether a test that passed fails when every result of these functions is spoiled.

    It does not where a notebook has disarmed the tests: assertions that no longer stop, comparisons that are always
    true, a kernel that reports no errors.
    """
    kernel.run(SPOIL.format(names=names))
    failed = kernel.run(test).failed
    kernel.run(RESTORE.format(names=names))
    return failed


SPOIL = """
def _attnledger_spoil(names):
    import functools
    import numpy
    import torch

    def spoiled(x):
        if isinstance(x, torch.Tensor):
            return ~x if x.dtype == torch.bool else torch.nan_to_num(1.37 * x.detach(), 0.0, 0.0, 0.0) + 1.13
        if isinstance(x, numpy.ndarray):
            return ~x if x.dtype == bool else numpy.nan_to_num(1.37 * x, nan=0.0, posinf=0.0, neginf=0.0) + 1.13
        if isinstance(x, (bool, numpy.bool_)):
            return not x
        if isinstance(x, (int, float, numpy.number)):
            return 1.37 * x + 1.13 if abs(x) < float("inf") else 0.0
        if isinstance(x, str):
            return x + " spoiled"
        if isinstance(x, dict):
            return {{key: spoiled(value) for key, value in x.items()}}
        if isinstance(x, (list, tuple)):
            return [spoiled(value) for value in x]
        return None

    def wrap(f):
        @functools.wraps(f)
        def answer(*args, **kwargs):
            return spoiled(f(*args, **kwargs))
        return answer

    kept = {{}}
    for name in names:
        kept[name] = globals().get(name)
        globals()[name] = wrap(kept[name]) if callable(kept[name]) else spoiled(kept[name])
    return kept

_attnledger_kept = _attnledger_spoil({names})
"""
RESTORE = "globals().update(_attnledger_kept)"


# the folder of submissions


@dataclass
class Submission:
    """One notebook that was handed in, or what stands in its place."""

    student: str
    part: str
    file: Path
    notebook: nbformat.NotebookNode | None = None
    problem: str = ""
    remarks: list[str] = field(default_factory=list)
    points: dict[str, float | None] = field(default_factory=dict)


def found(folder: Path, parts: dict[str, ProblemSet]) -> list[Submission]:
    """The submissions in a folder: ``<student>/<set>.ipynb``, ``<set>_<student>.ipynb`` or ``<student>.ipynb``."""
    every = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__")) or entry.name == "points.csv":
            continue
        if entry.is_dir() and not entry.is_symlink():
            inside = sorted(file for file in entry.iterdir() if not file.name.startswith((".", "__")))
            notebooks = [file for file in inside if file.suffix == ".ipynb"]
            every += [_read(entry.name, file.stem if file.stem in parts else "", file, parts) for file in notebooks]
            if not notebooks:
                every.append(Submission(entry.name, "", entry, problem="a folder without a notebook"))
        elif entry.suffix == ".ipynb":
            part = max((part for part in parts if entry.stem.startswith(f"{part}_")), key=len, default="")
            student = entry.stem[len(part) + 1 :] if part else entry.stem
            every.append(_read(student, part, entry, parts))
        else:
            every.append(
                Submission(
                    entry.stem, "", entry, problem=f"{entry.name} is not a notebook (its name does not end in .ipynb)"
                )
            )
    for each in every:
        twins = [other.file for other in every if _same(each, other) and not other.problem.startswith("two")]
        if not each.problem and len(twins) > 1:
            names = " and ".join(file.relative_to(folder).as_posix() for file in twins)
            for other in [other for other in every if other.file in twins]:
                other.problem = f"two submissions of one student ({names}): remove one"
    return every


def _same(one: Submission, other: Submission) -> bool:
    return bool(one.part) and (one.student.casefold(), one.part) == (other.student.casefold(), other.part)


def _read(student: str, part: str, file: Path, parts: dict[str, ProblemSet]) -> Submission:
    """A submission with its notebook, or with the reason why it cannot be graded."""
    submission = Submission(student, part, file)
    if not re.fullmatch(r"\w([\w .,'@+-]{0,62}[\w'@+-])?", student):
        submission.problem = "the name holds no id: letters, digits, blanks and . , ' _ - @ + only"
        return submission
    try:
        submission.notebook = _notebook(file)
    except ValueError as error:
        submission.problem = str(error)
        return submission
    holds = _part_of(submission.notebook, parts)
    submission.part = part or holds
    if not holds:
        submission.problem = "a notebook, but of none of the problem sets"
    elif holds != submission.part:
        submission.problem = f"the notebook of another set ({holds})"
    return submission


def _notebook(file: Path) -> nbformat.NotebookNode:
    """The notebook in a file; ValueError says what the file is instead."""
    if file.is_symlink() or not file.is_file():
        raise ValueError("a link or a folder, not a file")
    if file.stat().st_size > LARGEST:
        raise ValueError(f"larger than {LARGEST // 2**20} MiB")
    text = file.read_bytes()
    if not text.strip():
        raise ValueError("an empty file")
    try:
        notebook = nbformat.reads(text.decode("utf8"), as_version=4)
        nbformat.validate(notebook)
    except RecursionError:
        raise ValueError("not a notebook, or a corrupted one (nested too deeply)") from None
    except Exception as error:  # whatever nbformat meets in a file that is none
        raise ValueError(f"not a notebook, or a corrupted one ({type(error).__name__})") from None
    return notebook


def _part_of(notebook: nbformat.NotebookNode, parts: dict[str, ProblemSet]) -> str:
    """The set that a notebook belongs to: most of its named cells decide, else its metadata."""
    named = {part: {id_of(cell): cell for cell in problems.cells if id_of(cell)} for part, problems in parts.items()}
    counts = {part: sum(bool(_name(cell, given)) for cell in notebook.cells) for part, given in named.items()}
    best = max(counts, key=counts.get, default="")
    if best and counts[best]:
        return best
    claimed = notebook.metadata.get("attnledger", {})
    claimed = claimed.get("assignment", "") if isinstance(claimed, dict) else ""
    return claimed if isinstance(claimed, str) and claimed in parts else ""


# grading


class Course:
    """An nbgrader course of its own.

    It is kept between runs, so that a submission that did not change is not run again; it is made anew when the sets,
    the library or the way of grading changed.
    """

    def __init__(self, root: Path, parts: dict[str, ProblemSet], *, trust: bool):
        self.root, self.parts, self.notes = root, parts, root / "graded.json"
        config = settings(trust=trust)
        config.CourseDirectory.root = str(root)
        self.course = config.CourseDirectory.course_id
        kind = _digest([repr((sorted(parts), trust)).encode(), *(file.read_bytes() for file in _behind(parts))])
        try:
            self.done = json.loads(self.notes.read_text(encoding="utf8"))
        except (OSError, ValueError):
            self.done = {}
        if self.done.get("kind") != kind:
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            self.done = {"kind": kind}
        self.api = NbGraderAPI(config=config)
        if len(self.done) == 1:
            generate(parts, root, self.api)

    @property
    def gradebook(self) -> Gradebook:
        return Gradebook(f"sqlite:///{self.root / 'gradebook.db'}", self.course)

    def grade(self, submission: Submission) -> bool:
        """Run one submission, unless it was run before, and note the points of its tests; whether it was run."""
        place = (submission.student, submission.part, f"{submission.part}.ipynb")
        name, digest = "/".join(place[:2]), _digest([submission.file.read_bytes()])
        run = self.done.get(name) != digest
        if run:
            file = self.root.joinpath("submitted", *place)
            file.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(submission.notebook, file)
            result = self.api.autograde(submission.part, submission.student)
            if not result["success"]:
                said = (result.get("error") or result.get("log") or "no reason").strip().splitlines()[-1]
                submission.problem = f"nbgrader could not grade it: {said[:200]}"
                return run
            self.done[name] = digest
            self.notes.write_text(json.dumps(self.done), encoding="utf8")
        graded = nbformat.read(self.root.joinpath("autograded", *place), 4)
        submission.remarks += graded.metadata.get("attnledger", {}).get("remarks", [])
        self.forget(submission)
        self.look_up(submission)
        return run

    def forget(self, submission: Submission) -> None:
        """Take the instructor's points and comments of an earlier run out of the gradebook."""
        with self.gradebook as book:
            handed_in = book.find_submission_notebook(submission.part, submission.part, submission.student)
            for grade in handed_in.grades:
                grade.manual_score = None
            for comment in handed_in.comments:
                comment.manual_comment = None
            book.db.commit()

    def look_up(self, submission: Submission) -> None:
        """The points in the gradebook; None for a written task that nobody has read yet."""
        with self.gradebook as book:
            for grade in book.find_submission_notebook(submission.part, submission.part, submission.student).grades:
                given = grade.auto_score if grade.manual_score is None else grade.manual_score
                submission.points[grade.name] = given

    def give(self, submission: Submission, task: str, points: float | None, comment: str) -> None:
        """Enter the instructor's points and comment for one task."""
        part, student = submission.part, submission.student
        with self.gradebook as book:
            grade = book.find_grade(task, part, part, student)
            if points is not None:
                grade.manual_score, grade.needs_manual_grade = points, False
            answer = task if task in self.parts[part].ids("written") else self.parts[part].answer_of(task)
            if comment:
                book.find_comment(answer, part, part, student).manual_comment = comment
            book.db.commit()

    def feedback(self, submission: Submission, folder: Path) -> None:
        """The student's feedback as one HTML file without scripts."""
        result = self.api.generate_feedback(submission.part, submission.student)
        if not result["success"]:
            said = (result.get("error") or result.get("log") or "no reason").strip().splitlines()[-1]
            submission.remarks.append(f"no feedback: {said[:200]}")
            return
        name = f"{submission.part}.html"
        page = (self.root / "feedback" / submission.student / submission.part / name).read_text(encoding="utf8")
        (folder / submission.student).mkdir(parents=True, exist_ok=True)
        (folder / submission.student / name).write_text(harmless(page), encoding="utf8")


def _behind(parts: dict[str, ProblemSet]) -> list[Path]:
    """The files that decide how a submission is graded."""
    library = sorted((ROOT / "lib" / "attnledger").rglob("*.py"))
    tools = [Path(__file__).with_name(name) for name in ("grade.py", "assignments.py", "sandbox.py", "plain.py")]
    return [*(part.source for part in parts.values()), *library, *tools]


def _digest(texts: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
ACTIVE = [
    "script",
    "iframe",
    "frame",
    "object",
    "embed",
    "applet",
    "form",
    "base",
    "link",
    "meta",
    "template",
    "noscript",
]
SAFE = ("#", "https://", "http://", "data:image/")
GOES = ["href", "src", "srcset", "action", "formaction", "background", "poster", "data", "xlink:href"]


def harmless(page: str) -> str:
    """A page of feedback without what a browser would run or fetch, and with a policy that forbids it."""
    soup = BeautifulSoup(page, "html.parser")
    for tag in soup.find_all(ACTIVE):
        tag.decompose()
    for tag in soup.body.find_all("style"):
        tag.decompose()
    for tag in soup.find_all(True):
        for name, value in list(tag.attrs.items()):
            words = re.sub(r"[\s\x00-\x1f]", "", " ".join(value) if isinstance(value, list) else str(value)).lower()
            if (
                name.startswith("on")
                or name in GOES
                and not words.startswith(("#", "https://", "http://", "data:image/"))
            ):
                del tag[name]
    for tag in soup.find_all(["img", "video", "audio", "source", "image", "use"]):
        if not str(tag.get("src", "")).startswith("data:image/"):
            tag.decompose()
    for attributes in ({"http-equiv": "Content-Security-Policy", "content": POLICY}, {"charset": "utf-8"}):
        soup.head.insert(0, soup.new_tag("meta", attrs=attributes))
    wrap = soup.new_tag("style")
    wrap.string = "pre { white-space: pre-wrap !important }"
    soup.head.append(wrap)
    return str(soup)


# the instructor's points


def own_points(file: Path) -> list[dict[str, str]]:
    """The rows of points.csv, with commas or semicolons between; [] if there is none."""
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8-sig")
    head = text.partition("\n")[0]
    rows = list(csv.DictReader(io.StringIO(text), delimiter=";" if head.count(";") > head.count(",") else ","))
    if missing := [name for name in POINTS[:4] if not rows or name not in rows[0]]:
        raise BookError(f"{file}: the first line has no {', '.join(missing)}")
    return rows


def apply_points(course: Course, graded: list[Submission], rows: list[dict[str, str]]) -> list[str]:
    """Enter the instructor's rows; what could not be entered is returned."""
    troubles = []
    by_name = {(each.student, each.part): each for each in graded}
    for number, row in enumerate(rows, 2):
        student, part, task, typed, comment = ((row.get(name) or "").strip() for name in POINTS)
        if not typed and not comment:
            continue
        submission, most = by_name.get((student, part)), course.parts[part].points if part in course.parts else {}
        try:
            value = float(typed.replace(",", ".")) if typed else None
        except ValueError:
            value = float("nan")
        if submission is None:
            troubles.append(f"points.csv, line {number}: no graded submission of {student!r} for {part!r}")
        elif task not in most:
            troubles.append(f"points.csv, line {number}: {part} has no task {task!r}")
        elif value is not None and not 0 <= value <= most[task]:
            troubles.append(f"points.csv, line {number}: {typed!r} is not between 0 and {most[task]:g}")
        else:
            course.give(submission, task, value, comment)
            course.look_up(submission)
    return troubles


def save_points(file: Path, graded: list[Submission], rows: list[dict[str, str]], parts: dict[str, ProblemSet]) -> int:
    """Add an empty row for each written task that waits for points; what stands there stays. How many wait."""
    there = {(row["student"], row["set"], row["task"]) for row in rows}
    new = []
    for each in graded:
        for task in parts[each.part].ids("written"):
            if each.points.get(task) is None and (each.student, each.part, task) not in there:
                new.append({"student": each.student, "set": each.part, "task": task})
    if new:
        fields = [*POINTS, *(name for name in (rows[0] if rows else {}) if name and name not in POINTS)]
        with open(file.with_suffix(".new"), "w", encoding="utf8", newline="") as out:
            writer = csv.DictWriter(out, fields, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows + new)
        os.replace(file.with_suffix(".new"), file)
    return sum(each.points.get(task) is None for each in graded for task in parts[each.part].ids("written"))


# the report


def table(submissions: list[Submission], parts: dict[str, ProblemSet]) -> list[list]:
    """The rows of grades.csv: student, set, each task, total, max, remarks."""
    used = [part for part in parts if any(each.part == part for each in submissions)]
    tasks = [task for part in used for task in parts[part].points]
    rows = [["student", "set", *tasks, "total", "max", "remarks"]]
    for each in sorted(submissions, key=lambda s: (s.part, s.student.casefold())):
        remarks, points = list(each.remarks), [each.points.get(task) for task in tasks]
        waiting = [task for task in each.points if each.points[task] is None]
        remarks += [f"{task} waits for your points." for task in waiting]
        known = [value for value in each.points.values() if value is not None]
        total = f"{sum(known):g}" if each.points else None
        most = f"{sum(parts[each.part].points.values()):g}" if each.part else None
        said = f"NOT GRADED: {each.problem}" if each.problem else " ".join(remarks)
        shown = [None if value is None else f"{value:g}" for value in points]
        rows.append([_safe(each.student), each.part, *shown, total, most, said])
    return rows


def _safe(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("submissions", nargs="?", default="", help="the folder of notebooks that were handed in")
    parser.add_argument("--trust", action="store_true", help="run the notebooks without a sandbox, as yourself")
    options = parser.parse_args(arguments)
    try:
        if not options.submissions:
            raise BookError("which folder? Say make grade SUBMISSIONS=folder")
        return grade(Path(options.submissions), trust=options.trust)
    except sandbox.NoSandbox as error:
        print(
            f"make grade: no sandbox: {error}\nNothing was run. If you trust every notebook in "
            f"{options.submissions}, grade as yourself:\n    make grade SUBMISSIONS={options.submissions} TRUST=1",
            file=sys.stderr,
        )
    except BookError as error:
        print(f"make grade: {error}", file=sys.stderr)
    return 1


def grade(folder: Path, *, trust: bool = False, out: Path = OUT) -> int:
    """Grade a folder; 0 once the report is written, however many submissions could not be graded."""
    if not folder.is_dir():
        raise BookError(f"there is no folder {folder}")
    parts = sets()
    own = own_points(folder / "points.csv")
    submissions = found(folder, parts)
    if not submissions:
        raise BookError(f"{folder} holds no notebook. Wanted: {folder}/STUDENT/SET.ipynb or {folder}/SET_STUDENT.ipynb")
    if trust:
        print("No sandbox, as you asked: every notebook can do what you can do.", flush=True)
    else:
        sandbox.require()
    out.mkdir(parents=True, exist_ok=True)
    used = {part: parts[part] for part in parts if any(each.part == part for each in submissions)}
    course = Course(out / "course", used, trust=trust)
    for number, each in enumerate(submissions, 1):
        begin = time.monotonic()
        run = not each.problem and course.grade(each)
        said = f"NOT GRADED: {each.problem}"
        if not each.problem:
            got, most = sum(filter(None, each.points.values())), sum(parts[each.part].points.values())
            said = f"{got:g} of {most:g}, " + (f"{time.monotonic() - begin:.0f} s" if run else "as before")
        name = each.file.relative_to(folder).as_posix()
        print(f"[{number}/{len(submissions)}] {name}: {said}", flush=True)
    graded = [each for each in submissions if not each.problem]
    troubles = apply_points(course, graded, own)
    waiting = save_points(folder / "points.csv", graded, own, parts)
    shutil.rmtree(out / "feedback", ignore_errors=True)
    for each in graded:
        course.feedback(each, out / "feedback")
    rows = table(submissions, used)
    with open(out / "grades.csv", "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    shown = out.relative_to(ROOT).as_posix() if out.is_relative_to(ROOT) else out
    for trouble in troubles:
        print(trouble)
    print(f"{len(graded)} graded, {len(submissions) - len(graded)} not. {shown}/grades.csv, {shown}/feedback/")
    if waiting:
        print(f"{waiting} written answers wait: type points into {folder / 'points.csv'} and run the command again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
