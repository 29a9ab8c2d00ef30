"""Bytes moved and the time they take at least: attention's HBM traffic, one decode step, the roofline of a card.

Decoding reads every cached number once per step to do a few operations with it, so bandwidth and not arithmetic sets
its pace. Pages: cost/decode, exact/flash-attention, kv_cache/kv-tables.
"""

from dataclasses import dataclass
from fractions import Fraction

from ._checks import amount, choice, count, flag, whole
from .cache import _is_model, kv_numbers_per_layer, linear_state_bytes
from .hardware import Gpu
from .models import ModelConfig


def decode_macs(
    mechanism: str, *, d_k: int, tokens: int | None = None, d_v: int | None = None, normalizer: bool = False
) -> int:
    """Multiply-adds of one head in one decode step.

    ``"softmax"``: tokens (d_k + d_v), the scores and the weighted read over the cache. ``"linear"``: 2 d_k d_v, write
    and read, whatever the length; `normalizer=True` adds the 2 d_k of z. ``"delta"``: 3 d_k d_v, it also reads what the
    key holds. ``"gated"``: 4 d_k d_v, the delta rule with a decay of every entry. d_k is the feature width where a
    feature map widens the key; d_v = d_k by default. Exponentials, divisions and projections are not counted.
    Errors: ValueError for an unknown mechanism, counts below 1, softmax without tokens, a normalizer elsewhere.
    """
    choice("mechanism", mechanism, ("softmax", "linear", "delta", "gated"))
    d_k = count("d_k", d_k)
    d_v = d_k if d_v is None else count("d_v", d_v)
    if tokens is not None:
        tokens = count("tokens", tokens)
    if flag("normalizer", normalizer) and mechanism != "linear":
        raise ValueError(f"normalizer wants mechanism='linear', got {mechanism!r}")
    if mechanism == "softmax":
        if tokens is None:
            raise ValueError("tokens wants a number for mechanism='softmax', got None")
        return tokens * (d_k + d_v)
    return {"linear": 2, "delta": 3, "gated": 4}[mechanism] * d_k * d_v + (2 * d_k if normalizer else 0)


