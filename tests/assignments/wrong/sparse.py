"""Typical wrong answers to the set on reading less, and the points that each must get."""

SINKS_OVERWRITTEN = """
def slots(n, window, sinks):
    held = [-1] * (sinks + window)
    for token in range(n):
        held[token % (sinks + window)] = token
    return held, n % (sinks + window)
"""
RING_NOT_SHIFTED = """
def slots(n, window, sinks):
    def slot(token):
        return token if token < sinks else sinks + token % window

    held = [-1] * (sinks + window)
    for token in range(n):
        held[slot(token)] = token
    return held, slot(n)
"""
REACH_ONLY = """
def arrives(layers, stay):
    seen = np.ones(1)
    for window, gap in layers:
        step = np.zeros((window - 1) * gap + 1)
        step[::gap] = 1
        seen = np.convolve(seen, step) > 0
    return seen / seen.sum(), int((~seen).sum())
"""
GAPS_FORGOTTEN = """
def arrives(layers, stay):
    shares = np.ones(1)
    for window, gap in layers:
        step = np.full((window - 1) * gap + 1, (1 - stay) / ((window - 1) * gap + 1))
        step[0] += stay
        shares = np.convolve(shares, step)
    return shares, int((shares == 0).sum())
"""
NO_STREAM = """
def arrives(layers, stay):
    shares = np.ones(1)
    for window, gap in layers:
        step = np.zeros((window - 1) * gap + 1)
        step[::gap] = 1 / window
        shares = np.convolve(shares, step)
    return shares, int((shares == 0).sum())
"""
WHOLE_BLOCKS = """
def block_bounds(q, k, block):
    T_q, T_k = len(q), len(k)
    blocks = k.split(block)
    lo, hi = torch.stack([b.amin(0) for b in blocks]), torch.stack([b.amax(0) for b in blocks])
    bounds = torch.maximum(q[:, None] * lo, q[:, None] * hi).sum(-1)
    own = torch.arange(T_k - T_q, T_k) // block
    return bounds.masked_fill(torch.arange(len(blocks)) > own[:, None], -math.inf)
"""
NOTHING_MASKED = """
def block_bounds(q, k, block):
    blocks = k.split(block)
    lo, hi = torch.stack([b.amin(0) for b in blocks]), torch.stack([b.amax(0) for b in blocks])
    return torch.maximum(q[:, None] * lo, q[:, None] * hi).sum(-1)
"""
LARGEST_ONLY = """
def block_bounds(q, k, block):
    T_q, T_k = len(q), len(k)
    bounds = q.new_full((T_q, -(-T_k // block)), -math.inf)
    for i in range(T_q):
        for b, tokens in enumerate(k[: T_k - T_q + i + 1].split(block)):
            bounds[i, b] = q[i] @ tokens.amax(0)
    return bounds
"""
FIRST_TOKENS = """
def block_bounds(q, k, block):
    T_q, T_k = len(q), len(k)
    bounds = q.new_full((T_q, -(-T_k // block)), -math.inf)
    for i in range(T_q):
        for b, tokens in enumerate(k[: i + 1 if T_q > 1 else T_k].split(block)):
            bounds[i, b] = torch.maximum(q[i] * tokens.amin(0), q[i] * tokens.amax(0)).sum()
    return bounds
"""
BEST_TOKEN = """
def block_bounds(q, k, block):
    T_q, T_k = len(q), len(k)
    scores = (q @ k.mT).masked_fill(torch.arange(T_k) > torch.arange(T_k - T_q, T_k)[:, None], -math.inf)
    return torch.stack([part.amax(-1) for part in scores.split(block, dim=-1)], dim=-1)
"""
ONE_TOO_FEW = """
def enough_blocks(lse, share, most):
    mass, own = lse.softmax(0).tolist(), len(lse) - 1
    chosen = {0, own}
    for b in sorted(range(1, own), key=lambda b: -mass[b]):
        if sum(mass[c] for c in chosen) + mass[b] > share or len(chosen) == most:
            break
        chosen.add(b)
    return sorted(chosen)
"""
FIXED_ON_TOP = """
def enough_blocks(lse, share, most):
    mass, own = lse.softmax(0).tolist(), len(lse) - 1
    chosen, held = [], 0.0
    for b in sorted(range(own + 1), key=lambda b: -mass[b]):
        if held >= share or len(chosen) == most:
            break
        chosen.append(b)
        held += mass[b]
    return sorted({0, own, *chosen})
"""
NO_SHIFT = """
def enough_blocks(lse, share, most):
    mass, own = (lse.exp() / lse.exp().sum()).tolist(), len(lse) - 1
    chosen = {0, own}
    for b in sorted(range(1, own), key=lambda b: -mass[b]):
        if sum(mass[c] for c in chosen) >= share or len(chosen) == most:
            break
        chosen.add(b)
    return sorted(chosen)
"""
NOT_DIVIDED = """
def without(out, lse, part, part_lse):
    share = (part_lse - lse).exp()
    return out - share[:, None] * part, lse + torch.log1p(-share)
"""
SUMS_OVERFLOW = """
def without(out, lse, part, part_lse):
    total = lse.exp() - part_lse.exp()
    gone = total <= 1e-9 * lse.exp()
    rest = (lse.exp()[:, None] * out - part_lse.exp()[:, None] * part) / total[:, None]
    return rest.masked_fill(gone[:, None], 0.0), total.log().masked_fill(gone, -math.inf)
"""
NOTHING_LEFT = """
def without(out, lse, part, part_lse):
    share = (part_lse - lse).exp()
    return (out - share[:, None] * part) / (1 - share[:, None]), lse + torch.log1p(-share)
"""
MASK_BY_PLACE = """
def meetings(buckets, chunk):
    rounds, T = buckets.shape
    count = torch.zeros(T, T, dtype=torch.int64)
    place = torch.arange(T)
    back = place[:, None] // chunk - place // chunk
    seen = ((back == 0) | (back == 1)).tril(-1)
    for row in buckets:
        order = row.argsort(stable=True)
        count[order[:, None], order] += seen
    return count
"""
SAME_BUCKET = """
def meetings(buckets, chunk):
    rounds, T = buckets.shape
    count = torch.zeros(T, T, dtype=torch.int64)
    for row in buckets:
        number = torch.empty(T, dtype=torch.int64)
        number[row.argsort(stable=True)] = torch.arange(T) // chunk
        back = number[:, None] - number
        count += ((back == 0) | (back == 1)) & (row[:, None] == row)
    return count.tril(-1)
"""
IN_THE_ORDER_OF_THE_ROW = """
def meetings(buckets, chunk):
    rounds, T = buckets.shape
    count = torch.zeros(T, T, dtype=torch.int64)
    for row in buckets:
        token = row.argsort(stable=True)
        number = torch.arange(T) // chunk
        back = number[:, None] - number
        count += ((back == 0) | (back == 1)) & (token < token[:, None])
    return count
"""
BY_GRADIENT = """
def first_leak(layer, x):
    x = x.clone().requires_grad_()
    for t in range(len(x) - 1):
        (slope,) = torch.autograd.grad(layer(x)[t].sum(), x, allow_unused=True)
        if slope is not None and slope[t + 1 :].abs().max() > 1e-9:
            return t
    return -1
"""
SMALL_PUSH = """
def first_leak(layer, x):
    whole = layer(x)
    for t in range(len(x) - 1):
        other = x.clone()
        other[t + 1 :] += 1e-3
        if (layer(other)[t] - whole[t]).abs().max() > 1e-9:
            return t
    return -1
"""
LAST_TOKEN_ONLY = """
def first_leak(layer, x):
    other = x.clone()
    other[-1] += 100
    moved = ((layer(other) - layer(x)).abs() > 1e-9).any(-1)[:-1].nonzero()
    return moved[0].item() if len(moved) else -1
"""
OWN_TEXT_ONLY = """
def first_leak(layer, x):
    whole = layer(x)
    for t in range(len(x) - 1):
        if (layer(x[: t + 1])[t] - whole[t]).abs().max() > 1e-9:
            return t
    return -1
"""
RELATIVE_TO_BUDGET = """
def pays_from(k, block, c_index, c_kv):
    return k * block + 1
"""
WHOLE_LAST_BLOCK = """
def pays_from(k, block, c_index, c_kv):
    if c_index >= block * c_kv:
        return math.inf
    last = 0
    for n in range(1, 60_000):
        blocks = -(-n // block)
        if blocks * c_index + min(k, blocks) * block * c_kv >= n * c_kv:
            last = n
    return last + 1
"""
FIRST_TIME = """
def pays_from(k, block, c_index, c_kv):
    if c_index >= block * c_kv:
        return math.inf
    n = 1
    while n // block * c_index + min(k * block, n) * c_kv >= n * c_kv:
        n += 1
    return n
"""
HARD_CODED = """
def pays_from(k, block, c_index, c_kv):
    return {3: 33, 4: math.inf}.get(c_index, 5)
"""

