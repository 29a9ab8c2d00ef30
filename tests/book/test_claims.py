"""The ledger judges: a value that contradicts a recorded verdict cannot be shown."""

import gzip
import json
import re
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from attnledger.book import all_claims, claims, errata, ledger


def claim(verdict="exact", claim_id="a-claim", **fields) -> dict:
    return {"id": claim_id, "topic": "t", "statement": "It is so.", "claimed": "so", "verdict": verdict, **fields}


@pytest.fixture
def sources(monkeypatch):
    """Set the claims of the sources, and what the pages computed and where; two sources can be cited."""
    cited = {"someone2020": ["Someone & Co, 2020", "https://doi.org/10/x"], "nolink2021": ["Nolink, 2021", ""]}
    files = {"claims.yaml": [], "computed.json": {}, "placed.json": {}, "references.json": cited}
    monkeypatch.setattr(claims.data, "read", files.__getitem__)

    def put(*entries: dict, computed=None, placed=None):
        files["claims.yaml"] = list(entries)
        files["computed.json"], files["placed.json"] = computed or {}, placed or {}

    return put


def accepts(recorded: dict, value) -> bool:
    """Whether the value agrees with the recorded verdict; a message about kind or shape is an error here."""
    try:
        claims.judge(recorded, claims.plain(value))
    except ValueError as error:
        assert "is recorded as" in str(error), error
        return False
    return True


# verdicts


@pytest.mark.parametrize(
    "fields, right, wrong",
    [
        ({"claimed_num": 4}, [4, 4.0, np.int64(4), torch.tensor(4), Fraction(4)], [5, 4.0001, -4]),
        ({"claimed_num": 0.25}, [0.25, 0.2549, 0.245, 0.255], [0.2551, 0.2449, 0.26]),
        ({"claimed_num": 2.5e-5}, [2.5e-5, 2.549e-5, 2.45e-5], [2.56e-5, 2.44e-5]),
        ({"claimed_num": -1.5}, [-1.5, -1.549, -1.45], [1.5, -1.56]),
        ({"claimed_num": True}, [True, np.bool_(True), torch.tensor(True)], [False]),
        ({"claimed_num": False}, [False], [True]),
        ({}, [True, np.True_], [False]),
        ({"claimed_num": [1, 2.5]}, [[1, 2.5], (1, 2.54), np.array([1, 2.46])], [[1, 2.6], [2, 2.5]]),
        ({"claimed_num": [[1.0, 2.0], [3]]}, [[[1.0, 2.0], [3]], [[0.96, 2.04], [3.0]]], [[[1.0, 2.0], [4]]]),
        ({"claimed_num": [True, [1, 2], 3]}, [[True, [1, 2], 3]], [[False, [1, 2], 3], [True, [1, 3], 3]]),
    ],
)
def test_exact_is_equal_or_within_half_of_the_last_digit(fields, right, wrong):
    assert all(accepts(claim("exact", **fields), value) for value in right)
    assert not any(accepts(claim("exact", **fields), value) for value in wrong)


@pytest.mark.parametrize(
    "number, unit, right, wrong",
    [
        (130000, 10000, [125000, 135000, 131072], [124999, 135001]),
        (33.5, 0.1, [33.45, 33.55], [33.44, 33.56]),
        (0.3, 0.1, [0.25, 0.35], [0.2499, 0.3501]),
        (40, 5, [37.5, 42.5], [37.4, 42.6]),
        ([1.2, 3.4], 0.1, [[1.25, 3.35]], [[1.25, 3.3], [1.3, 3.4]]),
    ],
)
def test_rounds_is_within_half_of_the_unit_in_every_component(number, unit, right, wrong):
    recorded = claim("rounds", claimed_num=number, claimed_unit=unit)
    assert all(accepts(recorded, value) for value in right)
    assert not any(accepts(recorded, value) for value in wrong)


def test_a_value_on_the_border_does_not_hang_on_the_last_bit():
    """0.1 + 0.2 is a hair above 0.3, and 1.005 a hair below."""
    assert accepts(claim("rounds", claimed_num=0.25, claimed_unit=0.1), 0.1 + 0.2)
    assert accepts(claim("exact", claimed_num=1.0), 1.05)
    assert accepts(claim("exact", claimed_num=1.0), 1.05 + 1e-12)
    assert not accepts(claim("exact", claimed_num=1.0), 1.05 + 1e-6)


