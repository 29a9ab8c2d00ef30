"""Imports run one way: chapters -> book, ops, costs, timing; figures_src -> style, ops, costs and recordings; timing ->
ops, costs; ops and costs end it."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "lib" / "attnledger"
PROJECT = ("attnledger", "figures_src", "tools", "_ext", "chapters", "tests", "notebooks")
STDLIB = tuple(sys.stdlib_module_names)
DRAWING = ("numpy", "torch", "matplotlib")


def imports(source: str, package: str = "") -> Iterator[str]:
    """Every module that a source imports, by its full name; `package` is where its relative imports start."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("import_module", "__import__"):
                yield str(node.args[0].value)


def below(name: str, roots: tuple[str, ...]) -> bool:
    """Whether a module is one of `roots` or stands in one."""
    return any(name == root or name.startswith(root + ".") for root in roots)


def strangers(source: str, allowed: tuple[str, ...], package: str = "") -> list[str]:
    """The imports of a source that are not among the allowed."""
    return [name for name in imports(source, package) if not below(name, allowed)]


def ours(source: str, allowed: tuple[str, ...], package: str = "") -> list[str]:
    """The imports of a source from this project that are not among the allowed; other libraries are free."""
    return [name for name in imports(source, package) if below(name, PROJECT) and not below(name, allowed)]


def code_of(page: str) -> str:
    """The code of a page's cells, without notebook magics."""
    cells = re.findall(r"^```+ *\{code-cell\}[^\n]*\n(.*?)^```+ *$", page, re.M | re.S)
    cells = [re.sub(r"\A(?:---\n(?:.*\n)*?---\n|(?::[\w-]+:.*\n)+)", "", cell) for cell in cells]
    return re.sub(r"^([ \t]*)[%!].*$", r"\1pass", "\n".join(cells), flags=re.M)


def modules(*folders: Path) -> list[Path]:
    return sorted(file for folder in folders for file in folder.rglob("*.py"))


def package_of(file: Path) -> str:
    """The package that a file's relative imports start from."""
    top = ROOT / "lib" if file.is_relative_to(ROOT / "lib") else ROOT
    return ".".join(file.relative_to(top).parent.parts)


def read(file: Path) -> str:
    return file.read_text(encoding="utf8")


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


# reading imports


@pytest.mark.parametrize(
    "source, package, found",
    [
        ("import torch.nn as nn, math", "", ["torch.nn", "math"]),
        ("from torch import nn, Tensor", "", ["torch.nn", "torch.Tensor"]),
        ("from . import data", "attnledger.book", ["attnledger.book.data"]),
        ("from .. import style", "attnledger.book", ["attnledger.style"]),
        ("from ..ops.delta import delta_rule", "attnledger.book", ["attnledger.ops.delta.delta_rule"]),
        ("def f():\n    try:\n        import tools\n    except ImportError: pass", "", ["tools"]),
        ("importlib.import_module('attnledger.book')", "", ["attnledger.book"]),
        ("import_module('_ext')\n__import__('tools')", "", ["_ext", "tools"]),
        ("x = 'import torch'  # import torch", "", []),
    ],
)
def test_imports_are_found_wherever_they_stand(source, package, found):
    assert list(imports(source, package)) == found


def test_a_name_is_not_the_name_it_begins_with():
    assert not below("torchvision", ("torch",)) and below("torch.nn", ("torch",)) and below("torch", ("torch",))


# ops and costs

OPS, COSTS = ("attnledger.ops",), ("attnledger.costs",)


@pytest.mark.parametrize("file", modules(LIBRARY / "ops"), ids=name)
def test_operators_import_nothing_of_the_project_above_them(file):
    assert not ours(read(file), OPS, package_of(file))


@pytest.mark.parametrize("file", modules(LIBRARY / "costs"), ids=name)
def test_costs_import_only_themselves_and_the_standard_library(file):
    assert not strangers(read(file), COSTS + STDLIB, package_of(file)), "costs are exact numbers: no torch, no numpy"


@pytest.mark.parametrize(
    "line",
    ["from ..book import say", "from attnledger import style", "from ..costs import kv_cache_bytes", "import tools"],
)
def test_an_operator_that_looks_up_is_found(line):
    assert ours(f"import torch\n{line}", OPS, "attnledger.ops")


@pytest.mark.parametrize(
    "line", ["import torch", "from torch import Tensor", "import numpy", "from ..ops import delta"]
)
def test_a_cost_that_computes_with_tensors_is_found(line):
    assert strangers(f"import math\n{line}", COSTS + STDLIB, "attnledger.costs")


# figures

# what was measured is data, like what was counted; measuring is not a figure's business
FIGURES = ("attnledger.style", *OPS, *COSTS, "attnledger.timing.recording", *DRAWING, *STDLIB)


@pytest.mark.parametrize("file", modules(ROOT / "figures_src"), ids=name)
def test_figures_import_style_ops_costs_and_recordings(file):
    assert not strangers(read(file), FIGURES, package_of(file))


