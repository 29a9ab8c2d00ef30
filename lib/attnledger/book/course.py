"""Tables for instructors: what the pages teach and take, plans for a course, settings to show, errors to expect.

Everything about other pages comes from ``data/pages.json``, which ``make notebooks`` writes from the pages and their
goldens: times, needs, exercises, sliders, and the numbers that the pages speak. So nothing here is typed twice.
"""

import html
import string
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from . import data
from ._names import unknown
from .drawing import load
from .slider import _text


@cache
def pages() -> dict[str, dict]:
    """The executed pages in reading order, by name (``"cost/crossover"``)."""
    return {page["page"]: page for page in data.read("pages.json")["pages"]}


def page(name: str) -> dict:
    """What is known of one page; LookupError, naming the nearest one, where there is none."""
    if name not in (known := pages()):
        raise LookupError(unknown("page", name, known))
    return known[name]


_WIDE = "9em"


class Linked:
    """Rows of cells, some of which lead to other pages: ``(text, address)``; a row that is a string is a heading.

    Addresses start at chapters/appendix/, where the one page with such tables stands.
    """

    def __init__(self, label: str, columns: Sequence[str], rows: Sequence[Sequence], numeric: Iterable[int] = ()):
        self.label, self.columns, self.rows, self.numeric = label, columns, rows, set(numeric)

    def _repr_html_(self) -> str:
        kinds = ["num" if i in self.numeric else "word" for i in range(len(self.columns))]
        heads = [
            html.escape(column)
            if kind == "num" or len(column) < 5
            # on a phone the box scrolls instead of squeezing words
            else f'<span style="display:inline-block;min-width:{_WIDE}">{html.escape(column)}</span>'
            for kind, column in zip(kinds, self.columns, strict=True)
        ]
        head = "\n".join(f'<th scope="col" class="{k}">{text}</th>' for k, text in zip(kinds, heads, strict=True))
        lines = []
        for row in self.rows:
            if isinstance(row, str):
                lines.append(f'<tr>\n<th scope="rowgroup" colspan="{len(kinds)}">{html.escape(row)}</th>\n</tr>')
                continue
            cells = zip(kinds, row, strict=True)
            lines.append("<tr>\n" + "\n".join(f'<td class="{k}">{_html(cell)}</td>' for k, cell in cells) + "\n</tr>")
        body = "\n".join(lines)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(self.label)}">\n'
            f'<table class="numbers">\n<thead>\n<tr>\n{head}\n</tr>\n</thead>\n'
            f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
        )

    def __repr__(self) -> str:
        rows = [[row] if isinstance(row, str) else row for row in [self.columns, *self.rows]]
        return "\n".join(" | ".join(_plain(cell) for cell in row) for row in rows)


def _html(cell) -> str:
    if isinstance(cell, tuple):
        text, address = cell
        # the theme's scroll spy takes every address on the page for a selector, unless its link is marked so
        spared = ' class="disabled"' if "=" in address else ""
        return f'<a{spared} href="{html.escape(address)}">{html.escape(text)}</a>'
    if isinstance(cell, list):
        return "<br>\n".join(_html(part) for part in cell)
    return html.escape(_plain(cell))


def _plain(cell) -> str:
    if isinstance(cell, tuple):
        return f"{cell[0]} <{cell[1]}>"
    if isinstance(cell, list):
        return "; ".join(_plain(part) for part in cell)
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def _link(name: str, text: str = "", fragment: str = "") -> tuple[str, str]:
    above = "../../" if name == "intro" else "../"
    return text or page(name)["title"], f"{above}{name}.html{'#' if fragment else ''}{fragment}"


def hours(minutes: int) -> str:
    """Minutes as ``"3 h 20 min"``."""
    whole, rest = divmod(minutes, 60)
    return " ".join(filter(None, [f"{whole} h" if whole else "", f"{rest} min" if rest or not whole else ""]))


def reading_minutes(names: Iterable[str] | None = None) -> int:
    """Minutes to read the pages called `names` (default: all)."""
    return sum(page(name)["minutes"] for name in (pages() if names is None else names))


def exercise_minutes(names: Iterable[str] | None = None) -> int:
    """Minutes that all exercises of the pages called `names` take (default: of all pages)."""
    chosen = pages() if names is None else names
    return sum(exercise["minutes"] for name in chosen for exercise in page(name)["exercises"])


def outline() -> list[tuple[str, int, int, list[str]]]:
    """Pages with exercises for ``figure("appendix.course")``: name, minutes to read, to practise, pages needed."""
    return [
        (name, fact["minutes"], exercise_minutes([name]), fact["needs"])
        for name, fact in pages().items()
        if fact["exercises"]
    ]


def syllabus(goals: Mapping[str, str]) -> Linked:
    """The pages with what a student can do afterwards, their minutes and what has to be read first.

    Raises LookupError for a goal of no page, ValueError for a page with exercises that has no goal.
    """
    for name in goals:
        page(name)
    if missing := [name for name, fact in pages().items() if fact["exercises"] and name not in goals]:
        raise ValueError(f"the syllabus has no goal for {', '.join(missing)}")
    rows, part = [], None
    for name in (name for name in pages() if name in goals):
        fact = page(name)
        if fact["part"] and fact["part"] != part:
            part = fact["part"]
            rows.append(part)
        needs = [_link(need, need.rpartition("/")[2]) for need in fact["needs"]]
        rows.append([_link(name), goals[name], fact["minutes"], exercise_minutes([name]) or None, needs])
    rows.append(["all of them", None, reading_minutes(goals), exercise_minutes(goals), None])
    columns = ["page", "afterwards a student can", "read, min", "practise, min", "read first"]
    return Linked("pages, goals and minutes", columns, rows, numeric=(2, 3))


