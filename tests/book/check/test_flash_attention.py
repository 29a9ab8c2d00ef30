"""The checks of exact/flash-attention: right answers pass, typical wrong ones get a message, junk survives."""

import math

import pytest
import torch

from attnledger.book import check


def right_tiles(n, block_q, block_k):
    whole = cut = skipped = 0
    for first in range(0, n, block_q):
        last = min(first + block_q, n) - 1
        for start in range(0, n, block_k):
            if start > last:
                skipped += 1
            elif min(start + block_k, n) - 1 <= first:
                whole += 1
            else:
                cut += 1
    return whole, cut, skipped


def tiles_first_query_decides(n, block_q, block_k):
    whole = cut = skipped = 0
    for first in range(0, n, block_q):
        for start in range(0, n, block_k):
            if start > first:
                skipped += 1
            elif start + block_k - 1 <= first:
                whole += 1
            else:
                cut += 1
    return whole, cut, skipped


def tiles_square_only(n, block_q, block_k):
    t = -(-n // block_q)
    return t * (t - 1) // 2, t, t * (t - 1) // 2


def tiles_floor(n, block_q, block_k):
    whole, cut, skipped = right_tiles(n - n % block_q, block_q, block_k)
    return whole, cut, skipped


def tile_by(held):
    return lambda memory, d: max((b for b in range(16, 4096, 16) if held(b, d) <= memory), default=0)


def held(b, d):
    return 10 * b * d + 4 * b * b


def raising(*_):
    raise RuntimeError("boom")


def right_rows(intensity, n):
    return math.inf if n <= intensity else intensity * n / (n - intensity)


def right_stream(q, chunks):
    m, l, o = -math.inf, 0.0, 0.0
    for k, v in chunks:
        s = k @ q / math.sqrt(len(q))
        new = max(m, s.max().item())
        kept, p = math.exp(m - new), (s - new).exp()
        m, l, o = new, l * kept + p.sum(), o * kept + p @ v
    return o / l


def stream_average(q, chunks):
    outs = [torch.softmax(k @ q / math.sqrt(len(q)), 0) @ v for k, v in chunks]
    return sum(outs) / len(outs)


def stream_without_maximum(q, chunks):
    l = o = 0.0
    for k, v in chunks:
        p = (k @ q / math.sqrt(len(q))).exp()
        l, o = l + p.sum(), o + p @ v
    return o / l


def stream_forgets_to_rescale(q, chunks):
    l = o = 0.0
    for k, v in chunks:
        s = k @ q / math.sqrt(len(q))
        p = (s - s.max()).exp()
        l, o = l + p.sum(), o + p @ v
    return o / l


def stream_from_zero(q, chunks):
    m, l, o = 0.0, 0.0, 0.0
    for k, v in chunks:
        s = k @ q / math.sqrt(len(q))
        new = max(m, s.max().item())
        kept, p = math.exp(m - new), (s - new).exp()
        m, l, o = new, l * kept + p.sum(), o * kept + p @ v
    return o / l


RIGHT = {
    "tiles_by_kind": right_tiles,
    "largest_tile": tile_by(held),
    "rows_for_ridge": right_rows,
    "streaming_attention": right_stream,
}
WRONG = {
    "tiles_by_kind": [tiles_first_query_decides, tiles_square_only, tiles_floor],
    "largest_tile": [
        tile_by(lambda b, d: 6 * b * d),
        tile_by(lambda b, d: 8 * b * d + 2 * b * b),
        tile_by(lambda b, d: held(b, d) + 1),
        lambda memory, d: max((b for b in range(16, 4096, 16) if held(b, d) <= memory), default=16),
    ],
    "rows_for_ridge": [
        lambda intensity, n: intensity,
        lambda intensity, n: intensity * n / (n + intensity),
        lambda intensity, n: intensity * n / (n - intensity) if n != intensity else math.inf,
    ],
    "streaming_attention": [
        stream_average,
        stream_without_maximum,
        stream_forgets_to_rescale,
        stream_from_zero,
        lambda q, chunks: right_stream(q, [next(chunks)]),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_pass(name):
    answer = getattr(check, name)(RIGHT[name])
    assert answer.right is True, answer.message


@pytest.mark.parametrize(("name", "index"), [(n, i) for n in WRONG for i in range(len(WRONG[n]))])
def test_wrong_answers_get_a_message(name, index):
    answer = getattr(check, name)(WRONG[name][index])
    assert answer.right is False
    assert len(answer.message) > 30


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("junk", [None, lambda *_: None, lambda *_: "?", lambda *_: torch.zeros(2, 2, 2), raising, 3])
def test_junk_survives(name, junk):
    assert getattr(check, name)(junk).right is not True
