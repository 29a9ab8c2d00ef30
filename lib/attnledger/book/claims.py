"""The ledger: what the sources claim, beside what the page has computed.

Each claim of ``data/claims.yaml`` carries a verdict. A page hands in the value it computed; a value that contradicts
the recorded verdict raises, so the page cannot be built on it.
"""

import html
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from . import data
from ._names import unknown
from .text import shown

MIME_COMPUTED = "application/vnd.attnledger.claims+json"
MIME_CITED = "application/vnd.attnledger.cited+json"

HOLDS = ("exact", "rounds")
JUDGED = (*HOLDS, "wrong")
WORDS = {
    "exact": "holds",
    "rounds": "holds, rounded",
    "wrong": "wrong",
    "disputed": "disputed",
    "unit-mixed": "units mixed",
    "not-computable": "cannot be computed",
}


def claims() -> dict[str, dict]:
    """All claims of the sources by id."""
    return {claim["id"]: claim for claim in data.read("claims.yaml")}


def ledger(computed: Mapping[str, Any], cited: Mapping[str, str] | None = None) -> "Ledger":
    """The table *claim, the source says, computed here, verdict* for the claims of a page.

    `computed` maps claim ids to values in the unit and shape of ``claimed_num`` (without one: a boolean, does the claim
    hold?); `cited` maps ids of facts that no computation settles to keys of ``references.bib``. Raises LookupError for
    an unknown id and ValueError for a claim handed in twice or a value that contradicts its recorded verdict.
    """
    known, cited = claims(), dict(cited or {})
    for claim_id in [*computed, *cited]:
        if claim_id not in known:
            raise LookupError(unknown("claim", claim_id, known))
    sources = data.read("references.json") if cited else {}
    for key in cited.values():
        if key not in sources:
            raise LookupError(unknown("entry of references.bib", key, sources))
    if both := sorted(set(computed) & set(cited)):
        raise ValueError(f"claims both computed and cited: {', '.join(both)}; a claim stands in one place")
    values = {claim_id: plain(value) for claim_id, value in computed.items()}
    for claim_id, value in values.items():
        judge(known[claim_id], value)
    return Ledger({c: known[c] for c in [*values, *cited]}, values, cited)


class Ledger:
    """The claims of one page with their computed values and citations."""

    def __init__(self, claims: dict[str, dict], values: dict[str, Any], cited: dict[str, str]):
        self.claims, self.values, self.cited = claims, values, cited

    def _row(self, claim_id: str) -> list[str]:
        claim = self.claims[claim_id]
        cited = self.cited.get(claim_id)
        found = _source(cited)[0] if cited else shown(rounded(self.values[claim_id]))
        return [claim["statement"], str(claim["claimed"]), found, WORDS[claim["verdict"]]]

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        stored = {claim_id: rounded(value) for claim_id, value in self.values.items()}
        bundle = {"text/html": self._html(), "text/plain": self._text(), MIME_COMPUTED: stored}
        return bundle | ({MIME_CITED: self.cited} if self.cited else {})

    def _html(self) -> str:
        fine = [c for c, claim in self.claims.items() if claim["verdict"] in HOLDS]
        rest = [c for c in self.claims if c not in fine]
        parts = []
        if rest:
            parts.append(_table(self, rest))
        if fine:
            title = f"{len(fine)} claims that hold" if len(fine) > 1 else "1 claim that holds"
            parts.append(f"<details>\n<summary>{title}</summary>\n{_table(self, fine)}\n</details>")
        return '<div class="ledger">\n' + "\n".join(parts) + "\n</div>"

    def _text(self) -> str:
        return "\n".join(f"{claim_id}: {' | '.join(self._row(claim_id)[1:])}" for claim_id in self.claims)


def _table(ledger: Ledger, ids: list[str]) -> str:
    rows = []
    for claim_id in ids:
        claim, (_, claimed, found, _) = ledger.claims[claim_id], ledger._row(claim_id)
        cited = ledger.cited.get(claim_id)
        cells = [
            _statement(claim),
            html.escape(claimed),
            _linked(cited) if cited else html.escape(found),
            _verdict(claim),
        ]
        rows.append(_line(cells, f' id="claim-{claim_id}"'))
    return _claims_table("ledger", ["Claim", "The source says", "Computed here", "Verdict"], rows)


