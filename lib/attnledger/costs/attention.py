"""Work of softmax attention: the two products of data with data, the projections around them, and where they meet.

A multiply-add is 2 FLOP. Only the matrix products are counted; softmax, norms and activations come on top, O(n^2) and
O(n d). With h heads of width d_h, n queries see `pairs` (query, key) pairs and cost 2 h (d_k + d_v) pairs FLOP; the
weights of a layer cost 2 FLOP per weight and token. Pages: cost/softmax-attention, cost/crossover.
"""

from fractions import Fraction

from ._checks import amount, choice, count, flag, whole


def visible_pairs(queries: int, keys: int | None = None, *, causal: bool, window: int | None = None) -> int:
    """(Query, key) pairs that attention scores, exactly.

    `queries` tokens at the end of `keys` tokens (all of them by default); a causal query sees itself and what stands
    before it, at most `window` keys if a window is given. ValueError: counts below 1, more queries than keys when
    causal, a window without causal.
    """
    queries = count("queries", queries)
    keys = queries if keys is None else count("keys", keys)
    if not flag("causal", causal):
        if window is not None:
            raise ValueError(f"window wants causal=True, got {window!r} with causal=False")
        return queries * keys
    if keys < queries:
        raise ValueError(f"keys wants at least queries={queries} when causal, got {keys}")
    window = keys if window is None else count("window", window)
    first = keys - queries + 1  # keys the first query sees without a window
    growing = max(0, min(window, keys) - first + 1)  # queries whose view is not capped
    return growing * (2 * first + growing - 1) // 2 + (queries - growing) * window


def attention_flops(
    queries: int,
    *,
    heads: int,
    head_dim: int,
    causal: bool,
    value_dim: int | None = None,
    keys: int | None = None,
    window: int | None = None,
    exact: bool = False,
) -> int:
    """FLOP of scores and weighted read for one layer: 2 heads (head_dim + value_dim) pairs.

    exact=False is the textbook form: n^2 pairs, half of them when causal (n^2 / 2). exact=True counts the diagonal,
    n (n + 1) / 2. With `keys` or `window` the count is exact either way. Kept apart from the heads that share keys: GQA
    saves bytes, not FLOP. Errors: ValueError as in `visible_pairs`. Source: Vaswani et al. 2017, Eq. 1.
    """
    queries, heads = count("queries", queries), count("heads", heads)
    width = count("head_dim", head_dim) + count("value_dim", head_dim if value_dim is None else value_dim)
    if flag("exact", exact) or keys is not None or window is not None:
        return 2 * heads * width * visible_pairs(queries, keys, causal=causal, window=window)
    return heads * width * queries**2 * (1 if flag("causal", causal) else 2)


def layer_weights(
    *,
    d_model: int,
    d_ff: int | None = None,
    gated: bool = False,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
) -> int:
    """Weights of one dense layer's matrices: queries, keys, values, output, and the FFN.

    Left out, the heads span d_model and none is shared (4 d^2), and the FFN has d_ff = 4 d_model without a gate
    (8 d^2): together the 12 d^2 of the textbooks. `gated=True` gives the FFN its third matrix (SwiGLU).
    Errors: ValueError for counts below 1, kv_heads that does not divide heads, kv_heads or head_dim without heads.
    """
    d_model = count("d_model", d_model)
    d_ff = 4 * d_model if d_ff is None else count("d_ff", d_ff)
    query_width, kv_width = _widths(d_model, heads, kv_heads, head_dim)
    return 2 * d_model * (query_width + kv_width) + (3 if flag("gated", gated) else 2) * d_model * d_ff


def _widths(d_model: int, heads: int | None, kv_heads: int | None, head_dim: int | None) -> tuple[int, int]:
    """Width of all query heads and of all key heads."""
    if heads is None:
        if kv_heads is not None or head_dim is not None:
            raise ValueError("heads wants a number beside kv_heads or head_dim, got None")
        return d_model, d_model
    heads = count("heads", heads)
    if head_dim is None:
        if d_model % heads:
            raise ValueError(f"heads wants a divisor of d_model={d_model}, or head_dim beside it, got {heads}")
        head_dim = d_model // heads
    head_dim, kv_heads = count("head_dim", head_dim), heads if kv_heads is None else count("kv_heads", kv_heads)
    if heads % kv_heads:
        raise ValueError(f"kv_heads wants a divisor of heads={heads}, got {kv_heads}")
    return heads * head_dim, kv_heads * head_dim


def projection_flops(tokens: int, *, d_model: int, **geometry) -> int:
    """FLOP of one layer's weight products: 2 per weight and token, 24 n d^2 for the textbook layer.

    Geometry and errors as in `layer_weights`; a model's geometry is ``**model.layer_geometry``.
    """
    return 2 * count("tokens", tokens) * layer_weights(d_model=d_model, **geometry)


def quadratic_share(tokens: int, *, causal: bool, of: str, d_model: int, **geometry) -> float:
    """Attention's quadratic FLOP as a share of=``"projections"`` (may exceed 1) or of=``"layer"`` (their sum), 0 to 1.

    Causal counts half of n^2. Geometry and errors as in `layer_weights`.
    """
    choice("of", of, ("projections", "layer"))
    linear = projection_flops(tokens, d_model=d_model, **geometry)
    width = _widths(d_model, geometry.get("heads"), geometry.get("kv_heads"), geometry.get("head_dim"))[0]
    quadratic = attention_flops(tokens, heads=1, head_dim=width, causal=causal)
    return quadratic / (linear if of == "projections" else linear + quadratic)


def crossover_length(*, causal: bool, d_model: int, **geometry) -> int | float:
    """Tokens at which attention's quadratic FLOP equal the layer's weight FLOP.

    Weights over width when causal, half of that bidirectionally: 12 d and 6 d for the textbook layer. Geometry and
    errors as in `layer_weights`. An int where it comes out whole.
    """
    weights = layer_weights(d_model=d_model, **geometry)
    width = _widths(d_model, geometry.get("heads"), geometry.get("kv_heads"), geometry.get("head_dim"))[0]
    return whole(Fraction(weights, width if flag("causal", causal) else 2 * width))


def score_matrix_bytes(
    tokens: int,
    *,
    heads: int = 1,
    layers: int = 1,
    batch: int = 1,
    matrices: int = 1,
    bytes_per_number: int | float = 2,
) -> int | float:
    """Bytes of the n x n matrices when they are written out: one per head, layer and sequence.

    `matrices=2` for scores and weights. The whole square: a causal mask saves nothing of a stored matrix. ValueError:
    counts below 1, bytes that are not above 0.
    """
    copies = count("heads", heads) * count("layers", layers) * count("batch", batch) * count("matrices", matrices)
    return whole(count("tokens", tokens) ** 2 * copies * amount("bytes_per_number", bytes_per_number))
