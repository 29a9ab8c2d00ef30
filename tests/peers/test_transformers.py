"""transformers' pure-torch fallbacks. They compute in fp32, scale q by d_k^-1/2 and lay tensors out as (B, T, H, d)."""

from types import SimpleNamespace

import pytest
import torch

from attnledger.ops.delta import chunked_delta_rule, delta_rule, recurrent_delta_rule, softplus_gate
from attnledger.ops.msa import select_blocks
from attnledger.ops.ssm import recurrent_ssd, selective_scan, ssd

REASON = "the peers have an environment of their own: make peers"
pytest.importorskip("transformers", reason=REASON)
qwen = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next", reason=REASON)
kimi = pytest.importorskip("transformers.models.kimi_linear.modeling_kimi_linear", reason=REASON)
mamba2 = pytest.importorskip("transformers.models.mamba2.modeling_mamba2", reason=REASON)
minimax = pytest.importorskip("transformers.models.minimax_m3_vl.modeling_minimax_m3_vl", reason=REASON)

LENGTHS = (1, 17, 64, 65, 129)
# beta, g, keys, tolerance: fp32 against fp64. Repeated keys at beta = 2 are the one ill-conditioned corner.
CASES = {
    "usual": (None, None, "random", 3e-6),
    "no decay": (1.0, 0.0, "random", 3e-6),
    "strong decay": (1.0, -5.0, "random", 3e-6),
    "forgets": (1.0, -100.0, "random", 3e-6),
    "negative eigenvalues": (2.0, -0.01, "random", 3e-6),
    "repeated keys": (1.0, -0.01, "repeated", 3e-6),
    "repeated keys at 2": (2.0, -0.01, "repeated", 5e-4),
}
DELTA = {
    "gated, chunked": ("scalar", qwen.torch_chunk_gated_delta_rule),
    "gated, recurrent": ("scalar", qwen.torch_recurrent_gated_delta_rule),
    "KDA, chunked": ("channel", kimi.chunk_kimi_delta_attention),
    "KDA, recurrent": ("channel", kimi.recurrent_kimi_delta_attention),
}


def run_peer(name, swap, q, k, v, beta, g, state=None):
    """A peer's outputs and final state in this library's layout."""
    q, k, v, beta, g = swap(q, k, v, beta, g)
    out, S = DELTA[name][1](q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True)
    return out.transpose(1, 2), S


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("peer", DELTA)
def test_delta_rules_agree(peer, T, case, inputs, close, swap):
    beta, g, keys, tolerance = CASES[case]
    q, k, v, beta, g = inputs(T, gate=DELTA[peer][0], beta=beta, g=g, keys=keys)
    out, S = run_peer(peer, swap, q, k, v, beta, g)
    options = {"beta": beta, "g": g, "scale": q.shape[-1] ** -0.5, "return_state": True}
    for here in (recurrent_delta_rule, chunked_delta_rule, delta_rule):
        ours, state = here(q, k, v, **options)
        close(ours, out, 2 * tolerance)  # either side is off by as much
        close(state, S, 2 * tolerance)
    doubles = {key: x.double() if isinstance(x, torch.Tensor) else x for key, x in options.items()}
    truth, state = recurrent_delta_rule(q.double(), k.double(), v.double(), **doubles)
    close(out, truth, tolerance)
    close(S, state, tolerance)


@pytest.mark.parametrize("peer", DELTA)
def test_carried_states_agree(peer, inputs, close, swap):
    q, k, v, beta, g = inputs(129, gate=DELTA[peer][0])
    first, second = ([x[:, :, part] for x in (q, k, v, beta, g)] for part in (slice(40), slice(40, None)))
    _, S = run_peer(peer, swap, *first)
    out, S = run_peer(peer, swap, *second, state=S)
    ours, state = delta_rule(q, k, v, beta=beta, g=g, scale=q.shape[-1] ** -0.5, return_state=True)
    close(ours[:, :, 40:], out, 6e-6)
    close(state, S, 6e-6)


def gradient_errors(peer, g, inputs, swap):
    """Errors of q, k, v, beta and g's gradients, relative to the fp64 recurrence's largest: here, and the peer's."""
    arguments = [x.requires_grad_() for x in inputs(65, gate=DELTA[peer][0], g=g)]
    doubles = [x.detach().double().requires_grad_() for x in arguments]

    def gradients(out, of):
        return torch.autograd.grad(out.square().sum(), of)

    def here(form, q, k, v, beta, g):
        return form(q, k, v, beta=beta, g=g, scale=q.shape[-1] ** -0.5)

    truth = gradients(here(recurrent_delta_rule, *doubles), doubles)
    ours = gradients(here(chunked_delta_rule, *arguments), arguments)
    theirs = gradients(run_peer(peer, swap, *arguments)[0], arguments)
    sides = zip(*((x, y, z.abs().max()) for x, y, z in zip(ours, theirs, truth, strict=True)), strict=True)
    ours, theirs, sizes = (list(side) for side in sides)
    return [
        [((x - z).abs().max() / size).item() for x, z, size in zip(side, truth, sizes, strict=True)]
        for side in (ours, theirs)
    ]


