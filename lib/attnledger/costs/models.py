"""The geometry of public models, every number with the place where it was read.

A :class:`ModelConfig` holds only what the accounting needs: layers, widths, heads, what a layer keeps for a past token,
and which layers keep something else. ``provenance`` maps a field to its source; the key ``"*"`` covers every field that
is not named. A source that is not the publisher's own says so, and so does a value on which sources disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ._checks import choice, count, flag, sources

ATTENTION_KINDS = ("mha", "mqa", "gqa", "mla")


@dataclass(frozen=True)
class ModelConfig:
    """What one model computes, keeps and moves per layer and token.

    Fields (widths and counts are numbers, not bytes; layer indices count from 0):
        attention: what the layers with a KV cache do: ``"mha"``, ``"mqa"``, ``"gqa"`` or ``"mla"``.
        heads, kv_heads, head_dim, value_dim: query heads, cached heads, key width and value width of one head.
            For MLA `head_dim` is the width without positions and `rope_dim` comes on top of it.
        kv_lora_rank, q_lora_rank, rope_dim: MLA's latent width, its query rank and its shared rotary key.
        window: keys a query sees in the layers of `window_layers` (itself included); None without windows.
        linear_layers: layers that keep a fixed state of `linear_value_heads` matrices of
            `linear_key_dim` x `linear_value_dim`, and the last ``conv_width - 1`` inputs of a short convolution.
        sparse_layers: layers with an index branch of `index_heads` query heads and one key of `index_dim` per token,
            which keep `top_k` blocks of `block` tokens.
        d_ff, gated_ffn: width of a dense FFN and whether it has a third, gating matrix. d_ff=None where layers differ.
        parameters, active_parameters: totals as counted from the geometry or printed by the publisher.
        max_context: tokens.
        provenance: field -> source; ``"*"`` for all others.

    Errors: ValueError names the field that is impossible (a head count that is no multiple, a layer out of range, ...).
    """

    name: str
    attention: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    d_ff: int | None = None
    gated_ffn: bool = True
    vocab: int | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    max_context: int | None = None
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    rope_dim: int | None = None
    window: int | None = None
    window_layers: tuple[int, ...] = ()
    linear_layers: tuple[int, ...] = ()
    linear_key_heads: int | None = None
    linear_value_heads: int | None = None
    linear_key_dim: int | None = None
    linear_value_dim: int | None = None
    conv_width: int | None = None
    sparse_layers: tuple[int, ...] = ()
    index_heads: int | None = None
    index_dim: int | None = None
    block: int | None = None
    top_k: int | None = None
    provenance: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self):
        choice("attention", self.attention, ATTENTION_KINDS)
        flag("gated_ffn", self.gated_ffn)
        for f in fields(self):
            value = getattr(self, f.name)
            if f.type is int or (f.type == int | None and value is not None):
                object.__setattr__(self, f.name, count(f.name, value))  # a plain int: NumPy's overflow
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads wants a divisor of heads={self.heads}, got {self.kv_heads}")
        wanted = {"mha": self.heads, "mqa": 1}.get(self.attention, self.kv_heads)
        if self.kv_heads != wanted:
            raise ValueError(f"kv_heads wants {wanted} for attention={self.attention!r}, got {self.kv_heads}")
        if self.attention == "mla" and not (self.kv_lora_rank and self.rope_dim):
            raise ValueError(
                "kv_lora_rank and rope_dim want a width each for attention='mla', "
                f"got {self.kv_lora_rank!r} and {self.rope_dim!r}"
            )
        for name in ("window_layers", "linear_layers", "sparse_layers"):
            chosen = getattr(self, name)
            if not isinstance(chosen, tuple):
                raise ValueError(f"{name} wants a tuple of layers, got {chosen!r}")
            layers = tuple(count(name, index, least=0) for index in chosen)
            if len(set(layers)) != len(layers) or any(index >= self.layers for index in layers):
                raise ValueError(f"{name} wants distinct layers from 0 to {self.layers - 1}, got {chosen}")
            object.__setattr__(self, name, layers)
        if set(self.linear_layers) & (set(self.window_layers) | set(self.sparse_layers)):
            raise ValueError(
                f"linear_layers wants no layer of window_layers or sparse_layers, got {self.linear_layers}"
            )
        needs = {
            "window_layers": ("window",),
            "linear_layers": ("linear_key_heads", "linear_value_heads", "linear_key_dim", "linear_value_dim"),
            "sparse_layers": ("index_heads", "index_dim", "block", "top_k"),
        }
        for layers, names in needs.items():
            for name in names:
                if getattr(self, layers) and getattr(self, name) is None:
                    raise ValueError(f"{name} wants a number because {layers} is not empty, got None")
        object.__setattr__(self, "provenance", sources(self))

    @property
    def full_layers(self) -> tuple[int, ...]:
        """Layers that keep keys and values (windowed and sparse ones included), from 0."""
        return tuple(index for index in range(self.layers) if index not in set(self.linear_layers))

    @property
    def group(self) -> int:
        """Query heads that share one cached head."""
        return self.heads // self.kv_heads

    @property
    def layer_geometry(self) -> dict[str, int | bool]:
        """Keywords of one dense layer for `projection_flops`, `quadratic_share` and `crossover_length`.

        As if it attended to every token: windows and selected blocks are left out.
        """
        if self.attention == "mla" or self.d_ff is None or self.value_dim != self.head_dim:
            raise ValueError(f"layer_geometry wants plain projections of one width and one d_ff, got {self.name}")
        return {
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "gated": self.gated_ffn,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
        }

    def source(self, name: str) -> str:
        """Where the value of field `name` was read."""
        if name not in {f.name for f in fields(self)}:
            raise ValueError(f"name wants a field of ModelConfig, got {name!r}")
        return self.provenance.get(name, self.provenance.get("*", "not recorded"))


def _except(layers: int, kept: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(index for index in range(layers) if index not in kept)


LLAMA_3_8B = ModelConfig(
    "Llama 3 8B",
    "gqa",
    layers=32,
    d_model=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    value_dim=128,
    d_ff=14336,
    vocab=128256,
    parameters=8_030_261_248,
    max_context=8192,
    provenance={
        "*": "meta-llama/llama-models models/sku_list.py, meta_llama3_8b: dim, n_layers, n_heads, n_kv_heads, vocab",
        "head_dim": "dim / n_heads, as the same repository's models/llama3/model.py computes it",
        "value_dim": "equal to head_dim: one projection width for keys and values",
        "d_ff": "same entry, ffn_dim_multiplier 1.3, multiple_of 1024: 1024 * ceil(1.3 * (8 * 4096 / 3) / 1024)",
        "parameters": "counted from the geometry (untied embeddings, RMSNorm); KerasHub's preset agrees",
        "max_context": "8192 at release; Llama 3.1 with the same geometry: 131072 (arXiv 2407.21783)",
    },
)
LLAMA_3_70B = ModelConfig(
    "Llama 3 70B",
    "gqa",
    layers=80,
    d_model=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    value_dim=128,
    d_ff=28672,
    vocab=128256,
    parameters=70_553_706_496,
    max_context=8192,
    provenance={
        "*": "meta-llama/llama-models models/sku_list.py, meta_llama3_70b: dim, n_layers, n_heads, n_kv_heads, vocab",
        "head_dim": "dim / n_heads, as the same repository's models/llama3/model.py computes it",
        "value_dim": "equal to head_dim: one projection width for keys and values",
        "d_ff": "same entry, ffn_dim_multiplier 1.3, multiple_of 4096: 4096 * ceil(1.3 * (8 * 8192 / 3) / 4096)",
        "parameters": "counted from the geometry (untied embeddings, RMSNorm)",
        "max_context": "8192 at release; Llama 3.1 with the same geometry: 131072 (arXiv 2407.21783)",
    },
)
LLAMA_2_70B = ModelConfig(
    "Llama 2 70B",
    "gqa",
    layers=80,
    d_model=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    value_dim=128,
    d_ff=28672,
    vocab=32000,
    parameters=68_976_648_192,
    max_context=4096,
    provenance={
        "*": "EleutherAI/gpt-neox configs/llama2/70B.yml (64 heads, 8 KV heads, 80 layers, 8192, 4096 tokens)",
        "attention": "meta-llama/llama MODEL_CARD.md: grouped-query attention for 70B only, not for 7B and 13B",
        "kv_heads": "EleutherAI/gpt-neox configs/llama2/70B.yml; meta-llama/llama-models sku_list.py agrees for 70B, "
        "but prints 8 for 7B and 13B too, against the model card",
        "d_ff": "gpt-neox prints 86016 = 3 * 28672; sku_list.py: 4096 * ceil(1.3 * (8 * 8192 / 3) / 4096) = 28672",
        "vocab": "Llama 2's tokenizer; sku_list.py prints Llama 3's 128256. Confirmed by the parameter count only",
        "parameters": "counted from the geometry (untied embeddings, RMSNorm); published as 70B",
    },
)
GPT_3_175B = ModelConfig(
    "GPT-3 175B",
    "mha",
    layers=96,
    d_model=12288,
    heads=96,
    kv_heads=96,
    head_dim=128,
    value_dim=128,
    d_ff=49152,
    gated_ffn=False,
    vocab=50257,
    parameters=175_000_000_000,
    max_context=2048,
    provenance={
        "*": "arXiv 2005.14165 Table 2.1 (read in a transcription): 175.0B, 96 layers, 12288, 96 heads of 128",
        "value_dim": "equal to head_dim: one width in Table 2.1",
        "d_ff": "arXiv 2005.14165 sec. 2.1: d_ff = 4 d_model",
        "max_context": "arXiv 2005.14165 sec. 2.1: n_ctx = 2048 for all models; half of the layers are locally banded",
        "vocab": "GPT-2's tokenizer: karpathy/nanoGPT model.py, 50257",
    },
)
GPT_3_6_7B = ModelConfig(
    "GPT-3 6.7B",
    "mha",
    layers=32,
    d_model=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    value_dim=128,
    d_ff=16384,
    gated_ffn=False,
    vocab=50257,
    parameters=6_700_000_000,
    max_context=2048,
    provenance={
        "*": "arXiv 2005.14165 Table 2.1 (read in a transcription): 6.7B, 32 layers, 4096, 32 heads of 128",
        "value_dim": "equal to head_dim: one width in Table 2.1",
        "d_ff": "arXiv 2005.14165 sec. 2.1: d_ff = 4 d_model",
        "max_context": "arXiv 2005.14165 sec. 2.1: n_ctx = 2048 for all models; half of the layers are locally banded",
        "vocab": "GPT-2's tokenizer: karpathy/nanoGPT model.py, 50257",
    },
)
MISTRAL_7B = ModelConfig(
    "Mistral 7B",
    "gqa",
    layers=32,
    d_model=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    value_dim=128,
    d_ff=14336,
    vocab=32000,
    parameters=7_241_732_096,
    max_context=8192,
    window=4096,
    window_layers=tuple(range(32)),
    provenance={
        "*": "arXiv 2310.06825 Table 1 (read in several transcriptions); its config.json on the model hub agrees",
        "value_dim": "equal to head_dim: one width in Table 1",
        "parameters": "counted from the geometry (untied embeddings, RMSNorm); published as 7.3B",
        "max_context": "Table 1: context_len 8192; config.json allows 32768 positions",
        "window_layers": "arXiv 2310.06825 sec. 2: every layer; dropped in the later v0.2 and v0.3",
    },
)
DEEPSEEK_V2 = ModelConfig(
    "DeepSeek-V2",
    "mla",
    layers=60,
    d_model=5120,
    heads=128,
    kv_heads=128,
    head_dim=128,
    value_dim=128,
    d_ff=12288,
    vocab=102400,
    parameters=236_000_000_000,
    active_parameters=21_000_000_000,
    max_context=131072,
    kv_lora_rank=512,
    q_lora_rank=1536,
    rope_dim=64,
    provenance={
        "*": "arXiv 2405.04434 sec. 3.1.2 (deepseek-v2-tech-report.pdf in deepseek-ai/DeepSeek-V2); "
        "inference/configs/config_236B.json in deepseek-ai/DeepSeek-V3 agrees",
        "value_dim": "config_236B.json: v_head_dim 128; the report has one per-head dimension d_h",
        "d_ff": "config_236B.json: inter_dim 12288, first layer only",
        "vocab": "config_236B.json: 102400",
        "parameters": "abstract: 236B total, 21B activated",
        "active_parameters": "abstract: 236B total, 21B activated",
        "max_context": "abstract: 128K, taken as 131072",
    },
)
DEEPSEEK_V3 = ModelConfig(
    "DeepSeek-V3",
    "mla",
    layers=61,
    d_model=7168,
    heads=128,
    kv_heads=128,
    head_dim=128,
    value_dim=128,
    d_ff=18432,
    vocab=129280,
    parameters=671_000_000_000,
    active_parameters=37_000_000_000,
    max_context=131072,
    kv_lora_rank=512,
    q_lora_rank=1536,
    rope_dim=64,
    provenance={
        "*": "inference/configs/config_671B.json in deepseek-ai/DeepSeek-V3; huggingface/transformers "
        "models/deepseek_v3/configuration_deepseek_v3.py agrees",
        "d_ff": "config_671B.json: inter_dim 18432, first three layers only",
        "parameters": "README of deepseek-ai/DeepSeek-V3: 671B total, 37B activated (main model)",
        "active_parameters": "README of deepseek-ai/DeepSeek-V3: 671B total, 37B activated (main model)",
        "max_context": "README of deepseek-ai/DeepSeek-V3: 128K, taken as 131072",
    },
)
MINIMAX_M3 = ModelConfig(
    "MiniMax-M3",
    "gqa",
    layers=60,
    d_model=6144,
    heads=64,
    kv_heads=4,
    head_dim=128,
    value_dim=128,
    d_ff=12288,
    vocab=200064,
    parameters=428_000_000_000,
    active_parameters=23_000_000_000,
    max_context=1048576,
    sparse_layers=tuple(range(3, 60)),
    index_heads=4,
    index_dim=128,
    block=128,
    top_k=16,
    provenance={
        "*": "huggingface/transformers models/minimax_m3_vl/configuration_minimax_m3_vl.py, defaults of the text model",
        "value_dim": "equal to head_dim in the same file",
        "d_ff": "dense_intermediate_size of the same file, dense layers only (which ones: moe_layer_freq)",
        "sparse_layers": "NVIDIA/TensorRT-LLM's and sgl-project/sglang's M3 setups: sparse_attention_freq, 3 layers "
        "off, 57 on; not printed in the transformers defaults",
        "index_heads": "sglang's layer benchmark with the released text_config: sparse_num_index_heads 4 (= kv_heads)",
        "index_dim": "same benchmark: sparse_index_dim 128",
        "block": "same benchmark: sparse_block_size 128",
        "top_k": "same benchmark: sparse_topk_blocks 16, sparse_local_block 1 among them",
        "parameters": "model card: ~428B total, ~23B activated; NVIDIA's Megatron Bridge documentation agrees",
        "active_parameters": "as for parameters",
        "max_context": "1048576 in the released configuration, 524288 in the transformers defaults: sources disagree",
    },
)
MSA_PAPER_109B = ModelConfig(
    "MSA paper model 109B",
    "gqa",
    layers=41,
    d_model=3072,
    heads=64,
    kv_heads=4,
    head_dim=128,
    value_dim=128,
    parameters=109_000_000_000,
    active_parameters=6_000_000_000,
    max_context=1048576,
    sparse_layers=tuple(range(41)),
    index_heads=4,
    index_dim=128,
    block=128,
    top_k=16,
    provenance={
        "*": "arXiv 2606.13392v2 sec. 5.1 (read in a page-by-page account): 41 layers, 3072, 64 / 4 heads, 109B / 6B",
        "value_dim": "equal to head_dim: the paper has one d_h",
        "block": "arXiv 2606.13392v2 sec. 3: B_k = 128",
        "top_k": "arXiv 2606.13392v2 sec. 3: k = 16, the local block among them",
        "index_heads": "arXiv 2606.13392v2 Eq. 5: one index query head per KV head, one index key head",
        "index_dim": "not printed in the paper; 128 reproduces its 28.4x and is what the released M3 uses",
        "sparse_layers": "not stated whether the first three layers (dense FFN) also keep dense attention; all assumed",
        "d_ff": "not recorded",
        "vocab": "not recorded (200K in the paper)",
        "max_context": "not a context of the model: the length of the efficiency figure",
    },
)
KIMI_LINEAR_48B = ModelConfig(
    "Kimi Linear 48B-A3B",
    "mla",
    layers=27,
    d_model=2304,
    heads=32,
    kv_heads=32,
    head_dim=128,
    value_dim=128,
    d_ff=9216,
    vocab=163840,
    parameters=49_122_681_728,
    active_parameters=3_484_459_904,
    max_context=1048576,
    kv_lora_rank=512,
    rope_dim=64,
    linear_layers=_except(27, (3, 7, 11, 15, 19, 23, 26)),
    linear_key_heads=32,
    linear_value_heads=32,
    linear_key_dim=128,
    linear_value_dim=128,
    conv_width=4,
    provenance={
        "*": "huggingface/transformers models/kimi_linear/configuration_kimi_linear.py, defaults = the 48B checkpoint",
        "linear_layers": "all but layers 4, 8, 12, 16, 20, 24 and 27 (from 1) in config.json of "
        "Kimi-Linear-48B-A3B-Instruct: 20 KDA and 7 MLA; tech_report.pdf in MoonshotAI/Kimi-Linear says a uniform 3:1",
        "linear_key_heads": "same file: linear_num_heads 32",
        "linear_value_heads": "same file: linear_num_heads 32",
        "linear_key_dim": "same file: linear_head_dim 128; tech_report.pdf sec. 4: d_k = d_v = 128",
        "linear_value_dim": "same file: linear_head_dim 128; tech_report.pdf sec. 4: d_k = d_v = 128",
        "rope_dim": "64 channels are kept and cached, but not rotated: the MLA layers use no positions (report sec. 4)",
        "parameters": "counted from the shapes in Kimi-Linear-48B-A3B-Instruct; its README: 48B total, 3B activated",
        "active_parameters": "counted, 8 of 256 experts and the shared one; 3.107B without the input embedding",
        "d_ff": "intermediate_size of the same file, first layer only",
    },
)
KIMI_K3 = ModelConfig(
    "Kimi K3",
    "mla",
    layers=93,
    d_model=7168,
    heads=96,
    kv_heads=96,
    head_dim=128,
    value_dim=128,
    d_ff=33792,
    vocab=163840,
    parameters=2_780_000_000_000,
    active_parameters=104_200_000_000,
    max_context=1048576,
    kv_lora_rank=512,
    q_lora_rank=1536,
    rope_dim=64,
    linear_layers=_except(93, (*range(3, 92, 4), 92)),
    linear_key_heads=96,
    linear_value_heads=96,
    linear_key_dim=128,
    linear_value_dim=128,
    conv_width=4,
    provenance={
        "*": "config.json of moonshotai/Kimi-K3, text_config (read in a public report that prints it whole)",
        "linear_layers": "same file: full_attn_layers 4, 8, ..., 92, 93 from 1; 69 KDA layers",
        "linear_key_heads": "same file, linear_attn_config: 96 heads x 128, short_conv_kernel_size 4",
        "linear_value_heads": "as for linear_key_heads",
        "linear_key_dim": "as for linear_key_heads",
        "linear_value_dim": "as for linear_key_heads",
        "conv_width": "as for linear_key_heads",
        "rope_dim": "same file: qk_rope_head_dim 64, mla_use_nope true: cached but not rotated",
        "parameters": "arXiv 2607.24653: 2.78T total, 104.2B active (second-hand)",
        "active_parameters": "arXiv 2607.24653: 2.78T total, 104.2B active (second-hand)",
        "d_ff": "same file: intermediate_size, first layer only",
    },
)
QWEN3_5_397B = ModelConfig(
    "Qwen3.5-397B-A17B",
    "gqa",
    layers=60,
    d_model=4096,
    heads=32,
    kv_heads=2,
    head_dim=256,
    value_dim=256,
    vocab=248320,
    parameters=397_000_000_000,
    active_parameters=17_000_000_000,
    max_context=262144,
    linear_layers=_except(60, tuple(range(3, 60, 4))),
    linear_key_heads=16,
    linear_value_heads=64,
    linear_key_dim=128,
    linear_value_dim=128,
    conv_width=4,
    provenance={
        "*": "NVIDIA/Megatron-LM examples/mimo/scripts/run_qwen35_vlm_train.sh, variant 397b_a17b; the released "
        "configuration, as others quote it, agrees; it was not at hand itself",
        "value_dim": "equal to head_dim: kv-channels 256",
        "linear_layers": "same script: linear-attention-freq 4, every fourth layer is full attention",
        "vocab": "vLLM's and SGLang's test configurations, 248320",
        "parameters": "the model's name: 397B total, 17B active",
        "active_parameters": "the model's name: 397B total, 17B active",
        "d_ff": "not recorded: every layer is a mixture of experts",
    },
)

MODELS: tuple[ModelConfig, ...] = (
    LLAMA_3_8B, LLAMA_3_70B, LLAMA_2_70B, GPT_3_175B, GPT_3_6_7B, MISTRAL_7B, DEEPSEEK_V2, DEEPSEEK_V3,
    MINIMAX_M3, MSA_PAPER_109B, KIMI_LINEAR_48B, KIMI_K3, QWEN3_5_397B,
)  # fmt: skip
