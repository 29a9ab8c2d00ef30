"""The pages of the book as the tools see them: where they stand, what they say of themselves, their cells."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import jupytext
import nbformat
import yaml

ROOT = Path(__file__).resolve().parent.parent
CLASS = ROOT / "_build" / "class"  # the class edition: docs/ and notebooks/, without solutions


class BookError(Exception):
    """Something an author has to mend; the message says what and where."""


@dataclass
class Page:
    """One MyST notebook: `name` is its docname, for example ``chapters/linear/delta-rule``."""

    name: str
    next: "Page | None" = field(default=None, repr=False)

    @property
    def source(self) -> Path:
        return ROOT / f"{self.name}.md"

    @property
    def short(self) -> str:
        """The name without ``chapters/``: how ledgers and goldens are filed."""
        return self.name.removeprefix("chapters/")

    @property
    def golden(self) -> Path:
        return ROOT / "notebooks" / f"{self.short}.ipynb"

    @cached_property
    def notebook(self) -> nbformat.NotebookNode:
        return jupytext.read(self.source)

    @cached_property
    def front(self) -> dict:
        """The `ledger` block of the front matter: topics, minutes, needs, gpu, generated."""
        return _front_matter(self.source).get("ledger", {})

    @cached_property
    def title(self) -> str:
        return re.search(r"^# (.+)$", self.source.read_text(encoding="utf8"), re.M)[1].strip()

    @property
    def code(self) -> list[str]:
        return [cell.source for cell in self.notebook.cells if cell.cell_type == "code"]


def _front_matter(source: Path) -> dict:
    text = source.read_text(encoding="utf8")
    match = re.match(r"---\n(.*?)\n---\n", text, re.S)
    return yaml.safe_load(match[1]) if match else {}


def documents() -> list[str]:
    """The docnames of `_toc.yml`, in reading order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    names: list[str] = [toc["root"]]

    def walk(node) -> None:
        for item in node if isinstance(node, list) else [node]:
            if "file" in item:
                names.append(item["file"])
            for key in ("parts", "chapters", "sections"):
                walk(item.get(key, []))

    walk({key: toc[key] for key in ("parts", "chapters") if key in toc})
    return names


def pages() -> list[Page]:
    """The executed pages in reading order; a document without a kernel (the bibliography) is not one."""
    found = []
    for name in documents():
        page = Page(name)
        if not page.source.exists():
            raise BookError(f"_toc.yml names {name}, but there is no {page.source.relative_to(ROOT)}")
        if "kernelspec" in _front_matter(page.source):
            found.append(page)
    for page, following in zip(found, found[1:], strict=False):
        page.next = following
    return found


def parts() -> list[tuple[str, Page]]:
    """The executed pages in reading order, each with the caption of its part (the book's title for the root)."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    captions = {item["file"]: part["caption"] for part in toc.get("parts", []) for item in part["chapters"]}
    return [(captions.get(page.name, ""), page) for page in pages()]


def config() -> dict:
    return yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))


def repository() -> tuple[str, str]:
    """The repository's address and the branch or tag that notebooks link to and install from."""
    settings = config()["repository"]
    return settings["url"].rstrip("/"), settings["branch"]


def address(name: str) -> str:
    """Where the document called `name` stands on the site."""
    return f"{config()['html']['baseurl'].rstrip('/')}/{name}.html"
