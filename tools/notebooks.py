"""make notebooks: chapters/*.md -> notebooks/*.ipynb, the executed goldens.

Only stale pages are executed. A page's hash covers its code cells, the files of lib/ and figures_src/ that its kernel
had loaded at the end, the data files it opened, and the pins; markdown is rewritten on every run. Pages marked
`generated` (they show what the other pages computed) run last.
"""

import argparse
import ast
import copy
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from pages import ROOT, BookError, Page, address, pages, parts, repository
from plain import Converter, references

COMPUTED = "application/vnd.attnledger.claims+json"
CITED = "application/vnd.attnledger.cited+json"
GLUE = "application/papermill.record/text/plain"
WIDGET = "application/vnd.jupyter.widget-view+json"
DATA = ROOT / "lib" / "attnledger" / "data"

SETUP = """\
# Sets this notebook up. Where the library is missing (Colab) it is installed: about half a minute, once.
try:
    import attnledger
except ImportError:
    %pip install -q "attnledger @ git+{url}@{ref}"
"""

# Asked of the kernel after the last cell: which files of the book stand behind the outputs?
LOADED = """
import json as _json, sys as _sys
_files = [getattr(_m, "__file__", None) for _m in list(_sys.modules.values())]
_data = getattr(_sys.modules.get("attnledger.book.data"), "OPENED", ())
print(_json.dumps([[_f for _f in _files if _f], sorted(_data)]))
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the stale pages and rewrite the goldens.")
    parser.add_argument("pages", nargs="*", help="sources such as chapters/linear/delta-rule.md (default: all)")
    parser.add_argument("--all", action="store_true", help="execute pages that are not stale, too")
    options = parser.parse_args(arguments)
    try:
        run(chosen(options.pages), force=options.all)
    except BookError as error:
        print(f"make notebooks: {error}", file=sys.stderr)
        return 1
    return 0


def chosen(sources: list[str]) -> list[Page]:
    every = pages()
    if not sources:
        return every
    wanted = {str(Path(source).resolve().relative_to(ROOT).with_suffix("").as_posix()) for source in sources}
    if missing := wanted - {page.name for page in every}:
        raise BookError(f"not in _toc.yml: {', '.join(sorted(missing))}")
    return [page for page in every if page.name in wanted]


def run(wanted: list[Page], *, force: bool = False) -> None:
    write_data("references.json", references())
    ordered = [p for p in wanted if not p.front.get("generated")] + [p for p in wanted if p.front.get("generated")]
    collected = False
    for page in ordered:
        if page.front.get("generated") and not collected:
            collect()
            collected = True
        begin = time.monotonic()
        executed = force or stale(page)
        outputs, files = execute(page) if executed else kept(page)
        page.golden.write_text(assemble(page, outputs, files), encoding="utf8", newline="\n")
        spent = f"{time.monotonic() - begin:.1f} s" if executed else "up to date"
        print(f"{page.name}: {spent}, {page.golden.stat().st_size / 1024:.0f} KiB", flush=True)
    if not collected:
        collect()
    for golden in (ROOT / "notebooks").rglob("*.ipynb"):
        if golden not in {page.golden for page in pages()}:
            print(f"removed {golden.relative_to(ROOT)}: no page in _toc.yml has it")
            golden.unlink()


def fingerprint(page: Page, files: list[str]) -> str:
    """The hash of everything that the outputs of `page` depend on."""
    parts = [json.dumps(page.code), (ROOT / "requirements.txt").read_text(encoding="utf8")]
    for name in files:
        file = ROOT / name
        parts.append(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else 'gone'}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def stale(page: Page) -> bool:
    if not page.golden.exists():
        return True
    kept_hash = nbformat.read(page.golden, 4).metadata.get("attnledger", {})
    return kept_hash.get("hash") != fingerprint(page, kept_hash.get("files", []))


def setup_cell() -> nbformat.NotebookNode:
    url, ref = repository()
    return nbformat.v4.new_code_cell(SETUP.format(url=url, ref=ref).strip(), metadata={"tags": ["setup"]})


def execute(page: Page) -> tuple[list[nbformat.NotebookNode], list[str]]:
    """The executed code cells of `page`, set-up cell first, and the files of the book they used."""
    notebook = copy.deepcopy(page.notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = [setup_cell(), *code, nbformat.v4.new_code_cell(LOADED)]
    page.golden.parent.mkdir(parents=True, exist_ok=True)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        shutdown_kernel="immediate",  # asked to end by itself, a kernel may print an error of its own on the way out
        resources={"metadata": {"path": str(page.golden.parent)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise BookError(f"{page.name}: a cell failed\n{error}") from None
    loaded, opened = json.loads(notebook.cells.pop().outputs[0]["text"])
    files = {f"lib/attnledger/data/{name}" for name in opened}
    for file in map(Path, loaded):
        for folder in ("lib", "figures_src"):
            if file.is_relative_to(ROOT / folder) and file.suffix == ".py":
                files.add(file.relative_to(ROOT).as_posix())
    return [clean(cell) for cell in notebook.cells], sorted(files)


def clean(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what differs between runs: widget views (their state is not kept)."""
    for output in cell.outputs:
        if "data" in output:
            output.data.pop(WIDGET, None)
    return cell


