"""Autocast does not reach an operator: its numbers are the same inside and outside."""

import importlib
import inspect
import math
import pkgutil

import pytest
import torch

from attnledger import ops
from attnledger.ops import delta, flash, heads, linear, msa, softmax, sparse, ssm
from attnledger.ops._precision import near_one, own_precision
from attnledger.ops.position import rope_frequencies

from .matrix import Inputs

T, D = 40, 8
draw = Inputs(0, torch.float32)
q, k, v = (draw.normal(2, T, D) for _ in range(3))
k = torch.nn.functional.normalize(k, dim=-1)
beta, g, g_channel = draw.uniform(2, T), -draw.uniform(2, T), -draw.uniform(2, T, D)
A = -draw.uniform(D, D)
blocks = msa.select_blocks(q, k[:1], block_size=8, top_k=2)
OPERATORS = {
    "attention": lambda q, k, v: softmax.attention(q, k, v, return_lse=True),
    "attention_weights": lambda q, k, v: softmax.attention_weights(q, k),
    "flash_attention": lambda q, k, v: flash.flash_attention(q, k, v, block_q=16, block_k=16, return_lse=True),
    "linear_attention": lambda q, k, v: linear.linear_attention(q, k, v),
    "recurrent_linear_attention": lambda q, k, v: linear.recurrent_linear_attention(q, k, v),
    "chunked_linear_attention": lambda q, k, v: linear.chunked_linear_attention(q, k, v, chunk=16),
    "favor_plus": lambda q, k, v: linear.favor_plus(D, 16)(q),
    "delta_rule": lambda q, k, v: delta.delta_rule(q, k, v, beta=beta, g=g),
    "recurrent_delta_rule": lambda q, k, v: delta.recurrent_delta_rule(q, k, v, beta=beta, g=g),
    "chunked_delta_rule": lambda q, k, v: delta.chunked_delta_rule(q, k, v, beta=beta, g=g_channel),
    "index_scores": lambda q, k, v: msa.index_scores(q, k[:1]),
    "select_blocks": lambda q, k, v: msa.select_blocks(q, k[:1], block_size=1, top_k=20),
    "block_sparse_attention": lambda q, k, v: msa.block_sparse_attention(q, k, v, blocks, block_size=8),
    "alignment_loss": lambda q, k, v: msa.alignment_loss(q, k[:1], v, v, blocks, block_size=8),
    "sliding_window_attention": lambda q, k, v: sparse.sliding_window_attention(q, k, v, window=9, sinks=1),
    "lsh_buckets": lambda q, k, v: sparse.lsh_buckets(q, buckets=8, rounds=8),
    "lsh_attention": lambda q, k, v: sparse.lsh_attention(q, v, buckets=4, chunk=8),
    "selective_scan": lambda q, k, v: ssm.selective_scan(q, g_channel.exp(), A, k, v),
    "ssd": lambda q, k, v: ssm.ssd(v, k, q, g=g),
    "recurrent_ssd": lambda q, k, v: ssm.recurrent_ssd(v, k, q, g=g),
    "chunked_ssd": lambda q, k, v: ssm.chunked_ssd(v, k, q, g=g, chunk=16),
    "tensor_product": lambda q, k, v: heads.tensor_product(q.unflatten(-1, (2, 4)), k.unflatten(-1, (2, 4))),
}  # fmt: skip
# What multiplies no matrices (nor do masks and positions), or does so in fp64, which autocast leaves alone.
ELSEWHERE = {"merge", "online_softmax", "softplus_gate", "bounded_gate", "identity", "relu", "elu_plus_one"}
ELSEWHERE |= {"repeat_heads", "pool_kv_heads", "short_convolution"}


def outputs(form, tensors):
    found = form(*tensors)
    return list(found) if isinstance(found, tuple) else [found]


def test_every_operator_is_here():
    public = set()
    for module in pkgutil.iter_modules(ops.__path__):
        if module.name.startswith("_") or module.name == "position":
            continue
        found = importlib.import_module(f"attnledger.ops.{module.name}")
        functions = inspect.getmembers(found, lambda f, home=found.__name__: getattr(f, "__module__", None) == home)
        public |= {name for name, f in functions if inspect.isfunction(f) and not name.startswith("_")}
    assert {name for name in public if not name.endswith("_mask")} == {*OPERATORS} | ELSEWHERE


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("form", OPERATORS.values(), ids=OPERATORS)
def test_autocast_changes_nothing(form, grad):
    with torch.autocast("cpu", torch.bfloat16):
        inside = outputs(form, [x.clone().requires_grad_(grad) for x in (q, k, v)])
        assert torch.is_autocast_enabled("cpu")
        assert (q @ k.mT).dtype == torch.bfloat16
    for got, want in zip(inside, outputs(form, (q, k, v)), strict=True):
        assert got.dtype == want.dtype and torch.equal(got, want)


