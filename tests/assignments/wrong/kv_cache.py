"""Typical wrong answers to the set on the KV cache, and the points that each must get."""

HEADS_OF_MLA = """
def numbers_added(config):
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    growing = config.get("layer_types", ["full_attention"] * layers).count("full_attention")
    width = config.get("head_dim", config["hidden_size"] // heads)
    return growing * 2 * config.get("num_key_value_heads", heads) * width
"""
LATENT_TWICE = """
def numbers_added(config):
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    growing = config.get("layer_types", ["full_attention"] * layers).count("full_attention")
    if "kv_lora_rank" in config:
        return growing * 2 * (config["kv_lora_rank"] + config["qk_rope_head_dim"])
    width = config.get("head_dim", config["hidden_size"] // heads)
    return growing * 2 * config.get("num_key_value_heads", heads) * width
"""
ALL_LAYERS = """
def numbers_added(config):
    heads = config["num_attention_heads"]
    if "kv_lora_rank" in config:
        return config["num_hidden_layers"] * (config["kv_lora_rank"] + config["qk_rope_head_dim"])
    width = config.get("head_dim", config["hidden_size"] // heads)
    return config["num_hidden_layers"] * 2 * config.get("num_key_value_heads", heads) * width
"""
TILED = """
def split_by_heads(heads, kv_heads, cards):
    share = heads // cards
    held = [sorted({i % kv_heads for i in range(card * share, (card + 1) * share)}) for card in range(cards)]
    return held, sum(map(len, held)) / kv_heads
"""
EVEN_SHARES = """
def split_by_heads(heads, kv_heads, cards):
    share = max(1, kv_heads // cards)
    held = [[(card * share + i) * kv_heads // max(kv_heads, cards) for i in range(share)] for card in range(cards)]
    return held, cards * share / kv_heads
"""
WHOLE_WINDOWS = """
def pages_held(n, window, page):
    return -(-(n if window is None else min(n, window)) // page)
"""
ONE_TOKEN_BACK = """
def pages_held(n, window, page):
    oldest = 0 if window is None else max(n - window - 1, 0)
    return (n - 1) // page - oldest // page + 1 if n else 0
"""
ALL_BY_BEAM = """
def requests_that_fit(pool, page, system, prompt, generated, beams):
    return pool // (beams * -(-(system + prompt + generated) // page))
"""
PARTS_ROUNDED_UP = """
def requests_that_fit(pool, page, system, prompt, generated, beams):
    up = lambda tokens: -(-tokens // page)
    return max(0, (pool - up(system)) // (up(prompt) + beams * up(generated)))
"""
HALF_FULL_SHARED = """
def requests_that_fit(pool, page, system, prompt, generated, beams):
    up = lambda tokens: -(-tokens // page)
    by_all, by_request = system // page, up(system + prompt) - system // page
    by_beam = up(system + prompt + generated) - up(system + prompt)
    return max(0, (pool - by_all) // max(1, by_request + beams * by_beam))
"""
WIDTH_OF_LATENT = """
def read_latent(q_c, q_r, c, k_r, W_uk, W_uv):
    q = torch.einsum("hd,hdc->hc", q_c, W_uk)
    scores = (q @ c.mT + q_r @ k_r.mT) / math.sqrt(c.shape[-1] + k_r.shape[-1])
    return torch.einsum("hc,hdc->hd", scores.softmax(-1) @ c, W_uv)
"""
NO_ROTARY = """
def read_latent(q_c, q_r, c, k_r, W_uk, W_uv):
    q = torch.einsum("hd,hdc->hc", q_c, W_uk)
    scores = q @ c.mT / math.sqrt(q_c.shape[-1])
    return torch.einsum("hc,hdc->hd", scores.softmax(-1) @ c, W_uv)
"""
EXPANDED = """
def read_latent(q_c, q_r, c, k_r, W_uk, W_uv):
    k, v = c @ W_uk.mT, c @ W_uv.mT
    scores = (k @ q_c.unsqueeze(-1)).squeeze(-1) + q_r @ k_r.mT
    weights = (scores / math.sqrt(q_c.shape[-1] + q_r.shape[-1])).softmax(-1)
    return (weights.unsqueeze(-2) @ v).squeeze(-2)
"""
NEW_TOKENS_ONLY = """
def expand_from(cached, h, d_h, d_R, d_v, d_c):
    saved = 2 * d_c - d_h - d_v
    return math.inf if saved <= 0 else max(1, d_c * (d_h + d_v) // saved + 1)
"""
NOT_EACH_OTHER = """
def expand_from(cached, h, d_h, d_R, d_v, d_c):
    saved, new = 2 * d_c - d_h - d_v, 1
    if saved <= 0:
        return math.inf
    while new * max(cached, 1) * saved <= cached * d_c * (d_h + d_v):
        new += 1
    return new
"""
ONE_SCALE = """
def quantise(x, bits, group):
    largest = 2 ** (bits - 1) - 1
    scale = x.abs().max() / largest
    return (x / scale).round().to(torch.int8), scale.expand(*x.shape[:-1], x.shape[-1] // group)
"""
NEGATIVE_END = """
def quantise(x, bits, group):
    largest = 2 ** (bits - 1)
    groups = x.unflatten(-1, (-1, group))
    scales = groups.abs().amax(-1) / largest
    safe = scales.masked_fill(scales == 0, 1.0).unsqueeze(-1)
    return (groups / safe).round().clamp(-largest, largest - 1).flatten(-2).to(torch.int8), scales
"""
NOT_CLAMPED = """
def quantise(x, bits, group):
    largest = 2 ** (bits - 1) - 1
    groups = x.unflatten(-1, (-1, group))
    scales = groups.abs().amax(-1) / largest
    safe = scales.masked_fill(scales == 0, 1.0).unsqueeze(-1)
    return (groups / safe).round().flatten(-2).to(torch.int16), scales
"""
ZERO_BY_ZERO = """
def quantise(x, bits, group):
    largest = 2 ** (bits - 1) - 1
    groups = x.unflatten(-1, (-1, group))
    scales = groups.abs().amax(-1) / largest
    codes = (groups / scales.unsqueeze(-1)).clamp(-largest, largest).round()
    return codes.flatten(-2).nan_to_num(largest).to(torch.int16), scales
"""
SMALL_NUMBER_ADDED = """
def quantise(x, bits, group):
    largest = 2 ** (bits - 1) - 1
    groups = x.unflatten(-1, (-1, group))
    scales = groups.abs().amax(-1).clamp(min=1e-8) / largest
    return (groups / scales.unsqueeze(-1)).round().flatten(-2).to(torch.int8), scales
"""
NOT_TIMES_R = """
def factors(K, R):
    U, s, Vh = torch.linalg.svd(K.transpose(0, 1), full_matrices=False)
    a, b = (U * s.unsqueeze(-2)).permute(2, 0, 1)[:R], Vh.transpose(0, 1)[:R]
    missing = (0, 0, 0, 0, 0, R - len(a))
    return torch.nn.functional.pad(a, missing), torch.nn.functional.pad(b, missing)
"""
ONE_BASIS_FOR_ALL = """
def factors(K, R):
    h, T, d = K.shape
    U, s, Vh = torch.linalg.svd(K.reshape(h, T * d), full_matrices=False)
    n = min(R, len(s))
    a, b = torch.zeros(R, T, h), torch.zeros(R, T, d)
    a[:n] = (R * U * s).mT[:n].unsqueeze(1)
    b[:n] = Vh[:n].view(n, T, d)
    return a, b
"""
FIRST_HEADS = """
def factors(K, R):
    h, T, d = K.shape
    a, b = torch.zeros(R, T, h), torch.zeros(R, T, d)
    for r in range(min(R, h)):
        group = slice(r * h // min(R, h), (r + 1) * h // min(R, h))
        a[r, :, group], b[r] = R, K[group].mean(0)
    return a, b
"""
HARD_CODED = """
def pages_held(n, window, page):
    return {7: 2, 8: 1, 9: 2}.get(n, 1)
"""