def kept(page: Page) -> tuple[list[nbformat.NotebookNode], list[str]]:
    """The code cells of the golden as they are, with the set-up cell and the page's present metadata."""
    golden = nbformat.read(page.golden, 4)
    code = [cell for cell in golden.cells if cell.cell_type == "code"]
    code[0].source = setup_cell().source
    for cell, source in zip(code[1:], [c for c in page.notebook.cells if c.cell_type == "code"], strict=True):
        cell.metadata = copy.deepcopy(source.metadata)
    return code, golden.metadata["attnledger"]["files"]


def assemble(page: Page, executed: list[nbformat.NotebookNode], files: list[str]) -> str:
    """The golden as text: set-up, the page's cells with plain markdown, captions, the way on."""
    converter = Converter(page, spoken(executed))
    setup, *code = executed
    cells, rest = [setup], iter(code)
    for cell in page.notebook.cells:
        if cell.cell_type != "code":
            cells.append(nbformat.v4.new_markdown_cell(converter.convert(cell.source)))
            continue
        done = next(rest)
        fold(done)
        cells.append(done)
        if figure := cell.metadata.get("mystnb", {}).get("figure"):
            cells.append(nbformat.v4.new_markdown_cell(converter.caption(figure["name"], figure["caption"])))
    if way := onward(page):
        cells.append(nbformat.v4.new_markdown_cell(way))
    cells = [cell for cell in cells if cell.cell_type == "code" or cell.source]
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i:03d}"
    for i, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), 1):
        cell.execution_count = i
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = i
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "attnledger": {"page": page.name, "hash": fingerprint(page, files), "files": files},
    }
    if page.front.get("gpu"):
        metadata |= {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.validate(notebook)
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def spoken(cells: list[nbformat.NotebookNode]) -> dict[str, str]:
    """The numbers that prose may speak."""
    found = {}
    for cell in cells:
        for output in cell.get("outputs", []):
            if GLUE in output.get("data", {}):
                found[output.metadata["scrapbook"]["name"]] = ast.literal_eval(output.data[GLUE])
    return found


def fold(cell: nbformat.NotebookNode) -> None:
    """Solutions and hidden set-up are collapsed in Colab and JupyterLab."""
    if {"solution", "hide-input"} & set(cell.metadata.get("tags", [])):
        cell.metadata["cellView"] = "form"
        cell.metadata["jupyter"] = {"source_hidden": True}


def onward(page: Page) -> str:
    if page.next is None:
        return ""
    url, ref = repository()
    colab = f"https://colab.research.google.com/github/{url.removeprefix('https://github.com/')}/blob/{ref}"
    golden = page.next.golden.relative_to(ROOT).as_posix()
    return f"**Next: {page.next.title}** ([in Colab]({colab}/{golden}), [on the site]({address(page.next.name)}))"


def collect() -> None:
    """computed.json (claim id -> value) and placed.json (claim id -> page and citation) from all goldens."""
    computed, placed = {}, {}
    for page in pages():
        if not page.golden.exists():
            continue
        for cell in nbformat.read(page.golden, 4).cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                values, cited = data.get(COMPUTED, {}), data.get(CITED, {})
                for claim in [*values, *cited]:
                    if claim in placed:
                        raise BookError(f"claim {claim!r} stands on {placed[claim]['page']} and on {page.short}")
                    placed[claim] = {"page": page.short, "cited": cited.get(claim)}
                computed |= values
    write_data("computed.json", computed)
    write_data("placed.json", placed)
    write_data("pages.json", course())


def course() -> dict[str, list[dict]]:
    """What the teaching page knows of the others (pages.json): times, needs, exercises, sliders, spoken numbers."""
    listed = []
    for part, page in parts():
        fact = {"page": page.short, "title": page.title, "part": part, "exercises": exercises(page)}
        fact |= {key: page.front[key] for key in ("minutes", "needs")}
        if page.golden.exists() and not page.front.get("generated"):
            code = [cell for cell in nbformat.read(page.golden, 4).cells if cell.cell_type == "code"]
            fact |= {"spoken": spoken(code), "sliders": list(sliders(code))}
        listed.append(fact)
    return {"pages": listed, "sets": [problem_set(file) for file in sorted((ROOT / "assignments").glob("*.md"))]}


def exercises(page: Page) -> list[dict]:
    """Title, label, difficulty and minutes of each exercise, in the page's order."""
    text = page.source.read_text(encoding="utf8")
    found = []
    for title, label, rest in re.findall(r"^:::+ *\{exercise\} *(.*)\n:label: *(\S+)\n+(.*)", text, re.M):
        said = re.match(r"\*(Easy|Medium|Hard), (\d+) minutes?\.\*", rest)
        if not said:
            raise BookError(f"{page.name}: exercise {label} begins with *Easy, 5 minutes.* or the like, not {rest!r}")
        found.append({"title": title, "label": label, "difficulty": said[1], "minutes": int(said[2])})
    return found


def sliders(code: list[nbformat.NotebookNode]) -> Iterator[dict]:
    """Every set of sliders: its figure, its values as the page writes them, and its name in the address."""
    for cell in code:
        boxes = re.findall(r'id="(explore-\w+)"', "".join(o.get("data", {}).get("text/html", "") for o in cell.outputs))
        if len(boxes) == 1:
            calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
            call = next(call for call in calls if getattr(call.func, "id", "") == "explore")
            if isinstance(call.args[0], ast.Constant):  # a figure of the book
                given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
                labels = given.pop("labels", {})
                boxed = [{"name": name, "label": labels.get(name, name), "values": v} for name, v in given.items()]
                yield {"figure": call.args[0].value, "id": boxes[0], "sliders": boxed}


def problem_set(file: Path) -> dict:
    """Part, title, minutes, tasks and points of a problem set, and the pages that it names."""
    text = file.read_text(encoding="utf8")
    front = yaml.safe_load(text.split("---\n")[1]).get("assignment", {})
    marked = [cell.metadata.get("nbgrader", {}) for cell in jupytext.read(file).cells]
    points = [given["points"] for given in marked if "points" in given]
    answers = [g for g in marked if g.get("solution") and not g["grade_id"].endswith(("-student", "-written"))]
    named = dict.fromkeys(re.findall(r"\{doc\}`(?:[^`]*<)?/chapters/([\w/-]+)>?`", text))
    return {"part": file.stem, "tasks": len(answers), "points": sum(points), "needs": list(named), **front}


def write_data(name: str, content: dict) -> None:
    """A generated data file, touched only if it changes."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    file = DATA / name
    if not file.exists() or file.read_text(encoding="utf8") != text:
        file.write_text(text, encoding="utf8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
