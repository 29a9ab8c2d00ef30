"""The checks of hybrid/choosing, and that the page and its slider follow the same rules."""

import math
import re
from pathlib import Path

import pytest
import torch

from attnledger.book import check, drawing
from attnledger.costs import ModelConfig, decode_bound, hardware, kv_cache_bytes, linear_state_bytes
from attnledger.costs.models import LLAMA_3_8B

PAGE = Path(__file__).parents[3] / "chapters" / "hybrid" / "choosing.md"


def gain(share, factor):
    return 1 / (1 - share + share / factor)


def double(weights, per_token, requests):
    return weights / (per_token * requests)


def throughput(weights, room, old, new):
    before, after = (room // each / (weights + room // each * each) if room >= each else 0 for each in (old, new))
    return after / before if before else float("inf")


def duel(kv, index, budget, share, state):
    slope = share * kv - index
    return max(0, (budget * kv - 2 * (1 - share) * state) / slope) if slope > 0 else float("inf")


RIGHT = [
    ("largest_gain", gain),
    ("tokens_to_double", double),
    ("throughput_gain", throughput),
    ("selection_reads_less_from", duel),
]

WRONG = [
    ("largest_gain", lambda share, factor: share * factor, "keeps its time"),
    ("largest_gain", lambda share, factor: 1 / (1 - share), "share / factor"),
    ("largest_gain", lambda share, factor: 1 - share + share / factor, "old time over the new one"),
    ("tokens_to_double", lambda w, per, r: w / per, "four requests"),
    ("tokens_to_double", lambda w, per, r: w / per * r, "once for itself"),
    ("tokens_to_double", lambda w, per, r: 2 * w / (per * r), "Tokens per request"),
    ("throughput_gain", lambda w, room, old, new: old / new, "Whole requests fit"),
    ("throughput_gain", lambda w, room, old, new: (room // new) / (room // old), "also reads more"),
    ("throughput_gain", lambda w, room, old, new: throughput(w, room, old, new) if room >= old else 0, "Nothing over"),
    ("throughput_gain", lambda w, room, old, new: (w + room) / (w + room) * old / new, "Tokens per second"),
    ("selection_reads_less_from", lambda k, i, b, f, s: (b * k - (1 - f) * s) / (f * k - i or 1), "twice"),
    ("selection_reads_less_from", lambda k, i, b, f, s: (b * k - 2 * (1 - f) * s) / (f * k - i or 1), "no negative"),
    (
        "selection_reads_less_from",
        lambda k, i, b, f, s: max(0, (b * k - 2 * (1 - f) * s) / (f * k - i)) if f * k != i else 0,
        "parallel",
    ),
    ("selection_reads_less_from", lambda k, i, b, f, s: b * k / (f * k - i or 1), "read and written back"),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_the_solution_passes(name, answer):
    result = getattr(check, name)(answer)
    assert result.right is True, result.message


@pytest.mark.parametrize(("name", "answer", "advice"), WRONG)
def test_a_usual_mistake_is_told_what_to_look_at(name, answer, advice):
    result = getattr(check, name)(answer)
    assert result.right is False
    assert advice in result.message


@pytest.mark.parametrize("name", [name for name, _ in RIGHT])
def test_an_open_exercise_is_open(name):
    assert getattr(check, name)(None).right is None
    assert getattr(check, name)(lambda *arguments: None).right is None


@pytest.mark.parametrize("name", [name for name, _ in RIGHT])
@pytest.mark.parametrize(
    "answer", [lambda *a: "many", lambda *a: torch.zeros(2, 3), lambda *a: 1 / 0, lambda: 1, 7, "text"]
)
def test_anything_else_becomes_a_message(name, answer):
    result = getattr(check, name)(answer)
    assert result.right is False
    assert result.message.startswith("Not yet")


def test_the_page_and_the_slider_follow_the_same_rules():
    """The page cannot import the figure, so its `choose` is run from its cells and compared on the slider's grid."""
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", PAGE.read_text(encoding="utf8"), re.M | re.S)
    wanted = [cell for cell in cells if re.search(r"^def (variant|held|choose)\(", cell, re.M)]
    assert len(wanted) == 3
    names = (ModelConfig, decode_bound, kv_cache_bytes, linear_state_bytes)
    page = {thing.__name__: thing for thing in names} | {"LLAMA_3_8B": LLAMA_3_8B, "H100": hardware.H100}
    page["table"] = lambda *rows, **options: None
    for cell in wanted:
        exec(cell, page)
    slider = drawing.load("hybrid.choosing")
    for tokens in (1024, 8192, 65_536, 262_144, 1_048_576):
        for requests in (1, 8, 64):
            for card, gpu in slider.CARDS.items():
                for recall in ("yes", "no"):
                    mine = page["choose"](tokens, requests, gpu, recall == "yes")
                    assert mine == slider.choose(tokens, requests, card, recall).scheme, (tokens, requests, card)
    assert math.isclose(page["held"](LLAMA_3_8B, 4096), slider.held_bytes(LLAMA_3_8B, 4096, 1))
