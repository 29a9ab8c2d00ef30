"""torch's own attention: scaled_dot_product_attention and FlexAttention, both (B, H, T, d) as everything here."""

import shutil
from importlib.util import find_spec

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from attnledger.ops.flash import flash_attention
from attnledger.ops.softmax import attention
from attnledger.ops.sparse import sliding_window_attention, window_mask

LENGTHS = (1, 17, 64, 65, 129)
TOLERANCE = {torch.float64: 1e-13, torch.float32: 2e-6}
UNFUSED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def normal(*sizes, dtype=torch.float64, seed=0):
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, *size, generator=random, dtype=torch.float64).to(dtype) for size in sizes]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("T", LENGTHS)
def test_causal_attention_agrees_with_sdpa(T, dtype, close):
    q, k, v = normal((T, 16), (T, 16), (T, 8), dtype=dtype)
    theirs = scaled_dot_product_attention(q, k, v, is_causal=True)
    for ours in (attention(q, k, v), flash_attention(q, k, v, block_q=32, block_k=16)):
        close(ours, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("T", LENGTHS)
def test_mask_bias_and_scale_agree_with_sdpa(T, close):
    q, k, v, bias = normal((T, 16), (129, 16), (129, 8), (T, 129))
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3)
    close(attention(q, k, v, causal=False, bias=bias, scale=0.3), theirs, 1e-13)
    mask = bias > 1.0
    mask[..., 0, :] = False  # a row that sees nothing is 0 on both sides
    theirs, ours = scaled_dot_product_attention(q, k, v, attn_mask=mask), attention(q, k, v, causal=False, mask=mask)
    assert (theirs[..., 0, :] == 0).all() and (ours[..., 0, :] == 0).all()
    close(ours, theirs, 1e-13)


@pytest.mark.parametrize("T_q", [1, 17, 64])
def test_decoding_agrees_with_sdpa_aligned_to_the_end(T_q, close):
    q, k, v = normal((T_q, 16), (65, 16), (65, 8))
    visible = torch.ones(T_q, 65, dtype=torch.bool).tril(65 - T_q)
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=visible)
    close(attention(q, k, v), theirs, 1e-13)
    close(flash_attention(q, k, v), theirs, 1e-13)
    close(scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(T_q, 65)), theirs, 1e-13)


def test_gradients_agree_with_sdpa(close):
    arguments = [x.requires_grad_() for x in normal((65, 16), (65, 16), (65, 8))]
    wanted = torch.autograd.grad(scaled_dot_product_attention(*arguments, is_causal=True).square().sum(), arguments)
    for here in (attention, flash_attention):
        for x, y in zip(torch.autograd.grad(here(*arguments).square().sum(), arguments), wanted, strict=True):
            close(x, y, 1e-12)


def test_peer_is_wrong_sdpa_aligns_a_causal_mask_to_the_start(close):
    """One query, six keys, is_causal: it sees the first only (pytorch issues 103082, 108108 and 115111). Here all 6."""
    q, k, v = normal((1, 16), (6, 16), (6, 8))
    assert torch.equal(scaled_dot_product_attention(q, k, v, is_causal=True), v[..., :1, :])
    close(attention(q, k, v), scaled_dot_product_attention(q, k, v), 1e-13)


def test_peer_is_wrong_sdpa_lets_a_masked_nan_through(close):
    """A NaN in a value that no query may see (pytorch issue 101967): 0 · NaN. Here a weight of 0 silences it."""
    q, k, v = normal((4, 16), (4, 16), (4, 8))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[:, 1] = False
    clean = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    v[..., 1, :] = torch.nan
    assert scaled_dot_product_attention(q, k, v, attn_mask=mask).isnan().any()
    close(attention(q, k, v, causal=False, mask=mask), clean, 1e-13)


@UNFUSED
@pytest.mark.parametrize("T", LENGTHS)
def test_window_agrees_with_flex_attention_unfused(T, close):
    q, k, v = normal((T, 16), (T, 16), (T, 16), dtype=torch.float32)

    def window(score, b, h, i, j):
        return torch.where((j <= i) & (i - j < 8), score, -torch.inf)

    theirs, aux = flex_attention(q, k, v, score_mod=window, return_aux=AuxRequest(lse=True))
    ours, our_lse = sliding_window_attention(q, k, v, window=8, return_lse=True)
    close(ours, theirs, 2e-6)
    close(our_lse, aux.lse, 2e-6)
    close(attention(q, k, v, mask=window_mask(T, window=8)), theirs, 2e-6)


@pytest.mark.skipif(not find_spec("transformers"), reason="compiling takes long: only where the peers are, make peers")
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="torch.compile needs a C++ compiler")
def test_window_agrees_with_flex_attention_compiled(close):
    """T = 129 is no multiple of its blocks; block masks default to a card, so ``device`` is named (pytorch 169224)."""
    q, k, v = normal((129, 16), (129, 16), (129, 16), dtype=torch.float32)
    mask = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 40), None, None, 129, 129, device="cpu")
    theirs = torch.compile(flex_attention)(q, k, v, block_mask=mask)
    close(sliding_window_attention(q, k, v, window=40), theirs, 2e-6)
