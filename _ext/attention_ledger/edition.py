"""The class edition: the same site without any solution.

``make book EDITION=class`` (tools/build.py) sets ATTNLEDGER_EDITION. Solutions are cut out of every page before Sphinx
reads it, and out of every notebook that the site offers. What would lead to the edition with solutions (buttons, links
in notebooks, the canonical address) leads to the course's own repository, named by ATTNLEDGER_COURSE, or is left out.
"""

import copy
import json
import os
import posixpath
import re
from pathlib import Path

import yaml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_HEADING = re.compile(r"^## Solutions[ \t]*$", re.M)
_LEFT = re.compile(r"^:+ *\{solution(?:-start|-end)?\}.*|^:tags:.*\bsolution\b.*|^ *tags:.*\bsolution\b.*", re.M)
_ONWARD = re.compile(r"\(\[in Colab\]\([^)]*\), \[on the site\]\(([^)]*)\)\)")


def is_class() -> bool:
    return os.environ.get("ATTNLEDGER_EDITION") == "class"


def course() -> tuple[str, str] | None:
    """The repository and the site of the course, or None where none was named."""
    named = os.environ.get("ATTNLEDGER_COURSE", "").split()
    return (named[0], named[1]) if named else None


def configure(app: Sphinx, config) -> None:
    """Buttons and addresses of the course instead of the book's."""
    if not is_class():
        return
    options, home = config.html_theme_options, course()
    colab = options.get("launch_buttons", {}).get("colab_url")
    options |= {"use_repository_button": False, "use_issues_button": False, "launch_buttons": {}}
    config.html_baseurl = home[1] if home else ""
    if home:
        options |= {"repository_url": home[0], "repository_branch": "main", "launch_buttons": {"colab_url": colab}}


def source_read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Cut the solutions out before anything else sees the page."""
    if is_class():
        source[0] = without_solutions(source[0], docname)


def without_solutions(text: str, docname: str) -> str:
    """A page up to its last heading, *Solutions*; ExtensionError if a solution stands above it."""
    if heading := _HEADING.search(text):
        text = text[: heading.start()].rstrip() + "\n"
    if left := _LEFT.search(text):
        raise ExtensionError(f"{docname}: {left[0].strip()!r} stands above the page's last heading, Solutions")
    return text


def cut(cells: list) -> list:
    """The cells of a notebook up to the heading *Solutions*."""
    for i, cell in enumerate(cells):
        if cell["cell_type"] == "markdown" and (heading := _HEADING.search(cell["source"])):
            last = copy.copy(cell)
            last["source"] = cell["source"][: heading.start()].rstrip()
            return [*cells[:i], *([last] if last["source"] else [])]
    return cells


def notebook(app: Sphinx, golden: Path) -> str:
    """A golden as the class may have it: no solutions, and no way to the notebooks and pages that have them."""
    book = json.loads(golden.read_text(encoding="utf8"))
    cells = cut(book["cells"])
    if cells is not book["cells"] and str(book["cells"][-1]["source"]).startswith("**Next: "):
        cells = [*cells, book["cells"][-1]]
    here = golden.relative_to(Path(app.srcdir) / "notebooks").parent.as_posix()
    for cell in cells:
        if "solution" in cell["metadata"].get("tags", []):
            raise ExtensionError(f"{golden.name}: a solution stands above the page's last heading, Solutions")
        if cell["cell_type"] == "markdown":
            cell["source"] = led_home(app, cell["source"], here)
    book["cells"] = cells
    book["metadata"]["attnledger"] = {"page": book["metadata"]["attnledger"]["page"], "edition": "class"}
    return json.dumps(book, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def led_home(app: Sphinx, text: str, here: str) -> str:
    """Links to the book's site and notebooks as links to the course's, or from notebook to notebook in the folder."""
    settings = yaml.safe_load((Path(app.srcdir) / "_config.yml").read_text(encoding="utf8"))
    site, repository = settings["html"]["baseurl"].rstrip("/"), settings["repository"]
    if home := course():
        colab = "https://colab.research.google.com/github/{}/blob/{}/"
        old = colab.format(repository["url"].rstrip("/").removeprefix("https://github.com/"), repository["branch"])
        text = text.replace(old, colab.format(home[0].removeprefix("https://github.com/"), "main"))
        return text.replace(f"]({site}/", f"]({home[1]}/")

    def beside(match: re.Match) -> str:
        name = match[2].removeprefix("chapters/")
        if not (Path(app.srcdir) / "notebooks" / f"{name}.ipynb").exists():
            return match[1]
        return f"[{match[1]}]({posixpath.relpath(f'{name}.ipynb', here)})"

    text = _ONWARD.sub(r"([notebook](\1))", text)
    return re.sub(rf"\[((?:[^\[\]]|\[[^\]]*\])*)\]\({re.escape(site)}/([\w/-]+)\.html(?:#[^)]*)?\)", beside, text)
