"""The suites: which operators are timed against each other, at which sizes, beside which counts; and `record`.

A suite makes, for one size, inputs and candidates; each candidate carries the FLOP and the bytes that no form of it can
do without (inputs and weights read once, outputs written once; a recurrence's own operations where kernels do more).
The same run's matrix product and copy turn these into a bound. What is timed beside torch's own attention is the
library's reference code: plain torch operations, in fp32 where inputs are half precision, a loop over chunks or blocks
in Python. It shows the growth and the crossings of a mechanism, not the speed of a kernel written for it.
"""

import itertools
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import costs
from ..ops.delta import delta_rule
from ..ops.linear import linear_attention, recurrent_linear_attention
from ..ops.msa import block_sparse_attention, select_blocks
from ..ops.sparse import sliding_window_attention
from . import (
    CAPABILITY,
    LEAST_ROUNDS,
    Comparison,
    Timing,
    _device,
    _is_out_of_memory,
    ceilings,
    check_dtype,
    compare,
    environment,
)
from .recording import SCHEMA

MOST_ROUNDS = 40  # samples a candidate, so that a recording stays small
COLD = 128 * 2**20  # bytes a CPU walks through before it meets the same cache or state again
ROOM = 0.5  # share of the free memory that inputs and results may take
CALLS = LEAST_ROUNDS + 5  # first calls, warm-up and rounds of a candidate, at least
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Candidate(NamedTuple):
    """What is timed, what bounds its time, and the bytes it holds besides inputs and output where they are many."""

    run: Callable[[], Tensor]
    flops: int
    bytes: int
    held: int = 0


