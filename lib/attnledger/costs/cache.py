"""What decoding keeps: keys and values that grow with every token, and states that do not.

Per token and layer, in numbers (h query heads, g cached heads, widths d_k and d_v):

    MHA  h (d_k + d_v)      GQA  g (d_k + d_v)      MQA  d_k + d_v
    MLA  d_c + d_R                                  (latent and one shared rotary key; DeepSeek-V2, Table 1)
    TPA  (R_K + R_V) h + R_K d_k + R_V d_v          (the factors; Zhang et al. 2025, Table 1)

A layer with an index branch keeps one index key on top; a windowed layer keeps at most `window` tokens; a linear layer
keeps a state instead. Page: kv_cache/kv-tables.
"""

from fractions import Fraction

from ._checks import amount, choice, count, flag, whole
from .hardware import Gpu
from .models import ModelConfig

SCHEMES = ("mha", "gqa", "mqa", "mla", "tpa")


def kv_numbers_per_layer(
    model: ModelConfig,
    *,
    scheme: str | None = None,
    kv_heads: int | None = None,
    ranks: tuple[int, int] | None = None,
) -> int:
    """Numbers one attention layer keeps per token, without index keys.

    scheme=None is what the model does. Otherwise the same heads and widths under another scheme: ``"gqa"`` takes
    `kv_heads` (a GQA model's by default), ``"tpa"`` takes ``ranks=(R_K, R_V)`` (two of each by default), and ``"mla"``
    takes the model's latent or, where it has none, DeepSeek-V2's proportions d_c = 4 d_h and d_R = d_h / 2. ``"mha"``
    counts keys of width `head_dim`: for an MLA model without the rotary part, as its report does.
    Errors: ValueError for an unknown scheme, a kv_heads that does not divide the heads, an odd width to be halved, an
    option that belongs to another scheme.
    """
    scheme = _is_model(model).attention if scheme is None else choice("scheme", scheme, SCHEMES)
    if kv_heads is not None and scheme != "gqa":
        raise ValueError(f"kv_heads wants scheme='gqa', got scheme={scheme!r}")
    if ranks is not None and scheme != "tpa":
        raise ValueError(f"ranks wants scheme='tpa', got scheme={scheme!r}")
    both = model.head_dim + model.value_dim
    if scheme == "mla":
        if model.kv_lora_rank and model.rope_dim:
            return model.kv_lora_rank + model.rope_dim
        if model.head_dim % 2:
            raise ValueError(f"scheme='mla' wants an even head_dim to halve, got {model.head_dim} of {model.name}")
        return 4 * model.head_dim + model.head_dim // 2
    if scheme == "tpa":
        ranks = (2, 2) if ranks is None else ranks
        if not isinstance(ranks, tuple) or len(ranks) != 2:
            raise ValueError(f"ranks wants a tuple (R_K, R_V), got {ranks!r}")
        r_k, r_v = (count("ranks", rank) for rank in ranks)
        return (r_k + r_v) * model.heads + r_k * model.head_dim + r_v * model.value_dim
    if scheme == "gqa" and kv_heads is None and model.attention != "gqa":
        raise ValueError(f"kv_heads wants a number for scheme='gqa', got None for {model.name} without groups")
    kv_heads = model.kv_heads if kv_heads is None else count("kv_heads", kv_heads)
    shared = {"mha": model.heads, "mqa": 1}.get(scheme, kv_heads)
    if model.heads % shared:
        raise ValueError(f"kv_heads wants a divisor of heads={model.heads}, got {shared}")
    return shared * both


def kv_numbers_per_token(model: ModelConfig, *, scheme: str | None = None, **options) -> int:
    """Numbers the whole model keeps per token: its attention layers, plus one index key per sparse layer.

    Linear layers keep none. Options and errors as in `kv_numbers_per_layer`.
    """
    per_layer = kv_numbers_per_layer(model, scheme=scheme, **options)
    return per_layer * len(model.full_layers) + len(model.sparse_layers) * (model.index_dim or 0)


