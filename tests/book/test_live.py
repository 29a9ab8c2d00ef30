"""With a kernel sliders recompute: real kernels are sent what a browser sends, under ipywidgets 8 and Colab's 7.7.

The second kernel is the one of make test-colab, which runs these tests again once it has built it.
"""

import json
import os
import queue
import sys
from pathlib import Path

import pytest
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager

ROOT = Path(__file__).resolve().parents[2]
COLAB = ROOT / ".venv-colab" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
VIEW = "application/vnd.jupyter.widget-view+json"
CELL = """
from attnledger import style
from attnledger.book import explore

def line(*, n, kind):
    '''A line to n.'''
    drawn, axes = style.subplots()
    axes.plot([0, n], [0, 1])
    axes.set_title(f"{kind} {n}")
    return drawn

explore(line, n=[3, 2000], kind=["a", "b"], labels={"n": "tokens n"})
"""


class Kernel:
    """A kernel of one Python, and the widgets that it has announced: id -> state."""

    def __init__(self, python: Path, folder: Path):
        spec = folder / "this"
        spec.mkdir()
        command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (spec / "kernel.json").write_text(
            json.dumps({"argv": command, "display_name": "this", "language": "python"}), encoding="utf8"
        )
        specs = KernelSpecManager(kernel_dirs=[str(folder)])
        self.manager = KernelManager(kernel_name="this", kernel_spec_manager=specs)
        # the library of this checkout, whatever the environment has installed
        here = {"PYTHONPATH": os.pathsep.join([str(ROOT / "lib"), str(ROOT)]), "CUDA_VISIBLE_DEVICES": ""}
        self.manager.start_kernel(env=os.environ | here)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.widgets: dict[str, dict] = {}

    def run(self, code: str) -> list[dict]:
        """Execute `code`; the data of what it shows."""
        return self._listen(self.client.execute(code))

    def move(self, widget: str, **state) -> None:
        """What a front end sends when a slider was moved."""
        content = {"comm_id": widget, "data": {"method": "update", "state": state, "buffer_paths": []}}
        message = self.client.session.msg("comm_msg", content)
        self.client.shell_channel.send(message)
        self._listen(message["header"]["msg_id"])

    def _listen(self, request: str) -> list[dict]:
        shown = []
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=60)
            except queue.Empty:
                pytest.fail("the kernel has not answered for a minute")
            kind, content = message["msg_type"], message["content"]
            if kind == "comm_open" and content["target_name"] == "jupyter.widget":
                self.widgets[content["comm_id"]] = content["data"]["state"]
            elif kind == "comm_msg" and content["data"].get("method") == "update":
                self.widgets[content["comm_id"]] |= content["data"]["state"]
            elif kind in ("display_data", "execute_result"):
                shown.append(content["data"])
            elif kind == "error":
                pytest.fail("\n".join(content["traceback"]))
            elif (
                kind == "status"
                and content["execution_state"] == "idle"
                and (message["parent_header"].get("msg_id") == request)
            ):
                return shown

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(params=[sys.executable, str(COLAB)], ids=["own stack", "Colab's stack"])
def kernel(request, tmp_path):
    if not Path(request.param).exists():
        pytest.skip("make test-colab builds Colab's stack and runs this")
    running = Kernel(Path(request.param), tmp_path)
    yield running
    running.close()


def of_kind(kernel: Kernel, name: str) -> dict[str, dict]:
    return {key: state for key, state in kernel.widgets.items() if state.get("_model_name") == name}


def test_a_moved_slider_recomputes_the_picture(kernel):
    (output,) = kernel.run(CELL)
    assert output["text/html"].count('class="frame"') == 4, "the saved form comes along"
    box = kernel.widgets[output[VIEW]["model_id"]]
    assert box["_model_name"] == "VBoxModel"
    sliders = of_kind(kernel, "SelectionSliderModel")
    assert [f"IPY_MODEL_{key}" for key in sliders] == box["children"][:2]
    assert [(state["description"], list(state["_options_labels"])) for state in sliders.values()] == [
        ("tokens n", ["3", "2,000"]),
        ("kind", ["a", "b"]),
    ]
    ((picture, state),) = of_kind(kernel, "HTMLModel").items()
    assert box["children"][2] == f"IPY_MODEL_{picture}"
    n, kind = sliders
    for widget, index, title in ((n, 1, "a 2000"), (kind, 1, "b 2000"), (n, 0, "b 3")):
        before = state["value"]
        kernel.move(widget, index=index)
        assert state["value"] != before and f">{title}<" in state["value"].replace("%3E", ">").replace("%3C", "<")


def test_what_a_moved_slider_shows_is_what_was_saved(kernel):
    """The recomputed picture is, to the byte, the frame of the saved page."""
    (output,) = kernel.run(CELL)
    n, kind = of_kind(kernel, "SelectionSliderModel")
    ((_, state),) = of_kind(kernel, "HTMLModel").items()
    kernel.move(n, index=1)
    kernel.move(kind, index=1)
    assert output["text/html"].count(state["value"]) == 1
    assert output["text/html"].index(state["value"]) > output["text/html"].rindex('class="frame"')