@dataclass(frozen=True)
class Where:
    """The device and the dtype of a run, and random inputs there that disturb no other random numbers."""

    device: torch.device
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Per number."""
        return self.dtype.itemsize

    @property
    def card(self) -> bool:
        return self.device.type == "cuda"

    def normal(self, *size: int, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
        random = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(*size, generator=random, device=self.device, dtype=dtype or self.dtype)


@dataclass(frozen=True)
class Suite:
    """`sizes(where)` ascend; `need(size, where)` is the bytes of memory a size takes at least.

    `together`: the candidates are only worth measuring as a whole, because what is shown are their ratios.
    """

    name: str
    about: str
    geometry: dict[str, int]
    sizes: Callable[[Where], list[dict[str, int]]]
    need: Callable[[dict[str, int], Where], int]
    make: Callable[[dict[str, int], Where], dict[str, Candidate]]
    together: bool = False


def tokens(first: int, cpu: int, card: int) -> Callable[[Where], list[dict[str, int]]]:
    """Lengths that double from `first` to `cpu` or `card`."""
    return lambda where: [
        {"tokens": first * 2**i} for i in range(int(math.log2((card if where.card else cpu) // first)) + 1)
    ]


def recurrent_flops(mechanism: str, n: int, geometry: dict[str, int]) -> int:
    """FLOP of a recurrence over n tokens, all heads."""
    return 2 * n * geometry["heads"] * costs.decode_macs(mechanism, d_k=geometry["head_dim"])


# --- decode: one query against a cache, or a state -------------------------------------------------------------------

DECODE = {"heads": 16, "kv_heads": 4, "head_dim": 128, "d_model": 2048, "batch_tokens": 4096}


def decode_sizes(where: Where) -> list[dict[str, int]]:
    lengths = [{"batch": 1, **size} for size in tokens(512, 65_536, 2**20)(where)]
    return lengths + [{"batch": batch, "tokens": DECODE["batch_tokens"]} for batch in (4, 16)]


def decode_need(size: dict[str, int], where: Where) -> int:
    cache = 2 * size["batch"] * size["tokens"] * DECODE["heads"] * DECODE["head_dim"] * where.bytes
    return max(cache, COLD) * 5 // 4


def decode(size: dict[str, int], where: Where) -> dict[str, Candidate]:
    """One token of `batch` conversations in one layer: its weights, its cache (whole or grouped), or its state."""
    B, n, h, g, d = size["batch"], size["tokens"], DECODE["heads"], DECODE["kv_heads"], DECODE["head_dim"]
    width = DECODE["d_model"]
    q = where.normal(B, h, 1, d)
    k1, v1, beta = F.normalize(where.normal(B, h, 1, d, seed=1), dim=-1), where.normal(B, h, 1, d, seed=2), None
    beta = torch.full((B, h, 1), 0.5, device=where.device, dtype=where.dtype)

    def walked(make: Callable[[int], Any], size_in_bytes: int) -> Iterator:
        """The same shape for layer after layer, so that a CPU's cache holds none of it (a card's is flushed)."""
        layers = 1 if where.card else min(max(COLD // size_in_bytes, 1), 64)
        return itertools.cycle([make(layer) for layer in range(layers)])

    def cache(heads: int) -> Iterator[tuple[Tensor, Tensor]]:
        def make(layer: int) -> tuple[Tensor, Tensor]:
            return tuple(where.normal(B, heads, n, d, seed=2 * layer + i) for i in range(2))

        return walked(make, 2 * B * heads * n * d * where.bytes)

    def attend(caches: Iterator, heads: int) -> Tensor:
        k, v = next(caches)  # the query heads of a group are the rows that meet one cached head
        return F.scaled_dot_product_attention(q.view(B, heads, h // heads, d), k, v).view(B, h, 1, d)

    states = walked(lambda layer: where.normal(B, h, d, d, seed=layer, dtype=torch.float32), 4 * B * h * d * d)
    rows = where.normal(B, width)
    weights = [where.normal(a * width, b * width, seed=i) for i, (a, b) in enumerate(((1, 4), (1, 4), (4, 1)))]

    def through_weights() -> Tensor:
        x = (rows @ weights[0]).view(B, 4, width)[:, 3]  # the four projections, 4 d², side by side
        return F.gelu(x @ weights[1]) @ weights[2]  # the FFN, 8 d²

    def state(mechanism: str) -> Callable[[], Tensor]:
        if mechanism == "linear":
            return lambda: recurrent_linear_attention(q, k1, v1, state=next(states), normalize=False, return_state=True)
        return lambda: delta_rule(q, k1, v1, beta=beta, state=next(states), return_state=True)

    flops = costs.attention_flops(1, keys=n, heads=h, head_dim=d, causal=True) * B
    held = 2 * B * n * d * where.bytes
    moved = 2 * 4 * B * h * d * d  # a state is fp32, read and written
    layer = costs.layer_weights(d_model=width)
    return {
        "weights": Candidate(through_weights, 2 * B * layer, layer * where.bytes),
        "softmax": Candidate(partial(attend, cache(h), h), flops, h * held),
        "grouped": Candidate(partial(attend, cache(g), g), flops, g * held),
        "linear": Candidate(state("linear"), B * recurrent_flops("linear", 1, DECODE), moved),
        "delta": Candidate(state("delta"), B * recurrent_flops("delta", 1, DECODE), moved),
    }


# --- prefill: a whole text, mechanism beside mechanism ---------------------------------------------------------------

PREFILL = {"heads": 4, "kv_heads": 1, "head_dim": 128, "index_dim": 128, "window": 512, "block": 128, "top_k": 4}
SELECTION = {key: PREFILL[key] for key in ("heads", "kv_heads", "head_dim", "index_dim", "top_k", "block")}


def prefill_inputs(n: int, where: Where) -> dict[str, Tensor]:
    h, d = PREFILL["heads"], PREFILL["head_dim"]
    q, k, v = (where.normal(1, h, n, d, seed=seed) for seed in range(3))
    gate = where.normal(1, h, n, d, seed=3, dtype=torch.float32)
    return {
        "q": q,
        "k": F.normalize(k, dim=-1),
        "v": v,
        "beta": torch.sigmoid(gate[..., 0]).to(where.dtype),
        "g": F.logsigmoid(gate + 3).to(where.dtype),
        "iq": where.normal(1, PREFILL["kv_heads"], n, PREFILL["index_dim"], seed=4),
        "ik": where.normal(1, 1, n, PREFILL["index_dim"], seed=5),
    }


def prefill_need(size: dict[str, int], where: Where) -> int:
    n, width = size["tokens"], PREFILL["heads"] * PREFILL["head_dim"]
    blocks = n // PREFILL["block"]
    return 12 * n * width * 4 + 24 * n * blocks * PREFILL["kv_heads"]


def prefill(size: dict[str, int], where: Where) -> dict[str, Candidate]:
    """Causal attention of n tokens: all pairs, a window, chosen blocks (found by an index), or a state."""
    n, x = size["tokens"], prefill_inputs(size["tokens"], where)
    h, d = PREFILL["heads"], PREFILL["head_dim"]
    q, k, v, beta, g, iq, ik = x.values()
    grouped = k[:, : PREFILL["kv_heads"]], v[:, : PREFILL["kv_heads"]]
    sizes = {"block_size": PREFILL["block"]}
    pairs = {"heads": h, "head_dim": d, "causal": True}
    once = 4 * n * h * d * where.bytes  # queries, keys, values, output
    msa = costs.msa_flops(n, exact=True, **SELECTION).msa
    shared = 2 * (n * h * d + n * PREFILL["kv_heads"] * d) * where.bytes
    indexed = (iq.numel() + ik.numel()) * where.bytes
    return {
        "dense": Candidate(
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            costs.attention_flops(n, exact=True, **pairs),
            once,
        ),
        "window": Candidate(
            lambda: sliding_window_attention(q, k, v, window=PREFILL["window"]),
            costs.attention_flops(n, window=PREFILL["window"], **pairs),
            once,
        ),
        "sparse": Candidate(
            lambda: block_sparse_attention(
                q, *grouped, select_blocks(iq, ik, top_k=PREFILL["top_k"], **sizes), **sizes
            ),
            msa,
            shared + indexed,
        ),
        "linear": Candidate(lambda: linear_attention(q, k, v), recurrent_flops("linear", n, PREFILL), once),
        "delta": Candidate(
            lambda: delta_rule(q, k, v, beta=beta),
            recurrent_flops("delta", n, PREFILL),
            once + beta.numel() * where.bytes,
        ),
        "kda": Candidate(
            lambda: delta_rule(q, k, v, beta=beta, g=g),
            recurrent_flops("gated", n, PREFILL),
            once + (beta.numel() + g.numel()) * where.bytes,
        ),
    }


# --- flash: one algorithm in two orders, with what it holds ----------------------------------------------------------

FLASH = {"heads": 4, "head_dim": 64}


def flash_need(size: dict[str, int], where: Where) -> int:
    return 5 * size["tokens"] * FLASH["heads"] * FLASH["head_dim"] * where.bytes


def flash(size: dict[str, int], where: Where) -> dict[str, Candidate]:
    """Bidirectional attention, written out as three operations, and torch's fused one."""
    n, h, d = size["tokens"], FLASH["heads"], FLASH["head_dim"]
    q, k, v = (where.normal(1, h, n, d, seed=seed) for seed in range(3))
    flops = costs.attention_flops(n, heads=h, head_dim=d, causal=False)
    traffic = partial(costs.hbm_traffic, tokens=n, head_dim=d, heads=h, causal=False, bytes_per_number=where.bytes)
    squares = 3 * costs.score_matrix_bytes(n, heads=h, bytes_per_number=where.bytes)  # scores, scaled, weights
    return {
        "naive": Candidate(
            lambda: torch.softmax(q @ k.mT * d**-0.5, dim=-1) @ v, flops, traffic("naive").bytes, squares
        ),
        "flash": Candidate(lambda: F.scaled_dot_product_attention(q, k, v), flops, traffic("tiled").bytes),
    }


