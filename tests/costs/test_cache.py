"""attnledger.costs.cache against the arrays a decoder would really keep, and against published figures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnledger.costs import (
    SCHEMES,
    in_unit,
    kv_bytes_per_token,
    kv_cache_bytes,
    kv_cache_numbers,
    kv_numbers_per_layer,
    kv_numbers_per_token,
    linear_state_bytes,
    linear_state_numbers,
    requests_per_card,
    state_crossover_tokens,
)
from attnledger.costs.hardware import A100_80, H100, H800, T4
from attnledger.costs.models import (
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    GPT_3_175B,
    KIMI_K3,
    KIMI_LINEAR_48B,
    LLAMA_2_70B,
    LLAMA_3_8B,
    LLAMA_3_70B,
    MINIMAX_M3,
    MISTRAL_7B,
    MODELS,
    MSA_PAPER_109B,
    QWEN3_5_397B,
    ModelConfig,
)

TINY = ModelConfig(
    "tiny", "gqa", layers=6, d_model=24, heads=4, kv_heads=2, head_dim=6, value_dim=5, parameters=10,
    window=3, window_layers=(1, 2), sparse_layers=(3,), index_heads=2, index_dim=7, block=2, top_k=2,
    linear_layers=(4, 5), linear_key_heads=2, linear_value_heads=3, linear_key_dim=4, linear_value_dim=8, conv_width=4,
)  # fmt: skip


class Cache:
    """What a decoder keeps, token by token, as arrays that are appended to."""

    def __init__(self, model):
        self.model = model
        self.rows = {layer: [] for layer in range(model.layers) if layer not in model.linear_layers}
        self.index = {layer: [] for layer in model.sparse_layers}

    def append(self):
        for layer, rows in self.rows.items():
            rows.append(
                (
                    np.zeros((self.model.kv_heads, self.model.head_dim)),
                    np.zeros((self.model.kv_heads, self.model.value_dim)),
                )
            )
            if layer in self.model.window_layers:
                del rows[: -self.model.window]
        for keys in self.index.values():
            keys.append(np.zeros(self.model.index_dim))

    def numbers(self):
        kept = [k.size + v.size for rows in self.rows.values() for k, v in rows]
        return sum(kept) + sum(key.size for keys in self.index.values() for key in keys)


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 4, 10])
def test_the_cache_holds_what_a_decoder_appends(tokens):
    cache = Cache(TINY)
    for _ in range(tokens):
        cache.append()
    assert kv_cache_numbers(TINY, tokens) == cache.numbers()


def test_per_token_counts_every_attention_layer_and_the_index_key():
    assert kv_numbers_per_token(TINY) == 4 * 2 * (6 + 5) + 7


@given(st.integers(0, 4096), st.sampled_from(MODELS))
def test_below_the_window_the_cache_is_linear_in_tokens(tokens, model):
    assert kv_cache_numbers(model, tokens) == tokens * kv_numbers_per_token(model)


@given(st.integers(1, 10**6), st.integers(1, 9), st.sampled_from([0.5, 1, 2, 4]), st.sampled_from(MODELS))
def test_bytes_scale_with_requests_and_type(tokens, requests, size, model):
    one = kv_cache_bytes(model, tokens)
    assert kv_cache_bytes(model, tokens, requests=requests, bytes_per_number=size) == one * requests * size / 2


def test_mistral_stops_growing_at_its_window_and_saves_8_fold_at_32k():
    assert kv_cache_bytes(MISTRAL_7B, 4096) == kv_cache_bytes(MISTRAL_7B, 100_000)
    # arXiv 2310.06825 sec. 2: at 32k tokens the rolling buffer cuts the cache memory 8 times
    unbounded = replace(MISTRAL_7B, window=None, window_layers=())
    assert kv_cache_bytes(unbounded, 32_768) == 8 * kv_cache_bytes(MISTRAL_7B, 32_768)


def test_llama_3_8b_keeps_128_kib_per_token():
    assert kv_numbers_per_layer(LLAMA_3_8B) == 2 * 8 * 128
    assert kv_bytes_per_token(LLAMA_3_8B) == 2 * 8 * 128 * 32 * 2 == 128 * 1024
    assert in_unit(kv_cache_bytes(LLAMA_3_8B, 131_072), "GiB") == 16


def test_llama_2_70b_under_three_schemes():
    sizes = {s: in_unit(kv_cache_bytes(LLAMA_2_70B, 4096, scheme=s), "MiB") for s in ("mha", "gqa", "mqa")}
    assert sizes == {"mha": 10 * 1024, "gqa": 1.25 * 1024, "mqa": 160}


def test_llama_3_70b_keeps_5_sixteenths_of_a_mib_per_token():
    assert in_unit(kv_bytes_per_token(LLAMA_3_70B), "MiB") == 0.3125


def test_mla_keeps_the_elements_of_deepseek_v2s_tables():
    assert kv_numbers_per_layer(DEEPSEEK_V2) == 512 + 64
    # Table 9: 34.6K elements per token for the large model with MLA
    assert round(kv_numbers_per_token(DEEPSEEK_V2) / 1000, 1) == 34.6
    # Table 9's small model: 27 layers and 16 heads of 128 (appendix B), 110.6K with MHA and 15.6K with MLA
    small = replace(DEEPSEEK_V2, layers=27, heads=16, kv_heads=16)
    assert round(kv_numbers_per_token(small, scheme="mha") / 1000, 1) == 110.6
    assert round(kv_numbers_per_token(small) / 1000, 1) == 15.6
    # Table 1: equal to GQA with 2.25 groups
    assert kv_numbers_per_layer(DEEPSEEK_V2) == 2.25 * (128 + 128)


def test_deepseek_v3_keeps_a_57th_of_mha():
    assert kv_numbers_per_layer(DEEPSEEK_V3, scheme="mha") == 32_768
    ratio = kv_numbers_per_token(DEEPSEEK_V3, scheme="mha") / kv_numbers_per_token(DEEPSEEK_V3)
    assert round(ratio) == 57


def test_kimi_k3_keeps_a_latent_in_24_of_93_layers():
    # an engine that counted all 93 layers printed 107136 bytes per token (LMCache/LMCache #4278)
    everywhere = replace(KIMI_K3, linear_layers=())
    assert kv_bytes_per_token(everywhere) == 107_136
    assert kv_bytes_per_token(KIMI_K3) == 107_136 * 24 // 93


def test_kimi_linear_keeps_7_of_27_layers():
    assert len(KIMI_LINEAR_48B.full_layers) == 7
    assert kv_numbers_per_token(KIMI_LINEAR_48B) == 7 * 576


def test_qwen_3_5_keeps_30_of_120_kib():
    assert in_unit(kv_bytes_per_token(QWEN3_5_397B), "KiB") == 30
    everywhere = replace(QWEN3_5_397B, linear_layers=())
    assert in_unit(kv_bytes_per_token(everywhere), "KiB") == 120
    assert [round(in_unit(kv_cache_bytes(m, 10**6), "GiB")) for m in (QWEN3_5_397B, everywhere)] == [29, 114]


def test_the_index_key_adds_an_eighth_to_a_sparse_layer():
    assert kv_numbers_per_token(MINIMAX_M3) == 60 * 1024 + 57 * 128
    assert kv_numbers_per_token(MSA_PAPER_109B) == 41 * 1024 * 9 / 8


def test_a_scheme_changes_the_layers_and_leaves_the_index_keys():
    assert kv_numbers_per_token(MINIMAX_M3, scheme="mqa") == 60 * 256 + 57 * 128


@given(
    heads=st.sampled_from([1, 2, 4, 8, 16]),
    groups=st.sampled_from([1, 2, 4, 8, 16]),
    d_k=st.integers(1, 64),
    d_v=st.integers(1, 64),
)
def test_gqa_runs_from_mqa_to_mha(heads, groups, d_k, d_v):
    groups = min(groups, heads)
    model = ModelConfig("m", "gqa", layers=1, d_model=8, heads=heads, kv_heads=groups, head_dim=d_k, value_dim=d_v)
    key, value = np.zeros((groups, d_k)), np.zeros((groups, d_v))
    assert kv_numbers_per_layer(model) == key.size + value.size
    assert kv_numbers_per_layer(model, scheme="gqa", kv_heads=1) == kv_numbers_per_layer(model, scheme="mqa")
    assert kv_numbers_per_layer(model, scheme="gqa", kv_heads=heads) == kv_numbers_per_layer(model, scheme="mha")


@given(h=st.integers(1, 64), d=st.integers(1, 128), r_k=st.integers(1, 4), r_v=st.integers(1, 4))
def test_tpa_keeps_its_factors(h, d, r_k, r_v):
    model = ModelConfig("m", "mha", layers=1, d_model=8, heads=h, kv_heads=h, head_dim=d, value_dim=d)
    factors = [np.zeros((r_k, h)), np.zeros((r_k, d)), np.zeros((r_v, h)), np.zeros((r_v, d))]
    got = kv_numbers_per_layer(model, scheme="tpa", ranks=(r_k, r_v))
    assert got == sum(factor.size for factor in factors) == (r_k + r_v) * (h + d)  # the paper's expression


def test_mla_for_a_model_without_a_latent_takes_deepseek_v2s_proportions():
    assert kv_numbers_per_layer(LLAMA_3_8B, scheme="mla") == 4.5 * 128
    assert kv_numbers_per_layer(DEEPSEEK_V2, scheme="mla") == kv_numbers_per_layer(DEEPSEEK_V2)


def test_mla_takes_a_models_own_latent_whole_or_not_at_all():
    assert kv_numbers_per_layer(replace(DEEPSEEK_V3, kv_lora_rank=100, rope_dim=30)) == 130
    for part in ({"kv_lora_rank": 100}, {"rope_dim": 30}):  # of another kind of model
        assert kv_numbers_per_layer(replace(LLAMA_3_8B, **part), scheme="mla") == 4 * 128 + 64


def test_the_source_b_exercise_ranks_the_schemes():
    values = [kv_numbers_per_layer(LLAMA_2_70B, scheme=s) for s in ("mha", "gqa", "mqa", "tpa")]
    assert values == [16_384, 2_048, 256, 768]


def test_a_scheme_and_its_options_reach_every_count():
    sixteen = {"scheme": "gqa", "kv_heads": 16}  # instead of 8
    assert kv_numbers_per_token(LLAMA_3_8B, **sixteen) == 2 * kv_numbers_per_token(LLAMA_3_8B)
    assert kv_bytes_per_token(LLAMA_3_8B, **sixteen) == 2 * kv_bytes_per_token(LLAMA_3_8B)
    assert 8 * kv_bytes_per_token(LLAMA_3_8B, scheme="mqa") == kv_bytes_per_token(LLAMA_3_8B)
    assert kv_cache_numbers(LLAMA_3_8B, 3, **sixteen) == 2 * kv_cache_numbers(LLAMA_3_8B, 3)
    assert kv_cache_bytes(LLAMA_3_8B, 3, **sixteen) == 2 * kv_cache_bytes(LLAMA_3_8B, 3)
    fits = {"tokens": 100_000, "weight_bytes": 0}
    assert requests_per_card(LLAMA_3_8B, H100, **fits) == 6
    assert requests_per_card(LLAMA_3_8B, H100, **fits, **sixteen) == 3
    assert requests_per_card(LLAMA_3_8B, H100, **fits, bytes_per_number=1) == 12
    assert isinstance(kv_numbers_per_layer(LLAMA_3_8B, scheme="mla"), int)


def test_linear_states_are_the_arrays_a_layer_keeps():
    assert linear_state_numbers(heads=32, d_k=128) == np.zeros((32, 128, 128)).size == 524_288
    assert linear_state_numbers(heads=32, d_k=128, normalizer=True) == 524_288 + 4096
    assert linear_state_numbers(heads=3, d_k=4, d_v=8, layers=2) == linear_state_numbers(TINY) == 2 * 3 * 4 * 8
    # three past inputs of queries (2 x 4), keys (2 x 4) and values (3 x 8) per layer
    assert linear_state_numbers(TINY, convolution=True) == linear_state_numbers(TINY) + 2 * 3 * (8 + 8 + 24)
    assert linear_state_bytes(TINY, bytes_per_number=2, convolution=True) == 2 * (192 + 240)
    assert linear_state_numbers(QWEN3_5_397B) == 45 * 64 * 128 * 128
    assert in_unit(linear_state_bytes(QWEN3_5_397B, bytes_per_number=4), "MiB") == 180
    assert linear_state_bytes(QWEN3_5_397B, bytes_per_number=2, requests=3) == 3 * 90 * 2**20


def test_crossovers_of_the_sources():
    assert state_crossover_tokens(kv_numbers=2048, state_numbers=524_288) == 256
    assert state_crossover_tokens(QWEN3_5_397B) == 1024
    assert state_crossover_tokens(QWEN3_5_397B, state_bytes_per_number=4) == 2048


@given(kv=st.integers(1, 10**4), state=st.integers(1, 10**7))
def test_the_crossover_separates_smaller_from_larger(kv, state):
    at = state_crossover_tokens(kv_numbers=kv, state_numbers=state)
    assert (int(at) + 1) * kv > state >= int(at) * kv


def test_requests_per_card_by_hand():
    # source B: 20 GB beside 140 GB of weights, 10 GiB per request; MQA fits 119
    fixed = {"tokens": 4096, "cards": 2, "weight_bytes": 140 * 10**9}
    assert requests_per_card(LLAMA_2_70B, A100_80, scheme="mha", **fixed) == 1
    assert requests_per_card(LLAMA_2_70B, A100_80, scheme="mqa", **fixed) == 119
    # with the counted weights two fit; with what one driver offers three, with an older one's two
    counted = {"scheme": "mha", "tokens": 4096, "cards": 2}
    older = replace(A100_80, reported=84_987_740_160)
    assert requests_per_card(LLAMA_2_70B, A100_80, **counted) == 2
    assert requests_per_card(LLAMA_2_70B, A100_80, **counted, memory="reported") == 3
    assert requests_per_card(LLAMA_2_70B, older, **counted, memory="reported") == 2


def test_requests_per_card_counts_states_and_never_goes_below_zero():
    assert requests_per_card(LLAMA_2_70B, T4, tokens=1) == 0
    room = 2 * (kv_cache_bytes(TINY, 10) + linear_state_bytes(TINY, bytes_per_number=4))
    rest = H100.memory - room
    assert requests_per_card(TINY, H100, tokens=10, weight_bytes=0, reserve_bytes=rest) == 2
    assert requests_per_card(TINY, H100, tokens=10, weight_bytes=0, reserve_bytes=rest + 1) == 1


def test_requests_are_counted_in_whole_numbers_however_many_fit():
    cards = 10**9
    each = kv_cache_bytes(TINY, 1) + linear_state_bytes(TINY, bytes_per_number=4)
    fits = cards * H100.memory // each
    reserve = cards * H100.memory - (fits * each - 1)  # one byte too few for the last
    assert requests_per_card(TINY, H100, tokens=1, cards=cards, weight_bytes=0, reserve_bytes=reserve) == fits - 1


@given(tokens=st.integers(1, 10**6), cards=st.integers(1, 16), scheme=st.sampled_from(SCHEMES))
def test_what_fits_fits_and_one_more_does_not(tokens, cards, scheme):
    fits = requests_per_card(LLAMA_3_8B, H100, tokens=tokens, cards=cards, scheme=scheme)
    each = kv_cache_bytes(LLAMA_3_8B, tokens, scheme=scheme)
    room = cards * H100.memory - 2 * LLAMA_3_8B.parameters
    assert fits * each <= room < (fits + 1) * each


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: kv_numbers_per_layer("llama"), "model"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="gqq"), "scheme"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, kv_heads=8), None),  # gqa is what the model does
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="mha", kv_heads=8), "kv_heads"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="gqa", kv_heads=3), "kv_heads"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="gqa", kv_heads=0), "kv_heads"),
        (lambda: kv_numbers_per_layer(DEEPSEEK_V3, scheme="gqa"), "kv_heads"),
        (lambda: kv_numbers_per_layer(GPT_3_175B, scheme="gqa"), "kv_heads"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="tpa", ranks=(0, 1)), "ranks"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="tpa", ranks=(1, 1.5)), "ranks"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="tpa", ranks=2), "ranks"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="tpa", ranks=[2, 2]), "ranks wants a tuple"),
        (lambda: kv_numbers_per_layer(LLAMA_3_8B, scheme="mha", ranks=(2, 2)), "ranks"),
        (lambda: kv_numbers_per_layer(replace(GPT_3_175B, head_dim=5), scheme="mla"), "scheme='mla'"),
        (lambda: kv_bytes_per_token(LLAMA_3_8B, bytes_per_number=0), "bytes_per_number"),
        (lambda: kv_bytes_per_token(LLAMA_3_8B, bytes_per_number="bf16"), "bytes_per_number"),
        (lambda: kv_cache_numbers(LLAMA_3_8B, -1), "tokens"),
        (lambda: kv_cache_bytes(LLAMA_3_8B, 1.0), "tokens"),
        (lambda: kv_cache_bytes(LLAMA_3_8B, 1, requests=0), "requests"),
        (lambda: kv_cache_bytes(LLAMA_3_8B, 1, bytes_per_number=float("nan")), "bytes_per_number"),
        (lambda: linear_state_numbers(), "heads and d_k"),
        (lambda: linear_state_numbers(heads=1), "heads and d_k"),
        (lambda: linear_state_numbers(heads=0, d_k=1), "heads"),
        (lambda: linear_state_numbers(heads=1, d_k=0), "d_k"),
        (lambda: linear_state_numbers(heads=1, d_k=1, d_v=0), "d_v"),
        (lambda: linear_state_numbers(heads=1, d_k=1, layers=0), "layers"),
        (lambda: linear_state_numbers(heads=1, d_k=1, convolution=True), "convolution"),
        (lambda: linear_state_numbers(heads=1, d_k=1, normalizer=1), "normalizer"),
        (lambda: linear_state_numbers(TINY, convolution=1), "convolution"),
        (lambda: linear_state_numbers(TINY, heads=1), "heads, d_k, d_v and layers"),
        (lambda: linear_state_numbers(LLAMA_3_8B), "model"),
        (lambda: linear_state_numbers(replace(TINY, conv_width=None), convolution=True), "convolution"),
        (lambda: linear_state_bytes(TINY, bytes_per_number=0), "bytes_per_number"),
        (lambda: linear_state_bytes(TINY, bytes_per_number=1, requests=0), "requests"),
        (lambda: state_crossover_tokens(), "kv_numbers and state_numbers"),
        (lambda: state_crossover_tokens(kv_numbers=1), "kv_numbers and state_numbers"),
        (lambda: state_crossover_tokens(state_numbers=1), "kv_numbers and state_numbers"),
        (lambda: state_crossover_tokens(TINY, kv_numbers=1), "kv_numbers and state_numbers"),
        (lambda: state_crossover_tokens(GPT_3_175B), "model"),
        (lambda: state_crossover_tokens(kv_numbers=0, state_numbers=1), "kv_numbers"),
        (lambda: state_crossover_tokens(kv_numbers=1, state_numbers=0), "state_numbers"),
        (lambda: state_crossover_tokens(TINY, kv_bytes_per_number=0), "kv_bytes_per_number"),
        (lambda: state_crossover_tokens(TINY, state_bytes_per_number=-1), "state_bytes_per_number"),
        (lambda: requests_per_card(LLAMA_3_8B, "H100", tokens=1), "gpu"),
        (lambda: requests_per_card("llama", H100, tokens=1), "model"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=0), "tokens"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=1, cards=0), "cards"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=1, memory="GiB"), "memory"),
        (lambda: requests_per_card(LLAMA_3_8B, H800, tokens=1, memory="reported"), "memory"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=1, weight_bytes=-1), "weight_bytes"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=1, reserve_bytes=-1), "reserve_bytes"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=1, weight_bytes=False), "weight_bytes"),
        (lambda: requests_per_card(LLAMA_3_8B, H100, tokens=1, state_bytes_per_number="x"), "state_bytes_per_number"),
        (lambda: requests_per_card(TINY, H100, tokens=1, state_bytes_per_number=0), "state_bytes_per_number"),
        (lambda: requests_per_card(replace(TINY, parameters=None), H100, tokens=1), "weight_bytes"),
    ],
)
def test_wrong_arguments_are_named(call, named):
    if named is None:
        assert call()
        return
    with pytest.raises(ValueError, match=rf"^{named}( wants?)? .*got"):
        call()
