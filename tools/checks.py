"""What neither ruff nor nbval sees: pages, their prose and ledgers, and goldens that are in step with them.

``python tools/checks.py`` prints every problem with its place; the tests ask the same functions page by page.
"""

import ast
import html
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import nbformat
import yaml

from notebooks import COMPUTED, DATA, GLUE, WIDGET, assemble, kept, spoken
from pages import ROOT, BookError, Page, pages
from plain import references

IMPORTS = {"attnledger.book", "attnledger.ops", "attnledger.costs", "attnledger.timing", "torch", "numpy", "math"}
FRAME_LIMIT = 8 * 1024
_IMG = re.compile(r'<img class="drawing" alt="([^"]*)"[^>]* src="data:image/svg\+xml,([^"]*)"')
_NAMES = re.compile(r"https?://\S+|[\w.-]*[A-Za-z][\w.-]*\d[\w.-]*|\d[\d.]*[A-Za-z]\w*|\b(?:19|20)\d\d\b(?![,.]\d)")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def problems(page: Page) -> Iterator[str]:
    """Everything that is wrong with a page and its golden, one sentence each."""
    yield from front(page)
    yield from code(page)
    if not page.golden.exists():
        yield f"there is no golden {page.golden.relative_to(ROOT).as_posix()}; run make notebooks"
        return
    golden = nbformat.read(page.golden, 4)
    yield from in_step(page, golden)
    yield from cells(golden)
    yield from pictures(golden)
    yield from prose(page, golden)


def front(page: Page) -> Iterator[str]:
    """The `ledger` block of the front matter."""
    for key, kind in (("topics", list), ("minutes", int), ("needs", list)):
        if not isinstance(page.front.get(key), kind):
            yield f"the front matter's ledger block needs {key}: a {kind.__name__}"
    topics = {claim["topic"] for claim in claims().values()}
    for topic in page.front.get("topics") or []:
        if topic not in topics:
            yield f"topic {topic!r} has no claim; topics are {', '.join(sorted(topics))}"


def code(page: Page) -> Iterator[str]:
    """Imports, and ledger calls whose keys are literal and whose values are not."""
    for number, source in enumerate(page.code, 1):
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue  # a magic; nbval runs it
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                for name in names:
                    if not any(name == ok or name.startswith(ok + ".") for ok in IMPORTS):
                        yield f"code cell {number} imports {name}; pages import only {', '.join(sorted(IMPORTS))}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ledger":
                yield from ledger_call(node, number)


def ledger_call(call: ast.Call, number: int) -> Iterator[str]:
    if not call.args or not isinstance(call.args[0], ast.Dict):
        yield f"code cell {number}: ledger takes its claims as a literal dict"
        return
    for key, value in zip(call.args[0].keys, call.args[0].values, strict=True):
        if not isinstance(key, ast.Constant):
            yield f"code cell {number}: a ledger key must be a literal claim id"
        elif not any(isinstance(part, ast.Name | ast.Call | ast.Attribute) for part in ast.walk(value)):
            yield f"code cell {number}: the ledger value of {key.value!r} is typed in, not computed"


def in_step(page: Page, golden: nbformat.NotebookNode) -> Iterator[str]:
    """The golden is what make notebooks would write from the page and the golden's own outputs."""
    sources = [c.source for c in golden.cells if c.cell_type == "code"][1:]
    for number, (mine, theirs) in enumerate(zip(page.code, sources, strict=False), 1):
        if mine != theirs:
            yield f"code cell {number} differs from the golden; run make notebooks"
            return
    if len(page.code) != len(sources):
        yield f"the page has {len(page.code)} code cells, its golden {len(sources)}; run make notebooks"
        return
    # the hash may be behind (nbval re-executes anyway); everything else must be what the tool writes
    expected = json.loads(assemble(page, *kept(page)))
    actual = json.loads(page.golden.read_text(encoding="utf8"))
    for book in (expected, actual):
        book["metadata"]["attnledger"]["hash"] = ""
    for number, (want, got) in enumerate(zip(expected["cells"], actual["cells"], strict=False)):
        if want != got:
            yield f"cell {number} of the golden is not what make notebooks writes: {_first_difference(want, got)}"
            return
    if expected != actual:
        yield "the golden's metadata or number of cells is not what make notebooks writes"