def _claims_table(label: str, heads: list[str], rows: list[str]) -> str:
    """A table of claims in a box of its own, so that a narrow screen scrolls the box and not the page."""
    head = "\n".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "\n".join(rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n<table class="claims">\n'
        f"<thead>\n<tr>\n{head}\n</tr>\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _line(cells: list[str], attributes: str = "") -> str:
    """One row; a newline between cells, or the site's search glues their words together."""
    return f"<tr{attributes}>\n" + "\n".join(f"<td>{cell}</td>" for cell in cells) + "\n</tr>"


def _statement(claim: Mapping) -> str:
    """The claim, and for one that does not simply hold the note that says why."""
    note = claim.get("note") if claim["verdict"] not in HOLDS else None
    return html.escape(claim["statement"]) + (f"\n<small>{html.escape(note)}</small>" if note else "")


def _verdict(claim: Mapping) -> str:
    return f'<b class="verdict {claim["verdict"]}">{WORDS[claim["verdict"]]}</b>'


def _source(key: str) -> tuple[str, str]:
    """Author–year and address of an entry of references.bib (references.json is made from it)."""
    label, link = data.read("references.json")[key]
    return label, link


def _linked(key: str) -> str:
    label, link = map(html.escape, _source(key))
    return f'<a href="{link}">{label}</a>' if link else label


def judge(claim: Mapping, value: Any) -> None:
    """Raise ValueError if the computed `value` contradicts the verdict recorded for `claim`."""
    verdict = claim["verdict"]
    if verdict not in JUDGED:
        return
    if "claimed_num" not in claim:
        if not isinstance(value, bool):
            raise ValueError(f"claim {claim['id']!r} has no claimed_num and needs a boolean, not {value!r}")
        agrees = value
    else:
        agrees = _agrees(claim["claimed_num"], value, claim.get("claimed_unit"), claim["id"])
    if agrees != (verdict in HOLDS):
        source = claim.get("claimed_num", claim["claimed"])
        raise ValueError(
            f"claim {claim['id']!r} is recorded as {verdict!r}, but the source's {source!r} "
            f"{'agrees' if agrees else 'does not agree'} with the computed {value!r}; "
            "correct the computation, or the verdict in data/claims.yaml"
        )


def _agrees(claimed: Any, value: Any, unit: float | None, claim_id: str) -> bool:
    if isinstance(claimed, list):
        if not isinstance(value, list) or len(value) != len(claimed):
            raise ValueError(f"claim {claim_id!r} needs a value of the shape of {claimed!r}, got {value!r}")
        return all(_agrees(c, v, unit, claim_id) for c, v in zip(claimed, value, strict=True))
    if isinstance(value, (list, str)) or isinstance(claimed, bool) != isinstance(value, bool):
        raise ValueError(f"claim {claim_id!r} needs a value like {claimed!r}, got {value!r}")
    if isinstance(claimed, bool):
        return claimed == value
    if not math.isfinite(value):
        return False
    if unit is not None:
        half = Decimal(str(unit)) / 2
    elif isinstance(claimed, int):
        return claimed == value
    else:
        half = Decimal(1).scaleb(Decimal(str(claimed)).as_tuple().exponent) / 2
    # a hair of slack, so that a value on the border does not hang on the last bit of a float
    return abs(Decimal(str(value)) - Decimal(str(claimed))) <= half * (1 + Decimal("1e-9"))


def plain(value: Any) -> Any:
    """`value` as booleans, integers, floats, strings and lists of them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "__float__") and not isinstance(value, (bool, int)):
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("a ledger value is NaN; it would neither hold nor be wrong")
    if isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a ledger value must be a boolean, a number or a list of them, not {type(value).__name__}")


def rounded(value: Any) -> Any:
    """`value` as it is stored: integers and booleans exactly, floats to six significant digits."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(format(value, ".6g")) if isinstance(value, float) else value


class Errata:
    """Every claim that does not simply hold, with the computed value or the primary source beside it."""

    def __init__(self, claims: list[dict], values: dict[str, Any], places: dict[str, dict]):
        self.claims, self.values, self.places = claims, values, places

    def _repr_html_(self) -> str:
        rows = []
        for claim in self.claims:
            place = self.places[claim["id"]]
            page, cited = place["page"], place["cited"]
            found = _linked(cited) if cited else html.escape(shown(self.values[claim["id"]]))
            link = f'<a href="../{page}.html#claim-{claim["id"]}">{page}</a>'
            rows.append(_line([_statement(claim), html.escape(str(claim["claimed"])), found, _verdict(claim), link]))
        return _claims_table("errata", ["Claim", "The source says", "Computed, or read in", "Verdict", "Page"], rows)

    def __repr__(self) -> str:
        lines = []
        for claim in self.claims:
            place = self.places[claim["id"]]
            found = _source(place["cited"])[0] if place["cited"] else shown(self.values[claim["id"]])
            lines.append(f"{claim['id']}: {claim['verdict']} | {found} | {place['page']}")
        return "\n".join(lines)


def errata(*verdicts: str) -> Errata:
    """The claims placed on the book's pages whose verdict is one of `verdicts` (default: all but exact, rounds)."""
    places = data.read("placed.json")
    wanted = verdicts or tuple(verdict for verdict in WORDS if verdict not in HOLDS)
    found = [claim for claim_id, claim in claims().items() if claim["verdict"] in wanted and claim_id in places]
    return Errata(found, data.read("computed.json"), places)


SOURCES = {
    "000": ("A", "efficient attention"),
    "001": ("B", "the Transformer's evolution"),
    "002": ("C", "costs and limits"),
    "004": ("D", "the chapter summary"),
}
STANDINGS = WORDS | {"unchecked": "not checked", "unreached": "not reached yet"}

_FILTER = (
    "(s=>{const box=s.closest('.all-claims')||s.parentNode.querySelector('.all-claims'),"
    "words=box.querySelector('input'),"
    "picks=[...box.querySelectorAll('select')],rows=[...box.querySelectorAll('tbody tr')],"
    "out=box.querySelector('output');let texts;"
    "const show=()=>{texts=texts||rows.map(r=>(r.id+' '+r.textContent).toLowerCase());"
    "const need=words.value.toLowerCase().split(/\\s+/).filter(Boolean);let shown=0;"
    "rows.forEach((r,i)=>{const fits=need.every(w=>texts[i].includes(w))&&"
    "picks.every(p=>!p.value||r.dataset[p.name]===p.value);r.style.display=fits?'':'none';shown+=fits});"
    "out.textContent=`${shown} of ${rows.length} claims`};"
    "[words,...picks].forEach(f=>{f.addEventListener('input',show);"
    "f.addEventListener('keydown',e=>e.stopPropagation())});"
    "box.querySelector('.filter').hidden=false})(document.currentScript)"
)


class AllClaims:
    """Every claim in one table with filters over it; without script the filters stay hidden and all rows show."""

    def __init__(self, claims: list[dict], values: dict[str, Any], places: dict[str, dict]):
        self.claims, self.values, self.places = claims, values, places

    def counts(self, by: str) -> dict[str, dict[str, int]]:
        """Source (``"A"`` to ``"D"``) or topic -> how many of its claims hold, are wrong, ..., in words.

        Raises ValueError if `by` is neither ``"source"`` nor ``"topic"``.
        """
        if by not in ("source", "topic"):
            raise ValueError(f"by wants 'source' or 'topic', got {by!r}")
        found: dict[str, dict[str, int]] = {}
        for claim in self.claims:
            group = SOURCES[claim["source"]][0] if by == "source" else claim["topic"]
            row = found.setdefault(group, dict.fromkeys(STANDINGS.values(), 0))
            row[STANDINGS[self._standing(claim)]] += 1
        return {group: found[group] for group in sorted(found)}

    def _standing(self, claim: Mapping) -> str:
        """The verdict, where a page stands behind it; else why there is none."""
        if claim["id"] in self.places:
            return claim["verdict"]
        return "unchecked" if claim.get("unchecked") else "unreached"

    def _found(self, claim: Mapping) -> tuple[str, str | None]:
        """What the page computed, or why nothing was checked; and the key of the source that the page cites."""
        if (place := self.places.get(claim["id"])) is None:
            return claim.get("unchecked", ""), None
        return ("", place["cited"]) if place["cited"] else (shown(self.values[claim["id"]]), None)

    def _row(self, claim: Mapping) -> str:
        standing, place = self._standing(claim), self.places.get(claim["id"])
        source, topic = SOURCES[claim["source"]][0], claim["topic"]
        text, cited = self._found(claim)
        said = _statement(claim) if place else html.escape(claim["statement"])
        where = html.escape(" · ".join([source, claim["section"], topic]))
        cells = [
            f"{said}\n<small>{where}</small>",
            html.escape(str(claim["claimed"])),
            _linked(cited) if cited else html.escape(text),
            _verdict(claim) if place else STANDINGS[standing],
            f'<a href="../{place["page"]}.html#claim-{claim["id"]}">{place["page"]}</a>' if place else "",
        ]
        kinds = f'data-source="{source}" data-topic="{topic}" data-verdict="{standing}"'
        return _line(cells, f' id="claim-{claim["id"]}" {kinds}')

    def _repr_html_(self) -> str:
        standings = {self._standing(claim) for claim in self.claims}
        picks = {
            "source": {letter: f"{letter}: {title}" for letter, title in SOURCES.values()},
            "topic": {topic: topic for topic in sorted({claim["topic"] for claim in self.claims})},
            "verdict": {standing: word for standing, word in STANDINGS.items() if standing in standings},
        }
        heads = ["Claim", "The source says", "Computed, or read in", "Verdict", "Page"]
        heads[0] = f'<span style="display:inline-block;min-width:13em">{heads[0]}</span>'
        filters = "\n".join(_select(name, options) for name, options in picks.items())
        return (
            '<div class="all-claims">\n<div class="filter" role="search" aria-label="claims" hidden>\n'
            '<div style="display:flex;flex-wrap:wrap;gap:.4em 1.2em;align-items:end">\n'
            f'<label style="{_FIELD}">Words\n<input type="search" style="width:14em;{_BOX}"></label>\n'
            f"{filters}\n</div>\n</div>\n"
            f'<p style="margin:.6em 0"><output aria-live="polite">{len(self.claims)} claims</output></p>\n'
            f"{_claims_table('all claims', heads, [self._row(claim) for claim in self.claims])}\n"
            f"<script>{_FILTER}</script>\n</div>"
        )

    def __repr__(self) -> str:
        lines = []
        for claim in self.claims:
            text, cited = self._found(claim)
            page = self.places.get(claim["id"], {}).get("page", "")
            parts = [STANDINGS[self._standing(claim)], _source(cited)[0] if cited else text, page]
            lines.append(f"{claim['id']}: " + " | ".join(filter(None, parts)))
        return "\n".join(lines)


_FIELD = "display:flex;flex-direction:column;font-size:.9em"
_BOX = "max-width:100%;min-height:2.2em;box-sizing:border-box"


def _select(name: str, options: Mapping[str, str]) -> str:
    """A labelled choice of one of `options`, or of all."""
    listed = "\n".join(f'<option value="{value}">{html.escape(text)}</option>' for value, text in options.items())
    return (
        f'<label style="{_FIELD}">{name.capitalize()}\n<select name="{name}" style="{_BOX}">\n'
        f'<option value="">all</option>\n{listed}\n</select></label>'
    )


def all_claims() -> AllClaims:
    """Every claim of the sources, with what the pages made of it."""
    return AllClaims(list(claims().values()), data.read("computed.json"), data.read("placed.json"))
