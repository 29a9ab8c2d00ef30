"""The checks of hybrid/layer-mix: right answers pass, the usual wrong ones get a message that helps."""

import math

import pytest
import torch

from attnledger.book import check
from attnledger.ops.delta import delta_rule
from attnledger.ops.linear import identity, linear_attention
from attnledger.ops.softmax import attention


def layer_list(layers, every=4):
    return sorted({*range(every, layers + 1, every), layers})


def fit(budget, tokens, layers, cache, state):
    return max((c for c in range(layers + 1) if c * cache * tokens + (layers - c) * state <= budget), default=-1)


def by_division(budget, tokens, layers, cache, state):
    return min(layers, (budget - layers * state) // (cache * tokens - state))


def scale(m, cosine, weight):
    return math.log((m - 1) * weight / (1 - weight)) / (1 - cosine)


def latest(q, k, v, *, share=0.05, sharp=1e5):
    one = torch.ones_like(k[..., :1])
    count = linear_attention(one, one, one, feature_map=identity, normalize=False)
    k = torch.cat([k, share * count / len(k)], dim=-1)
    return attention(torch.cat([q, torch.ones_like(q[..., :1])], dim=-1), k, v, causal=False, scale=sharp)


def by_state(q, k, v):
    return q @ delta_rule(k, k, v, beta=torch.ones(len(k), dtype=k.dtype), return_state=True)[1]


RIGHT = [("global_layers", layer_list), ("caches_that_fit", fit), ("least_scale", scale), ("latest_value", latest)]

WRONG = [
    ("global_layers", lambda n, every: list(range(every, n + 1, every)), "last of all keeps a cache"),
    ("global_layers", lambda n, every: [*range(every, n + 1, every), n], "must not stand there twice"),
    ("global_layers", lambda n, every: [i - 1 for i in layer_list(n, every)], "from 1"),
    ("global_layers", lambda n, every: layer_list(n, 4), "argument `every`"),
    ("global_layers", lambda n, every: len(layer_list(n, every)), "list of layers"),
    ("caches_that_fit", by_division, "within the budget"),
    ("caches_that_fit", lambda b, n, layers, c, s: max(0, fit(b, n, layers, c, s)), "expected -1"),
    ("caches_that_fit", lambda b, n, layers, c, s: min(layers, b // (c * n)), "layers - c states"),
    ("caches_that_fit", lambda b, n, layers, c, s: (b - layers * s) / (c * n - s), "largest c"),
    ("least_scale", lambda m, cosine, w: math.log(m * w / (1 - w)) / (1 - cosine), "m - 1"),
    ("least_scale", lambda m, cosine, w: math.log((m - 1) * w / (1 - w)), "1 - cosine"),
    ("least_scale", lambda m, cosine, w: math.log(w / (1 - w)) / (1 - cosine), "the right key has the weight"),
    ("latest_value", by_state, "read from a cache"),
    ("latest_value", lambda q, k, v: attention(q, k, v, causal=False, scale=1e4), "Equal keys"),
    ("latest_value", lambda q, k, v: attention(q, k, v, causal=False), "raise the scale"),
    ("latest_value", lambda q, k, v: latest(q, k, v, share=5.0), "never to beat another key"),
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
