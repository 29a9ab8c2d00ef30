"""Rows of an output: written to their place, or kept for autograd."""

import pytest
import torch
from torch.autograd import forward_ad

from attnledger.ops._rows import Rows, recorded
from attnledger.ops.delta import delta_rule, recurrent_delta_rule
from attnledger.ops.linear import chunked_linear_attention, recurrent_linear_attention
from attnledger.ops.sparse import sliding_window_attention
from attnledger.ops.ssm import chunked_ssd, recurrent_ssd, selective_scan

Q, K, V = (torch.randn(2, 70, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in range(3))
BETA = torch.rand(2, 70, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
FORMS = {
    "window": lambda q, k, v: sliding_window_attention(q, k, v, window=9),
    "delta": lambda q, k, v: delta_rule(q, torch.nn.functional.normalize(k, dim=-1), v, beta=BETA, chunk=16),
}


def collect(parts, length):
    rows = Rows(length)
    for part in parts:
        rows.append(part)
    return rows.joined()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_parts_follow_one_another(grad, lead):
    whole = torch.arange(7.0).unsqueeze(-1).expand(*lead, 7, 4).clone().requires_grad_(grad)
    out = collect(whole.split((1, 3, 0, 2, 1), dim=-2), 7)
    assert torch.equal(out, whole) and out.is_contiguous() and out.dtype == whole.dtype
    assert out.data_ptr() != whole.data_ptr()
    if grad:
        assert type(out.grad_fn).__name__ == "CatBackward0"  # one step, however many parts
        out.square().sum().backward()
        assert torch.equal(whole.grad, 2 * whole)


@pytest.mark.parametrize("grad", [False, True])
def test_rows_beyond_the_last_are_left_out(grad):
    whole = torch.arange(7.0).unsqueeze(-1).expand(2, 7, 4).clone().requires_grad_(grad)
    out = collect(whole.split((3, 3, 1), dim=-2), 5)
    assert torch.equal(out, whole[:, :5]) and out.is_contiguous()


@pytest.mark.parametrize("grad", [False, True])
def test_an_output_keeps_no_padding(grad):
    """70 tokens in chunks of 16: the last one has 10 rows that are not there."""
    out = FORMS["delta"](Q.clone().requires_grad_(grad), K, V)
    assert out.is_contiguous() and out.untyped_storage().nbytes() == out.nbytes == Q.nbytes


@pytest.mark.parametrize("first", [False, True])
def test_recorded_and_other_parts_may_mix(first):
    leaf = torch.ones(1, 2, 4, requires_grad=True)
    parts = [2 * leaf, torch.zeros(1, 3, 4)][:: 1 if first else -1]
    out = collect(parts, 5)
    assert torch.equal(out, torch.cat(parts, dim=-2))
    (3 * out).sum().backward()
    assert torch.equal(leaf.grad, torch.full_like(leaf, 6.0))


BY_TOKEN_OR_CHUNK = {
    "recurrent delta": lambda q, k, v: recurrent_delta_rule(q, k, v, beta=BETA),
    "recurrent linear": recurrent_linear_attention,
    "chunked linear": chunked_linear_attention,
    "selective scan": lambda q, k, v: selective_scan(v, v.exp(), -K[0, :4].exp(), k, q),
    "recurrent ssd": lambda q, k, v: recurrent_ssd(v, k, q, g=-BETA),
    "chunked ssd": lambda q, k, v: chunked_ssd(v, k, q, g=-BETA),
}


@pytest.mark.parametrize("form", BY_TOKEN_OR_CHUNK.values(), ids=BY_TOKEN_OR_CHUNK)
def test_no_form_keeps_its_outputs_apart(form, monkeypatch):
    """Thousands of small outputs between states that come and go took half a gigabyte of heap, now and then."""
    k = torch.nn.functional.normalize(K, dim=-1)
    want = form(*(x.clone().requires_grad_() for x in (Q, k, V)))  # these are kept, for the way back
    monkeypatch.setattr(torch, "cat", None)
    assert torch.equal(form(Q, k, V), want)


def test_what_autograd_follows():
    leaf = torch.ones(2, requires_grad=True)
    assert recorded(leaf) and recorded(torch.ones(2), leaf) and recorded(leaf, torch.ones(2)) and recorded(2 * leaf)
    assert not recorded(torch.ones(2)) and not recorded(leaf.detach()) and not recorded()
    with torch.no_grad():
        assert not recorded(leaf)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert recorded(dual) and recorded(torch.ones(2), dual)
        assert not recorded(torch.ones(2))
        with torch.no_grad():
            assert recorded(dual)  # no_grad is about going back


def test_only_recorded_parts_are_kept():
    """Others are copied at once: what happens to them later is not seen, and the place is one tensor."""
    part = torch.ones(2, 4)
    rows = Rows(4)
    rows.append(part)
    part.zero_()
    rows.append(part)
    assert rows.joined().tolist() == [[1.0] * 4] * 2 + [[0.0] * 4] * 2
    assert rows.joined() is rows.joined()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_recorded_or_not_the_numbers_are_the_same(form):
    want = form(Q, K, V)
    for kept in ((Q, K, V), (Q,), (K,), (V,)):
        out = form(*(x.clone().requires_grad_() if any(x is y for y in kept) else x for x in (Q, K, V)))
        assert out.requires_grad and torch.equal(out, want)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forward_derivatives(form):
    """Along one direction they are what going back gives, summed along it."""
    direction = torch.randn(70, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).expand_as(Q)
    for at in range(3):
        out, forward = torch.func.jvp(lambda x, at=at: form(*(x if n == at else y for n, y in enumerate((Q, K, V)))),
                                      ((Q, K, V)[at],), (direction,))  # fmt: skip
        assert torch.equal(out, form(Q, K, V))
        tensors = [x.clone().requires_grad_() for x in (Q, K, V)]
        (back,) = torch.autograd.grad((form(*tensors) * V).sum(), tensors[at])
        assert torch.allclose((forward * V).sum(), (back * direction).sum(), rtol=1e-10)
