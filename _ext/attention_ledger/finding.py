"""The search finds what this book is about: symbols, whether written as TeX, code or Greek, and names of models.

Sphinx's own index keeps "\\beta", "β" and "beta" apart, cuts "h_{kv}" in two and drops a single S. Here every
spelling of a symbol is the same word, in the index and (finding.js) in what the reader types.
"""

import json
import re
from pathlib import Path

from sphinx.search.en import SearchEnglish

GREEK = dict(
    re.findall(
        r"(\S) (\w+)",
        "α alpha β beta γ gamma δ delta ε epsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda μ mu ν nu ξ xi π pi ρ "
        "rho σ sigma τ tau υ upsilon φ phi χ chi ψ psi ω omega ϕ phi ϵ epsilon ℓ ell",
    )
)
GREEK |= {letter.upper(): name for letter, name in GREEK.items()}  # no word is told apart by its case
NAMES = {*GREEK.values()}
LETTERS = GREEK | dict(zip("²³₀₁₂", "23012", strict=True))

_BROWSER = Path(__file__).with_name("finding.js")
_COMMAND = re.compile(r"\\(?:var)?([A-Za-z]+)")
_SUBSCRIPT = re.compile(r"_\s*\{\s*(\w+)\s*\}")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")


def plain(text: str) -> str:
    """TeX and Greek as one would type them: ``\\beta_t`` and ``β_t`` are beta_t, ``h_{\\text{kv}}`` is h_kv."""
    text = _COMMAND.sub(lambda found: found[1] if found[1].lower() in NAMES else " ", text)
    text = re.sub(r"['’]s\b", "", text)
    text = re.sub(r"_\{\s*\{\s*(\w+)\s*\}\s*\}", r"_\1", text)
    text = _SUBSCRIPT.sub(r"_\1", text).replace("^", "")
    return "".join(LETTERS.get(letter, letter) for letter in text)


def words(text: str) -> list[str]:
    """The words that `text` is found by; ``return_lse`` also by lse, ``FlashAttention`` also by attention."""
    found = re.findall(r"\w+", plain(text))
    parts = [part for word in found if "_" in word for part in word.split("_") if part]
    for word in found:
        if len(pieces := _CAMEL.findall(word)) > 1:
            parts += [piece for piece in pieces if len(piece) > 3]
    return found + parts


class Symbols(SearchEnglish):
    """English, with symbols as words."""

    js_splitter_code = "\n".join(
        [f"const LETTERS = {json.dumps(LETTERS, ensure_ascii=False)};", _BROWSER.read_text(encoding="utf8")]
    )

    def split(self, input: str) -> list[str]:
        return words(input)

    def stem(self, word: str) -> str:
        """As the browser does it: no stem for names with a digit or a line, nor for short words (Porter drops an s)."""
        return super().stem(word) if len(word) > 2 and word.isalpha() else word.lower()
