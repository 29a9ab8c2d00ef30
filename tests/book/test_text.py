"""Numbers in prose and in tables: what is printed is what was computed, as the book prints it."""

from fractions import Fraction
from html.parser import HTMLParser

import nbformat
import numpy as np
import pytest
import torch
from myst_nb.core.variables import format_plain_text
from myst_nb.ext.glue import extract_glue_data_cell

from attnledger.book import say, table, text
from attnledger.book.text import shown

# spoken numbers


@pytest.fixture
def outputs(monkeypatch) -> list[nbformat.NotebookNode]:
    """What `display` would put into the notebook."""
    found = []

    def display(data, metadata=None, raw=False):
        assert raw, "the data are a MIME bundle already"
        found.append(nbformat.v4.new_output("display_data", data=data, metadata=metadata))

    monkeypatch.setattr(text, "display", display)
    return found


@pytest.mark.parametrize(
    "value, spec, spoken",
    [
        (2048, ",", "2,048"),
        (1234.567, ",.0f", "1,235"),
        (0.25, ".0%", "25%"),
        (np.float64(2 / 3), ".3g", "0.667"),
        (torch.tensor(65536), ",", "65,536"),
        (torch.tensor(2.0), "", "2.0"),
        (True, "", "True"),
        ("128 KiB", "", "128 KiB"),
        ("it's", "", "it's"),
    ],
)
def test_a_spoken_number_reaches_the_prose_through_myst_nb(outputs, value, spec, spoken):
    say("kv-total", value, spec)
    cell = nbformat.v4.new_code_cell(outputs=outputs)
    ((name, glued),) = extract_glue_data_cell(cell)
    assert name == "kv-total"
    assert format_plain_text(glued["data"]["text/plain"], "s") == spoken
    assert cell.outputs == [], "the cell itself shows nothing"


def test_a_spoken_number_is_kept_as_a_front_end_will_not_show_it(outputs):
    say("total", 7)
    assert list(outputs[0].data) == ["application/papermill.record/text/plain"]
    assert outputs[0].metadata == {"scrapbook": {"name": "total", "mime_prefix": "application/papermill.record/"}}


def test_a_word_with_a_number_format_is_refused(outputs):
    with pytest.raises(ValueError):
        say("total", "many", ".2f")


# values


@pytest.mark.parametrize(
    "value, as_shown",
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (-4096, "-4,096"),
        (2**70, "1,180,591,620,717,411,303,424"),
        (3.14159, "3.142"),
        (0.000123456, "0.0001235"),
        (1e-9, "1e-09"),
        (999.9, "999.9"),
        (1234.0, "1,234"),
        (12345.6, "12,350"),
        (-12345.6, "-12,350"),
        (9999.9, "10,000"),
        (1e14, "100,000,000,000,000"),
        (1e15, "1e+15"),
        (2.0, "2"),
        (-0.0, "0"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (None, ""),
        (True, "yes"),
        (False, "no"),
        ("O(n²)", "O(n²)"),
        ([1, 2.5], "[1, 2.5]"),
        ((4096, [True]), "[4,096, [yes]]"),
        (Fraction(1, 3), "1/3"),
        (np.int64(4096), "4,096"),
        (np.float32(0.1), "0.1"),
        (np.bool_(True), "yes"),
        (np.array([1.0, 20000.0]), "[1, 20,000]"),
        (torch.tensor(4096), "4,096"),
        (torch.tensor(1 / 3), "0.3333"),
        (torch.tensor(False), "no"),
        (torch.tensor([[1.0, 2.0]], requires_grad=True), "[[1, 2]]"),
    ],
)
def test_a_value_is_shown_as_the_book_prints_it(value, as_shown):
    assert shown(value) == as_shown


# tables


class Cells(HTMLParser):
    """The rows of a table: (class, words) per cell; what the attributes of its parts are."""

    def __init__(self, text: str):
        super().__init__()
        self.rows: list[list[list]] = []
        self.attributes: dict[str, dict] = {}
        self.caption = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.attributes.setdefault(tag, dict(attributes))
        self.inside = tag
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append([dict(attributes)["class"], ""])

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in ("td", "th"):
            self.rows[-1][-1][1] += data
        if self.inside == "caption":
            self.caption += data


def test_dicts_give_the_columns():
    shown_table = table([{"heads": 8, "bytes": 4096}, {"bytes": 131072, "heads": 64}])
    assert repr(shown_table) == "heads    bytes\n    8    4,096\n   64  131,072"


def test_lists_need_columns():
    assert repr(table([[8, "bf16"], [64, "fp32"]], columns=["heads", "kept in"])) == (
        "heads  kept in\n    8  bf16\n   64  fp32"
    )
    with pytest.raises(ValueError, match="needs `columns`"):
        table([[8, 4096]])


def test_columns_choose_the_order_of_dicts():
    assert table([{"a": 1, "b": 2}], columns=["b", "a"]).rows == [["2", "1"]]


def test_rows_may_come_from_a_generator():
    assert table(([n, n * n] for n in (2, 3)), columns=("n", "n²")).rows == [["2", "4"], ["3", "9"]]


def test_the_html_has_the_cells_of_the_text():
    rows = Cells(table([{"scheme": "MHA", "bytes": 4096}, {"scheme": "MQA", "bytes": None}])._repr_html_()).rows
    assert rows == [
        [["word", "scheme"], ["num", "bytes"]],
        [["word", "MHA"], ["num", "4,096"]],
        [["word", "MQA"], ["num", ""]],
    ]


def test_a_column_with_a_word_or_a_yes_is_not_aligned_as_numbers():
    rows = Cells(table([[1, True, "n"], [2, np.bool_(False), 3]], columns=["a", "b", "c"])._repr_html_()).rows
    assert [kind for kind, _ in rows[1]] == ["num", "word", "word"]


def test_scalars_of_numpy_and_torch_are_numbers():
    cells = [np.int64(4096), np.float32(0.5), torch.tensor(12345.0), Fraction(1, 2)]
    assert table([cells], columns=list("abcd")).numeric == [True] * 4


def test_words_are_escaped():
    made = table([{"a < b": "<i>&</i>"}], caption='"quoted" & <b>')
    cells = Cells(made._repr_html_())
    assert cells.rows == [[["word", "a < b"]], [["word", "<i>&</i>"]]]
    assert cells.caption == cells.attributes["div"]["aria-label"] == '"quoted" & <b>'


def test_cells_are_separated_so_that_search_does_not_glue_words():
    assert "</td><td" not in table([[1, 2]], columns=["a", "b"])._repr_html_()


def test_a_wide_table_can_be_scrolled_by_keyboard_and_has_a_name():
    attributes = Cells(table([[1]], columns=["a"])._repr_html_()).attributes
    assert attributes["div"] == {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "table"}
    assert attributes["th"]["scope"] == "col"


@pytest.mark.parametrize(
    "rows, columns, message",
    [
        ([], ["a"], "at least one row"),
        ([[1, 2], [3]], ["a", "b"], r"row \[3\] has 1 cells, the header has 2"),
        ([[1, 2, 3]], ["a", "b"], "has 3 cells, the header has 2"),
        ([{"a": 1}, {"b": 1}], None, r"must all have the columns \['a'\]; got \['b'\]"),
        ([{"a": 1, "b": 2}], ["a"], "must all have the columns"),
        ([{"a": 1}, {"a": 1, "b": 2}], None, "must all have the columns"),
    ],
)
def test_a_wrong_row_is_refused(rows, columns, message):
    with pytest.raises(ValueError, match=message):
        table(rows, columns=columns)