# --- layers: what is left of a gain end to end -----------------------------------------------------------------------


class Layer:
    """A layer of prefill: projections, one of the mechanisms, and an FFN; norms and residuals as usual."""

    def __init__(self, mechanism: str, geometry: dict[str, int], where: Where):
        self.mechanism, self.geometry = mechanism, geometry
        h, g, d, width = (geometry[key] for key in ("heads", "kv_heads", "head_dim", "d_model"))
        self.parts = {"q": h * d, "k": g * d, "v": g * d}
        if mechanism == "sparse":
            self.parts |= {"iq": g * geometry["index_dim"], "ik": geometry["index_dim"]}
        if mechanism == "gated":
            self.parts |= {"k": h * d, "v": h * d, "beta": h, "g": h}
        shapes = (width, sum(self.parts.values())), (h * d, width), (width, 4 * width), (4 * width, width)
        self.weights = [where.normal(*shape, seed=i).mul_(shape[0] ** -0.5) for i, shape in enumerate(shapes)]

    def __call__(self, x: Tensor) -> Tensor:
        """x (1, n, d_model), to the same shape."""
        W_in, W_out, W_up, W_down = self.weights
        parts = (F.layer_norm(x, x.shape[-1:]) @ W_in).split(list(self.parts.values()), dim=-1)
        x = x + self.mix(dict(zip(self.parts, parts, strict=True))).transpose(1, 2).flatten(2) @ W_out
        return x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ W_up) @ W_down

    def mix(self, parts: dict[str, Tensor]) -> Tensor:
        """(1, h, n, d) from the projections."""
        d, h = self.geometry["head_dim"], self.geometry["heads"]
        heads = {name: parts[name].unflatten(-1, (-1, d)).transpose(1, 2) for name in "qkv"}
        q, k, v = heads.values()
        if self.mechanism == "rest":
            return q
        if self.mechanism == "gated":
            beta, g = (parts[name].transpose(1, 2) for name in ("beta", "g"))
            return delta_rule(q, F.normalize(k, dim=-1), v, beta=beta.sigmoid(), g=F.logsigmoid(g + 3))
        if self.mechanism == "sparse":
            iq, ik = (
                parts[name].unflatten(-1, (-1, self.geometry["index_dim"])).transpose(1, 2) for name in ("iq", "ik")
            )
            sizes = {"block_size": self.geometry["block"]}
            return block_sparse_attention(
                q, k, v, select_blocks(iq, ik, top_k=self.geometry["top_k"], **sizes), **sizes
            )
        k, v = (x.expand(-1, h, -1, -1) if x.shape[1] == 1 else x.repeat_interleave(h // x.shape[1], 1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def flops(self, n: int) -> int:
        """Of the weights, and of the mechanism by exact counts."""
        weights = 2 * n * sum(w.numel() for w in self.weights)
        h, d = self.geometry["heads"], self.geometry["head_dim"]
        if self.mechanism == "rest":
            return weights
        if self.mechanism == "gated":
            return weights + recurrent_flops("gated", n, self.geometry)
        if self.mechanism == "sparse":
            selection = {key: self.geometry[key] for key in SELECTION}
            return weights + costs.msa_flops(n, exact=True, **selection).msa
        return weights + costs.attention_flops(n, heads=h, head_dim=d, causal=True, exact=True)

    def bytes(self, n: int, where: Where) -> int:
        """Weights once, the layer's input and output once."""
        return (sum(w.numel() for w in self.weights) + 2 * n * self.geometry["d_model"]) * where.bytes


def stack(layers: list[Layer], n: int, x: Tensor, where: Where) -> Candidate:
    def run() -> Tensor:
        y = x
        for layer in layers:
            y = layer(y)
        return y

    return Candidate(run, sum(layer.flops(n) for layer in layers), sum(layer.bytes(n, where) for layer in layers))


# --- block-sparse: three speeds of one scheme ------------------------------------------------------------------------

BLOCK_SPARSE = {"heads": 4, "kv_heads": 1, "head_dim": 128, "index_dim": 128, "block": 128, "d_model": 512}


def block_sparse_sizes(where: Where) -> list[dict[str, int]]:
    return [{"tokens": 32_768 if where.card else 8192, "top_k": k} for k in (4, 1, 2, 8, 16, 32)]


def block_sparse_need(size: dict[str, int], where: Where) -> int:
    return prefill_need(size, where) + 12 * size["tokens"] * BLOCK_SPARSE["d_model"] * 4


def block_sparse(size: dict[str, int], where: Where) -> dict[str, Candidate]:
    """Dense attention, and chosen blocks: the index, the main branch, both; and a whole layer with either."""
    n, k = size["tokens"], size["top_k"]
    q, keys, v, _, _, iq, ik = prefill_inputs(n, where).values()
    h, g, d = (BLOCK_SPARSE[key] for key in ("heads", "kv_heads", "head_dim"))
    keys, v, sizes = keys[:, :g], v[:, :g], {"block_size": BLOCK_SPARSE["block"]}
    spread = keys.expand(-1, h, -1, -1), v.expand(-1, h, -1, -1)
    blocks = select_blocks(iq, ik, top_k=k, **sizes)
    geometry = BLOCK_SPARSE | {"top_k": k}
    counted = costs.msa_flops(n, exact=True, **{key: geometry[key] for key in SELECTION})
    once, indexed = 2 * (n * h * d + n * g * d) * where.bytes, (iq.numel() + ik.numel()) * where.bytes
    x = where.normal(1, n, BLOCK_SPARSE["d_model"], seed=6)

    def both() -> Tensor:
        return block_sparse_attention(q, keys, v, select_blocks(iq, ik, top_k=k, **sizes), **sizes)

    return {
        "dense": Candidate(lambda: F.scaled_dot_product_attention(q, *spread, is_causal=True), counted.gqa, once),
        "index": Candidate(
            lambda: (select_blocks(iq, ik, top_k=k, **sizes), iq)[1], counted.index, indexed + 8 * blocks.numel()
        ),
        "main": Candidate(
            lambda: block_sparse_attention(q, keys, v, blocks, **sizes), counted.main, once + 8 * blocks.numel()
        ),
        "sparse": Candidate(both, counted.msa, once + indexed),
        "layer, dense": stack([Layer("dense", geometry, where)], n, x, where),
        "layer, sparse": stack([Layer("sparse", geometry, where)], n, x, where),
    }


# --- hybrid: four layers, a mechanism in each ------------------------------------------------------------------------

HYBRID = {"heads": 4, "kv_heads": 4, "head_dim": 128, "d_model": 512}


def hybrid_need(size: dict[str, int], where: Where) -> int:
    return 20 * size["tokens"] * HYBRID["d_model"] * 4


def hybrid(size: dict[str, int], where: Where) -> dict[str, Candidate]:
    """Four whole layers: all dense, three gated delta layers to one dense, all gated delta, or no attention at all."""
    n = size["tokens"]
    x = where.normal(1, n, HYBRID["d_model"])
    dense, gated, rest = (Layer(mechanism, HYBRID, where) for mechanism in ("dense", "gated", "rest"))
    patterns = {"dense": [dense] * 4, "hybrid": [gated] * 3 + [dense], "gated": [gated] * 4, "rest": [rest] * 4}
    return {name: stack(layers, n, x, where) for name, layers in patterns.items()}


SUITES = {
    suite.name: suite
    for suite in (
        Suite("decode", "one token against a cache or a state", DECODE, decode_sizes, decode_need, decode),
        Suite(
            "prefill",
            "a whole text, mechanism by mechanism",
            PREFILL,
            tokens(512, 16_384, 2**17),
            prefill_need,
            prefill,
        ),
        Suite("flash", "written-out and fused attention", FLASH, tokens(256, 8192, 65_536), flash_need, flash),
        Suite(
            "block-sparse",
            "block selection by k: counted, alone, in a layer",
            BLOCK_SPARSE,
            block_sparse_sizes,
            block_sparse_need,
            block_sparse,
            together=True,
        ),
        Suite(
            "hybrid",
            "four whole layers, mechanism by mechanism",
            HYBRID,
            tokens(512, 8192, 2**16),
            hybrid_need,
            hybrid,
            together=True,
        ),
    )
}


# --- recording -------------------------------------------------------------------------------------------------------


def record(
    name: str,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    minutes: float = 5.0,
    tell: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Run the suite called `name` and return its recording, ready for `recording.dumps`.

    `device`: a GPU if there is one. `dtype`: float32 on a CPU, bfloat16 on a card that has it, else float16. `minutes`:
    about the longest the run takes; sizes and candidates that would not fit are left out and recorded with the reason,
    as are those that run out of memory. `tell` gets a line of progress now and then (by default to stderr). Ctrl-C ends
    the run and keeps what was measured; before anything was, it is passed on.

    Raises ValueError for an unknown suite or a dtype the card lacks, RuntimeError without CUDA or when not even the
    ceilings fit into memory.
    """
    if name not in SUITES:
        raise ValueError(f"suite must be one of {', '.join(SUITES)}, got {name!r}")
    if not 0 < minutes < math.inf:
        raise ValueError(f"minutes must be positive, got {minutes!r}")
    begun, suite = clock(), SUITES[name]
    tell = tell or partial(print, file=sys.stderr, flush=True)
    where = place(device, dtype)
    with _free_of_page_settings():
        return _record(suite, where, begun + 60 * minutes, begun, tell, clock)


def place(device: str | torch.device | None = None, dtype: torch.dtype | None = None) -> Where:
    """Device and dtype of a run: what was asked for, else the best there is."""
    found = _device(device) or _device("cuda" if torch.cuda.is_available() else "cpu")
    if dtype is None:
        old = found.type == "cuda" and torch.cuda.get_device_capability(found) < CAPABILITY[torch.bfloat16]
        dtype = torch.float32 if found.type == "cpu" else torch.float16 if old else torch.bfloat16
    check_dtype(dtype, found)
    return Where(found, dtype)


def file_name(data: dict[str, Any]) -> str:
    """How a recording's file is called: suite and device."""
    device = "cpu" if data["kind"] == "cpu" else str(data["environment"]["device"])
    words = re.sub(r"[^a-z0-9]+", "-", device.lower().replace("nvidia", "").replace("tesla", "")).strip("-")
    return f"{data['suite']}-{words or 'card'}.json"


def _record(
    suite: Suite, where: Where, deadline: float, begun: float, tell: Callable[[str], None], clock: Callable
) -> dict[str, Any]:
    tell(f"{suite.name}: {suite.about}; {where.device}, {_word(where.dtype)}; ceilings first")
    small = {} if where.card else {"gemm_size": 1024}
    top = ceilings(where.device, dtype=where.dtype, run_ms=300, most_rounds=MOST_ROUNDS, **small)
    about = environment(where.device, dtype=where.dtype)
    points, interrupted, costs_ms, sizes = [], False, {}, suite.sizes(where)
    for i, size in enumerate(sizes):
        left = deadline - clock()
        try:
            point = _measure(suite, size, where, left, len(sizes) - i, costs_ms, top, tell)
        except KeyboardInterrupt:
            if not points:
                raise
            interrupted = True
            break
        points.append(point)
        interrupted = any(c["interrupted"] for c in point["candidates"].values())
        if interrupted:
            break
    if interrupted:
        tell(f"{suite.name}: interrupted, what was measured is kept")
    return {
        "schema": SCHEMA,
        "suite": suite.name,
        "kind": where.device.type,
        "environment": about,
        "ceilings": {
            "flop_per_second": top.flop_per_second,
            "bytes_per_second": top.bytes_per_second,
            "gemm": _timing(top.gemm),
            "copy": _timing(top.copy),
        },
        "geometry": suite.geometry,
        "seconds": clock() - begun,
        "interrupted": interrupted,
        "points": [{**p, "candidates": {k: _plain(c) for k, c in p["candidates"].items()}} for p in points],
    }


def _measure(
    suite: Suite,
    size: dict[str, int],
    where: Where,
    left: float,
    points_left: int,
    last: dict[str, tuple[float, float]],
    top: Any,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """One point. `last` holds for each candidate its last median and bound in ms, and is brought up to date."""
    label = ", ".join(f"{key} {value:,}" for key, value in size.items())
    point = {"size": size, "candidates": {}, "skipped": {}}
    need, found = suite.need(size, where), free_bytes(where.device)
    if found is not None and need > ROOM * found:
        point["skipped"]["all"] = f"needs about {costs.format_bytes(need)}, {costs.format_bytes(found)} are free"
        tell(f"{suite.name}: {label}: skipped, {point['skipped']['all']}")
        return point
    if last and left <= 0:
        point["skipped"]["all"] = "out of time"
        tell(f"{suite.name}: {label}: skipped, out of time")
        return point
    try:
        candidates = suite.make(size, where)
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        candidates, point["skipped"]["all"] = {}, "out of memory"
    for name, candidate in candidates.items():
        if found is not None and candidate.held and need + candidate.held > ROOM * found:
            held = costs.format_bytes(candidate.held)
            point["skipped"][name] = f"would hold {held}, {costs.format_bytes(found)} are free"
    bounds = {
        name: 1e3 * max(c.flops / top.flop_per_second, c.bytes / top.bytes_per_second) for name, c in candidates.items()
    }
    known = [name for name in bounds if name in last and name not in point["skipped"]]
    expected = {name: CALLS * last[name][0] * bounds[name] / last[name][1] / 1e3 for name in known}
    for name in sorted(expected, key=expected.get, reverse=True):  # the dearest first, until the rest fits
        if sum(expected.values()) <= max(left, 0):
            break
        taking = sum(expected.values()) if suite.together else expected[name]
        reason = f"would take about {taking:.0f} s, {max(left, 0):.0f} are left"
        if suite.together:
            point["skipped"], candidates = {"all": reason}, {}
            break
        point["skipped"][name] = reason
        del expected[name]
    functions = {name: c.run for name, c in candidates.items() if name not in point["skipped"]}
    if functions:
        share = 1e3 * max(left, 0) / points_left / len(functions)
        run_ms = min(max(0.6 * share, 10.0), 1500.0)
        tell(f"{suite.name}: {label}: {', '.join(functions)}")
        taken: Comparison = compare(
            functions,
            device=where.device,
            warmup_ms=min(50.0, run_ms / 5),
            run_ms=run_ms,
            most_rounds=MOST_ROUNDS,
            skip_out_of_memory=True,
        )
        point["skipped"] |= taken.skipped
        for key, timing in taken.timings.items():
            last[key] = timing.median, bounds[key]
            counts = {"flops": candidates[key].flops, "bytes": candidates[key].bytes}
            point["candidates"][key] = _timing(timing) | counts | {"interrupted": timing.interrupted}
    for name, reason in point["skipped"].items():
        tell(f"{suite.name}: {label}: {name} skipped, {reason}")
    candidates = functions = None
    if where.card:
        torch.cuda.empty_cache()
    return point


def _timing(timing: Timing) -> dict[str, Any]:
    kept = asdict(timing)
    return {key: kept[key] for key in ("first", "overhead", "memory_bytes", "samples")}


def _plain(candidate: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in candidate.items() if key != "interrupted"}


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def free_bytes(device: torch.device) -> int | None:
    """Memory that is free on the device; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        told = Path("/proc/meminfo").read_text()
    except OSError:
        total = environment("cpu")["memory_bytes"]
        return total and total // 2
    return int(re.search(r"MemAvailable:\s*(\d+) kB", told)[1]) * 1024


@contextmanager
def _free_of_page_settings() -> Iterator[None]:
    """No gradients, the default dtype, and deterministic algorithms off: a page sets the last two otherwise."""
    dtype, deterministic = torch.get_default_dtype(), torch.get_deterministic_debug_mode()
    torch.set_default_dtype(torch.float32)
    torch.set_deterministic_debug_mode("default")
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_deterministic_debug_mode(deterministic)
