"""The accounting: what attention computes, keeps and moves, as exact numbers and without torch.

Conventions: a multiply-add is 2 FLOP; counts are ints wherever they are exact; sizes are bytes (`format_bytes` and
`in_unit` show them); `causal` has no default where it changes a count. A wrong argument raises a ValueError that names
it.
"""

from . import hardware, models
from .attention import (
    attention_flops,
    crossover_length,
    layer_weights,
    projection_flops,
    quadratic_share,
    score_matrix_bytes,
    visible_pairs,
)
from .cache import (
    SCHEMES,
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
from .hardware import Gpu
from .models import ModelConfig
from .sparse import MsaFlops, msa_break_even, msa_flops, selected_pairs
from .traffic import (
    Bound,
    Traffic,
    bound,
    decode_attention_flops,
    decode_bound,
    decode_macs,
    decode_read_bytes,
    hbm_traffic,
)
from .units import format_bytes, in_unit

__all__ = [
    "SCHEMES",
    "Bound",
    "Gpu",
    "ModelConfig",
    "MsaFlops",
    "Traffic",
    "attention_flops",
    "bound",
    "crossover_length",
    "decode_attention_flops",
    "decode_bound",
    "decode_macs",
    "decode_read_bytes",
    "format_bytes",
    "hardware",
    "hbm_traffic",
    "in_unit",
    "kv_bytes_per_token",
    "kv_cache_bytes",
    "kv_cache_numbers",
    "kv_numbers_per_layer",
    "kv_numbers_per_token",
    "layer_weights",
    "linear_state_bytes",
    "linear_state_numbers",
    "models",
    "msa_break_even",
    "msa_flops",
    "projection_flops",
    "quadratic_share",
    "requests_per_card",
    "score_matrix_bytes",
    "selected_pairs",
    "state_crossover_tokens",
    "visible_pairs",
]