@pytest.mark.parametrize(
    "fields, wrong, right",
    [
        ({"claimed_num": 4}, [5, 4.5], [4]),
        ({"claimed_num": 0.5, "claimed_unit": 0.1}, [0.56], [0.55]),
        ({"claimed_num": [1, 2]}, [[1, 3], [3, 2]], [[1, 2]]),
        ({"claimed_num": True}, [False], [True]),
        ({}, [False], [True]),
    ],
)
def test_wrong_needs_at_least_one_component_that_is_not(fields, wrong, right):
    assert all(accepts(claim("wrong", **fields), value) for value in wrong)
    assert not any(accepts(claim("wrong", **fields), value) for value in right)


@pytest.mark.parametrize("verdict", ["disputed", "unit-mixed", "not-computable"])
@pytest.mark.parametrize("value", [4, 5, [1, 2], True, False])
def test_what_cannot_be_judged_is_shown_unjudged(verdict, value):
    assert accepts(claim(verdict, claimed_num=4), value)


def test_every_verdict_of_the_sources_has_a_word():
    assert {entry["verdict"] for entry in claims.claims().values()} <= set(claims.WORDS)


def test_infinity_agrees_with_no_number():
    assert not accepts(claim("exact", claimed_num=4), float("inf"))
    assert not accepts(claim("exact", claimed_num=0.5, claimed_unit=0.1), float("-inf"))
    assert accepts(claim("wrong", claimed_num=4), float("inf"))


@pytest.mark.parametrize("verdict", claims.WORDS)
@pytest.mark.parametrize("value", [float("nan"), [1.0, float("nan")], np.float32("nan"), torch.tensor([float("nan")])])
def test_nan_settles_nothing(sources, verdict, value):
    """A failed computation must not count as the proof that a source is wrong."""
    sources(claim(verdict, claimed_num=4))
    with pytest.raises(ValueError, match="NaN"):
        ledger({"a-claim": value})


# kinds and shapes


@pytest.mark.parametrize(
    "number, value",
    [
        (4, True),
        (True, 1),
        (True, 1.0),
        (4, [4]),
        ([4], 4),
        ([1, 2], [1, 2, 3]),
        ([1, 2], [1]),
        ([[1], [2]], [1, 2]),
        (4, "4"),
        ([True, 1], [1, 1]),
    ],
)
@pytest.mark.parametrize("verdict", claims.JUDGED)
def test_a_value_of_another_kind_or_shape_is_refused(verdict, number, value):
    """Under the verdict wrong, too: a slip in the shape is not a difference."""
    with pytest.raises(ValueError, match=r"'a-claim' needs a value"):
        claims.judge(claim(verdict, claimed_num=number), value)


@pytest.mark.parametrize("value", [1, 0, 1.0, [True], "yes"])
def test_without_a_claimed_number_a_boolean_is_needed(value):
    with pytest.raises(ValueError, match="needs a boolean"):
        claims.judge(claim("exact"), value)


@pytest.mark.parametrize(
    "value, stored",
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (torch.tensor([1, 2]), [1, 2]),
        (torch.tensor(2.5, requires_grad=True), 2.5),
        ((1, (2.0, True)), [1, [2.0, True]]),
        ([np.float64(1.0), torch.tensor(2)], [1.0, 2]),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
        ("O(n)", "O(n)"),
    ],
)
def test_values_become_plain(value, stored):
    got = claims.plain(value)
    assert got == stored
    assert json.dumps(got) == json.dumps(stored), "the same kinds of numbers, too"


@pytest.mark.parametrize("value", [None, {"a": 1}, object(), [None], {1, 2}])
def test_what_is_no_value_is_refused(value):
    with pytest.raises(ValueError, match="boolean, a number or a list of them, not"):
        claims.plain(value)


def test_a_contradiction_says_what_is_recorded_what_the_source_says_and_what_was_computed():
    with pytest.raises(ValueError) as caught:
        claims.judge(claim("exact", claimed_num=4), 5)
    message = str(caught.value)
    for part in ("'a-claim'", "'exact'", "4", "does not agree", "computed 5", "claims.yaml"):
        assert part in message
    with pytest.raises(ValueError, match=r"recorded as 'wrong'.* source's 'so' agrees with the computed True"):
        claims.judge(claim("wrong"), True)