@pytest.mark.parametrize(
    "line",
    [
        "from attnledger.book import figure",
        "import attnledger",
        "from attnledger.timing import measure",
        "from attnledger.timing.suites import record",
        "from .crossover import draw",
        "import pandas",
        "import pages",
    ],
)
def test_a_figure_that_imports_more_is_found(line):
    assert strangers(f"from attnledger import style\n{line}", FIGURES, "figures_src.linear")


# book

BOOK = ("attnledger.book", "attnledger.style", *OPS, *COSTS, "attnledger.timing")


@pytest.mark.parametrize("file", modules(LIBRARY / "book"), ids=name)
def test_the_book_imports_what_is_below_it_and_loads_figures_by_name(file):
    assert not [found for found in ours(read(file), BOOK, package_of(file)) if found != "figures_src"]


@pytest.mark.parametrize(
    "line", ["from figures_src.linear import crossover", "import tools", "from _ext import attention_ledger"]
)
def test_a_book_that_looks_up_is_found(line):
    assert ours(f"from . import data\n{line}", BOOK, "attnledger.book")


@pytest.mark.parametrize("file", [LIBRARY / "style.py", LIBRARY / "__init__.py"], ids=name)
def test_style_imports_nothing_of_the_project(file):
    assert not ours(read(file), (), package_of(file))


# timing

TIMING = ("attnledger.timing", *OPS, *COSTS)


@pytest.mark.parametrize("file", modules(LIBRARY / "timing"), ids=name)
def test_timing_imports_what_it_times_and_what_it_counts(file):
    assert not ours(read(file), TIMING, package_of(file))


def test_the_timers_themselves_import_nothing_of_the_project():
    assert not ours(read(LIBRARY / "timing" / "__init__.py"), (), "attnledger.timing")


@pytest.mark.parametrize("line", ["from ..book import data", "from .. import style", "import figures_src"])
def test_a_timer_that_looks_up_is_found(line):
    assert ours(f"from .. import costs\n{line}", TIMING, "attnledger.timing")


def test_every_module_of_the_library_has_an_arrow():
    """A new folder of the library must say here what it may import."""
    here = {path.name for path in LIBRARY.iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    assert here == {"__init__.py", "style.py", "timing", "ops", "costs", "book"}


# tools and the extension

EXTENSION = ("_ext", "attention_ledger")
AUTHORS = ("tools", *EXTENSION, *(file.stem for file in modules(ROOT / "tools")))


def of_authors(source: str, package: str = "") -> list[str]:
    return [found for found in imports(source, package) if below(found, AUTHORS)]


@pytest.mark.parametrize("file", modules(LIBRARY, ROOT / "figures_src"), ids=name)
def test_nothing_imports_tools_or_the_extension(file):
    assert not of_authors(read(file), package_of(file))


@pytest.mark.parametrize("file", modules(ROOT / "_ext"), ids=name)
def test_the_extension_imports_itself_only(file):
    assert all(below(found, EXTENSION) for found in of_authors(read(file), package_of(file)))


@pytest.mark.parametrize("file", modules(ROOT / "tools"), ids=name)
def test_tools_do_not_import_the_extension(file):
    assert not [found for found in imports(read(file)) if below(found, EXTENSION)]


@pytest.mark.parametrize(
    "line", ["import tools.pages", "from pages import ROOT", "import attention_ledger", "import _ext"]
)
def test_whoever_imports_a_tool_is_found(line):
    assert of_authors(f"import math\n{line}")


# chapters

CHAPTERS = ("attnledger.book", *OPS, *COSTS, "attnledger.timing", "torch", "numpy", "math")
PAGES = [ROOT / "intro.md", *sorted((ROOT / "chapters").rglob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists()], ids=name)
def test_pages_import_book_ops_costs_and_timing(page):
    code = code_of(read(page))
    assert bool(code) == ("kernelspec:" in read(page)), "the cells of an executed page are found"
    assert not strangers(code, CHAPTERS)


@pytest.mark.parametrize(
    "line",
    [
        "import matplotlib.pyplot as plt",
        "from attnledger import style",
        "from figures_src.linear import crossover",
        "import random",
        "import torchvision",
    ],
)
def test_a_page_that_imports_more_is_found(line):
    page = f"# A page\n\n```{{code-cell}} ipython3\n:tags: [solution]\nimport math\n{line}\n```\n\nimport prose\n"
    assert code_of(page) == f"import math\n{line}\n"
    assert strangers(code_of(page), CHAPTERS)


def test_a_page_may_import_what_it_needs():
    assert not strangers("import math\nimport torch\nfrom attnledger.book import say", CHAPTERS)


def test_the_code_of_a_cell_begins_after_its_options_and_leaves_magics_out():
    page = (
        "```{code-cell} ipython3\n---\nmystnb:\n  figure:\n    name: a\n---\nfigure('a.b')\n```\n"
        "```{code-cell}\nif x:\n    %pip install y\n```\n```python\nimport z\n```\n"
    )
    assert code_of(page) == "figure('a.b')\n\nif x:\n    pass\n"