WRONG = {
    "key heads of a latent model": ({"kv_cache-1-config": HEADS_OF_MLA}, {"kv_cache-1-config-test": 0}),
    "the latent as key and as value": ({"kv_cache-1-config": LATENT_TWICE}, {"kv_cache-1-config-test": 0}),
    "all layers grow": ({"kv_cache-1-config": ALL_LAYERS}, {"kv_cache-1-config-test": 0}),
    "query heads tiled over key heads": ({"kv_cache-2-cards": TILED}, {"kv_cache-2-cards-test": 0}),
    "key heads shared out evenly": ({"kv_cache-2-cards": EVEN_SHARES}, {"kv_cache-2-cards-test": 0}),
    "windows that begin with a page": ({"kv_cache-3-pages": WHOLE_WINDOWS}, {"kv_cache-3-pages-test": 0}),
    "a window of one token more": ({"kv_cache-3-pages": ONE_TOKEN_BACK}, {"kv_cache-3-pages-test": 0}),
    "the numbers of the visible test": ({"kv_cache-3-pages": HARD_CODED}, {"kv_cache-3-pages-test": 0}),
    "nothing is shared": ({"kv_cache-4-beams": ALL_BY_BEAM}, {"kv_cache-4-beams-test": 0}),
    "every part begins a page": ({"kv_cache-4-beams": PARTS_ROUNDED_UP}, {"kv_cache-4-beams-test": 0}),
    "a page that is not full is shared": ({"kv_cache-4-beams": HALF_FULL_SHARED}, {"kv_cache-4-beams-test": 0}),
    "the scale of the absorbed width": (
        {"kv_cache-5-latent": WIDTH_OF_LATENT},
        {"kv_cache-5-latent-test": 0, "kv_cache-5-latent-hard": 0},
    ),
    "the rotary key is left out": (
        {"kv_cache-5-latent": NO_ROTARY},
        {"kv_cache-5-latent-test": 0, "kv_cache-5-latent-hard": 0},
    ),
    "keys and values are made": ({"kv_cache-5-latent": EXPANDED}, {"kv_cache-5-latent-hard": 0}),
    "only new tokens are expanded": ({"kv_cache-6-absorb": NEW_TOKENS_ONLY}, {"kv_cache-6-absorb-test": 0}),
    "new tokens do not see each other": ({"kv_cache-6-absorb": NOT_EACH_OTHER}, {"kv_cache-6-absorb-test": 0}),
    "one scale for all": (
        {"kv_cache-7-bits": ONE_SCALE},
        {"kv_cache-7-bits-test": 0, "kv_cache-7-bits-hard": 0},
    ),
    "a code below the smallest": (
        {"kv_cache-7-bits": NEGATIVE_END},
        {"kv_cache-7-bits-test": 0, "kv_cache-7-bits-hard": 0},
    ),
    "a code past the end under a rounded scale": ({"kv_cache-7-bits": NOT_CLAMPED}, {"kv_cache-7-bits-hard": 0}),
    "a group of zeros becomes not a number": ({"kv_cache-7-bits": ZERO_BY_ZERO}, {"kv_cache-7-bits-hard": 0}),
    "scales have a floor": ({"kv_cache-7-bits": SMALL_NUMBER_ADDED}, {"kv_cache-7-bits-hard": 0}),
    "the factor 1/R is forgotten": ({"kv_cache-8-factors": NOT_TIMES_R}, {"kv_cache-8-factors-test": 0}),
    "one basis of heads for all tokens": ({"kv_cache-8-factors": ONE_BASIS_FOR_ALL}, {"kv_cache-8-factors-test": 0}),
    "the means of neighbouring heads": ({"kv_cache-8-factors": FIRST_HEADS}, {"kv_cache-8-factors-test": 0}),
}
