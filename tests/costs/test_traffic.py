"""attnledger.costs.traffic against a tiled loop that counts what it touches, and against figures worked by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnledger.costs import (
    bound,
    decode_attention_flops,
    decode_bound,
    decode_macs,
    decode_read_bytes,
    hbm_traffic,
    kv_cache_bytes,
)
from attnledger.costs.hardware import H100, T4
from attnledger.costs.models import (
    DEEPSEEK_V3,
    GPT_3_6_7B,
    KIMI_LINEAR_48B,
    LLAMA_3_8B,
    MINIMAX_M3,
    MISTRAL_7B,
    MODELS,
    QWEN3_5_397B,
    ModelConfig,
)


class Memory:
    """Arrays that count the numbers read from and written to them."""

    def __init__(self):
        self.reads = self.writes = 0

    def read(self, *shape):
        self.reads += int(np.prod(shape))

    def write(self, *shape):
        self.writes += int(np.prod(shape))


def tiled(n, d, block_q, block_k, causal):
    memory = Memory()
    for start in range(0, n, block_q):
        rows = min(block_q, n - start)
        memory.read(rows, d)
        for column in range(0, n, block_k):
            if causal and column > start + rows - 1:
                continue
            columns = min(block_k, n - column)
            memory.read(columns, d)
            memory.read(columns, d)
        memory.write(rows, d)
    return memory


@given(
    n=st.integers(1, 40),
    d=st.integers(1, 5),
    block_q=st.integers(1, 9),
    block_k=st.integers(1, 9),
    causal=st.booleans(),
    heads=st.integers(1, 3),
)
def test_tiled_traffic_is_what_the_loop_touches(n, d, block_q, block_k, causal, heads):
    memory = tiled(n, d, block_q, block_k, causal)
    got = hbm_traffic(
        "tiled", tokens=n, head_dim=d, causal=causal, heads=heads, block_q=block_q, block_k=block_k, bytes_per_number=4
    )
    assert (got.reads, got.writes) == (heads * memory.reads, heads * memory.writes)
    assert got.bytes == 4 * got.numbers


def test_naive_traffic_is_that_of_three_kernels():
    memory = Memory()
    n, d = 11, 3
    for reads, write in ([[(n, d), (n, d)], (n, n)], [[(n, n)], (n, n)], [[(n, n), (n, d)], (n, d)]):
        for shape in reads:
            memory.read(*shape)
        memory.write(*write)
    got = hbm_traffic("naive", tokens=n, head_dim=d, causal=True)
    assert (got.reads, got.writes) == (memory.reads, memory.writes)
    assert got.numbers == 4 * n * n + 4 * n * d


def test_the_factor_3_9_at_4096_tokens():
    naive = hbm_traffic("naive", tokens=4096, head_dim=64, causal=False)
    fused = hbm_traffic("tiled", tokens=4096, head_dim=64, causal=False)
    assert (naive.numbers, fused.numbers) == (68_157_440, 17_301_504)
    assert round(naive.numbers / fused.numbers, 1) == 3.9


def test_tiles_of_128_tokens_and_two_bytes_unless_told_otherwise():
    for causal in (True, False):
        fused = {"tokens": 300, "head_dim": 4, "causal": causal}
        want = hbm_traffic("tiled", block_q=128, block_k=128, bytes_per_number=2, **fused)
        assert hbm_traffic("tiled", **fused) == want
        memory = tiled(300, 4, 128, 128, causal)
        assert (want.reads, want.writes, want.bytes) == (memory.reads, memory.writes, 2 * want.numbers)


def test_a_count_cannot_be_overwritten():
    with pytest.raises(AttributeError):
        hbm_traffic("naive", tokens=1, head_dim=1, causal=True).reads = 0
    with pytest.raises(AttributeError):
        bound(H100, flops=1, bytes_moved=1).flops = 0


def test_decode_macs_are_those_of_the_array_products():
    n, d_k, d_v = 7, 3, 5
    q, keys, values, state = np.ones(d_k), np.ones((n, d_k)), np.ones((n, d_v)), np.ones((d_k, d_v))
    assert decode_macs("softmax", tokens=n, d_k=d_k, d_v=d_v) == keys.size + values.size
    write, read = np.outer(q, values[0]).size, state.size
    assert decode_macs("linear", d_k=d_k, d_v=d_v) == write + read
    assert decode_macs("linear", d_k=d_k, d_v=d_v, normalizer=True) == write + read + 2 * d_k
    assert decode_macs("delta", d_k=d_k, d_v=d_v) == write + read + state.size
    assert decode_macs("gated", d_k=d_k, d_v=d_v) == write + read + 2 * state.size


@pytest.mark.parametrize(("n", "softmax", "ratio"), [(256, 65_536, 2), (4096, 1_048_576, 32), (2**20, 2**28, 8192)])
def test_table_14_1(n, softmax, ratio):
    assert decode_macs("softmax", tokens=n, d_k=128) == softmax
    assert softmax / decode_macs("linear", d_k=128) == ratio


def test_a_bound_is_the_longer_of_two_times():
    slow = bound(H100, flops=H100.bf16, bytes_moved=1)
    assert (slow.compute_seconds, slow.limit, slow.seconds) == (1.0, "compute", 1.0)
    wide = bound(H100, flops=1, bytes_moved=2 * H100.bandwidth, cards=2)
    assert (wide.memory_seconds, wide.limit) == (1.0, "memory")
    assert wide.intensity == 1 / (2 * H100.bandwidth)
    assert bound(T4, flops=T4.fp16, bytes_moved=1, dtype="fp16").seconds == 1.0


def test_at_the_ridge_both_times_are_equal_and_memory_is_named():
    even = bound(H100, flops=H100.bf16, bytes_moved=H100.bandwidth)
    assert (even.compute_seconds, even.memory_seconds, even.limit) == (1.0, 1.0, "memory")
    assert even.intensity == even.ridge == H100.ridge("bf16")
    assert bound(H100, flops=1, bytes_moved=1, dtype="fp8").ridge == H100.ridge("fp8")


def test_attention_of_a_decode_step_does_one_flop_per_byte_and_query_head():
    for model, flop_per_byte in ((GPT_3_6_7B, 1.0), (LLAMA_3_8B, 4.0), (MINIMAX_M3, None)):
        got = decode_bound(model, H100, tokens=4096, weights=False)
        assert got.limit == "memory"
        if flop_per_byte:
            assert got.intensity == flop_per_byte


def test_llama_3_8b_takes_48_seconds_for_ten_thousand_tokens():
    # source D: 16.06 GB of weights per token at 3.35 TB/s; the cache adds 2 seconds
    weights = 10_000 * 2 * LLAMA_3_8B.parameters / H100.bandwidth
    assert round(weights) == 48
    total = sum(decode_bound(LLAMA_3_8B, H100, tokens=t).seconds for t in range(1, 10_001))
    cache = sum(kv_cache_bytes(LLAMA_3_8B, t) for t in range(1, 10_001)) / H100.bandwidth
    assert total == pytest.approx(weights + cache, rel=1e-9)
    assert round(cache, 1) == 2.0


def test_every_option_of_a_decode_step_by_hand():
    model = ModelConfig(
        "t", "gqa", layers=2, d_model=8, heads=4, kv_heads=2, head_dim=3, value_dim=5, parameters=1000,
        linear_layers=(1,), linear_key_heads=2, linear_value_heads=3, linear_key_dim=4, linear_value_dim=7,
    )  # fmt: skip
    attention, states = 2 * 4 * (3 + 5) * 9, 2 * 4 * (4 * 7) * 3
    assert decode_attention_flops(model, 9) == attention + states
    options = {"bytes_per_number": 1, "state_bytes_per_number": 2, "weight_bytes_per_number": 0.5, "dtype": "fp8"}
    got = decode_bound(model, H100, tokens=9, requests=3, cards=2, **options)
    assert got.flops == 3 * (attention + states) + 2 * 3 * 1000
    assert got.bytes_moved == 3 * (9 * 2 * (3 + 5) * 1) + 3 * (2 * 3 * 4 * 7 * 2) + 500
    assert got.compute_seconds == got.flops / (2 * H100.fp8)
    assert got.memory_seconds == got.bytes_moved / (2 * H100.bandwidth)
    assert decode_bound(replace(model, active_parameters=10), H100, tokens=9).flops == attention + states + 2 * 10


def test_requests_share_the_weights_but_not_their_caches():
    one, eight = (decode_bound(LLAMA_3_8B, H100, tokens=1000, requests=r) for r in (1, 8))
    assert eight.bytes_moved - one.bytes_moved == 7 * kv_cache_bytes(LLAMA_3_8B, 1000)
    assert eight.flops == 8 * one.flops


def test_absorbed_mla_scores_576_and_reads_512_channels():
    assert decode_attention_flops(DEEPSEEK_V3, 10) == 61 * 10 * 128 * 2 * (576 + 512)


def test_windows_states_and_blocks_cap_the_work():
    assert decode_attention_flops(MISTRAL_7B, 10**5) == decode_attention_flops(MISTRAL_7B, 4096)
    states = 2 * 4 * 64 * 128 * 128 * 45
    attention = 2 * 32 * 512 * 15
    assert decode_attention_flops(QWEN3_5_397B, 1) == attention + states
    n = 128 * 100
    dense, sparse, index = 3 * 2 * 64 * 256 * n, 57 * 2 * 64 * 256 * 2048, 57 * 2 * 4 * 128 * n
    assert decode_attention_flops(MINIMAX_M3, n) == dense + sparse + index
    read = (3 * 1024 * n + 57 * (1024 * 2048 + 128 * n)) * 2
    assert decode_read_bytes(MINIMAX_M3, n) == read


# layers that both select and keep a window or a latent: no listed model has them, DeepSeek-V3.2 selects in its latent
INDEXED = {"sparse_layers": (0, 1), "index_heads": 4, "index_dim": 8, "block": 16, "top_k": 2}
MIXED = (
    replace(DEEPSEEK_V3, name="selects in the latent", **INDEXED),
    replace(MISTRAL_7B, name="selects in a window", window=20, **INDEXED),
    replace(MISTRAL_7B, name="selects more than a window", window=20, **INDEXED | {"top_k": 9}),
)


@pytest.mark.parametrize("model", MIXED, ids=lambda model: model.name)
def test_a_layer_that_selects_reads_no_more_than_its_window_and_its_latent(model):
    n = 16 * 7 + 3
    chosen = min(16 * (model.top_k - 1) + 3, model.window or n)
    rest = min(n, model.window or n)
    each = 576 if model.attention == "mla" else 2 * 8 * 128
    assert decode_read_bytes(model, n) == 2 * (2 * (each * chosen + 8 * n) + (model.layers - 2) * each * rest)


@given(st.integers(1, 10**6), st.sampled_from((*MODELS, *MIXED)))
def test_no_step_reads_more_than_it_holds(tokens, model):
    assert 0 < decode_read_bytes(model, tokens) <= kv_cache_bytes(model, tokens)


@given(n=st.integers(1, 3000))
def test_a_sparse_layer_reads_its_own_block_up_to_the_query(n):
    model = ModelConfig(
        "s", "gqa", layers=1, d_model=4, heads=2, kv_heads=1, head_dim=1, value_dim=1,
        sparse_layers=(0,), index_heads=1, index_dim=1, block=10, top_k=3,
    )  # fmt: skip
    own = (n - 1) // 10
    seen = sum(1 for b in [own, *range(own)][:3] for j in range(b * 10, min(b * 10 + 10, n)))
    assert decode_read_bytes(model, n, bytes_per_number=1) == 2 * seen + n


def test_states_are_read_and_written_in_fp32():
    got = decode_bound(KIMI_LINEAR_48B, H100, tokens=1, weights=False)
    assert got.bytes_moved == 7 * 576 * 2 + 2 * 4 * 20 * 32 * 128 * 128


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: decode_macs("rnn", d_k=1), "mechanism"),
        (lambda: decode_macs("softmax", d_k=1), "tokens"),
        (lambda: decode_macs("softmax", d_k=1, tokens=0), "tokens"),
        (lambda: decode_macs("linear", d_k=0), "d_k"),
        (lambda: decode_macs("linear", d_k=1, d_v=0), "d_v"),
        (lambda: decode_macs("delta", d_k=1, normalizer=True), "normalizer"),
        (lambda: decode_macs("linear", d_k=1, normalizer=1), "normalizer"),
        (lambda: hbm_traffic("flash", tokens=1, head_dim=1, causal=True), "algorithm"),
        (lambda: hbm_traffic("tiled", tokens=0, head_dim=1, causal=True), "tokens"),
        (lambda: hbm_traffic("tiled", tokens=1, head_dim=0, causal=True), "head_dim"),
        (lambda: hbm_traffic("tiled", tokens=1, head_dim=1, causal=None), "causal"),
        (lambda: hbm_traffic("tiled", tokens=1, head_dim=1, causal=True, heads=0), "heads"),
        (lambda: hbm_traffic("tiled", tokens=1, head_dim=1, causal=True, block_q=0), "block_q"),
        (lambda: hbm_traffic("tiled", tokens=1, head_dim=1, causal=True, block_k=0), "block_k"),
        (lambda: hbm_traffic("tiled", tokens=1, head_dim=1, causal=True, bytes_per_number=0), "bytes_per_number"),
        (lambda: bound("H100", flops=1, bytes_moved=1), "gpu"),
        (lambda: bound(H100, flops=0, bytes_moved=1), "flops"),
        (lambda: bound(H100, flops=1, bytes_moved=0), "bytes_moved"),
        (lambda: bound(H100, flops=1, bytes_moved=1, cards=0), "cards"),
        (lambda: bound(H100, flops=1, bytes_moved=1, dtype="int8"), "dtype"),
        (lambda: bound(T4, flops=1, bytes_moved=1), "dtype"),
        (lambda: decode_attention_flops(LLAMA_3_8B, 0), "tokens"),
        (lambda: decode_attention_flops("llama", 1), "model"),
        (lambda: decode_read_bytes(LLAMA_3_8B, 0), "tokens"),
        (lambda: decode_read_bytes(LLAMA_3_8B, 1, bytes_per_number=0), "bytes_per_number"),
        (lambda: decode_bound(LLAMA_3_8B, H100, tokens=1, requests=0), "requests"),
        (lambda: decode_bound(LLAMA_3_8B, H100, tokens=1, weights=1), "weights"),
        (lambda: decode_bound(LLAMA_3_8B, H100, tokens=1, weight_bytes_per_number=0), "weight_bytes_per_number"),
        (lambda: decode_bound(QWEN3_5_397B, H100, tokens=1, state_bytes_per_number=0), "state_bytes_per_number"),
        (lambda: decode_bound(replace(LLAMA_3_8B, parameters=None), H100, tokens=1), "weights"),
    ],
)
def test_wrong_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=rf"^{named} wants .*got"):
        call()
