"""Block selection, block-sparse attention and the alignment loss against definitions written query by query."""

import math

import pytest
import torch

from attnledger.ops.msa import alignment_loss, block_sparse_attention, index_scores, select_blocks
from attnledger.ops.softmax import attention

from .matrix import LENGTHS, Inputs, assert_close, assert_same_gradients, complains, gradients, made_elsewhere

D, D_V, D_IDX, H, H_KV, B = 6, 5, 4, 6, 3, 16
SIZES = {"block_size": B, "top_k": 3}


def index_arguments(T_q, T_k, lead=(2,), seed=0, dtype=torch.float64):
    draw = Inputs(seed, dtype)
    return draw.normal(*lead, H_KV, T_q, D_IDX), draw.normal(*lead, 1, T_k, D_IDX)


def arguments(T_q, T_k, lead=(2,), seed=1, dtype=torch.float64):
    draw = Inputs(seed, dtype)
    return [draw.normal(*lead, H, T_q, D), draw.normal(*lead, H_KV, T_k, D), draw.normal(*lead, H_KV, T_k, D_V)]


def chosen_by_hand(scores, block_size, top_k, local=1, init=0):
    """One head, ``scores (T_q, T_k)``: query by query, in plain Python."""
    T_q, T_k = scores.shape
    rows = []
    for i in range(T_q):
        position = i + T_k - T_q
        own = position // block_size
        forced = {b for b in range(own + 1) if b > own - local or b < init}
        best = {
            b: max(scores[i, j].item() for j in range(b * block_size, min((b + 1) * block_size, position + 1)))
            for b in range(own + 1)
        }
        free = sorted(set(best) - forced, key=lambda b: (-best[b], b))
        row = sorted(forced | set(free[: top_k - len(forced)]))
        rows.append(row + [-1] * (top_k - len(row)))
    return torch.tensor(rows, dtype=torch.int64).reshape(T_q, top_k)


def allowed_tokens(blocks, T_k, block_size):
    """``blocks (..., T_q, slots)`` as a mask ``(..., T_q, T_k)``, causal."""
    T_q = blocks.shape[-2]
    block_of = torch.arange(T_k) // block_size
    return (blocks.unsqueeze(-1) == block_of).any(-2) & torch.ones(T_q, T_k, dtype=torch.bool).tril(T_k - T_q)


def dense(q, k, v, blocks, block_size=B, scale=None):
    """The same attention with a mask over all pairs, keys repeated for the group by ``repeat_interleave``."""
    group = q.shape[-3] // k.shape[-3]
    mask = allowed_tokens(blocks, k.shape[-2], block_size).repeat_interleave(group, -3)
    return attention(q, k.repeat_interleave(group, -3), v.repeat_interleave(group, -3), mask=mask, scale=scale)


# --- scores and selection --------------------------------------------------------------------------------------------


def test_index_scores_are_scaled_dot_products_of_one_key_head():
    iq, ik = index_arguments(5, 9)
    want = torch.stack([iq[:, h] @ ik[:, 0].mT / math.sqrt(D_IDX) for h in range(H_KV)], dim=1)
    assert_close(index_scores(iq, ik), want, 1e-14)
    assert_close(index_scores(iq[0, 0], ik[0, 0]), want[0, 0], 1e-14)
    half = index_scores(iq.bfloat16(), ik.bfloat16())
    assert half.dtype == torch.float32
    assert torch.equal(half, index_scores(iq.bfloat16().float(), ik.bfloat16().float()))
    got = gradients(index_scores, [iq, ik])
    assert_same_gradients(got, gradients(lambda a, b: a @ b.mT / math.sqrt(D_IDX), [iq, ik]), 1e-13, "iq ik")


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("options", [{}, {"local": 2, "init": 1}, {"local": 0}, {"top_k": 1}, {"top_k": 20}], ids=str)
def test_selection_is_the_definition(T, options):
    options = SIZES | options
    iq, ik = index_arguments(T, T)
    blocks = select_blocks(iq, ik, **options)
    assert blocks.dtype == torch.int64 and blocks.shape == (2, H_KV, T, options["top_k"])
    scores = index_scores(iq, ik)
    for n in range(2):
        for h in range(H_KV):
            assert torch.equal(blocks[n, h], chosen_by_hand(scores[n, h], **options))
    assert torch.equal(select_blocks(iq[1, 2], ik[1, 0], **options), blocks[1, 2])


@pytest.mark.parametrize("T_q", [0, 1, 2, 17, 100])
def test_decoding_selects_what_the_whole_selected(T_q):
    iq, ik = index_arguments(129, 129)
    whole = select_blocks(iq, ik, **SIZES)
    assert torch.equal(select_blocks(iq[..., 129 - T_q :, :], ik, **SIZES), whole[..., 129 - T_q :, :])