def kv_bytes_per_token(
    model: ModelConfig, *, scheme: str | None = None, bytes_per_number: int | float = 2, **options
) -> int | float:
    """Bytes per token over all layers, index keys included; an int where it comes out whole.

    2 bytes for FP16 and BF16, 1 for FP8, 0.5 for four bits (scales not counted). Options and errors as in
    `kv_numbers_per_layer`; ValueError also for bytes that are not above 0.
    """
    return whole(kv_numbers_per_token(model, scheme=scheme, **options) * amount("bytes_per_number", bytes_per_number))


def kv_cache_numbers(model: ModelConfig, tokens: int, *, scheme: str | None = None, **options) -> int:
    """Numbers kept after `tokens` tokens; a windowed layer stops growing at its window, index keys never do.

    Options as in `kv_numbers_per_layer`. ValueError: negative tokens, or as there.
    """
    tokens = count("tokens", tokens, least=0)
    per_layer = kv_numbers_per_layer(model, scheme=scheme, **options)
    capped = min(tokens, model.window) if model.window else tokens
    windowed = len(model.window_layers)
    held = windowed * capped + (len(model.full_layers) - windowed) * tokens
    return per_layer * held + len(model.sparse_layers) * (model.index_dim or 0) * tokens


def kv_cache_bytes(
    model: ModelConfig,
    tokens: int,
    *,
    requests: int = 1,
    scheme: str | None = None,
    bytes_per_number: int | float = 2,
    **options,
) -> int | float:
    """Bytes of the KV cache of `requests` sequences of `tokens` tokens each.

    Index keys are included, fixed states are not (`linear_state_bytes`); windowed layers are capped at their window.
    Options as in `kv_numbers_per_layer`. ValueError: negative tokens, fewer than one request, bytes not above 0.
    """
    numbers = kv_cache_numbers(model, tokens, scheme=scheme, **options)
    return whole(numbers * count("requests", requests) * amount("bytes_per_number", bytes_per_number))


def linear_state_numbers(
    model: ModelConfig | None = None,
    *,
    heads: int | None = None,
    d_k: int | None = None,
    d_v: int | None = None,
    layers: int | None = None,
    normalizer: bool = False,
    convolution: bool = False,
) -> int:
    """Numbers of the fixed states of linear-attention layers: heads x d_k x d_v per layer.

    Give a model (all its linear layers), or the geometry: `heads`, `d_k`, `d_v` (d_k by default) and `layers` (1).
    `normalizer=True` adds the vector z of d_k numbers per head; `convolution=True` adds the last ``conv_width - 1``
    inputs of the model's short convolution over queries, keys and values.
    Errors: ValueError for a model without linear layers, for geometry beside a model, or for geometry that is missing.
    """
    flag("normalizer", normalizer), flag("convolution", convolution)
    extra = 0
    if model is None:
        if heads is None or d_k is None:
            raise ValueError(f"heads and d_k want numbers without a model, got {heads!r} and {d_k!r}")
        if convolution:
            raise ValueError("convolution wants a model, got True with a geometry")
        layers = 1 if layers is None else layers
        d_v = d_k if d_v is None else d_v
    else:
        if any(value is not None for value in (heads, d_k, d_v, layers)):
            raise ValueError(
                f"heads, d_k, d_v and layers want no value beside a model, got {(heads, d_k, d_v, layers)}"
            )
        if not _is_model(model).linear_layers:
            raise ValueError(f"model wants linear layers, got {model.name} without any")
        heads, d_k, d_v = model.linear_value_heads, model.linear_key_dim, model.linear_value_dim
        layers = len(model.linear_layers)
        if convolution:
            if model.conv_width is None:
                raise ValueError(f"convolution wants a model with a conv_width, got {model.name} without one")
            channels = 2 * model.linear_key_heads * d_k + heads * d_v
            extra = (model.conv_width - 1) * channels
    heads, d_k, d_v, layers = count("heads", heads), count("d_k", d_k), count("d_v", d_v), count("layers", layers)
    return layers * (heads * d_k * d_v + (heads * d_k if normalizer else 0) + extra)