def _first_difference(want: dict, got: dict) -> str:
    """Which field differs, and what stands there."""
    key = next(key for key in sorted({*want, *got}) if want.get(key) != got.get(key))
    mine, theirs = str(want.get(key)), str(got.get(key))
    place = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), len(theirs))
    return f"its {key} has {theirs[max(0, place - 20) : place + 40]!r}"


def cells(golden: nbformat.NotebookNode) -> Iterator[str]:
    """What nbval passes unseen: cells not executed, images, skipped or ignored cells, misplaced solutions."""
    tags = [cell.metadata.get("tags", []) for cell in golden.cells]
    if "setup" not in tags[0]:
        yield "the golden does not begin with the set-up cell"
    seen_solutions = False
    for number, (cell, tag) in enumerate(zip(golden.cells, tags, strict=True)):
        if cell.cell_type != "code":
            seen_solutions |= bool(re.search(r"^## Solutions", cell.source, re.M))
            continue
        if cell.source.strip() and not cell.execution_count:
            yield f"cell {number} of the golden was never executed"
        if cell.source.rstrip().endswith(";"):
            yield f"cell {number} of the golden ends in ';', which nbval does not see"
        if "NBVAL_" in cell.source or any(t.startswith("nbval-") for t in tag):
            yield f"cell {number} of the golden is skipped or ignored by nbval"
        if "solution" in tag and not seen_solutions:
            yield f"cell {number} of the golden is a solution above the heading Solutions"
        for output in cell.outputs:
            data = output.get("data", {})
            if output.output_type == "error" and "raises-exception" not in tag:
                yield f"cell {number} of the golden holds an error: {output.ename}: {output.evalue}"
            if any(mime.startswith("image/") for mime in data) or WIDGET in data:
                yield f"cell {number} of the golden holds an image or a widget view, which nbval does not compare"
            if re.search(r"0x[0-9a-f]{6,}", "".join(str(data.get(m, "")) for m in ("text/plain", "text/html"))):
                yield f"cell {number} of the golden prints a memory address"
            if data.get("text/plain", "").startswith(("(None", "[None")):
                yield f"cell {number} of the golden prints only None; end it with what it shows"


def pictures(golden: nbformat.NotebookNode) -> Iterator[str]:
    """Every drawing says what it shows, and slider frames stay small."""
    for number, cell in enumerate(golden.cells):
        for output in cell.get("outputs", []):
            text = output.get("data", {}).get("text/html", "")
            drawings = _IMG.findall(text)
            if text.count("<img") != len(drawings):
                yield f"cell {number} of the golden has an image that is not a drawing of the book with alt text"
            for alt, source in drawings:
                if len(alt) < 20:
                    yield f"cell {number} of the golden: the alt text {alt!r} does not say what the drawing shows"
                size = len(re.sub("%..", "x", source))
                if 'class="explore"' in text and size > FRAME_LIMIT:
                    yield f"cell {number} of the golden: a slider frame has {size} bytes, more than {FRAME_LIMIT}"
                    break


def prose(page: Page, golden: nbformat.NotebookNode) -> Iterator[str]:
    """Numbers of three digits or more in prose, captions and alt texts are computed here or claimed by a source."""
    computed = "\n".join(outputs(golden))
    claimed = "\n".join(f"{claim['claimed']} {claim.get('claimed_num', '')}" for claim in claims().values())
    known = {_plain(n) for n in _NUMBER.findall(computed + "\n" + claimed)}
    for where, text in written(page):
        text = re.sub(r"`[^`]*`|\{[a-z:]+\}`[^`]*`", " ", text).replace("{,}", ",")
        for number in _NUMBER.findall(_NAMES.sub(" ", text)):
            if sum(c.isdigit() for c in number) >= 3 and _plain(number) not in known:
                yield f"{where} says {number}, which is neither in the page's outputs nor claimed by a source"


