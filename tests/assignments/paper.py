"""A problem set's cells run without a kernel: what its tests give each answer."""

import contextlib
import io
import runpy
from pathlib import Path

from assignments import id_of, kind_of

HERE = Path(__file__).parent


def run_cells(notebook, student: str = "") -> dict[str, BaseException | None]:
    """Run the code cells of a notebook in one namespace; what each cell with a grade_id raised."""
    names, raised = {"__name__": "__main__"}, {}
    for cell in notebook.cells:
        if cell.cell_type != "code" or id_of(cell).endswith("-install"):
            continue
        source = f"student = {student!r}" if kind_of(cell) == "student" else cell.source
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                exec(compile(source, id_of(cell), "exec"), names)
                raised[id_of(cell)] = None
            except Exception as error:
                raised[id_of(cell)] = error
    return raised


def points(problems, notebook, student: str = "") -> dict[str, float]:
    """The points of each test cell."""
    raised = run_cells(notebook, student)
    return {name: 0 if raised[name] else problems.points[name] for name in problems.ids("test") if name in raised}


def wrong(part: str) -> dict:
    """The set's typical mistakes: name -> (answers, points of the test cells they cost)."""
    file = HERE / "wrong" / f"{part}.py"
    return runpy.run_path(str(file))["WRONG"] if file.exists() else {}