def test_queries_before_the_first_key_have_only_empty_slots():
    iq, ik = index_arguments(5, 3)
    blocks = select_blocks(iq, ik, **SIZES)
    assert (blocks[..., :2, :] == -1).all() and (blocks[..., 2:, 0] == 0).all()
    assert (select_blocks(iq, ik[..., :0, :], **SIZES) == -1).all()


def test_selection_passes_no_gradient_and_ignores_the_future():
    iq, ik = index_arguments(129, 129)
    before = select_blocks(iq.requires_grad_(), ik, **SIZES)
    assert not before.requires_grad
    for t in (1, 16, 17, 64, 128):
        for later in (100.0, math.nan, math.inf):
            changed = ik.clone()
            changed[..., t:, :] = later
            assert torch.equal(select_blocks(iq, changed, **SIZES)[..., :t, :], before[..., :t, :])


def test_infinite_scores_do_not_displace_the_own_block():
    iq, ik = torch.full((64, 1), 3e38), torch.full((64, 1), 3e38)
    blocks = select_blocks(iq, ik, block_size=16, top_k=2)
    assert blocks[-1].tolist() == [0, 3]


def test_a_score_of_nan_does_not_displace_the_own_block():
    """It is as good as the largest number: the lower block of two that have one, and any block that always is in."""
    iq, ik = torch.ones(64, 1), torch.zeros(64, 1)
    ik[[0, 20]] = math.nan
    assert select_blocks(iq, ik, block_size=16, top_k=2)[-1].tolist() == [0, 3]
    assert select_blocks(iq, ik, block_size=16, top_k=3)[-1].tolist() == [0, 1, 3]
    assert select_blocks(iq, ik, block_size=16, top_k=3, local=2, init=1)[-1].tolist() == [0, 2, 3]
    ik[40] = 1.0
    assert select_blocks(iq, ik, block_size=16, top_k=3)[-1].tolist() == [0, 1, 3]


@pytest.mark.parametrize("huge", [2**40, 2**70])
def test_a_block_may_be_larger_than_any_sequence(huge):
    (iq, ik), (q, k, v) = index_arguments(20, 20), arguments(20, 20)
    blocks = select_blocks(iq, ik, block_size=huge, top_k=2)
    assert torch.equal(blocks, select_blocks(iq, ik, block_size=20, top_k=2))
    want = block_sparse_attention(q, k, v, blocks, block_size=20)
    assert torch.equal(block_sparse_attention(q, k, v, blocks, block_size=huge), want)
    want = alignment_loss(iq, ik, q, k, blocks, block_size=20)
    assert torch.equal(alignment_loss(iq, ik, q, k, blocks, block_size=huge), want)


# --- attention -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", LENGTHS)
def test_block_sparse_attention_is_masked_attention_gradients_included(T):
    blocks = select_blocks(*index_arguments(T, T), **SIZES)
    tensors = arguments(T, T)

    def sparse(q, k, v):
        return block_sparse_attention(q, k, v, blocks, block_size=B)

    assert_close(sparse(*tensors), dense(*tensors, blocks), 1e-13)
    if T:
        want = gradients(lambda q, k, v: dense(q, k, v, blocks), tensors)
        assert_same_gradients(gradients(sparse, tensors), want, 1e-12, "q k v")


@pytest.mark.parametrize("T_q", [0, 1, 2, 17, 100])
def test_decoding_is_the_end_of_the_whole(T_q):
    blocks = select_blocks(*index_arguments(129, 129), **SIZES)
    q, k, v = arguments(129, 129)
    whole = block_sparse_attention(q, k, v, blocks, block_size=B)
    end = block_sparse_attention(q[..., 129 - T_q :, :], k, v, blocks[..., 129 - T_q :, :], block_size=B)
    assert_close(end, whole[..., 129 - T_q :, :], 1e-13)


def test_all_blocks_chosen_is_dense_attention():
    q, k, v = arguments(100, 100)
    blocks = torch.arange(7).expand(2, H_KV, 100, 7)
    want = attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), scale=0.3)
    assert_close(block_sparse_attention(q, k, v, blocks, block_size=B, scale=0.3), want, 1e-13)


def test_any_blocks_may_be_given():
    """In any order, repeated, with empty slots between, blocks of the future (unseen), or none at all."""
    q, k, v = arguments(64, 64)
    blocks = torch.randint(-1, 4, (2, H_KV, 64, 5), generator=torch.Generator().manual_seed(0))
    blocks[:, :, 20:30] = -1
    out = block_sparse_attention(q, k, v, blocks.int(), block_size=B)
    assert_close(out, dense(q, k, v, blocks), 1e-13)
    assert torch.equal(out[:, :, 20:30], torch.zeros(2, H, 10, D_V, dtype=q.dtype))
    got = gradients(lambda *x: block_sparse_attention(*x, blocks, block_size=B), [q, k, v])
    want = gradients(lambda *x: dense(*x, blocks), [q, k, v])
    assert_same_gradients(got, want, 1e-12, "q k v")
    nothing = block_sparse_attention(q, k, v, blocks[..., :0], block_size=B)
    assert torch.equal(nothing, torch.zeros_like(nothing))


