"""MyST markdown to the plain markdown of the goldens, which Colab and JupyterLab show as it stands.

Pages use a closed list of roles and directives. Each becomes ordinary markdown here; any other is an error, so that no
raw directive ever reaches a reader of a notebook.
"""

import re
from collections.abc import Callable
from functools import cache

from pybtex.database import Entry, parse_file

from pages import ROOT, BookError, Page, address, documents

_ROLE = re.compile(r"\{([a-zA-Z][\w:+.-]*)\}`([^`]+)`")
_FENCE = re.compile(r"^:::+ *\{([a-z-]+)\} *([^\n]*)\n(.*?)^:::+ *$\n?", re.M | re.S)
_TITLED = re.compile(r"(.+?)\s*<(.+)>$", re.S)


class Converter:
    """Turns the markdown cells of one page into plain markdown; `spoken` holds the page's spoken numbers."""

    def __init__(self, page: Page, spoken: dict[str, str]):
        self.page, self.spoken = page, spoken
        cells = page.notebook.cells
        named = [c.metadata.get("mystnb", {}).get("figure", {}).get("name") for c in cells if c.cell_type == "code"]
        self.figures = {name: i for i, name in enumerate(filter(None, named), 1)}
        text = "\n".join(c.source for c in cells if c.cell_type == "markdown")
        self.equations = {label: i for i, label in enumerate(re.findall(r"\$\$ *\(([\w.:-]+)\)$", text, re.M), 1)}
        self.exercises = {label: title for title, label in _EXERCISE.findall(text)}

    def convert(self, text: str) -> str:
        """One cell's markdown."""
        text = re.sub(r"^\([\w-]+\)=\n", "", text, flags=re.M)
        text = _FENCE.sub(self._directive, text)
        if left := re.search(r"^[ \t>]*(:::+.*|```+ *\{.*|~~~+.*)$", text, re.M):
            self._reject("directive", left[1])
        text = re.sub(r"\n?\$\$ *\(([\w.:-]+)\)$", self._tag, text, flags=re.M)
        return _ROLE.sub(self._role, text).strip()

    def _tag(self, match: re.Match) -> str:
        return f"\\tag{{{self.equations[match[1]]}}}\n$$"

    def caption(self, name: str, caption: str) -> str:
        """What stands under a figure in the golden."""
        return f"**Figure {self.figures[name]}.** {self.convert(caption)}"

    def _reject(self, kind: str, what: str) -> None:
        raise BookError(f"{self.page.name}: the {kind} {what} is not on the list that tools/plain.py converts")

    def _directive(self, match: re.Match) -> str:
        name, title, body = match.groups()
        options = dict(re.findall(r"^:([\w-]+): *(.*)$", body, re.M))
        body = re.sub(r"^:[\w-]+:.*\n", "", body, flags=re.M).strip()
        if name not in _DIRECTIVES:
            self._reject("directive", f"{{{name}}}")
        return _DIRECTIVES[name](self, title.strip(), options, body) + "\n"

    def _role(self, match: re.Match) -> str:
        name, text = match.groups()
        if name not in _ROLES:
            self._reject("role", f"{{{name}}}")
        return _ROLES[name](self, text)

    def _lookup(self, kind: str, table: dict, label: str):
        if label not in table:
            raise BookError(f"{self.page.name}: there is no {kind} {label!r}")
        return table[label]

    # roles

    def _doc(self, text: str) -> str:
        titled = _TITLED.match(text)
        name = (titled[2] if titled else text).lstrip("/")
        if name not in documents():
            raise BookError(f"{self.page.name}: {{doc}} points at {name!r}, which _toc.yml does not list")
        return f"[{titled[1] if titled else Page(name).title}]({address(name)})"

    def _ref(self, text: str) -> str:
        titled = _TITLED.match(text)
        label = titled[2] if titled else text
        if label in self.exercises:
            return titled[1] if titled else f"exercise *{self.exercises[label]}*"
        document, title = self._lookup("label", _labels(), label)
        return f"[{titled[1] if titled else title}]({address(document)}#{label})"

    def _cite(self, text: str, form: Callable[[str, str, str], str], wrap: str) -> str:
        parts = []
        for key in (key.strip() for key in text.split(",")):
            entry = self._lookup("reference", _bibliography(), key)
            parts.append(form(_authors(entry), entry.fields.get("year", "n.d."), _link(entry)))
        return wrap.format("; ".join(parts))


_EXERCISE = re.compile(r"^:::+ *\{exercise\} *([^\n]*)\n:label: *([\w-]+)", re.M)

_ROLES: dict[str, Callable[[Converter, str], str]] = {
    "glue:text": lambda c, text: c._lookup("spoken number", c.spoken, text),
    "doc": Converter._doc,
    "ref": Converter._ref,
    "numref": lambda c, text: f"Figure {c._lookup('figure', c.figures, text)}",
    "eq": lambda c, text: f"({c._lookup('equation', c.equations, text)})",
    "cite:p": lambda c, text: c._cite(text, lambda who, year, link: _linked(f"{who}, {year}", link), "({})"),
    "cite:t": lambda c, text: c._cite(text, lambda who, year, link: f"{who} ({_linked(year, link)})", "{}"),
}


def _admonition(c: Converter, title: str, options: dict, body: str) -> str:
    if "dropdown" in options.get("class", "").split():
        return f"<details>\n<summary><b>{title}</b></summary>\n\n{body}\n\n</details>"
    quoted = "\n".join(f"> {line}".rstrip() for line in body.splitlines())
    return f"> **{title}**\n>\n{quoted}"


def _solution(c: Converter, label: str, options: dict, body: str) -> str:
    return f"**Solution: {c._lookup('exercise', c.exercises, label)}**"


_DIRECTIVES: dict[str, Callable[[Converter, str, dict, str], str]] = {
    "admonition": _admonition,
    "exercise": lambda c, title, options, body: f"**Exercise: {title}**\n\n{body}",
    "solution-start": _solution,
    "solution-end": lambda c, title, options, body: "",
    "math": lambda c, title, options, body: f"$$\n{body}\n$$",
}


@cache
def _labels() -> dict[str, tuple[str, str]]:
    """Label -> document and heading, over the whole book."""
    found = {}
    for name in documents():
        text = Page(name).source.read_text(encoding="utf8")
        for label, title in re.findall(r"^\(([\w-]+)\)=\n#+ (.+)$", text, re.M):
            found[label] = (name, title.strip())
    return found


def references() -> dict[str, list[str]]:
    """Every entry of references.bib as author–year and address: what the ledger shows for a cited claim."""
    return {key: [f"{_authors(e)}, {e.fields['year']}", _link(e)] for key, e in sorted(_bibliography().items())}


@cache
def _bibliography() -> dict[str, Entry]:
    return dict(parse_file(str(ROOT / "references.bib")).entries)


def _authors(entry: Entry) -> str:
    names = [" ".join(person.prelast_names + person.last_names) for person in entry.persons["author"]]
    names = [name.replace("{", "").replace("}", "") for name in names]
    if len(names) > 2:
        return f"{names[0]} et al."
    return " and ".join(names)


def _linked(text: str, link: str) -> str:
    return f"[{text}]({link})" if link else text


def _link(entry: Entry) -> str:
    if "eprint" in entry.fields:
        return f"https://arxiv.org/abs/{entry.fields['eprint']}"
    if "doi" in entry.fields:
        return f"https://doi.org/{entry.fields['doi']}"
    return entry.fields.get("url", "")