# the call


def test_an_unknown_claim_names_the_nearest_one(sources):
    sources(claim(claim_id="kv-total"), claim(claim_id="delta-rank"))
    with pytest.raises(LookupError, match="no claim 'kv-totl'; did you mean 'kv-total'"):
        ledger({"kv-totl": True})
    with pytest.raises(LookupError, match="did you mean 'delta-rank'"):
        ledger({}, cited={"delta-rnk": "someone2020"})


def test_a_claim_is_computed_or_cited_not_both(sources):
    sources(claim())
    with pytest.raises(ValueError, match="both computed and cited: a-claim"):
        ledger({"a-claim": True}, cited={"a-claim": "someone2020"})


def test_an_unknown_source_names_the_nearest_one(sources):
    sources(claim())
    with pytest.raises(LookupError, match=r"no entry of references\.bib 'someon2020'; did you mean 'someone2020'"):
        ledger({}, cited={"a-claim": "someon2020"})


def test_one_contradiction_stops_the_whole_ledger(sources):
    sources(claim(claim_id="one"), claim(claim_id="two"))
    with pytest.raises(ValueError, match="'two'"):
        ledger({"one": True, "two": False})


# what is stored


@pytest.mark.parametrize(
    "value, stored",
    [
        (1 / 3, 0.333333),
        (123456789.0, 123457000.0),
        (123456789, 123456789),
        (2**80, 2**80),
        (1.23456789e-9, 1.23457e-9),
        (True, True),
        ([1 / 3, [2, False]], [0.333333, [2, False]]),
        ("O(n)", "O(n)"),
    ],
)
def test_floats_are_stored_to_six_digits_and_the_rest_exactly(value, stored):
    assert json.dumps(claims.rounded(value)) == json.dumps(stored)


def test_the_output_holds_values_and_citations(sources):
    sources(claim(claim_id="one", claimed_num=0.33), claim(claim_id="two"))
    bundle = ledger({"one": 1 / 3}, cited={"two": "someone2020"})._repr_mimebundle_()
    assert bundle["application/vnd.attnledger.claims+json"] == {"one": 0.333333}
    assert bundle["application/vnd.attnledger.cited+json"] == {"two": "someone2020"}
    assert bundle["text/plain"] == "one: so | 0.3333 | holds\ntwo: so | Someone & Co, 2020 | holds"


def test_without_citations_no_empty_record_is_left(sources):
    sources(claim())
    assert set(ledger({"a-claim": True})._repr_mimebundle_()) == {
        "text/html",
        "text/plain",
        "application/vnd.attnledger.claims+json",
    }


# the table