def test_a_plain_matrix_is_one_head():
    iq, ik = index_arguments(40, 40)
    q, k, v = arguments(40, 40)
    blocks = select_blocks(iq, ik, **SIZES)
    out = block_sparse_attention(q[0, 2], k[0, 1], v[0, 1], blocks[0, 1], block_size=B)
    assert_close(out, block_sparse_attention(q, k, v, blocks, block_size=B)[0, 2], 1e-14)
    one = alignment_loss(iq[0, 1], ik[0, 0], q[0, 2], k[0, 1], blocks[0, 1], block_size=B)
    as_heads = alignment_loss(iq[0, 1:2], ik[0], q[0, 2:3], k[0, 1:2], blocks[0, 1:2], block_size=B)
    assert_close(one, as_heads, 1e-14)


def test_many_rows_meet_a_block_in_parts():
    """More query rows than one product takes."""
    q, k, v = arguments(600, 600, lead=(1,))
    blocks = select_blocks(*index_arguments(600, 600, lead=(1,)), block_size=64, top_k=4)
    assert_close(block_sparse_attention(q, k, v, blocks, block_size=64), dense(q, k, v, blocks, 64), 1e-13)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_inputs_are_computed_in_fp32(dtype):
    q, k, v = arguments(40, 40, dtype=dtype)
    iq, ik = index_arguments(40, 40, dtype=dtype)
    blocks = select_blocks(iq, ik, **SIZES)
    assert torch.equal(blocks, select_blocks(iq.float(), ik.float(), **SIZES))
    out = block_sparse_attention(q, k, v, blocks, block_size=B)
    want = block_sparse_attention(q.float(), k.float(), v.float(), blocks, block_size=B)
    assert out.dtype == dtype and torch.equal(out, want.to(dtype))
    loss = alignment_loss(iq, ik, q, k, blocks, block_size=B)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, alignment_loss(iq.float(), ik.float(), q.float(), k.float(), blocks, block_size=B))


def test_selection_from_halves_ranks_the_scores_in_fp32():
    """Many blocks, whose best scores a half would round to the same number."""
    iq, ik = index_arguments(300, 300, dtype=torch.bfloat16)
    options = {"block_size": 2, "top_k": 20}
    assert torch.equal(select_blocks(iq, ik, **options), select_blocks(iq.float(), ik.float(), **options))


def test_masks_and_states_are_made_where_the_tensors_are():
    (iq, ik), (q, k, v) = index_arguments(40, 50), arguments(40, 50)

    def everything():
        blocks = select_blocks(iq, ik, **SIZES)
        out = block_sparse_attention(q, k, v, blocks, block_size=B)
        return blocks, out, alignment_loss(iq, ik, q, k, blocks, block_size=B), alignment_loss(iq, ik, q, k)

    want = everything()
    with made_elsewhere():
        got = everything()
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_blocks_have_the_documented_sizes():
    (iq, ik), (q, k, v) = index_arguments(20, 2500), arguments(20, 2500)
    blocks = select_blocks(iq, ik)
    assert torch.equal(blocks, select_blocks(iq, ik, block_size=128, top_k=16, local=1, init=0))
    assert blocks.shape[-1] == 16 and blocks.max() == 19
    assert torch.equal(block_sparse_attention(q, k, v, blocks), block_sparse_attention(q, k, v, blocks, block_size=128))
    assert torch.equal(alignment_loss(iq, ik, q, k, blocks), alignment_loss(iq, ik, q, k, blocks, block_size=128))


def test_blocks_may_be_single_tokens():
    (iq, ik), (q, k, v) = index_arguments(12, 12), arguments(12, 12)
    blocks = select_blocks(iq, ik, block_size=1, top_k=2)
    want = block_sparse_attention(q, k, v, blocks, block_size=1)
    assert_close(want, dense(q, k, v, blocks, block_size=1), 1e-13)
    assert torch.equal(block_sparse_attention(q, k, v, blocks.int(), block_size=1), want)
    assert alignment_loss(iq, ik, q, k, blocks, block_size=1).isfinite()


