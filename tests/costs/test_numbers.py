"""What every count shares: NumPy's numbers, which overflow, and large ones, which floats would round."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from attnledger.costs import (
    bound,
    crossover_length,
    decode_bound,
    decode_read_bytes,
    hbm_traffic,
    kv_bytes_per_token,
    kv_cache_bytes,
    layer_weights,
    linear_state_bytes,
    projection_flops,
    requests_per_card,
    score_matrix_bytes,
    state_crossover_tokens,
)
from attnledger.costs.hardware import H100
from attnledger.costs.models import KIMI_LINEAR_48B, LLAMA_3_8B, MINIMAX_M3


@pytest.mark.parametrize(
    "call",
    [
        lambda n: kv_bytes_per_token(LLAMA_3_8B, scheme="gqa", kv_heads=n(8)),
        lambda n: kv_cache_bytes(LLAMA_3_8B, 10**6, scheme="gqa", kv_heads=n(8)),
        lambda n: kv_bytes_per_token(LLAMA_3_8B, scheme="tpa", ranks=(n(8), n(8))),
        lambda n: kv_bytes_per_token(LLAMA_3_8B, bytes_per_number=n(2)),
        lambda n: projection_flops(4096, d_model=4096, heads=64, head_dim=n(64)),
        lambda n: layer_weights(d_model=4096, heads=64, head_dim=n(64)),
        lambda n: crossover_length(causal=True, d_model=4096, heads=32, kv_heads=n(8)),
        lambda n: hbm_traffic("naive", tokens=20_000, head_dim=64, causal=False, bytes_per_number=n(2)).bytes,
        lambda n: decode_read_bytes(MINIMAX_M3, 100_000, bytes_per_number=n(2)),
        lambda n: decode_bound(KIMI_LINEAR_48B, H100, tokens=9, weight_bytes_per_number=n(2)).bytes_moved,
        lambda n: linear_state_bytes(KIMI_LINEAR_48B, bytes_per_number=n(4), requests=n(100)),
        lambda n: state_crossover_tokens(kv_numbers=n(2), state_numbers=100, kv_bytes_per_number=n(1)),
        lambda n: kv_cache_bytes(replace(LLAMA_3_8B, kv_heads=n(8), head_dim=n(64), value_dim=n(64)), 131_072),
        lambda n: requests_per_card(LLAMA_3_8B, H100, tokens=n(100), cards=n(2), reserve_bytes=n(100)),
    ],
)
def test_numpy_numbers_count_as_plain_ones(call):
    assert call(np.int8) == call(int)
    assert type(call(np.int8)) is type(call(int))


@pytest.mark.parametrize("half", [np.float16(0.5), np.float64(0.5), Fraction(1, 2), 0.5])
def test_bytes_of_four_bits_may_come_in_any_type(half):
    assert hbm_traffic("naive", tokens=4097, head_dim=63, causal=False, bytes_per_number=half).bytes == 2 * (
        4097**2 + 4097 * 63
    )
    assert kv_bytes_per_token(LLAMA_3_8B, bytes_per_number=half) == 2**15
    assert isinstance(kv_bytes_per_token(LLAMA_3_8B, bytes_per_number=half), int)


def test_a_third_of_a_byte_is_a_third():
    assert score_matrix_bytes(3 * 2**30, bytes_per_number=Fraction(1, 3)) == 3 * 2**60


def test_counts_beyond_2_to_the_53_stay_exact():
    n = 2**27 + 1
    assert score_matrix_bytes(n, bytes_per_number=2.0) == 2 * n**2
    assert score_matrix_bytes(2 * n, bytes_per_number=0.25) == n**2
    assert state_crossover_tokens(kv_numbers=1, state_numbers=2**53 + 1) == 2**53 + 1
    assert bound(H100, flops=2**53 + 1, bytes_moved=2**53 + 1).flops == 2**53 + 1
    traffic = hbm_traffic("naive", tokens=2**30 + 1, head_dim=1, causal=False, bytes_per_number=1.0)
    assert traffic.bytes == traffic.numbers == 4 * (2**30 + 1) ** 2 + 4 * (2**30 + 1)
