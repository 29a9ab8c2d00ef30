"""attnledger.costs.models: geometries that fit together, parameter counts, and a source for every number."""

from dataclasses import fields, replace

import numpy as np
import pytest

from attnledger.costs import layer_weights, models
from attnledger.costs.models import (
    DEEPSEEK_V3,
    GPT_3_6_7B,
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


def test_every_named_model_is_in_the_list():
    named = [value for value in vars(models).values() if isinstance(value, ModelConfig)]
    assert list(MODELS) == named
    assert len({model.name for model in MODELS}) == len(MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_field_says_where_it_was_read(model):
    for field in fields(model):
        source = model.source(field.name)
        assert len(source) > 10 and source != "not recorded" or field.name == "d_ff"


# The same numbers again: layers, d_model, heads, kv_heads, head_dim, value_dim; d_ff, vocab; parameters, active ones
# and context; MLA's latent, query rank and rotary width.
PRINTED = {
    "Llama 3 8B": (32, 4096, 32, 8, 128, 128, 14336, 128256, 8_030_261_248, None, 8192, None, None, None),
    "Llama 3 70B": (80, 8192, 64, 8, 128, 128, 28672, 128256, 70_553_706_496, None, 8192, None, None, None),
    "Llama 2 70B": (80, 8192, 64, 8, 128, 128, 28672, 32000, 68_976_648_192, None, 4096, None, None, None),
    "GPT-3 175B": (96, 12288, 96, 96, 128, 128, 49152, 50257, 175e9, None, 2048, None, None, None),
    "GPT-3 6.7B": (32, 4096, 32, 32, 128, 128, 16384, 50257, 6.7e9, None, 2048, None, None, None),
    "Mistral 7B": (32, 4096, 32, 8, 128, 128, 14336, 32000, 7_241_732_096, None, 8192, None, None, None),
    "DeepSeek-V2": (60, 5120, 128, 128, 128, 128, 12288, 102400, 236e9, 21e9, 2**17, 512, 1536, 64),
    "DeepSeek-V3": (61, 7168, 128, 128, 128, 128, 18432, 129280, 671e9, 37e9, 2**17, 512, 1536, 64),
    "MiniMax-M3": (60, 6144, 64, 4, 128, 128, 12288, 200064, 428e9, 23e9, 2**20, None, None, None),
    "MSA paper model 109B": (41, 3072, 64, 4, 128, 128, None, None, 109e9, 6e9, 2**20, None, None, None),
    "Kimi Linear 48B-A3B": (
        27,
        2304,
        32,
        32,
        128,
        128,
        9216,
        163840,
        49_122_681_728,
        3_484_459_904,
        2**20,
        512,
        None,
        64,
    ),
    "Kimi K3": (93, 7168, 96, 96, 128, 128, 33792, 163840, 2780e9, 104.2e9, 2**20, 512, 1536, 64),
    "Qwen3.5-397B-A17B": (60, 4096, 32, 2, 256, 256, None, 248320, 397e9, 17e9, 2**18, None, None, None),
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_numbers_are_those_printed(model):
    m = model
    shape = (m.layers, m.d_model, m.heads, m.kv_heads, m.head_dim, m.value_dim, m.d_ff, m.vocab)
    sizes = (m.parameters, m.active_parameters, m.max_context, m.kv_lora_rank, m.q_lora_rank, m.rope_dim)
    assert (*shape, *sizes) == PRINTED[model.name]


def test_what_keeps_something_else_is_as_printed():
    def states(m):
        width = (m.linear_key_heads, m.linear_value_heads, m.linear_key_dim, m.linear_value_dim, m.conv_width)
        return (len(m.linear_layers), *width)

    def index(m):
        return len(m.sparse_layers), m.index_heads, m.index_dim, m.block, m.top_k

    assert states(KIMI_LINEAR_48B) == (20, 32, 32, 128, 128, 4)
    assert states(KIMI_K3) == (69, 96, 96, 128, 128, 4)
    assert states(QWEN3_5_397B) == (45, 16, 64, 128, 128, 4)
    assert index(MINIMAX_M3) == (57, 4, 128, 128, 16)
    assert index(MSA_PAPER_109B) == (41, 4, 128, 128, 16)
    assert (MISTRAL_7B.window, MISTRAL_7B.window_layers) == (4096, tuple(range(32)))


@pytest.mark.parametrize(
    ("model", "published"), [(LLAMA_3_8B, 8.03), (LLAMA_3_70B, 70.6), (LLAMA_2_70B, 69.0), (MISTRAL_7B, 7.24)]
)
def test_dense_parameters_follow_from_the_geometry(model, published):
    # matrices, two RMSNorm gains per layer and a last one, input and output embeddings untied
    geometry = model.layer_geometry
    counted = model.layers * (layer_weights(**geometry) + 2 * model.d_model)
    counted += (2 * model.vocab + 1) * model.d_model
    assert model.parameters == counted
    assert counted / 1e9 == pytest.approx(published, rel=2e-3)


@pytest.mark.parametrize("model", [GPT_3_175B, GPT_3_6_7B])
def test_gpt_3_sizes_are_the_papers_within_its_rounding(model):
    counted = model.layers * layer_weights(**model.layer_geometry) + (model.vocab + model.max_context) * model.d_model
    assert counted == pytest.approx(model.parameters, rel=0.01)


def test_deepseek_v3_has_the_activated_attention_its_report_implies():
    # V3's projections: q down and up, kv down, kv up, output
    m = DEEPSEEK_V3
    attention = (
        m.d_model * m.q_lora_rank
        + m.q_lora_rank * m.heads * (m.head_dim + m.rope_dim)
        + m.d_model * (m.kv_lora_rank + m.rope_dim)
        + m.kv_lora_rank * m.heads * (m.head_dim + m.value_dim)
        + m.heads * m.value_dim * m.d_model
    )
    experts = 3 * m.d_model * 2048
    moe_layers = m.layers - 3
    active = m.layers * attention + 3 * 3 * m.d_model * m.d_ff + moe_layers * 9 * experts + 2 * m.vocab * m.d_model
    assert active == pytest.approx(m.active_parameters, rel=0.02)
    total = active + moe_layers * 248 * experts
    assert total == pytest.approx(m.parameters, rel=0.01)


def test_kimi_linear_has_the_parameters_of_its_released_weights():
    # the shapes of the checkpoint: queries, keys and values 4096 wide, each with a convolution of 4 taps
    m, expert = KIMI_LINEAR_48B, 3 * 2304 * 1024
    low_rank = 2 * (128 * m.d_model + 4096 * 128)  # forget gate and output gate
    kda = 4 * 4096 * m.d_model + 3 * 4096 * 4 + low_rank + 32 * m.d_model + 4096 + 32 + 128
    mla = 32 * 192 * m.d_model + 576 * m.d_model + 512 + 32 * 256 * 512 + 4096 * m.d_model
    routed = 256 * expert + 256 * m.d_model + 256
    other = 3 * m.d_model * m.d_ff + 26 * expert + (2 * m.vocab + 2 * m.layers + 1) * m.d_model
    assert m.parameters == 20 * kda + 7 * mla + 26 * routed + other
    assert m.active_parameters == m.parameters - 26 * (256 - 8) * expert


def test_numpy_numbers_become_plain_ones():
    window = {"window": np.int32(64), "window_layers": (np.int8(1),)}
    model = replace(LLAMA_3_8B, kv_heads=np.int8(8), head_dim=np.int16(128), **window)
    whole = (model.kv_heads, model.head_dim, model.window, *model.window_layers)
    assert whole == (8, 128, 64, 1) and all(type(number) is int for number in whole)


def test_hybrid_layers_are_where_the_reports_say():
    assert [i + 1 for i in KIMI_LINEAR_48B.full_layers] == [4, 8, 12, 16, 20, 24, 27]
    assert [i + 1 for i in KIMI_K3.full_layers] == [*range(4, 93, 4), 93]
    assert (len(QWEN3_5_397B.full_layers), len(QWEN3_5_397B.linear_layers)) == (15, 45)
    assert QWEN3_5_397B.full_layers[0] == 3
    assert MINIMAX_M3.sparse_layers[0] == 3 and len(MINIMAX_M3.sparse_layers) == 57


def test_group_is_the_number_of_queries_per_cached_head():
    groups = [m.group for m in (LLAMA_3_8B, LLAMA_2_70B, MINIMAX_M3, QWEN3_5_397B)]
    assert groups == [4, 8, 16, 16] and all(isinstance(group, int) for group in groups)


def test_provenance_cannot_be_written_to():
    with pytest.raises(TypeError):
        LLAMA_3_8B.provenance["layers"] = "a guess"
    with pytest.raises(AttributeError):
        LLAMA_3_8B.layers = 33
    source = {"layers": "a configuration"}
    copied = replace(LLAMA_3_8B, provenance=source)
    source["layers"] = "a guess"
    assert copied.source("layers") == "a configuration"


def test_equality_is_about_the_numbers():
    assert replace(LLAMA_3_8B, provenance={}) == LLAMA_3_8B
    assert "provenance" not in repr(LLAMA_3_8B)
    assert replace(LLAMA_3_8B, layers=33) != LLAMA_3_8B


BASE = {"name": "m", "attention": "gqa", "layers": 4, "d_model": 8, "heads": 4, "kv_heads": 2} | {
    "head_dim": 2,
    "value_dim": 2,
}
REQUIRED = ("layers", "d_model", "heads", "kv_heads", "head_dim", "value_dim")
LINEAR = {"linear_layers": (1,), "linear_key_heads": 1, "linear_value_heads": 1, "linear_key_dim": 1} | {
    "linear_value_dim": 1
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"attention": "MHA"}, "attention"),
        *[({name: x}, name) for name in REQUIRED for x in (0, None)],
        ({"layers": 4.0}, "layers"),
        *[({name: 0}, name) for name in ("d_ff", "vocab", "parameters", "active_parameters", "max_context")],
        *[({name: -1}, name) for name in ("kv_lora_rank", "q_lora_rank", "rope_dim", "window", "conv_width")],
        *[({name: 0}, name) for name in ("index_heads", "index_dim", "block", "top_k")],
        ({"kv_heads": 3}, "kv_heads"),
        ({"attention": "mha"}, "kv_heads"),
        ({"attention": "mqa"}, "kv_heads"),
        ({"attention": "mla"}, "kv_lora_rank and rope_dim"),
        ({"attention": "mla", "kv_lora_rank": 4}, "kv_lora_rank and rope_dim"),
        ({"attention": "mla", "rope_dim": 2}, "kv_lora_rank and rope_dim"),
        ({"window_layers": (4,), "window": 2}, "window_layers"),
        ({"window_layers": (1, 1), "window": 2}, "window_layers"),
        ({"window_layers": (1,)}, "window"),
        ({"linear_layers": (-1,)}, "linear_layers"),
        ({"linear_layers": (1,)}, "linear_key_heads"),
        ({"sparse_layers": (1,)}, "index_heads"),
        (LINEAR | {"window_layers": (1,), "window": 2}, "linear_layers"),
        ({"provenance": {"layer": "x"}}, "provenance"),
        ({"provenance": None}, "provenance"),
        ({"provenance": {"layers": 3}}, "provenance"),
        ({"gated_ffn": "no"}, "gated_ffn"),
        *[({name: 1.5}, name) for name in LINEAR if name != "linear_layers"],
        *[
            ({"window": 2, "window_layers": value}, "window_layers")
            for value in ((0.5,), (True,), [0], None, 3, ("a",))
        ],
    ],
)
def test_impossible_geometries_are_named(change, named):
    with pytest.raises(ValueError, match=rf"^{named} wants? .*got"):
        ModelConfig(**(BASE | change))


def test_questions_without_an_answer_are_named():
    with pytest.raises(ValueError, match="^name wants .*got"):
        LLAMA_3_8B.source("width")
    with pytest.raises(ValueError, match="^layer_geometry wants .*got DeepSeek"):
        _ = DEEPSEEK_V3.layer_geometry
    with pytest.raises(ValueError, match="^layer_geometry wants .*got Qwen"):
        _ = QWEN3_5_397B.layer_geometry
    with pytest.raises(ValueError, match="^layer_geometry wants .*got m$"):
        _ = ModelConfig(**BASE | {"value_dim": 3, "d_ff": 4}).layer_geometry
    assert ModelConfig(**BASE).source("layers") == "not recorded"
