"""The checks of sparse/fixed-patterns: right answers pass, typical wrong ones get a message, junk survives."""

import math

import pytest

from attnledger.book import check


def walk(distance, layers, window):
    ways = {0: 1.0}
    for _ in range(layers):
        longer = {}
        for at, share in ways.items():
            for step in range(window):
                longer[at + step] = longer.get(at + step, 0.0) + share / window
        ways = longer
    return ways.get(distance, 0.0)


def raising(*_):
    raise RuntimeError("boom")


def band(n, w):
    w = min(w, n - 1)
    return n * (2 * w + 1) - w * (w + 1)


def saving(n, window):
    w = min(n, window)
    return n * (n + 1) / 2 / (n * w - w * (w - 1) / 2)


RIGHT = {
    "pairs_in_band": band,
    "layers_to_reach": lambda distance, window: (
        0 if distance == 0 else math.inf if window == 1 else math.ceil(distance / (window - 1))
    ),
    "averaged_share": walk,
    "window_saving": saving,
}
WRONG = {
    "pairs_in_band": [
        lambda n, w: n * (2 * w + 1),
        lambda n, w: 2 * n * w,
        lambda n, w: n * (2 * w + 1) - w * (w + 1),
        lambda n, w: n * w,
    ],
    "layers_to_reach": [
        lambda distance, window: math.ceil(distance / window),
        lambda distance, window: distance // max(window - 1, 1),
        lambda distance, window: distance / max(window - 1, 1),
        lambda distance, window: math.ceil(distance / max(window - 1, 1)),
    ],
    "averaged_share": [
        lambda distance, layers, window: window**-layers,
        lambda distance, layers, window: walk(distance, layers, window + 1),
        lambda distance, layers, window: float(distance <= layers * (window - 1)),
    ],
    "window_saving": [
        lambda n, window: n / window,
        lambda n, window: n * n / (n * window - window * (window - 1) / 2),
        lambda n, window: n * (n + 1) / 2 / (n * window),
        lambda n, window: n / (2 * window + 1),
    ],
}
JUNK = [lambda *_: "text", lambda *_: [1, 2, 3], raising, 7, "text", lambda *_: math.nan]


@pytest.mark.parametrize("name", RIGHT)
def test_right_answer_passes(name):
    assert getattr(check, name)(RIGHT[name]).right is True


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, wrong in WRONG.items() for i in range(len(wrong))])
def test_wrong_answer_gets_a_message(name, number):
    answer = getattr(check, name)(WRONG[name][number])
    assert answer.right is False
    assert len(repr(answer)) > 30


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("number", range(len(JUNK)))
def test_junk_survives(name, number):
    assert getattr(check, name)(JUNK[number]).right is not True


@pytest.mark.parametrize("name", RIGHT)
def test_open_exercise(name):
    assert getattr(check, name)(None).right is None
    assert getattr(check, name)(lambda *_: None).right is None