class Rows(HTMLParser):
    """Row id -> its cells' words; which rows are folded, under which summary; links."""

    def __init__(self, text: str):
        super().__init__()
        self.cells: dict[str, list[str]] = {}
        self.folded: list[str] = []
        self.summary, self.links, self.open = "", [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "input":  # has no end tag
            return
        self.open.append(tag)
        if tag == "tr":
            self.row = attributes.get("id", f"row {len(self.cells)}")
            self.cells[self.row] = []
            if "details" in self.open:
                self.folded.append(self.row)
        if tag in ("td", "th"):
            self.cells[self.row].append("")
        if tag == "a":
            self.links.append(attributes["href"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[self.row][-1] += data
        if "summary" in self.open:
            self.summary += data


def test_claims_that_hold_are_folded_and_all_others_open(sources):
    verdicts = ["exact", "wrong", "rounds", "disputed", "unit-mixed", "not-computable"]
    sources(*(claim(verdict, claim_id=f"is-{verdict}") for verdict in verdicts))
    values = dict.fromkeys(verdicts, True) | {"wrong": False}
    rows = Rows(ledger({f"is-{verdict}": value for verdict, value in values.items()})._repr_mimebundle_()["text/html"])
    assert [row for row in rows.folded if row.startswith("claim-")] == ["claim-is-exact", "claim-is-rounds"]
    assert rows.summary == "2 claims that hold"
    assert {row for row in rows.cells if row.startswith("claim-")} == {f"claim-is-{verdict}" for verdict in verdicts}


def test_a_single_claim_that_holds_is_spoken_of_in_the_singular(sources):
    sources(claim())
    assert Rows(ledger({"a-claim": True})._repr_mimebundle_()["text/html"]).summary == "1 claim that holds"


def test_a_row_says_claim_source_computed_verdict(sources):
    sources(claim("wrong", claimed_num=4, note="It is five."))
    rows = Rows(ledger({"a-claim": 5.123456})._repr_mimebundle_()["text/html"])
    assert rows.cells["claim-a-claim"] == ["It is so.\nIt is five.", "so", "5.123", "wrong"]


def test_a_cited_claim_links_to_its_source(sources):
    sources(claim(claim_id="linked"), claim(claim_id="unlinked"))
    shown = ledger({}, cited={"linked": "someone2020", "unlinked": "nolink2021"})._repr_mimebundle_()["text/html"]
    rows = Rows(shown)
    assert rows.links == ["https://doi.org/10/x"]
    assert [rows.cells[f"claim-{name}"][2] for name in ("linked", "unlinked")] == ["Someone & Co, 2020", "Nolink, 2021"]


def test_words_of_the_sources_are_escaped(sources):
    sources(claim("disputed", statement="a < b & <i>c</i>", claimed="<b>", note='"d" & <u>e</u>'))
    rows = Rows(ledger({"a-claim": True})._repr_mimebundle_()["text/html"])
    assert rows.cells["claim-a-claim"][:2] == ['a < b & <i>c</i>\n"d" & <u>e</u>', "<b>"]


def test_cells_are_separated_so_that_search_does_not_glue_words(sources):
    sources(claim())
    assert "</td><td" not in ledger({"a-claim": True})._repr_mimebundle_()["text/html"]


# errata


@pytest.fixture
def placed(sources):
    sources(
        claim("exact", "holds", claimed_num=4),
        claim("wrong", "computed", claimed_num=4, note="a < b"),
        claim("disputed", "cited"),
        claim("wrong", "unplaced"),
        computed={"holds": 4, "computed": [5, 4096]},
        placed={
            "holds": {"page": "linear/delta-rule", "cited": None},
            "computed": {"page": "linear/delta-rule", "cited": None},
            "cited": {"page": "kv_cache/kv-tables", "cited": "someone2020"},
        },
    )


def test_errata_are_the_placed_claims_that_do_not_simply_hold(placed):
    assert repr(errata()) == (
        "computed: wrong | [5, 4,096] | linear/delta-rule\ncited: disputed | Someone & Co, 2020 | kv_cache/kv-tables"
    )


def test_errata_of_chosen_verdicts(placed):
    assert repr(errata("exact")) == "holds: exact | 4 | linear/delta-rule"
    assert repr(errata("disputed", "unit-mixed")) == "cited: disputed | Someone & Co, 2020 | kv_cache/kv-tables"


def test_errata_link_to_the_row_of_the_page_from_the_appendix(placed):
    rows = Rows(errata()._repr_html_())
    assert rows.links == [
        "../linear/delta-rule.html#claim-computed",
        "https://doi.org/10/x",
        "../kv_cache/kv-tables.html#claim-cited",
    ]
    _, first, second = rows.cells.values()
    assert first == ["It is so.\na < b", "so", "[5, 4,096]", "wrong", "linear/delta-rule"]
    assert second == ["It is so.", "so", "Someone & Co, 2020", "disputed", "kv_cache/kv-tables"]


# all claims


def told(source: str, topic: str, section: str = "§ 1", **fields) -> dict:
    return {"source": source, "topic": topic, "section": section} | fields


@pytest.fixture
def whole_book(sources):
    sources(
        claim("exact", "holds", **told("000", "linear"), claimed_num=4),
        claim("wrong", "computed", **told("001", "linear", "a <b>"), claimed_num=4, note="It is five."),
        claim("disputed", "cited", **told("001", "delta"), note="Sources differ."),
        claim("not-computable", "given-up", **told("004", "delta"), note="secret", unchecked="nobody measured it"),
        claim("wrong", "later", **told("002", "moe"), note="secret"),
        computed={"holds": 4, "computed": [5, 4096]},
        placed={
            "holds": {"page": "linear/delta-rule", "cited": None},
            "computed": {"page": "linear/delta-rule", "cited": None},
            "cited": {"page": "kv_cache/kv-tables", "cited": "someone2020"},
        },
    )


def test_every_claim_is_listed_with_what_was_found_and_where(whole_book):
    assert repr(all_claims()).splitlines() == [
        "holds: holds | 4 | linear/delta-rule",
        "computed: wrong | [5, 4,096] | linear/delta-rule",
        "cited: disputed | Someone & Co, 2020 | kv_cache/kv-tables",
        "given-up: not checked | nobody measured it",
        "later: not reached yet",
    ]


def test_a_row_of_all_claims_says_where_the_claim_stands_and_links_to_its_page(whole_book):
    rows = Rows(all_claims()._repr_html_())
    heads, *cells = rows.cells.values()
    assert heads == ["Claim", "The source says", "Computed, or read in", "Verdict", "Page"]
    assert cells[1] == [
        "It is so.\nIt is five.\nB · a <b> · linear",
        "so",
        "[5, 4,096]",
        "wrong",
        "linear/delta-rule",
    ]
    assert cells[2][2] == "Someone & Co, 2020"
    assert rows.links == [
        "../linear/delta-rule.html#claim-holds",
        "../linear/delta-rule.html#claim-computed",
        "https://doi.org/10/x",
        "../kv_cache/kv-tables.html#claim-cited",
    ]
    assert list(rows.cells)[1:] == [f"claim-{name}" for name in ("holds", "computed", "cited", "given-up", "later")], (
        "each row can be linked to"
    )


def test_no_verdict_is_shown_that_no_page_stands_behind(whole_book):
    shown = all_claims()._repr_html_()
    rows = Rows(shown).cells
    assert rows["claim-given-up"][2:] == ["nobody measured it", "not checked", ""]
    assert rows["claim-later"][2:] == ["", "not reached yet", ""]
    assert "secret" not in shown


def test_claims_are_counted_by_source_and_by_topic(whole_book):
    by_source, by_topic = all_claims().counts("source"), all_claims().counts("topic")
    assert list(by_source) == ["A", "B", "C", "D"] and list(by_topic) == ["delta", "linear", "moe"]
    assert list(by_source["A"]) == [*claims.WORDS.values(), "not checked", "not reached yet"]
    found = {group: {word: n for word, n in row.items() if n} for group, row in (by_source | by_topic).items()}
    assert found == {
        "A": {"holds": 1},
        "B": {"wrong": 1, "disputed": 1},
        "C": {"not reached yet": 1},
        "D": {"not checked": 1},
        "linear": {"holds": 1, "wrong": 1},
        "delta": {"disputed": 1, "not checked": 1},
        "moe": {"not reached yet": 1},
    }
    with pytest.raises(ValueError, match="'source' or 'topic', got 'page'"):
        all_claims().counts("page")


def test_the_filters_are_labelled_offer_what_occurs_and_wait_for_script(whole_book):
    shown = all_claims()._repr_html_()
    assert '<div class="filter" role="search" aria-label="claims" hidden>' in shown
    assert "filter').hidden=false" in shown and "display:none" not in shown, "without script every row shows"
    assert shown.count("<label") == shown.count("<select") + shown.count("<input") == 4
    assert '<output aria-live="polite">5 claims</output>' in shown
    options = {value for value in re.findall(r'<option value="([^"]*)"', shown) if value}
    assert options == {*"ABCD", "delta", "linear", "moe", "exact", "wrong", "disputed", "unchecked", "unreached"}
    for name in ("source", "topic", "verdict"):
        assert set(re.findall(rf'data-{name}="([^"]*)"', shown)) <= options


def test_every_claim_of_the_book_has_a_row_whose_values_the_filters_offer():
    shown = all_claims()._repr_html_()
    assert len(re.findall(r'<tr id="claim-', shown)) == len(claims.claims())
    assert {entry["source"] for entry in claims.claims().values()} <= set(claims.SOURCES)
    assert len(gzip.compress(shown.encode())) < 200 * 1024