@dataclass(frozen=True)
class Traffic:
    """Numbers read from and written to HBM, and the bytes of both."""

    reads: int
    writes: int
    bytes_per_number: int | float

    @property
    def numbers(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    @property
    def bytes(self) -> int | float:
        """Bytes of both."""
        return whole(self.numbers * Fraction(self.bytes_per_number))


def hbm_traffic(
    algorithm: str,
    *,
    tokens: int,
    head_dim: int,
    causal: bool,
    heads: int = 1,
    block_q: int = 128,
    block_k: int = 128,
    bytes_per_number: int | float = 2,
) -> Traffic:
    """HBM traffic of one forward pass of attention (n x n, no cache hits counted).

    ``"naive"`` is three kernels: S = Q K^T is written, read, P is written, read for P V: 4 n^2 + 4 n d numbers; a
    causal mask saves none of it. ``"tiled"`` is FlashAttention-2's loop: a tile of `block_q` queries stays on chip,
    keys and values stream past in tiles of `block_k`: 2 n d + 2 n d n / block_q. When causal only the visible tiles do,
    about half of the second term.
    Errors: ValueError for an unknown algorithm or counts below 1. Source: Dao et al. 2022, Theorem 2; Dao 2023.
    """
    choice("algorithm", algorithm, ("naive", "tiled"))
    n, d, heads = count("tokens", tokens), count("head_dim", head_dim), count("heads", heads)
    block_q, block_k = count("block_q", block_q), count("block_k", block_k)
    flag("causal", causal)
    bytes_per_number = whole(amount("bytes_per_number", bytes_per_number))
    if algorithm == "naive":
        return Traffic(heads * (2 * n**2 + 3 * n * d), heads * (2 * n**2 + n * d), bytes_per_number)
    streamed = 0  # rows of K (and of V) read over all query tiles
    for start in range(0, n, block_q):
        seen = min(start + block_q, n) if causal else n
        streamed += min(-(-seen // block_k) * block_k, n)
    return Traffic(heads * (n * d + 2 * streamed * d), heads * n * d, bytes_per_number)


@dataclass(frozen=True)
class Bound:
    """The least time a card needs for `flops` and `bytes_moved`, were both at their peak and overlapped."""

    flops: int | float
    bytes_moved: int | float
    compute_seconds: float
    memory_seconds: float
    ridge: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def limit(self) -> str:
        """``"memory"`` or ``"compute"``, whichever takes longer."""
        return "memory" if self.memory_seconds >= self.compute_seconds else "compute"

    @property
    def intensity(self) -> float:
        """FLOP per byte moved; a card computes at its peak from `ridge` FLOP per byte on."""
        return self.flops / self.bytes_moved


def bound(gpu: Gpu, *, flops: int | float, bytes_moved: int | float, dtype: str = "bf16", cards: int = 1) -> Bound:
    """Roofline bound of a piece of work on `cards` cards that share it evenly, communication free.

    Errors: ValueError for work that is not above 0, fewer than one card, a dtype without a peak on the card.
    """
    if not isinstance(gpu, Gpu):
        raise ValueError(f"gpu wants a Gpu of attnledger.costs.hardware, got {gpu!r}")
    flops, bytes_moved, cards = amount("flops", flops), amount("bytes_moved", bytes_moved), count("cards", cards)
    compute, memory = flops / (cards * gpu.peak(dtype)), bytes_moved / (cards * gpu.bandwidth)
    return Bound(whole(flops), whole(bytes_moved), float(compute), float(memory), gpu.ridge(dtype))


def decode_attention_flops(model: ModelConfig, tokens: int) -> int:
    """FLOP of the attention of one decode step over `tokens` cached tokens, all layers, projections not counted.

    Grouped heads: 2 h (d_k + d_v) per visible token. MLA with absorbed projections: 2 h (2 d_c + d_R), scores and read
    in the latent. Sparse layers read at most top_k blocks and score every token with the index heads. Linear layers:
    4 d_k d_v multiply-adds per value head, the gated delta rule of every such model in `costs.models`.
    Errors: ValueError for tokens below 1 or something that is no model.
    """
    tokens = count("tokens", tokens)
    _is_model(model)
    if model.attention == "mla":
        per_token = 2 * model.heads * (2 * model.kv_lora_rank + model.rope_dim)
    else:
        per_token = 2 * model.heads * (model.head_dim + model.value_dim)
    flops = 0
    for layer in model.full_layers:
        flops += per_token * _seen(model, layer, tokens)
        if layer in model.sparse_layers:
            flops += 2 * model.index_heads * model.index_dim * tokens
    if model.linear_layers:
        each = decode_macs("gated", d_k=model.linear_key_dim, d_v=model.linear_value_dim)
        flops += 2 * each * model.linear_value_heads * len(model.linear_layers)
    return flops


def decode_read_bytes(model: ModelConfig, tokens: int, *, bytes_per_number: int | float = 2) -> int | float:
    """Cached bytes one decode step reads: in sparse layers chosen blocks and all index keys, elsewhere the cache.

    Errors: ValueError for tokens below 1 or bytes that are not above 0.
    """
    tokens = count("tokens", tokens)
    numbers = kv_numbers_per_layer(model) * sum(_seen(model, layer, tokens) for layer in model.full_layers)
    numbers += len(model.sparse_layers) * (model.index_dim or 0) * tokens
    return whole(numbers * amount("bytes_per_number", bytes_per_number))


def _seen(model: ModelConfig, layer: int, tokens: int) -> int:
    """Cached tokens whose keys and values the last of `tokens` queries reads in a layer with a cache."""
    seen = min(tokens, model.window) if layer in model.window_layers else tokens
    if layer in model.sparse_layers:
        own = (tokens - 1) % model.block + 1  # visible tokens of the query's own block
        seen = min(seen, (model.top_k - 1) * model.block + own)
    return seen


def decode_bound(
    model: ModelConfig,
    gpu: Gpu,
    *,
    tokens: int,
    requests: int = 1,
    cards: int = 1,
    weights: bool = True,
    bytes_per_number: int | float = 2,
    weight_bytes_per_number: int | float = 2,
    state_bytes_per_number: int | float = 4,
    dtype: str = "bf16",
) -> Bound:
    """The least time of one decode step of `requests` sequences with `tokens` cached tokens each.

    Moves the active weights once (weights=True; requests that differ wake more experts), every request's cache, and
    every state twice. Computes 2 FLOP per active parameter and request and the attention. All published parameters
    count, the input embedding's among them, of which a step reads one row per request: with untied embeddings that is
    ``vocab * d_model`` too many (7 % of the bytes of Llama 3 8B). weights=False leaves the weights out of both: the
    attention alone.
    Errors: ValueError for wrong counts, or a model without a parameter count when weights=True.
    """
    requests = count("requests", requests)
    weight_bytes_per_number = amount("weight_bytes_per_number", weight_bytes_per_number)
    state_bytes_per_number = amount("state_bytes_per_number", state_bytes_per_number)
    flops = requests * decode_attention_flops(model, tokens)
    moved = requests * decode_read_bytes(model, tokens, bytes_per_number=bytes_per_number)
    if model.linear_layers:
        moved += 2 * linear_state_bytes(model, bytes_per_number=state_bytes_per_number, requests=requests)
    if flag("weights", weights):
        active = model.active_parameters or model.parameters
        if active is None:
            raise ValueError(f"weights wants False for {model.name} without a parameter count, got True")
        flops += 2 * requests * active
        moved += active * weight_bytes_per_number
    return bound(gpu, flops=flops, bytes_moved=moved, dtype=dtype, cards=cards)