def test_going_back_through_tiles_is_not_reached_either():
    def back(tensors):
        return torch.autograd.grad(flash.flash_attention(*tensors, block_q=16, block_k=16).sum(), tensors)

    want = back([x.clone().requires_grad_() for x in (q, k, v)])
    with torch.autocast("cpu", torch.bfloat16):
        got = back([x.clone().requires_grad_() for x in (q, k, v)])
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


BACKWARD = (
    "attention", "chunked_linear_attention", "recurrent_delta_rule", "delta_rule", "chunked_delta_rule",
    "recurrent_ssd", "chunked_ssd", "selective_scan", "sliding_window_attention",
)  # fmt: skip


@pytest.mark.parametrize("name", BACKWARD)
def test_going_back_outside_the_region_is_not_reached(name):
    """Inside it is: only flash attention goes back through an operator of its own."""

    def back(inside):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            loss = sum(out.square().sum() for out in outputs(OPERATORS[name], leaves))
        return torch.autograd.grad(loss, leaves)

    for got, want in zip(back(True), back(False), strict=True):
        assert got.dtype == torch.float32 and torch.equal(got, want)


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "xpu"])
def test_the_switch_is_off_inside_and_on_again_outside(device, recwarn):
    """There is one for a card even where there is none; but asked to turn it on there, torch warns."""
    torch.set_autocast_enabled(device, True)
    try:
        assert not own_precision(lambda: torch.is_autocast_enabled(device))()
        assert torch.is_autocast_enabled(device)
    finally:
        torch.set_autocast_enabled(device, False)
    assert not recwarn.list


MODULES = {
    "grouped": lambda: heads.GroupedQueryAttention(16, heads=4, kv_heads=2),
    "latent": lambda: heads.LatentAttention(16, heads=4, latent=8, head_dim=4, rope=rope_frequencies(2)),
    "factors": lambda: heads.TensorProductAttention(16, heads=4),
}


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_a_module_computes_in_the_dtype_of_its_weights(make):
    torch.manual_seed(0)
    module, x = make(), draw.normal(2, 12, 16)

    def steps():
        out, cache = module(x[:, :9], return_cache=True)
        return out, module.decode(x[:, 9:], cache)[0]

    want = steps()
    with torch.autocast("cpu", torch.bfloat16):
        got = steps()
    assert all(torch.equal(a, b) and a.dtype == torch.float32 for a, b in zip(got, want, strict=True))


def test_an_operator_keeps_its_name_and_signature():
    assert delta.delta_rule.__name__ == "delta_rule" and "Kimi" in delta.delta_rule.__doc__
    assert own_precision(near_one).__code__.co_name == "near_one", "in a profile, too"
    assert own_precision(lambda *args, **kwargs: (args, kwargs))(1, two=2) == ((1,), {"two": 2})
    assert list(inspect.signature(delta.delta_rule).parameters)[:4] == ["q", "k", "v", "beta"]


def test_torch_compile_counts_each_operator_on_its_own():
    """It gives up on a piece of code after eight compilations, and a wrapper is code that all operators could share."""
    torch.compiler.reset()
    for factor in range(2, 12):
        scaled = own_precision(lambda x, factor=factor: factor * x)
        assert torch.compile(scaled, backend="eager", fullgraph=True)(torch.ones(1)) == factor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_are_brought_near_one_by_a_power_of_two(dtype):
    """Exactly, down to the smallest number and up to the largest; a row of zeros stays."""
    least, most = torch.finfo(dtype).smallest_normal * 2**-20, torch.finfo(dtype).max
    x = torch.tensor([[-3.0, 1.5], [0.0, 0.0], [0.25, -0.125], [least, 0.0], [-most, 1.0]], dtype=dtype)
    got = near_one(x)
    assert got[:4].tolist() == [[-1.5, 0.75], [0.0, 0.0], [1.0, -0.5], [1.0, 0.0]]
    assert -2 < got[4, 0].item() < -1.99 and math.frexp(got[4, 1].item())[0] == 0.5
    assert torch.equal(near_one(x.expand(3, 5, 2)), got.expand(3, 5, 2))
    leaf = x.clone().requires_grad_()
    near_one(leaf).sum().backward()
    assert torch.equal(leaf.grad[0], torch.full((2,), 0.5, dtype=dtype)), "the power is a constant"