@pytest.mark.parametrize("peer", ["gated, chunked", "KDA, chunked"])
def test_gradients_of_the_chunked_forms_agree(peer, inputs, swap):
    ours, theirs = gradient_errors(peer, None, inputs, swap)
    assert max(ours) < 2e-6 and max(theirs) < 1e-5


@pytest.mark.parametrize("peer", ["gated, chunked", "KDA, chunked"])
def test_peer_is_wrong_gradients_of_a_strong_decay_are_rounding(peer, inputs, swap):
    """The gradient of g comes back through their fp32 cumulative sum as a remainder of terms that cancel.

    At g = −5 four digits are left of it, at g = −20 none; q, k, v and beta are right. Here all five are, at both.
    """
    ours, theirs = gradient_errors(peer, -5.0, inputs, swap)
    assert max(ours) < 2e-6 and max(theirs[:4]) < 1e-5 and 1e-5 < theirs[4] < 1e-2
    ours, theirs = gradient_errors(peer, -20.0, inputs, swap)
    assert max(ours) < 2e-6 and max(theirs[:4]) < 1e-5 and theirs[4] > 0.5


@pytest.mark.parametrize("peer", ["gated, chunked", "KDA, chunked"])
def test_peer_is_wrong_chunked_forms_cannot_forget_everything(peer, inputs, close, swap):
    """A log decay of −∞ (α = 0; fla issues 104 and 389) makes −∞ − (−∞) of their cumulative sums; here S is just 0."""
    q, k, v, beta, g = inputs(65, gate=DELTA[peer][0])
    g[:, :, 20] = -torch.inf
    theirs, _ = run_peer(peer, swap, q, k, v, beta, g)
    assert theirs.isnan().any()
    right, _ = run_peer(peer.replace("chunked", "recurrent"), swap, q, k, v, beta, g)
    close(chunked_delta_rule(q, k, v, beta=beta, g=g, scale=q.shape[-1] ** -0.5), right, 6e-6)


def test_peer_is_wrong_softplus_of_the_kimi_gate():
    """``where(g > 20, g, log(1 + exp(g)))`` has a NaN gradient from g = 89 on and is 0 at −30 (pytorch issue 68425)."""
    gate = kimi.KimiLinearForgetGate(SimpleNamespace(linear_head_dim=3, linear_num_heads=1, hidden_size=3))
    with torch.no_grad():
        for layer in (gate.f_a_proj, gate.f_b_proj):
            torch.nn.init.eye_(layer.weight)
        gate.dt_bias.zero_(), gate.A_log.zero_()
    z = torch.tensor([[[-30.0, 0.0, 100.0]]], requires_grad=True)
    theirs = gate(z)
    assert theirs.flatten().tolist() == pytest.approx([0.0, -0.6931472, -100.0], abs=1e-20, rel=1e-6)
    assert torch.autograd.grad(theirs[..., 2].sum(), gate.dt_bias)[0].isnan().any()
    ours = softplus_gate(z, a_log=0.0, dt_bias=0.0)
    assert ours.flatten().tolist() == pytest.approx([-9.357623e-14, -0.6931472, -100.0], abs=0, rel=1e-6)
    gradient = torch.autograd.grad(ours.sum(), z)[0]
    assert gradient.flatten().tolist() == pytest.approx([-9.357623e-14, -0.5, -1.0], abs=0, rel=1e-6)