def plan(sessions: Sequence[Mapping]) -> Linked:
    """A course: sessions ``{"session": title, "pages": [...], "exercises": [labels], "set": part}`` with their minutes.

    ``"exercises": "all"`` stands for every exercise of the session's pages; ``"set"`` names a problem set. Raises
    LookupError for an unknown page, exercise or set, and ValueError where a page comes before one that it needs.
    """
    rows, total = [], [0, 0]
    order = [name for session in sessions for name in session["pages"]]
    for session in sessions:
        names, wanted = session["pages"], session.get("exercises", [])
        for name in names:
            late = [need for need in page(name)["needs"] if need in order and order.index(need) > order.index(name)]
            if late:
                raise ValueError(f"the plan reads {name} before {', '.join(late)}, which it needs")
        chosen = [(n, e) for n in names for e in page(n)["exercises"] if wanted == "all" or e["label"] in wanted]
        if wanted != "all" and (lost := set(wanted) - {exercise["label"] for _, exercise in chosen}):
            raise LookupError(f"no page of {session['session']!r} has the exercise {', '.join(sorted(lost))}")
        reads = reading_minutes(names)
        works = sum(exercise["minutes"] for _, exercise in chosen)
        practise: list = [_link(name, exercise["title"], exercise["label"]) for name, exercise in chosen]
        if wanted == "all":
            practise = [f"all {len(chosen)} exercises"] if chosen else []
        if part := session.get("set"):
            works += problem_set(part)["minutes"]
            practise.append(f"problem set {part}")
        total = [total[0] + reads, total[1] + works]
        rows.append([session["session"], [_link(name) for name in names], reads, practise, works or None])
    counted = f"{len(sessions)} session{'s' * (len(sessions) != 1)}"
    rows.append([counted, f"together {hours(sum(total))}", total[0], None, total[1]])
    if taken := sorted({need for name in order for need in page(name)["needs"]} - set(order), key=list(pages()).index):
        rows.append(["left out, but leaned on", [_link(name) for name in taken], None, None, None])
    columns = ["session", "read before it", "min", "practise after it", "min"]
    return Linked("a course plan", columns, rows, numeric=(2, 4))


def problem_set(part: str) -> dict:
    """Title and minutes of the problem set of a part; LookupError where there is none."""
    sets = {each["part"]: each for each in data.read("pages.json")["sets"]}
    if part not in sets:
        raise LookupError(unknown("problem set", part, sets))
    return sets[part]


def problem_sets() -> Linked:
    """The problem sets with the pages they build on, tasks, points and minutes."""
    rows, order = [], list(pages())
    for each in sorted(data.read("pages.json")["sets"], key=lambda s: order.index(s["needs"][0])):
        pages_needed = [_link(name, name.rpartition("/")[2]) for name in each["needs"]]
        title = f"{each['part']}: {each['title']}"
        rows.append([title, pages_needed, each["tasks"], each["points"], each["minutes"]])
    return Linked("problem sets", ["problem set", "builds on", "tasks", "points", "min"], rows, numeric=(2, 3, 4))


def settings(rows: Sequence[tuple[str, str, Mapping]]) -> Linked:
    """Sliders as they should stand: ``(what to say, figure, values)`` with a link that sets them and the page's words.

    Raises LookupError for a figure without sliders and ValueError for a value that its slider does not have.
    """
    found = {box["figure"]: (name, box) for name, fact in pages().items() for box in fact.get("sliders", [])}
    shown = []
    for words, figure, values in rows:
        if figure not in found:
            raise LookupError(unknown("figure with sliders", figure, found))
        name, box = found[figure]
        sliders = {slider["name"]: slider for slider in box["sliders"]}
        if set(values) != set(sliders):
            raise ValueError(f"{figure} has the sliders {', '.join(sliders)}, not {', '.join(values)}")
        for key, slider in sliders.items():
            if values[key] not in slider["values"]:
                raise ValueError(f"{figure} has no {key} = {values[key]!r}; it has {slider['values']}")
        place = ",".join(str(slider["values"].index(values[key])) for key, slider in sliders.items())
        setting = "; ".join(f"{slider['label']} {_text(values[key])}" for key, slider in sliders.items())
        setting = f"{name.rpartition('/')[2]}: {setting}"
        reading = load(figure).reading(**values)
        shown.append([words, _link(name, setting, f"{box['id']}={place}"), reading])
    return Linked("settings to show", ["to show that", "page and setting", "the page then says"], shown)


def misconceptions(rows: Sequence[tuple[str, str]]) -> Linked:
    """What students say, and what a page answers: ``{spoken-name}`` in an answer becomes the number spoken there.

    The page is the one that speaks the number. Raises LookupError for a name that no page speaks, ValueError for an
    answer without a number or with numbers of two pages.
    """
    homes = {name: fact["page"] for fact in pages().values() for name in fact.get("spoken", {})}
    spoken = {name: text for fact in pages().values() for name, text in fact.get("spoken", {}).items()}
    shown, part = [], None
    for said, answer in rows:
        names = [name for _, name, _, _ in string.Formatter().parse(answer) if name]
        for name in names:
            if name not in homes:
                raise LookupError(unknown("spoken number", name, homes))
        home = {homes[name] for name in names}
        if len(home) != 1:
            raise ValueError(f"{answer!r} needs numbers of one page, and has them from {sorted(home) or 'none'}")
        (name,) = home
        if page(name)["part"] != part:
            part = page(name)["part"]
            shown.append(part)
        shown.append([said, answer.format_map(spoken), _link(name, name.rpartition("/")[2])])
    return Linked("misconceptions", ["students say", "the page computes", "page"], shown)
