"""Shared by all tests: where the book is, and a copy of it with the sample pages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))


class SampleBook:
    """A two-page book in a folder of its own, with the project's library, tools and extension."""

    def __init__(self, folder: Path):
        self.root = folder
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.env = env | {"PYTHONPATH": os.pathsep.join([str(folder / "lib"), str(folder)])}

    def run(self, *command: str) -> subprocess.CompletedProcess:
        """Run ``python <command>`` in the sample book."""
        run = [sys.executable, *command]
        return subprocess.run(run, cwd=self.root, env=self.env, capture_output=True, text=True, encoding="utf8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace `old`, which must be there, by `new` in a file."""
        file = self.root / name
        text = file.read_text(encoding="utf8")
        assert old in text, f"{name} has no {old!r}"
        file.write_text(text.replace(old, new), encoding="utf8")


def make_sample(folder: Path) -> SampleBook:
    shutil.copytree(ROOT / "tests" / "sample", folder, dirs_exist_ok=True)
    for name in ("tools", "_ext", "lib", "_static"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("_config.yml", "requirements.txt", "chapters/appendix/bibliography.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return SampleBook(folder)


@pytest.fixture(scope="session")
def clean_sample(tmp_path_factory) -> Path:
    """The sample book with its goldens, in a folder whose name has a space; to be copied, not changed."""
    book = make_sample(tmp_path_factory.mktemp("a sample book"))
    made = book.run("tools/notebooks.py")
    assert made.returncode == 0, made.stderr
    return book.root


@pytest.fixture
def sample(clean_sample, tmp_path) -> SampleBook:
    """A copy of the sample book that a test may break."""
    shutil.copytree(clean_sample, tmp_path / "book", ignore=shutil.ignore_patterns("__pycache__"))
    return SampleBook(tmp_path / "book")
