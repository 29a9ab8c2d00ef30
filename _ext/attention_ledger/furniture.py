"""What surrounds a page: its facts under the title, numbers that count by page, symbols that say what they mean."""

import html
import re
from pathlib import Path

import yaml
from sphinx.application import Sphinx

from .goldens import golden_of


def source_read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the page's facts under its title, and read the page anew when its golden changes."""
    if golden := golden_of(app, docname):
        app.env.note_dependency(str(golden))
        source[0] = re.sub(
            r"^# .+$", lambda title: f"{title[0]}\n\n{facts(app, source[0])}", source[0], count=1, flags=re.M
        )


def facts(app: Sphinx, text: str) -> str:
    """Reading time, exercises and what the page needs, in one line."""
    front = yaml.safe_load(text.split("---\n")[1])["ledger"]
    minutes = front["minutes"]
    parts = [f"{minutes} minute{'s' * (minutes != 1)} to read"]
    if exercises := len(re.findall(r"^:::+ *\{exercise\}", text, re.M)):
        parts.append(f"{exercises} exercise{'s' * (exercises != 1)}")
    if front["needs"]:
        names = [name if name == "intro" else f"chapters/{name}" for name in front["needs"]]
        titles = [_title(Path(app.srcdir) / f"{name}.md") for name in names]
        links = [f"{{doc}}`{title} </{name}>`" for title, name in zip(titles, names, strict=True)]
        parts.append("read first: " + ", ".join(links))
    return ":::{container} facts\n" + " · ".join(parts) + "\n:::"


def _title(source: Path) -> str:
    return re.search(r"^# (.+)$", source.read_text(encoding="utf8"), re.M)[1].strip()


def number_by_page(app: Sphinx, env) -> list[str]:
    """Figures and exercises count from 1 on every page, as they do in the goldens."""
    for numbers in env.toc_fignumbers.values():
        for kind in numbers.values():
            for i, label in enumerate(sorted(kind, key=kind.get), 1):
                kind[label] = (i,)
    return []


def mend_citations(site: Path) -> None:
    """The bibliography's entries get a role that still exists, and that their list may hold."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf8")
        if 'role="doc-biblioentry"' in text:
            page.write_text(text.replace('role="doc-biblioentry"', 'role="listitem"'), encoding="utf8")


def symbols(notation: Path) -> dict[str, list[tuple[str, str]]]:
    """TeX of a symbol -> its meanings and the pages that introduce them, from the tables of the notation page."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in re.findall(r"^\| (\$.*?) \| (.*?) \|.*<(/\S+)>` \|$", notation.read_text(encoding="utf8"), re.M):
        meaning = re.sub(r"\{\w+\}`([^`<]*)[^`]*`", r"\1", row[1])
        meaning = re.sub(r"\\sqrt\{([^}]*)\}", r"√\1", meaning).replace(r"\cdot", "·")
        meaning = re.sub(r"[`$\\{}]", "", meaning)
        for symbol in re.findall(r"\$([^$]+)\$", row[0]):
            for letter in re.split(r",\s+", symbol.split(" = ")[0]):
                for name in {letter.strip(), re.sub(r"_[it]$", "", letter.strip())}:  # S_t is S in running text
                    found.setdefault(name, []).append((meaning, row[2].lstrip("/")))
    return found


def meaning_on(page: str, symbol: str, meanings: list[tuple[str, str]]) -> str | None:
    """What a letter stands for on `page`: as introduced there, or in its part, or by softmax attention.

    A single letter that only a distant page introduces may mean anything here, and is not explained.
    """
    part = page.rpartition("/")[0]
    fits = [meaning for meaning, home in meanings if home == page]
    fits += [meaning for meaning, home in meanings if home.rpartition("/")[0] == part]
    fits += [meaning for meaning, home in meanings if home.endswith("softmax-attention") or len(symbol) > 1]
    return fits[0] if fits else None


def explain_symbols(site: Path, notation: Path) -> None:
    """Hovering over a symbol of the notation page says what it stands for, on every page."""
    known = symbols(notation)
    formula = re.compile(r'<span class="math notranslate nohighlight">\\\((.*?)\\\)</span>')
    for file in site.rglob("*.html"):
        page = file.relative_to(site).with_suffix("").as_posix()

        def explained(match: re.Match, page: str = page) -> str:
            symbol = html.unescape(match[1]).strip()
            meaning = meaning_on(page, symbol, known.get(symbol, []))
            return match[0].replace("<span ", f'<span title="{html.escape(meaning)}" ', 1) if meaning else match[0]

        text = file.read_text(encoding="utf8")
        file.write_text(formula.sub(explained, text), encoding="utf8")
