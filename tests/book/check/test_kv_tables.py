"""The checks of kv_cache/kv-tables: right answers pass, the usual wrong ones get a message that helps."""

import pytest
import torch

from attnledger.book import check
from attnledger.ops.softmax import attention


def decode(q, k, v, keys, values):
    keys, values = torch.cat([keys, k], dim=1), torch.cat([values, v], dim=1)
    group = q.shape[0] // keys.shape[0]
    return attention(q, keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)), keys, values


def tiled(q, k, v, keys, values):
    keys, values = torch.cat([keys, k], dim=1), torch.cat([values, v], dim=1)
    group = q.shape[0] // keys.shape[0]
    return attention(q, keys.repeat(group, 1, 1), values.repeat(group, 1, 1)), keys, values


def unscaled(q, k, v, keys, values):
    out, keys, values = decode(q * q.shape[-1] ** 0.5, k, v, keys, values)
    return out, keys, values


def without_itself(q, k, v, keys, values):
    group = q.shape[0] // keys.shape[0]
    out = attention(q, keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0))
    return out, torch.cat([keys, k], dim=1), torch.cat([values, v], dim=1)


def expanded_cache(q, k, v, keys, values):
    out, keys, values = decode(q, k, v, keys, values)
    return out, keys.repeat_interleave(2, 0), values.repeat_interleave(2, 0)


def window(tokens, full, windowed, window, per_layer):
    return per_layer * (full * tokens + windowed * min(tokens, window))


def longest(memory, weights, requests, per_token, state):
    return max(0, (memory - weights - requests * state) // (requests * per_token))


RIGHT = [
    ("kv_bytes_by_hand", lambda layers, heads, d_k, d_v, size: layers * heads * (d_k + d_v) * size),
    ("decode_with_cache", decode),
    ("window_cache_numbers", window),
    ("longest_context", longest),
]

WRONG = [
    ("kv_bytes_by_hand", lambda layers, heads, d_k, d_v, size: layers * heads * d_k * size, "value"),
    ("kv_bytes_by_hand", lambda layers, heads, d_k, d_v, size: layers * heads * 2 * d_k * size, "value of d_v"),
    ("kv_bytes_by_hand", lambda layers, heads, d_k, d_v, size: layers * heads * (d_k + d_v) * 2, "key of d_k"),
    ("kv_bytes_by_hand", lambda layers, heads, d_k, d_v, size: heads * (d_k + d_v) * size, "one layer"),
    ("decode_with_cache", tiled, "not the list"),
    ("decode_with_cache", unscaled, "root of the width"),
    ("decode_with_cache", without_itself, "attends to itself"),
    ("decode_with_cache", expanded_cache, "only the cached heads"),
    ("decode_with_cache", lambda q, k, v, keys, values: decode(q, k, v, keys, values)[0], "three things"),
    ("window_cache_numbers", lambda t, full, windowed, w, per: per * (full + windowed) * t, "windowed one"),
    ("window_cache_numbers", lambda t, full, windowed, w, per: per * (full * t + windowed * w), "fewer"),
    ("window_cache_numbers", lambda t, full, windowed, w, per: per * min(t, w) * (full + windowed), "every token"),
    ("longest_context", lambda m, w, r, per, s: (m - w) // per, "share"),
    ("longest_context", lambda m, w, r, per, s: (m - w - r * s) // (r * per), "never below 0"),
    ("longest_context", lambda m, w, r, per, s: max(0, (m - w) // (r * per)), "state"),
    ("longest_context", lambda m, w, r, per, s: max(0, (m - w - r * s) / (r * per)), "whole tokens"),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_the_solution_passes(name, answer):
    assert getattr(check, name)(answer).right is True


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