def test_alignment_of_one_sequence_and_of_one_query():
    """Without a batch, with as many heads in a group as groups; and one query, whose divergence is not averaged."""
    draw = Inputs(5)
    iq, ik, q, k = draw.normal(3, 40, 4), draw.normal(1, 40, 4), draw.normal(9, 40, D), draw.normal(3, 40, D)
    blocks = select_blocks(iq, ik, block_size=4, top_k=3)
    batched = [x.unsqueeze(0) for x in (iq, ik, q, k, blocks)]
    got = alignment_loss(iq, ik, q, k, blocks, block_size=4)
    assert_close(got, alignment_loss(*batched, block_size=4), 1e-14)
    P = torch.softmax(q[0, -1] @ k[0].mT / math.sqrt(D), -1)
    P_idx = torch.softmax(iq[0, -1] @ ik[0].mT / 2, -1)
    one = alignment_loss(iq[0, -1:], ik[0], q[0, -1:], k[0])
    assert_close(one, (P * (P / P_idx).log()).sum(), 1e-13)
    assert alignment_loss(iq.float(), ik.float(), q, k).dtype == torch.float32


def test_no_sequences_and_no_queries_give_nothing():
    q, k, v = arguments(40, 40)
    blocks = torch.zeros(2, H_KV, 40, 3, dtype=torch.int64)
    assert block_sparse_attention(q[:0], k[:0], v[:0], blocks[:0], block_size=B).shape == (0, H, 40, D_V)
    assert block_sparse_attention(q[..., :0, :], k, v, blocks[..., :0, :], block_size=B).shape == (2, H, 0, D_V)


@pytest.mark.parametrize(("lead", "T_q", "T_k"), [(0, 5, 5), (2, 0, 5), (2, 5, 0), (2, 0, 0)])
def test_nothing_has_gradients_too(lead, T_q, T_k):
    q, k, v = (x.requires_grad_() for x in arguments(T_q, T_k, lead=(lead,)))
    iq, ik = (x.requires_grad_() for x in index_arguments(T_q, T_k, lead=(lead,)))
    empty = torch.full((lead, H_KV, T_q, 2), -1)
    for out, tensors in (
        (block_sparse_attention(q, k, v, empty), (q, k, v)),
        (alignment_loss(iq, ik, q, k, empty), (iq, ik)),
        (alignment_loss(iq, ik, q, k), (iq, ik)),
    ):
        assert (out == 0).all()
        for gradient, x in zip(torch.autograd.grad(out.sum(), tensors), tensors, strict=True):
            assert torch.equal(gradient, torch.zeros_like(x))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_without_weight_is_silent_whatever_it_is(value):
    """In its own block it has weight, but none beside the larger scores of the other, which comes after or before."""
    q, blocks = torch.ones(2, 1, dtype=torch.float64), torch.tensor([[0, 1]] * 2)
    k, v = torch.tensor([[0.0, 0.0, 1e4, 1e4], [value, 1.0, 2.0, 3.0]], dtype=torch.float64).unsqueeze(-1)
    for keys, values in ((k, v), (k.flip(0), v.flip(0))):
        out = block_sparse_attention(q, keys, values, blocks, block_size=2)
        assert out[1] == 2.5 and torch.equal(out, attention(q, keys, values))
        got = gradients(lambda *x: block_sparse_attention(*x, blocks, block_size=2), [q, keys, values])
        assert_same_gradients(got, gradients(attention, [q, keys, values]), 1e-10, "q k v")


@pytest.mark.parametrize("size", [1e-10, 1.0, 30.0])
def test_fp32_keeps_its_digits(size):
    q, k, v = arguments(129, 129, dtype=torch.float32)
    blocks = select_blocks(*index_arguments(129, 129), **SIZES)
    out = block_sparse_attention(size * q, k, v, blocks, block_size=B)
    assert_close(out, dense(size * q.double(), k.double(), v.double(), blocks), 3e-5 if size > 1 else 1e-6)
    peaked = block_sparse_attention(1e6 * q, 1e6 * k, v, blocks, block_size=B)
    assert peaked.isfinite().all()


def test_the_future_changes_no_bit_of_the_past():
    q, k, v = arguments(129, 129, dtype=torch.float32)
    blocks = select_blocks(*index_arguments(129, 129), **SIZES)
    before = block_sparse_attention(q, k, v, blocks, block_size=B)
    for t in (1, 16, 17, 64, 100, 128):
        for later in (7.0, math.nan):
            k_later, v_later = k.clone(), v.clone()
            k_later[..., t:, :], v_later[..., t:, :] = later, later
            after = block_sparse_attention(q, k_later, v_later, blocks, block_size=B)
            assert torch.equal(after[..., :t, :], before[..., :t, :])


# --- alignment loss --------------------------------------------------------------------------------------------------


