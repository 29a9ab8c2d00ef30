"""make test-colab: every golden on a kernel with Colab's older stack, from an empty folder and an installed library.

As on Colab the library is not there at first: the first notebook stands alone in an empty folder, and its set-up cell
installs the library with pip from git. A bare repository made of the work tree takes the place of the one on the web
(``url.….insteadOf``). Nothing of the stack may be replaced by that. Then all goldens, copied out of the checkout, run
in this environment and are compared by the same runner. Drawings are sanitised away (another matplotlib writes another
SVG); texts, tables, ledgers, spoken numbers and the data behind each figure are compared.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from pages import ROOT, pages, repository

PYTHON = ROOT / ".venv-colab" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
LIBRARY = ("lib", "figures_src", "pyproject.toml", "README.md", "LICENSE")
STACK = ("torch", "numpy", "matplotlib", "ipython", "ipykernel", "ipywidgets", "pyyaml")
ASK = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({p: version(p) for p in sys.argv[1:]}))"
)
ORIGIN = "from importlib import metadata; print(metadata.distribution('attnledger').read_text('direct_url.json'))"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        env = os.environ | {"JUPYTER_PATH": _kernel(place)} | _instead(_bare(place / "repository.git"))
        _pip("uninstall", "--quiet", "--yes", "attnledger")
        before = _versions()
        if problem := _install(place / "empty", env) or _changed(before) or _foreign():
            print(f"make test-colab: {problem}", file=sys.stderr)
            return 1
        shutil.copytree(ROOT / "notebooks", place / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        command = [sys.executable, "-m", "pytest", "notebooks", "--nbval", "--nbval-kernel-name", "colab"]
        command += ["--nbval-sanitize-with", str(ROOT / "tests" / "colab.cfg"), "-p", "no:mpl", "-o", "addopts="]
        return subprocess.run([*command, "--rootdir", str(place)], cwd=place, env=env).returncode


def _kernel(place: Path) -> str:
    """A kernel called colab with the older stack; the path on which Jupyter finds it."""
    spec = {
        "argv": [str(PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Colab's stack",
        "language": "python",
    }
    kernel = place / "jupyter" / "kernels" / "colab"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf8")
    return os.pathsep.join(filter(None, [str(place / "jupyter"), os.environ.get("JUPYTER_PATH")]))


def _bare(bare: Path) -> Path:
    """A bare repository with the library as it is in the work tree, on the branch that notebooks install from."""
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "core.autocrlf=false"]
    subprocess.run([*git, "init", "--quiet", "--bare", "--initial-branch", repository()[1], str(bare)], check=True)
    tree = [*git, f"--git-dir={bare}", f"--work-tree={ROOT}", "-c", "core.bare=false"]
    subprocess.run([*tree, "add", "--", *LIBRARY], cwd=ROOT, check=True)
    subprocess.run([*tree, "commit", "--quiet", "--message", "the work tree"], cwd=ROOT, check=True)
    return bare


def _instead(bare: Path) -> dict[str, str]:
    """Settings by which git, in any process below, finds `bare` at the repository's address."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{bare.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": repository()[0],
    }


def _install(empty: Path, env: dict[str, str]) -> str:
    """Run the first notebook where there is nothing else; what went wrong, or nothing."""
    first = pages()[0].golden
    empty.mkdir()
    notebook = nbformat.read(shutil.copy(first, empty), 4)
    begun = time.monotonic()
    client = NotebookClient(notebook, timeout=900, kernel_name="colab", resources={"metadata": {"path": str(empty)}})
    kept = dict(os.environ)
    os.environ.update(env)  # the kernel and its pip inherit this
    try:
        client.execute()
    except CellExecutionError as error:
        return f"{first.name} alone in an empty folder: {error}"
    finally:
        os.environ.clear()
        os.environ.update(kept)
    print(f"{first.name}, alone in an empty folder, installed the library and ran in {time.monotonic() - begun:.0f} s")
    return ""


def _versions() -> dict[str, str]:
    return json.loads(subprocess.run([PYTHON, "-c", ASK, *STACK], check=True, capture_output=True, text=True).stdout)


def _changed(before: dict[str, str]) -> str:
    after = _versions()
    moved = [f"{name} {before[name]} -> {after[name]}" for name in before if before[name] != after[name]]
    if not moved:
        print("unchanged by it: " + ", ".join(f"{name} {version}" for name, version in after.items()))
    return f"the set-up cell replaced what Colab has: {', '.join(moved)}" if moved else ""


def _foreign() -> str:
    """Whether the library did not come from git, by the address the set-up cell names."""
    told = subprocess.run([PYTHON, "-I", "-c", ORIGIN], capture_output=True, text=True, cwd=tempfile.gettempdir())
    origin = json.loads(told.stdout) if told.returncode == 0 and told.stdout.strip() != "None" else {}
    url = origin.get("url")
    return "" if url == repository()[0] else f"the library came from {url}, not from {repository()[0]}: {told.stderr}"


def _pip(*arguments: str) -> None:
    subprocess.run([PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
