"""The release as students open it: on Colab's older stack, without nbgrader, *Run all* reaches the last cell."""

import json
import os

import nbformat
import pytest
from paper import HERE

from assignments import OUT, answered, id_of, kind_of, sets, solutions
from pages import ROOT

pytest.importorskip("nbgrader", reason="make assignments tries this, in the environment for grading")
nbclient = pytest.importorskip("nbclient")
PYTHON = ROOT / ".venv-colab" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
SETS = sets()


@pytest.fixture(scope="session")
def colab(tmp_path_factory):
    """The name of a kernel with Colab's versions of things."""
    if not PYTHON.exists():
        pytest.skip("make test-colab makes Colab's environment")
    folder = tmp_path_factory.mktemp("jupyter")
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    argv = [str(PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    ours = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "lib", ROOT)))}  # not what was installed there some day
    spec = {"argv": argv, "display_name": "Colab's stack", "language": "python", "env": ours}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf8")
    before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(folder), before]))
    yield "colab"
    os.environ.pop("JUPYTER_PATH") if before is None else os.environ.update(JUPYTER_PATH=before)


def run_all(notebook, kernel: str):
    """Run every cell as Colab does: the first error ends it."""
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name=kernel, resources={"metadata": {"path": str(HERE)}}
    ).execute()
    return {id_of(cell): cell for cell in notebook.cells}


def released(part: str):
    """What students get."""
    return nbformat.read(OUT / "release" / f"{part}.ipynb", 4)


@pytest.mark.parametrize("part", SETS)
def test_run_all_gets_through_an_unanswered_set_with_a_message_at_each_task(colab, part):
    cells = run_all(released(part), colab)
    for name in SETS[part].ids("test"):
        shown = [output.data["text/plain"] for output in cells[name].outputs if output.output_type == "execute_result"]
        assert shown and shown[-1].startswith("Not answered yet"), (name, cells[name].outputs)
    assert not [o for c in cells.values() if c.cell_type == "code" for o in c.outputs if o.get("name") == "stderr"]


@pytest.mark.parametrize("part", SETS)
def test_right_answers_are_right_there(colab, part):
    cells = run_all(answered(released(part), solutions(SETS[part]) | {f"{part}-student": 'student = "ada"'}), colab)
    for name in SETS[part].ids("test"):
        assert cells[name].outputs[-1].data["text/plain"] == "Right.", name


def test_a_cell_that_raises_would_be_noticed(colab):
    notebook = released("cost")
    next(cell for cell in notebook.cells if kind_of(cell) == "test").source = "1 / 0"
    with pytest.raises(nbclient.exceptions.CellExecutionError):
        run_all(notebook, colab)


def test_the_set_up_cell_installs_the_library_and_comes_first():
    first = released("cost").cells[0]
    assert (
        isinstance(first, nbformat.NotebookNode)
        and "%pip install" in first.source
        and "import attnledger" in first.source
    )
