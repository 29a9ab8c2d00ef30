"""Work of MiniMax Sparse Attention against dense GQA (arXiv 2606.13392, Eq. 12), by formula and by exact causal counts.

    F_GQA = 2 H_q d_h N^2        F_MSA = H_kv d_idx N^2 + 4 H_q d_h N k B_k

Both quadratic terms carry the causal half. The index branch scores every visible key once per KV head, so it stays
quadratic and caps the gain at 2 H_q d_h / (H_kv d_idx). Eq. 12 charges every query k B_k keys, also the early ones that
see fewer; the exact count charges what a query can see. Page: sparse/block-selection.
"""

from dataclasses import dataclass

from ._checks import count, flag
from .attention import visible_pairs


@dataclass(frozen=True)
class MsaFlops:
    """FLOP of one layer over N tokens: dense attention (`gqa`), the index branch and the main branch."""

    gqa: int
    index: int
    main: int

    @property
    def msa(self) -> int:
        """Both branches."""
        return self.index + self.main

    @property
    def ratio(self) -> float:
        """How many times less than dense attention both branches need."""
        return self.gqa / self.msa

    @property
    def main_ratio(self) -> float:
        """The same for the main branch alone."""
        return self.gqa / self.main

    @property
    def index_share(self) -> float:
        """The index branch's share of both."""
        return self.index / self.msa


def selected_pairs(n: int, *, top_k: int, block: int) -> int:
    """(Query, key) pairs of the main branch over n tokens, exactly.

    A query reads its own block up to itself and at most top_k - 1 whole blocks before it. ValueError: counts below 1.
    """
    n, top_k, block = count("n", n), count("top_k", top_k), count("block", block)
    blocks, tail = divmod(n, block)
    own = blocks * (block * (block + 1) // 2) + tail * (tail + 1) // 2
    ramp = min(blocks, top_k - 1)  # a query of block b reads min(b, top_k - 1) blocks before its own
    earlier = block * (ramp * (ramp - 1) // 2 + (blocks - ramp) * (top_k - 1)) + tail * min(blocks, top_k - 1)
    return own + block * earlier


def msa_flops(
    n: int,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    index_dim: int,
    top_k: int,
    block: int,
    exact: bool = False,
) -> MsaFlops:
    """FLOP of one causal layer over n tokens, dense and with block selection.

    exact=False is Eq. 12 as printed; exact=True counts the pairs a causal query sees (n (n + 1) / 2, and
    `selected_pairs`). Errors: ValueError for counts below 1 or kv_heads that does not divide heads.
    """
    n, heads, kv_heads = count("n", n), count("heads", heads), count("kv_heads", kv_heads)
    head_dim, index_dim = count("head_dim", head_dim), count("index_dim", index_dim)
    top_k, block = count("top_k", top_k), count("block", block)
    if heads % kv_heads:
        raise ValueError(f"kv_heads wants a divisor of heads={heads}, got {kv_heads}")
    if flag("exact", exact):
        pairs = visible_pairs(n, causal=True)
        chosen = selected_pairs(n, top_k=top_k, block=block)
        return MsaFlops(4 * heads * head_dim * pairs, 2 * kv_heads * index_dim * pairs, 4 * heads * head_dim * chosen)
    return MsaFlops(2 * heads * head_dim * n**2, kv_heads * index_dim * n**2, 4 * heads * head_dim * n * top_k * block)


def msa_break_even(*, exact: bool = False, **geometry) -> int | None:
    """The smallest n at which both MSA branches together need no more FLOP than dense attention.

    Geometry and errors as in `msa_flops`. None where that never happens (an index branch as wide as the heads it
    replaces).
    """
    msa_flops(1, exact=exact, **geometry)  # checks the geometry
    if geometry["kv_heads"] * geometry["index_dim"] >= 2 * geometry["heads"] * geometry["head_dim"]:
        return None
    high = 1
    while not _pays(high, exact, geometry):
        high *= 2
    low = high // 2  # does not pay yet (0 when one token already pays)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _pays(middle, exact, geometry) else (middle, high)
    return high


def _pays(n: int, exact: bool, geometry: dict[str, int]) -> bool:
    work = msa_flops(n, exact=exact, **geometry)
    return work.msa <= work.gqa