def loss_by_hand(iq, ik, q, k, blocks, block_size, scale=None):
    """Batch by batch, head by head, query by query."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    T_q, T_k, group = q.shape[-2], k.shape[-2], H // H_KV
    total = 0.0
    for n in range(len(q)):
        for h in range(H_KV):
            for i in range(T_q):
                visible = range(i + T_k - T_q + 1)
                tokens = [j for j in visible if blocks is None or j // block_size in blocks[n, h, i].tolist()]
                heads = q[n, h * group : (h + 1) * group, i].detach()
                P = torch.softmax(heads @ k[n, h, tokens].detach().mT * scale, dim=-1).mean(0)
                log_P_idx = torch.log_softmax(iq[n, h, i] @ ik[n, 0, tokens].mT / math.sqrt(D_IDX), dim=-1)
                total = total + (P * (P.log() - log_P_idx)).sum()
    return total / (len(q) * H_KV * T_q)


@pytest.mark.parametrize("T_q, T_k", [(1, 1), (17, 17), (40, 40), (3, 40)])
@pytest.mark.parametrize("warm_up", [True, False])
def test_alignment_loss_is_the_definition_gradients_included(T_q, T_k, warm_up):
    iq, ik = index_arguments(T_q, T_k)
    q, k, _ = arguments(T_q, T_k)
    blocks = None if warm_up else select_blocks(iq, ik, block_size=8, top_k=2)

    def loss(iq, ik):
        return alignment_loss(iq, ik, q, k, blocks, block_size=8, scale=0.7)

    def by_hand(iq, ik):
        return loss_by_hand(iq, ik, q, k, blocks, 8, 0.7)

    assert_close(loss(iq, ik), by_hand(iq, ik), 1e-12)
    assert_same_gradients(gradients(loss, [iq, ik]), gradients(by_hand, [iq, ik]), 1e-12, "iq ik")


def test_alignment_gradient_reaches_only_the_indexer():
    tensors = [*index_arguments(40, 40), *arguments(40, 40)[:2]]
    iq, ik, q, k = (x.requires_grad_() for x in tensors)
    alignment_loss(iq, ik, q, k, block_size=B).backward()
    assert iq.grad.abs().sum() > 0 and ik.grad.abs().sum() > 0
    assert q.grad is None and k.grad is None


def test_alignment_gradient_of_a_score_is_the_difference_of_the_distributions():
    """With index keys of the identity the scores are the index queries over sqrt(d). The mean goes over batches too."""
    N, T = 2, 12
    draw = Inputs()
    iq, ik = draw.normal(N, H_KV, T, T), torch.eye(T, dtype=torch.float64).expand(N, 1, T, T)
    q, k = draw.normal(N, H, T, D), draw.normal(N, H_KV, T, D)
    (gradient,) = torch.autograd.grad(alignment_loss(iq.requires_grad_(), ik, q, k), iq)
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    P_idx = torch.softmax((iq.detach() / math.sqrt(T)).masked_fill(~causal, -math.inf), dim=-1)
    scores = q.unflatten(1, (H_KV, -1)) @ k.unsqueeze(2).mT / math.sqrt(D)
    P = torch.softmax(scores.masked_fill(~causal, -math.inf), dim=-1).mean(2)
    assert_close(gradient, (P_idx - P) / (N * H_KV * T) / math.sqrt(T), 1e-12)


def test_alignment_loss_is_zero_when_the_branches_agree():
    draw = Inputs()
    q, k = draw.normal(2, H_KV, 300, D), draw.normal(2, 1, 300, D)
    keys = k.expand(2, H_KV, 300, D)
    blocks = select_blocks(q, k, **SIZES)
    assert abs(alignment_loss(q, k, q, keys, blocks, block_size=B).item()) < 1e-14
    assert abs(alignment_loss(q, k, q, keys).item()) < 1e-14
    assert alignment_loss(q, k, 2 * q, keys).item() > 0.01


def test_alignment_loss_at_the_edges():
    """No tokens, queries that selected nothing, large numbers."""
    iq, ik = index_arguments(40, 40)
    q, k, _ = arguments(40, 40)
    assert alignment_loss(iq[..., :0, :], ik[..., :0, :], q[..., :0, :], k[..., :0, :]).item() == 0.0
    nothing = torch.full((2, H_KV, 40, 3), -1)
    assert alignment_loss(iq, ik, q, k, nothing, block_size=B).item() == 0.0
    some = select_blocks(iq, ik, **SIZES)
    some[:, :, ::2] = -1
    got = gradients(lambda iq, ik: alignment_loss(iq, ik, q, k, some, block_size=B), [iq, ik])
    assert all(x.isfinite().all() for x in got) and (got[0][:, :, ::2] == 0).all()
    assert alignment_loss(iq, ik, 1e4 * q, k).isfinite() and alignment_loss(1e4 * iq, ik, q, k).isfinite()


@pytest.mark.parametrize("junk", [math.nan, math.inf])
def test_what_the_alignment_loss_does_not_read_may_hold_anything(junk):
    """Keys of the future, keys that no query selected, and queries that selected nothing; gradients included."""
    iq, ik = index_arguments(40, 40)
    q, k, _ = arguments(40, 40)
    some = select_blocks(iq, ik, **SIZES)
    some[some == 0] = -1  # nobody reads keys 0 to 15, queries 0 to 15 read nothing
    some[:, :, 35:] = -1  # and keys 35 to 39 lie in the future of all that read
    some[:, 0][some[:, 0] == 1] = -1  # the first head reads no key from 16 to 31, the others do
    some[:, :, 25] = -1  # query 25 reads nothing, though its key is read

    def loss(iq, ik):
        return alignment_loss(iq, ik, q, k, some, block_size=B)

    want = [loss(iq, ik), *gradients(loss, [iq, ik])]
    for x in (iq, ik, q, k):
        x[..., :16, :] = x[..., 35:, :] = junk
    iq[..., 25, :] = q[..., 25, :] = junk
    for got, wanted in zip([loss(iq, ik), *gradients(loss, [iq, ik])], want, strict=True):
        assert torch.equal(got, wanted)
    one = [alignment_loss(iq[n], ik[n], q[n], k[n], some[n], block_size=B) for n in range(len(iq))]
    assert_close(torch.stack(one).mean(), want[0], 1e-13)


def test_a_token_that_neither_branch_attends_to_costs_nothing():
    """Its score is −∞ in both: 0 log 0."""
    large, keys = torch.full((1, 3, 1), 1e20), torch.tensor([[[1.0], [-1e20], [2.0]]])
    assert alignment_loss(large, keys, large, keys).item() == 0.0
    got = gradients(lambda iq, ik: alignment_loss(iq, ik, large, keys), [large, keys])
    assert all(torch.equal(x, torch.zeros_like(x)) for x in got)


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_page_size_is_used_as_block_size():
    """sgl-project/sglang-jax #1376: blocks of 128, pages of 64. The ids count blocks of the size asked for."""
    iq, ik = torch.ones(300, 1), torch.zeros(300, 1)
    ik[70] = 1.0  # block 0 of 128, block 1 of 64
    assert select_blocks(iq, ik, block_size=128, top_k=2)[-1].tolist() == [0, 2]
    assert select_blocks(iq, ik, block_size=64, top_k=2)[-1].tolist() == [1, 4]