def linear_state_bytes(
    model: ModelConfig, *, bytes_per_number: int | float, requests: int = 1, **options
) -> int | float:
    """Bytes of the fixed states of `requests` sequences; options as in `linear_state_numbers`.

    The type has no default: released models keep their states in FP32 beside a BF16 cache. ValueError: as there, fewer
    than one request, bytes that are not above 0.
    """
    numbers = linear_state_numbers(model, **options)
    return whole(numbers * count("requests", requests) * amount("bytes_per_number", bytes_per_number))


def state_crossover_tokens(
    model: ModelConfig | None = None,
    *,
    kv_numbers: int | None = None,
    state_numbers: int | None = None,
    kv_bytes_per_number: int | float = 2,
    state_bytes_per_number: int | float = 2,
) -> int | float:
    """Tokens after which a layer's KV cache holds as much as its fixed state; below that the state is the larger one.

    Counted in numbers with equal types (the default), in bytes when the two types differ. Give a model with linear
    layers (a linear layer against one of its attention layers), or both counts per layer: `kv_numbers` per token and
    `state_numbers`. An int where it comes out whole. ValueError: neither or both, or counts below 1.
    """
    if model is not None:
        if kv_numbers is not None or state_numbers is not None:
            raise ValueError(
                f"kv_numbers and state_numbers want no value beside a model, got {(kv_numbers, state_numbers)}"
            )
        kv_numbers = kv_numbers_per_layer(model)
        state_numbers = linear_state_numbers(model) // len(model.linear_layers)
    elif kv_numbers is None or state_numbers is None:
        raise ValueError(
            f"kv_numbers and state_numbers want numbers without a model, got {kv_numbers!r} and {state_numbers!r}"
        )
    state = count("state_numbers", state_numbers) * amount("state_bytes_per_number", state_bytes_per_number)
    return whole(state / (count("kv_numbers", kv_numbers) * amount("kv_bytes_per_number", kv_bytes_per_number)))


def requests_per_card(
    model: ModelConfig,
    gpu: Gpu,
    *,
    tokens: int,
    cards: int = 1,
    scheme: str | None = None,
    bytes_per_number: int | float = 2,
    memory: str = "vendor",
    weight_bytes: int | float | None = None,
    reserve_bytes: int | float = 0,
    state_bytes_per_number: int | float = 4,
    **options,
) -> int:
    """Whole requests of `tokens` tokens whose caches fit beside the weights on `cards` cards.

    memory=``"vendor"`` takes the printed GB as 10**9 bytes, ``"reported"`` what the driver offers. weight_bytes=None
    takes 2 bytes per parameter of the model, also where it was released in fewer (Kimi K3: four bits for its experts);
    pass 0 to ask for the caches alone. `reserve_bytes` is what activations, the runtime and fragmentation take (0: an
    upper bound). Fixed states count with `state_bytes_per_number`. 0 when the weights alone do not fit.
    Errors: ValueError for wrong counts, a model without parameters, a card without a reported size.
    """
    choice("memory", memory, ("vendor", "reported"))
    if not isinstance(gpu, Gpu):
        raise ValueError(f"gpu wants a Gpu of attnledger.costs.hardware, got {gpu!r}")
    if weight_bytes is None:
        if _is_model(model).parameters is None:
            raise ValueError(f"weight_bytes wants a number, got None for {model.name} without a parameter count")
        weight_bytes = 2 * model.parameters
    taken = amount("weight_bytes", weight_bytes, least=0) + amount("reserve_bytes", reserve_bytes, least=0)
    state_bytes_per_number = amount("state_bytes_per_number", state_bytes_per_number)
    each = kv_cache_bytes(model, count("tokens", tokens), scheme=scheme, bytes_per_number=bytes_per_number, **options)
    if model.linear_layers:
        each += linear_state_bytes(model, bytes_per_number=state_bytes_per_number)
    size = gpu.memory if memory == "vendor" else gpu.reported
    if size is None:
        raise ValueError(f"memory wants 'vendor' for {gpu.name}, got 'reported' without a known size")
    return max(0, (count("cards", cards) * size - taken) // Fraction(each))


def _is_model(model) -> ModelConfig:
    if not isinstance(model, ModelConfig):
        raise ValueError(f"model wants a ModelConfig of attnledger.costs.models, got {model!r}")
    return model