WRONG = {
    "one ring for sinks and window": ({"sparse-1-slots": SINKS_OVERWRITTEN}, {"sparse-1-slots-test": 0}),
    "the ring begins at token 0": ({"sparse-1-slots": RING_NOT_SHIFTED}, {"sparse-1-slots-test": 0}),
    "reach for arrival": ({"sparse-2-arrives": REACH_ONLY}, {"sparse-2-arrives-test": 0}),
    "windows without their gaps": ({"sparse-2-arrives": GAPS_FORGOTTEN}, {"sparse-2-arrives-test": 0}),
    "no residual stream": ({"sparse-2-arrives": NO_STREAM}, {"sparse-2-arrives-test": 0}),
    "the query's own block leaks": ({"sparse-3-bounds": WHOLE_BLOCKS}, {"sparse-3-bounds-hard": 0}),
    "all blocks leak": ({"sparse-3-bounds": NOTHING_MASKED}, {"sparse-3-bounds-hard": 0}),
    "queries from the start of the text": ({"sparse-3-bounds": FIRST_TOKENS}, {"sparse-3-bounds-hard": 0}),
    "the largest key for negative queries": (
        {"sparse-3-bounds": LARGEST_ONLY},
        {"sparse-3-bounds-test": 0, "sparse-3-bounds-hard": 0},
    ),
    "the best score instead of a bound": (
        {"sparse-3-bounds": BEST_TOKEN},
        {"sparse-3-bounds-test": 0, "sparse-3-bounds-hard": 0},
    ),
    "the block that crosses the share is left out": ({"sparse-4-mass": ONE_TOO_FEW}, {"sparse-4-mass-test": 0}),
    "the fixed blocks on top of the number": ({"sparse-4-mass": FIXED_ON_TOP}, {"sparse-4-mass-test": 0}),
    "exponentials overflow": ({"sparse-4-mass": NO_SHIFT}, {"sparse-4-mass-test": 0}),
    "the rest is not divided by its weight": ({"sparse-5-without": NOT_DIVIDED}, {"sparse-5-without-test": 0}),
    "sums instead of their logarithms": ({"sparse-5-without": SUMS_OVERFLOW}, {"sparse-5-without-test": 0}),
    "nothing is left to divide by": ({"sparse-5-without": NOTHING_LEFT}, {"sparse-5-without-test": 0}),
    "the mask compares places in the row": ({"sparse-6-meetings": MASK_BY_PLACE}, {"sparse-6-meetings-test": 0}),
    "only within a bucket": ({"sparse-6-meetings": SAME_BUCKET}, {"sparse-6-meetings-test": 0}),
    "rows and columns in sorted order": ({"sparse-6-meetings": IN_THE_ORDER_OF_THE_ROW}, {"sparse-6-meetings-test": 0}),
    "a leak sought by its gradient": ({"sparse-7-leak": BY_GRADIENT}, {"sparse-7-leak-test": 0}),
    "a push too small to change a choice": ({"sparse-7-leak": SMALL_PUSH}, {"sparse-7-leak-test": 0}),
    "only the last token is changed": ({"sparse-7-leak": LAST_TOKEN_ONLY}, {"sparse-7-leak-test": 0}),
    "no token ever shouts": ({"sparse-7-leak": OWN_TEXT_ONLY}, {"sparse-7-leak-test": 0}),
    "the index is free": ({"sparse-8-pays": RELATIVE_TO_BUDGET}, {"sparse-8-pays-test": 0}),
    "the last block is read whole": ({"sparse-8-pays": WHOLE_LAST_BLOCK}, {"sparse-8-pays-test": 0}),
    "a block that is not full is not indexed": ({"sparse-8-pays": FIRST_TIME}, {"sparse-8-pays-test": 0}),
    "the numbers of the visible test": ({"sparse-8-pays": HARD_CODED}, {"sparse-8-pays-test": 0}),
}