def written(page: Page) -> Iterator[tuple[str, str]]:
    """What a page says in words: its markdown, its captions, the ALT of its figures."""
    for number, cell in enumerate(page.notebook.cells):
        if cell.cell_type == "markdown":
            yield f"markdown cell {number}", cell.source
        elif caption := cell.metadata.get("mystnb", {}).get("figure", {}).get("caption"):
            yield f"the caption in cell {number}", caption
    for name in sorted(set(re.findall(r"(?:figure|explore)\(\s*[\"'](\w+\.\w+)[\"']", "\n".join(page.code)))):
        file = ROOT / "figures_src" / f"{name.replace('.', '/')}.py"
        match = re.search(r"^ALT = \(?(.*?)\)?\n\n", file.read_text(encoding="utf8"), re.M | re.S)
        if match:
            yield f"ALT of {name}", match[1]


def outputs(golden: nbformat.NotebookNode) -> Iterator[str]:
    for cell in golden.cells:
        for output in cell.get("outputs", []):
            yield output.get("text", "")
            data = output.get("data", {})
            yield data.get(GLUE, "")
            if "text/html" not in data or "claims" not in data.get("text/html", ""):
                yield data.get("text/plain", "")
            yield html.unescape(re.sub(r"<small>.*?</small>|<[^>]+>", " ", data.get("text/html", ""), flags=re.S))


def _plain(number: str) -> str:
    number = number.replace(",", "").rstrip(".")
    return number.rstrip("0").rstrip(".") if "." in number else number


@cache
def claims() -> dict[str, dict]:
    return {claim["id"]: claim for claim in yaml.safe_load((DATA / "claims.yaml").read_text(encoding="utf8"))}


def completeness() -> Iterator[str]:
    """Every claim of the topics of the book's pages stands on one page or is marked unchecked, with its reason."""
    placed: dict[str, str] = {}
    for page in pages():
        for claim_id in on_page(page):
            if claim_id in placed:
                yield f"claim {claim_id} stands on {placed[claim_id]} and on {page.short}"
            placed[claim_id] = page.short
    topics = {topic for page in pages() for topic in page.front.get("topics", [])}
    for claim_id, claim in claims().items():
        if claim["topic"] in topics and claim_id not in placed and not claim.get("unchecked"):
            yield f"claim {claim_id} ({claim['topic']}) stands on no page and is not marked unchecked"
        if claim_id in placed and claim.get("unchecked"):
            yield f"claim {claim_id} is marked unchecked, but stands on {placed[claim_id]}"
    values = json.loads((DATA / "computed.json").read_text(encoding="utf8"))
    stored = {claim_id: value for page in pages() for claim_id, value in on_page(page).items() if value is not None}
    if values != stored:
        yield "computed.json is not what the goldens hold; run make notebooks"


def on_page(page: Page) -> dict[str, object]:
    """Claim id -> computed value (None where the claim is cited)."""
    found: dict[str, object] = {}
    if page.golden.exists():
        for cell in nbformat.read(page.golden, 4).cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                found |= dict.fromkeys(data.get(COMPUTED.replace("claims", "cited"), {}))
                found |= data.get(COMPUTED, {})
    return found


def across() -> Iterator[str]:
    """What only the book as a whole can get wrong: names spoken twice, citations without an entry."""
    names = Counter(
        name for page in pages() if page.golden.exists() for name in spoken(nbformat.read(page.golden, 4).cells)
    )
    for name, count in names.items():
        if count > 1:
            yield f"the spoken number {name!r} is said on {count} pages"
    keys = references()
    if json.loads((DATA / "references.json").read_text(encoding="utf8")) != keys:
        yield "references.json is not what references.bib gives; run make notebooks"
    for page in pages():
        if page.golden.exists():
            for cell in nbformat.read(page.golden, 4).cells:
                for output in cell.get("outputs", []):
                    for claim_id, key in output.get("data", {}).get(COMPUTED.replace("claims", "cited"), {}).items():
                        if key not in keys:
                            yield f"{page.name} cites {key!r} for {claim_id}, which references.bib does not have"


def main() -> int:
    found = []
    for page in pages():
        try:
            found += [f"{page.name}: {problem}" for problem in problems(page)]
        except BookError as error:
            found.append(str(error))
    found += [*completeness(), *across()]
    print("\n".join(found) or "pages, ledgers and goldens are in order")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
