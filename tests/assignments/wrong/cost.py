"""Typical mistakes in the problem set on costs, and the points that each must get."""

WRONG = {
    "keys and values made from the decoder's own tokens": (
        {
            "cost-1-decoder": """
def decoder_layer_flops(m, n, d):
    return (8 + 8 + 16) * m * d * d + 2 * m * m * d + 4 * m * n * d
"""
        },
        {"cost-1-decoder-test": 0},
    ),
    "the causal square counted in full": (
        {
            "cost-1-decoder": """
def decoder_layer_flops(m, n, d):
    return 28 * m * d * d + 4 * n * d * d + 4 * m * m * d + 4 * m * n * d
"""
        },
        {"cost-1-decoder-test": 0},
    ),
    "entries counted instead of rivals": (
        {
            "cost-2-factor": """
def factor(lead, trained, n):
    return 1 + math.log(n / trained) / lead
"""
        },
        {"cost-2-factor-test": 0},
    ),
    "half of the square without its diagonal": (
        {
            "cost-3-page": """
def longest_page(percent, d, heads, kv_heads, head_dim, d_ff):
    weights = 2 * d * head_dim * (heads + kv_heads) + 3 * d * d_ff
    return percent * weights // ((100 - percent) * heads * head_dim)
"""
        },
        {"cost-3-page-test": 0},
    ),
    "floating point where the last token matters": (
        {
            "cost-3-page": """
def longest_page(percent, d, heads, kv_heads, head_dim, d_ff):
    ratio = percent / 100 / (1 - percent / 100)
    weights = 2 * d * head_dim * (heads + kv_heads) + 3 * d * d_ff
    return max(0, math.floor(ratio * weights / (heads * head_dim)) - 1)
"""
        },
        {"cost-3-page-test": 0},
    ),
    "weights read once per reader": (
        {
            "cost-4-readers": """
def readers(parameters, kappa, f, s, card, milliseconds):
    seconds = milliseconds / 1000
    most = {
        "memory": (card.memory - 2 * parameters) / (s * kappa),
        "bandwidth": seconds * card.bandwidth / (2 * parameters + s * kappa),
        "compute": seconds * card.peak("fp16") / (2 * parameters + s * f),
    }
    first = min(most, key=most.get)
    return max(0, math.floor(most[first])), first
"""
        },
        {"cost-4-readers-test": 0},
    ),
    "the cap's own derivative forgotten": (
        {
            "cost-5-capped": """
def capped_backward(S, dA, cap, mask):
    A = torch.softmax((cap * torch.tanh(S / cap)).masked_fill(~mask, -math.inf), -1)
    return A * (dA - (dA * A).sum(-1, keepdim=True))
"""
        },
        {"cost-5-capped-test": 0},
    ),
    "autograd instead of the formula": (
        {
            "cost-5-capped": """
def capped_backward(S, dA, cap, mask):
    S = S.clone().requires_grad_()
    A = torch.softmax((cap * torch.tanh(S / cap)).masked_fill(~mask, -math.inf), -1)
    return torch.autograd.grad(A, S, dA)[0]
"""
        },
        {"cost-5-capped-test": 0},
    ),
    "every pair of tiles looked at": (
        {
            "cost-6-window": """
def windowed_traffic(n, window, block_q, block_k, d):
    rows = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        for key in range(0, n, block_k):
            end = min(key + block_k, n)
            if key < stop and end > start - window + 1:
                rows += end - key
    return n * d + 2 * rows * d, n * d
"""
        },
        {"cost-6-window-hard": 0},
    ),
    "the last query's window for the whole tile": (
        {
            "cost-6-window": """
def windowed_traffic(n, window, block_q, block_k, d):
    rows = 0
    for start in range(0, n, block_q):
        last = min(start + block_q, n) - 1
        first_tile = max(0, last - window + 1) // block_k
        rows += min((last // block_k + 1) * block_k, n) - first_tile * block_k
    return n * d + 2 * rows * d, n * d
"""
        },
        {"cost-6-window-test": 0, "cost-6-window-hard": 0},
    ),
    "exponentials of the sums themselves": (
        {
            "cost-7-withdraw": """
def withdraw(o, lse, o_page, lse_page):
    whole, page = lse.exp()[..., None], lse_page.exp()[..., None]
    rest = whole - page
    return (whole * o - page * o_page) / rest, rest[..., 0].log()
"""
        },
        {"cost-7-withdraw-hard": 0},
    ),
    "the page's share not taken out of the sum": (
        {
            "cost-7-withdraw": """
def withdraw(o, lse, o_page, lse_page):
    gone = (lse_page - lse).exp()
    return o - gone[..., None] * o_page, lse + torch.log1p(-gone)
"""
        },
        {"cost-7-withdraw-test": 0, "cost-7-withdraw-hard": 0},
    ),
}
