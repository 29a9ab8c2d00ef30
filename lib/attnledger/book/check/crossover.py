"""Checks for the exercises of cost/crossover."""

from attnledger.costs import crossover_length

from ._answer import compare, exercise


def _same(got, want) -> bool:
    return compare(got, want, on="") is None


@exercise
def tokens_for_share(answer) -> str | None:
    """share, d, causal -> tokens at which scores and read are that share of the layer."""
    for share, d, causal in ((0.2, 1024, True), (0.75, 8192, False), (0.5, 4096, True), (0.5, 4096, False)):
        want, got = share / (1 - share) * (12 if causal else 6) * d, answer(share, d, causal)
        hint = "A share s leaves 1 − s to the weights. Which ratio is that, and at which n does the page reach it?"
        if _same(got, share * (12 if causal else 6) * d):
            hint = "That is where the ratio to the weights is `share`; a share of the layer is r/(1 + r)."
        elif _same(got, 2 * want) or _same(got, want / 2):
            hint = "Twelve widths with a causal mask, six without."
        if problem := compare(got, want, on=f"share = {share}, d = {d}, causal = {causal}", hint=hint):
            return problem
    return None


@exercise
def tie_of_layer(answer) -> str | None:
    """d, h, h_kv, d_h, d_ff, matrices -> tokens at which the square equals the weights."""
    cases = [
        ("the textbook layer", (4096, 32, 32, 128, 16384, 2)),
        ("Llama 3 70B", (8192, 64, 8, 128, 28672, 3)),
        ("a layer whose heads are wider than d", (1024, 16, 4, 128, 4096, 3)),
        ("one shared key head", (64, 8, 1, 8, 100, 2)),
    ]
    for name, (d, h, h_kv, d_h, d_ff, matrices) in cases:
        want = crossover_length(
            causal=True, d_model=d, d_ff=d_ff, gated=matrices == 3, heads=h, kv_heads=h_kv, head_dim=d_h
        )
        got = answer(d, h, h_kv, d_h, d_ff, matrices)
        hint = "Count the weights of queries, output, keys, values and MLP, and divide by the width of all query heads."
        if _same(got, want / 2):
            hint = "That is the bidirectional tie; a causal mask halves the square."
        elif _same(got, (4 * d * d + matrices * d * d_ff) / d) and not _same(got, want):
            hint = "The projections are as wide as their heads, h d_h and h_kv d_h, not d."
        elif _same(got, want * h / h_kv):
            hint = "Every query head scores every token, however few key heads there are."
        elif _same(got, (2 * d * d_h * (h + h_kv) + matrices * d * d_ff) / d):
            hint = "The square is as wide as the query heads, h d_h, which is not always d."
        elif _same(got, (2 * d * d_h * h + d * d_h * h_kv + matrices * d * d_ff) / (h * d_h)):
            hint = "Keys and values both have a projection."
        on = f"{name}, d = {d}, h = {h}, h_kv = {h_kv}, d_h = {d_h}, d_ff = {d_ff}, {matrices} matrices"
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    return None


@exercise
def window_share(answer) -> str | None:
    """w, d -> the share of scores and read in a layer with a sliding window, for long contexts."""
    for w, d in ((6, 1), (4096, 4096), (512, 768), (24576, 4096)):
        want, got = w / (w + 6 * d), answer(w, d)
        hint = "Count for one token far from the start: what does it cost in scores and read, and what in weights?"
        if _same(got, w / (6 * d)):
            hint = "That is the ratio to the weights; the share has both in the denominator."
        elif _same(got, w / (w + 12 * d)) or _same(got, w / (12 * d)):
            hint = "Only in the whole triangle does a token see half on average; in a window it sees all w."
        if problem := compare(got, want, on=f"w = {w}, d = {d}", hint=hint):
            return problem
    return None


@exercise
def attention_cheaper_below(answer) -> str | None:
    """d, gates -> the n below which an attention layer takes fewer FLOP than a recurrent one."""
    for d, gates in ((512, 3), (512, 4), (512, 1), (1024, 2), (100, 6)):
        want, got = max(0, (gates - 2) * d), answer(d, gates)
        hint = (
            "Write down what both layers cost for n tokens. Which term grows faster than n, and when is it overtaken?"
        )
        if want == 0 and _same(got, (gates - 2) * d):
            hint = "No n is that small: answer 0 where attention never does less."
        elif _same(got, gates * d):
            hint = "The attention layer has four projections as well; they cost something at any n."
        elif _same(got, 2 * (gates - 2) * d):
            hint = "The layer is bidirectional: every token sees all n keys, not half of them."
        elif _same(got, max(0, (gates / 2 - 2) * d)):
            hint = "A gate has two matrices, one for the input and one for the state."
        if problem := compare(got, want, on=f"d = {d}, gates = {gates}", hint=hint):
            return problem
    return None