def test_report_top_k_is_taken_before_the_causal_mask():
    """NVIDIA/TensorRT-LLM #18585: three blocks, k = 2, big scores in block 2, and queries that cannot see it."""
    iq, ik = torch.ones(24, 1), torch.tensor([1.0, 2.0, 100.0]).repeat_interleave(8).unsqueeze(-1)
    blocks = select_blocks(iq, ik, block_size=8, top_k=2)
    assert blocks[:8].tolist() == [[0, -1]] * 8
    assert blocks[8:16].tolist() == [[0, 1]] * 8
    assert blocks[16:].tolist() == [[1, 2]] * 8


def test_report_soft_mask_leaks_the_future():
    """ohdearquant/lattice #6: with -10000 for 'masked', visible scores below it lose to tokens still to come."""
    iq, ik = torch.full((24, 1), -1.0), torch.full((24, 1), 50_000.0)
    blocks = select_blocks(iq, ik, block_size=8, top_k=2)
    assert blocks[0].tolist() == [0, -1] and blocks[9].tolist() == [0, 1] and blocks[23].tolist() == [0, 2]
    ik[-1] = -math.inf  # a score of +inf, in the future of all but the last
    assert select_blocks(iq, ik, block_size=8, top_k=2)[22].tolist() == [0, 2]


def test_report_heads_and_tokens_of_the_selection_are_swapped():
    """guqiong96/Lvllm #68: an [T, h] buffer read as [h, T] goes unnoticed only if T equals h; here it does."""
    iq, ik = index_arguments(H_KV, H_KV)
    blocks = select_blocks(iq, ik, block_size=1, top_k=2)
    scores = index_scores(iq, ik)
    for h in range(H_KV):
        assert torch.equal(blocks[0, h], chosen_by_hand(scores[0, h], 1, 2))


def test_report_sentinel_is_used_as_an_index():
    """vllm-project/vllm #48929, #49149, #54597, #46214: -1 for an empty slot, read as the last block."""
    q, k, v = arguments(40, 40)
    blocks = select_blocks(*index_arguments(40, 40), block_size=B, top_k=16)  # three blocks at most: 13 empty slots
    v_later = v.clone()
    v_later[..., 32:, :] += 1000.0  # the last block, which blocks[-1] would read
    before = block_sparse_attention(q, k, v, blocks, block_size=B)
    assert_close(before, dense(q, k, v, blocks), 1e-13)
    after = block_sparse_attention(q, k, v_later, blocks, block_size=B)
    assert torch.equal(after[..., :32, :], before[..., :32, :])


