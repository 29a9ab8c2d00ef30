"""Checks of the exercises on sparse/fixed-patterns."""

import math

from attnledger.costs import visible_pairs

from ._answer import compare, exercise


@exercise
def pairs_in_band(answer):
    """Pairs that a two-sided window of w keys on either side scores."""
    cases = (
        (6, 1, "Four tokens in the middle see three keys, the two at the ends see two."),
        (1, 3, "One token sees itself."),
        (5, 4, "This window shows every key to every query."),
        (5, 9, "A window may be wider than the text: no token sees more than n keys."),
        (100, 0, "With w = 0 every token sees itself only."),
        (1000, 50, "Every query sees 2w + 1 keys, less those that stand before the first or after the last token."),
    )
    for n, w, hint in cases:
        want = sum(min(i + w, n - 1) - max(i - w, 0) + 1 for i in range(n))
        if problem := compare(answer(n, w), want, on=f"n = {n}, w = {w}", hint=hint):
            return problem
    return None


@exercise
def layers_to_reach(answer):
    """Layers until a causal window can pass a signal over a distance."""
    cases = (
        (1, 2, "Two keys: the token itself and the one before."),
        (5, 2, "One step per layer."),
        (6, 4, "A window of 4 keys reaches 3 tokens back."),
        (7, 4, "Two layers reach 6 tokens; the seventh needs one more."),
        (131_041, 4096, "32 layers reach 32 × 4095 tokens back; this is further by one."),
        (0, 7, "A token has itself without any layer."),
        (0, 1, "A token has itself without any layer."),
    )
    for distance, window, hint in cases:
        want = 0 if distance == 0 else -(-distance // (window - 1))
        if problem := compare(
            answer(distance, window), want, on=f"distance = {distance}, window = {window}", hint=hint
        ):
            return problem
    hint = "A window of one key shows a token only itself; return math.inf."
    return compare(answer(3, 1), math.inf, on="distance = 3, window = 1", hint=hint)


@exercise
def averaged_share(answer):
    """What arrives from a token through layers of averaging windows."""
    cases = (
        (0, 1, 4, "One layer: every key of the window gets 1/w."),
        (3, 1, 4, "The last key of the window gets 1/w as well."),
        (4, 1, 4, "Outside the window nothing arrives."),
        (5, 5, 2, "Every one of the five layers must step back: 1 way of 32."),
        (2, 3, 2, "Two of three layers step back: 3 ways of 8."),
        (9, 4, 6, "Count the ways to write the distance as a sum of `layers` steps from 0 to w − 1."),
        (0, 0, 5, "Without a layer a token is itself."),
    )
    for distance, layers, window, hint in cases:
        ways = [1.0]
        for _ in range(layers):
            longer = [0.0] * (len(ways) + window - 1)
            for at, count in enumerate(ways):
                for step in range(window):
                    longer[at + step] += count / window
            ways = longer
        want = ways[distance] if distance < len(ways) else 0.0
        on = f"distance = {distance}, layers = {layers}, window = {window}"
        if problem := compare(answer(distance, layers, window), want, on=on, hint=hint, tolerance=1e-9):
            return problem
    return None


@exercise
def window_saving(answer):
    """How many times fewer pairs a causal window scores than causal full attention."""
    for n, window in ((6, 2), (8192, 512), (100, 100), (50, 200), (4096, 1)):
        want = visible_pairs(n, causal=True) / visible_pairs(n, causal=True, window=window)
        hint = "Compare with the causal triangle, not the square; the first tokens see less than a full window."
        if problem := compare(answer(n, window), want, on=f"n = {n}, window = {window}", hint=hint):
            return problem
    return None
