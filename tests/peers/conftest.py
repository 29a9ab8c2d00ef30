"""What every comparison needs: inputs in this library's layout, the peers' layout, and a relative tolerance."""

import pytest
import torch

H, D_K, D_V = 3, 16, 8  # all different, and different from T: a confused axis shows


def make_inputs(T, *, heads=H, gate="scalar", g=None, beta=None, keys="random", dtype=torch.float32, seed=0):
    """q, k, v, beta, g as ``delta_rule`` takes them, keys of length 1: ``(2, heads, T, d)`` and ``(2, heads, T)``."""
    random = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(*size, generator=random, dtype=torch.float64)

    q, k, v = (normal(2, heads, T, d) for d in (D_K, D_K, D_V))
    if keys == "repeated":
        k = k[..., :1, :].expand_as(k)
    k = k / k.norm(dim=-1, keepdim=True)
    written = torch.rand(2, heads, T, generator=random, dtype=torch.float64)
    if beta is not None:
        written = torch.full_like(written, beta)
    size = (2, heads, T, D_K) if gate == "channel" else (2, heads, T)
    decay = torch.nn.functional.logsigmoid(normal(*size)) if g is None else torch.full(size, g, dtype=torch.float64)
    return tuple(x.to(dtype) for x in (q, k, v, written, decay))


def assert_close(got, want, tolerance):
    """The largest difference, over the largest number of ``want``, is at most ``tolerance``."""
    assert got.shape == want.shape
    got, want = got.detach().double(), want.detach().double()
    assert got.isfinite().all() and want.isfinite().all()
    if want.numel():
        error = (got - want).abs().max().item() / max(want.abs().max().item(), 1e-30)
        assert error <= tolerance, f"relative error {error:.2g} > {tolerance:.2g}"


@pytest.fixture
def inputs():
    return make_inputs


@pytest.fixture
def close():
    return assert_close


@pytest.fixture
def swap():
    """Between ``(B, H, T, ...)``, the layout here, and ``(B, T, H, ...)``, that of the kernels."""
    return lambda *tensors: [x.transpose(1, 2) for x in tensors]