def test_report_equal_scores_come_in_any_order():
    """pytorch/pytorch #127196, #27542, #186653; MiniMax-AI/MSA test_fp16_score_ties: 18 equal blocks, k = 16."""
    zeros = torch.zeros(18 * 4, 1)
    assert select_blocks(zeros, zeros, block_size=4, top_k=16)[-1].tolist() == [*range(15), 17]
    assert select_blocks(zeros.half(), zeros.half(), block_size=4, top_k=16)[-1].tolist() == [*range(15), 17]


def test_report_left_padding_shifts_the_block_borders():
    """huggingface/transformers, minimax_m3_vl: blocks anchored to cache slots. Here they are anchored to the first key
    passed, so padding has to go before the call: three pads move the borders, and the selection with them."""
    iq, ik = index_arguments(64, 64)
    text = select_blocks(iq, ik, **SIZES)
    padded = torch.nn.functional.pad(ik, (0, 0, 3, 0))
    assert not torch.equal(select_blocks(iq, padded, **SIZES), text)
    assert torch.equal(select_blocks(iq, padded[..., 3:, :], **SIZES), text)


def test_report_no_causal_mask_inside_the_diagonal_block():
    """NVIDIA/cudnn-frontend #804: with T = B the only block is the diagonal one, and query 0 sees one token of it."""
    q, k, v = arguments(B, B)
    blocks = select_blocks(*index_arguments(B, B), block_size=B, top_k=1)
    out = block_sparse_attention(q, k, v, blocks, block_size=B)
    assert_close(out[:, :, 0], v[:, :, 0].repeat_interleave(H // H_KV, 1), 1e-14)
    assert_close(out, attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), 1e-13)


@pytest.mark.parametrize("T", [0, 1, 129])
def test_report_tail_shorter_than_a_block(T):
    """A tail of one token in blocks of 128, one token, none: the default sizes."""
    iq, ik = index_arguments(T, T)
    blocks = select_blocks(iq, ik)
    assert blocks.shape == (2, H_KV, T, 16)
    q, k, v = arguments(T, T)
    out = block_sparse_attention(q, k, v, blocks)
    assert_close(out, attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), 1e-13)
    if T == 129:
        assert blocks[0, 0, 127].tolist() == [0] + [-1] * 15 and blocks[0, 0, 128].tolist() == [0, 1] + [-1] * 14


def test_report_groups_by_tiling_instead_of_interleaving():
    """onnx/onnx #7274, PrimeIntellect-ai/prime-rl #2681: with 4 query and 2 key heads, head 1 reads key head 0."""
    draw = Inputs()
    q, k, v = draw.normal(4, 20, D), draw.normal(2, 20, D), draw.normal(2, 20, D_V)
    out = block_sparse_attention(q, k, v, torch.zeros(2, 20, 1, dtype=torch.int64), block_size=20)
    for head, key_head in enumerate((0, 0, 1, 1)):
        assert_close(out[head], attention(q[head], k[key_head], v[key_head]), 1e-13)


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG_INDEX = {
    "iq: a list": ("iq", lambda a: a | {"iq": [[1.0]]}),
    "iq: integers": ("iq", lambda a: a | {"iq": a["iq"].long()}),
    "iq: a vector": ("iq", lambda a: a | {"iq": a["iq"][0, 0, 0]}),
    "ik: a vector": ("ik", lambda a: a | {"ik": a["ik"][0, 0, 0]}),
    "ik: dtype": ("ik", lambda a: a | {"ik": a["ik"].double()}),
    "ik: channels": ("ik", lambda a: a | {"ik": a["ik"][..., 1:]}),
    "ik: as many heads as iq": ("ik", lambda a: a | {"ik": a["ik"].expand(2, H_KV, -1, -1)}),
    "ik: axis missing": ("ik", lambda a: a | {"ik": a["ik"][:, 0]}),
    "ik: batch": ("ik", lambda a: a | {"ik": a["ik"][:1]}),
}


@pytest.mark.parametrize("wrong", WRONG_INDEX)
def test_wrong_index_input_is_named(wrong):
    name, spoil = WRONG_INDEX[wrong]
    iq, ik = index_arguments(8, 8, dtype=torch.float32)
    q, k, _ = arguments(8, 8, dtype=torch.float32)
    spoilt = spoil({"iq": iq, "ik": ik})
    for function in (index_scores, select_blocks, lambda iq, ik: alignment_loss(iq, ik, q, k)):
        function(iq, ik)
        with complains(name):
            function(**spoilt)


def test_index_keys_for_a_plain_matrix_are_wanted_as_one():
    with pytest.raises(ValueError, match=r"^ik: got shape \(1, 8, 4\), want \(T_k, d\) = \(8, 4\)$"):
        index_scores(torch.ones(8, 4), torch.ones(1, 8, 4))


