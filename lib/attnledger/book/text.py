"""Numbers in prose and tables: everything a sentence or a cell of a table says is computed."""

import html
from collections.abc import Mapping, Sequence

from IPython.display import display

_GLUE = "application/papermill.record/"


def say(name: str, value, spec: str = "") -> None:
    """Make `value`, formatted by `spec`, speakable as ``{glue:text}`name``` in the page's prose.

    The output has MyST-NB's glue form, made by hand: the library must not import Sphinx.
    """
    text = value if isinstance(value, str) and not spec else format(value, spec)
    scrapbook = {"name": name, "mime_prefix": _GLUE}
    display({f"{_GLUE}text/plain": repr(text)}, metadata={"scrapbook": scrapbook}, raw=True)


class Table:
    """Rows of numbers and words, as HTML and as text."""

    def __init__(self, columns: list[str], rows: list[list[str]], numeric: list[bool], caption: str | None):
        self.columns, self.rows, self.numeric, self.caption = columns, rows, numeric, caption

    def _repr_html_(self) -> str:
        caption = f"<caption>{html.escape(self.caption)}</caption>\n" if self.caption else ""
        kinds = ["num" if numeric else "word" for numeric in self.numeric]

        def line(cells: list[str], tag: str) -> str:
            scope = ' scope="col"' if tag == "th" else ""
            return "\n".join(
                f'<{tag}{scope} class="{kind}">{html.escape(cell)}</{tag}>'
                for kind, cell in zip(kinds, cells, strict=True)
            )

        body = "\n".join(f"<tr>\n{line(row, 'td')}\n</tr>" for row in self.rows)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(self.caption or "table")}">\n'
            f'<table class="numbers">\n{caption}<thead>\n<tr>\n{line(self.columns, "th")}\n</tr>\n</thead>\n'
            f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
        )

    def __repr__(self) -> str:
        widths = [max(len(row[i]) for row in [self.columns, *self.rows]) for i in range(len(self.columns))]
        lines = []
        for row in [self.columns, *self.rows]:
            cells = zip(row, widths, self.numeric, strict=True)
            lines.append("  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in cells).rstrip())
        return "\n".join(lines)


def table(rows: Sequence, *, columns: Sequence[str] | None = None, caption: str | None = None) -> Table:
    """Rows (dicts, or lists with `columns`) as a table: integers with separators, floats to four significant digits.

    Raises ValueError for no rows, for lists without `columns`, and for a row of another length or with other keys.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("table needs at least one row")
    if isinstance(rows[0], Mapping):
        columns = list(columns or rows[0])
        for row in rows:
            if set(row) != set(columns):
                raise ValueError(f"table rows must all have the columns {columns}; got {list(row)}")
        rows = [[row[column] for column in columns] for row in rows]
    if columns is None:
        raise ValueError("table needs `columns` when its rows are lists")
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"table row {list(row)} has {len(row)} cells, the header has {len(columns)}")
    numeric = [all(_is_number(row[i]) or row[i] is None for row in rows) for i in range(len(columns))]
    return Table([str(c) for c in columns], [[shown(cell) for cell in row] for row in rows], numeric, caption)


def _is_number(value) -> bool:
    return hasattr(value, "__float__") and shown(value) not in ("yes", "no")


def shown(value) -> str:
    """A value as the book prints it."""
    if value is None:
        return ""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        # four significant digits; large numbers in full rather than with an exponent
        rounded = float(format(value, ".4g")) + 0.0  # no -0
        if 1e3 <= abs(rounded) < 1e15:
            return f"{rounded:,.0f}"
        return format(rounded, ".4g")
    return str(value)