@pytest.mark.parametrize("chunk_size", [16, 256])
@pytest.mark.parametrize("T", LENGTHS)
def test_mamba2_agrees_with_ssd(T, chunk_size, close, swap):
    """Its states are (d, n), here (n, d); groups share B and C; the step Δ is multiplied in by the caller here."""
    random = torch.Generator().manual_seed(T)
    x, B, C = (torch.randn(2, T, heads, d, generator=random) for heads, d in ((4, 8), (2, 16), (2, 16)))
    step = torch.nn.functional.softplus(torch.randn(2, T, 4, generator=random))
    A, D = -torch.rand(4, generator=random) * 4, torch.randn(4, generator=random)
    state = torch.randn(2, 4, 8, 16, generator=random)
    out, S = mamba2.mamba2_chunk_scan(x, step, A, B, C, chunk_size, D=D, initial_states=state, return_final_states=True)
    x, step, B, C = swap(x, step, B, C)
    B, C = (y.repeat_interleave(2, dim=1) for y in (B, C))
    skip = D[:, None, None] * x
    given = {"state": state.mT, "return_state": True}
    for form in (recurrent_ssd, ssd):
        ours, final = form(step[..., None] * x, B, C, g=step * A[:, None], **given)
        close(ours + skip, out.transpose(1, 2), 6e-6)
        close(final.mT, S, 6e-6)
    rates, skips = A[:, None, None].expand(4, 8, 16), D[:, None].expand(4, 8)
    ours, final = selective_scan(x, step[..., None].expand_as(x), rates, B, C, D=skips, **given)
    close(ours, out.transpose(1, 2), 6e-6)
    close(final.mT, S, 6e-6)


def indexer(width, block_size, top_k, heads=2):
    """The MiniMax-M3 indexer with identity weights, its two norms and the rotation switched off."""
    names = {"index_head_dim": width, "index_n_heads": heads, "index_block_size": block_size}
    names |= {"index_topk_blocks": top_k, "index_local_blocks": 1, "hidden_size": width, "rms_norm_eps": 1e-6}
    module = minimax.MiniMaxM3VLIndexer(SimpleNamespace(**names), layer_idx=0).double()
    module.q_norm = module.k_norm = torch.nn.Identity()
    torch.nn.init.eye_(module.k_proj.weight)
    return module


@torch.no_grad()
def choose(module, hidden, positions=None):
    """Its blocks, ascending, with the −1 of empty slots last, as ``select_blocks`` gives them."""
    T = hidden.shape[1]
    positions = torch.arange(T).expand(len(hidden), T) if positions is None else positions
    still = (torch.ones(1, T, module.head_dim).double(), torch.zeros(1, T, module.head_dim).double())
    chosen = module(hidden, still, None, positions)
    chosen = chosen.masked_fill(chosen < 0, 10**6).sort(-1).values
    chosen = torch.nn.functional.pad(chosen, (0, module.topk_blocks - chosen.shape[-1]), value=10**6)
    return chosen.masked_fill(chosen == 10**6, -1)


@torch.no_grad()
def index_pair(module, hidden):
    """Index queries and keys of the hidden states, as ``select_blocks`` takes them."""
    iq = module.q_proj(hidden).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
    return iq, module.k_proj(hidden).unsqueeze(1)


@pytest.mark.parametrize("T", LENGTHS)
def test_minimax_indexer_agrees(T):
    """It leaves the 1/√d out, which no ranking notices."""
    torch.manual_seed(T)
    module, hidden = indexer(8, block_size=8, top_k=4), torch.randn(2, T, 8, dtype=torch.float64)
    ours = select_blocks(*index_pair(module, hidden), block_size=8, top_k=4)
    assert torch.equal(choose(module, hidden), ours)


def test_peer_is_wrong_minimax_indexer_breaks_ties_as_topk_does():
    """MiniMax's own tests take the lower block; ``torch.topk`` promises nothing (pytorch issues 27542 and 127196)."""
    module, hidden = indexer(8, block_size=4, top_k=16), torch.zeros(1, 72, 8, dtype=torch.float64)
    ours = select_blocks(*index_pair(module, hidden), block_size=4, top_k=16)
    assert ours[0, 0, -1].tolist() == [*range(15), 17]  # 18 equal blocks, the last one the query's own
    theirs = choose(module, hidden)[0, 0, -1].tolist()
    assert len(theirs) == 16 and theirs[-1] == 17 and theirs != ours[0, 0, -1].tolist()


def test_peer_is_wrong_minimax_indexer_moves_its_blocks_with_left_padding():
    """Blocks are anchored to slots of the cache, not to positions (its docstring has a TODO): 3 pads, blocks of 4."""
    torch.manual_seed(0)
    module, hidden = indexer(8, block_size=4, top_k=3), torch.randn(1, 40, 8, dtype=torch.float64)
    padded = torch.cat([torch.zeros(1, 3, 8, dtype=torch.float64), hidden], dim=1)
    shifted = torch.cat([torch.zeros(1, 3, dtype=torch.long), torch.arange(40)[None]], dim=1)
    right = choose(module, hidden)
    assert torch.equal(right, select_blocks(*index_pair(module, hidden), block_size=4, top_k=3))
    assert not torch.equal(choose(module, padded, shifted)[:, :, 3:], right)