@pytest.mark.parametrize(
    "name, options",
    [
        ("block_size", {"block_size": 0}),
        ("block_size", {"block_size": 16.0}),
        ("top_k", {"top_k": 0}),
        ("local", {"local": -1}),
        ("init", {"init": -1}),
        ("top_k", {"top_k": 2, "local": 2, "init": 1}),
    ],
)
def test_wrong_sizes_are_named(name, options):
    iq, ik = index_arguments(8, 8)
    with complains(name):
        select_blocks(iq, ik, **options)


def filled(blocks, slot, number):
    return blocks.index_fill(-1, torch.tensor([slot]), number)


WRONG = {
    "q: heads no multiple": ("q", lambda a: a | {"q": a["q"][:, :5]}),
    "q: no heads": ("q", lambda a: a | {"q": a["q"][:, :0]}),
    "q: a vector": ("q", lambda a: a | {"q": a["q"][0, 0, 0]}),
    "q: dtype": ("k", lambda a: a | {"q": a["q"].double()}),
    "k: a vector": ("k", lambda a: a | {"k": a["k"][0, 0, 0]}),
    "q: no channels": ("q", lambda a: a | {"q": a["q"][..., :0]}),
    "v: no channels": ("v", lambda a: a | {"v": a["v"][..., :0]}),
    "v: a vector": ("v", lambda a: a | {"v": a["v"][0, 0, 0]}),
    "k: channels": ("k", lambda a: a | {"k": a["k"][..., 1:]}),
    "k: batch": ("k", lambda a: a | {"k": a["k"][:1]}),
    "k: axis missing": ("k", lambda a: a | {"k": a["k"][0]}),
    "v: T": ("v", lambda a: a | {"v": a["v"][:, :, 1:]}),
    "v: heads": ("v", lambda a: a | {"v": a["v"][:, :1]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].half()}),
    "blocks: floats": ("blocks", lambda a: a | {"blocks": a["blocks"].float()}),
    "blocks: None": ("blocks", lambda a: a | {"blocks": None}),
    "blocks: query heads": ("blocks", lambda a: a | {"blocks": a["blocks"].repeat_interleave(2, 1)}),
    "blocks: T": ("blocks", lambda a: a | {"blocks": a["blocks"][:, :, 1:]}),
    "blocks: swapped": ("blocks", lambda a: a | {"blocks": a["blocks"].transpose(1, 2)}),
    "blocks: id too large": ("blocks", lambda a: a | {"blocks": a["blocks"] + 10}),
    "blocks: id of the block after the last": ("blocks", lambda a: a | {"blocks": a["blocks"].clamp(min=3)}),
    "blocks: id just below -1": ("blocks", lambda a: a | {"blocks": a["blocks"].clamp(max=-2)}),
    "blocks: one id too large": ("blocks", lambda a: a | {"blocks": filled(a["blocks"], 0, 3)}),
    "blocks: one id below -1": ("blocks", lambda a: a | {"blocks": filled(a["blocks"], 2, -2)}),
    "blocks: a number": ("blocks", lambda a: a | {"blocks": torch.tensor(0)}),
    "blocks: id below -1": ("blocks", lambda a: a | {"blocks": a["blocks"] - 2}),
    "blocks: device": ("blocks", lambda a: a | {"blocks": a["blocks"].to("meta")}),
    "block_size": ("block_size", lambda a: a | {"block_size": 0}),
    "scale: a tensor": ("scale", lambda a: a | {"scale": torch.tensor(1.0)}),
    "scale: infinite": ("scale", lambda a: a | {"scale": math.inf}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_named(wrong):
    name, spoil = WRONG[wrong]
    iq, ik = index_arguments(40, 40, dtype=torch.float32)
    q, k, v = arguments(40, 40, dtype=torch.float32)
    right = {"q": q, "k": k, "v": v, "blocks": select_blocks(iq, ik, **SIZES), "block_size": B}
    block_sparse_attention(**right)
    spoilt = spoil(right)
    with complains(name):
        block_sparse_attention(**spoilt)
    if name != "v" and wrong != "blocks: None":
        del spoilt["v"]
        with complains(name):
            alignment_loss(iq, ik, **spoilt)


def test_alignment_loss_wants_index_and_main_branch_to_fit():
    iq, ik = index_arguments(8, 9)
    q, k, _ = arguments(8, 9)
    alignment_loss(iq, ik, q, k)
    for name, spoilt in (
        ("iq", (iq[..., 1:, :], ik, q, k)),
        ("iq", (iq[:, :1], ik, q, k)),
        ("ik", (iq, ik[..., 1:, :], q, k)),
        ("iq", (iq.to("meta"), ik.to("meta"), q, k)),
    ):
        with complains(name):
            alignment_loss(*spoilt)
