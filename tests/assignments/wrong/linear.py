"""Typical wrong answers to the set on linear attention, and the points that each must get."""

IN_PLACE = """
def read_on(phi_q, phi_k, v, state=None):
    S, z = (torch.zeros(phi_k.shape[-1], v.shape[-1]), torch.zeros(phi_k.shape[-1])) if state is None else state
    answers = torch.zeros(v.shape)
    for t in range(len(v)):
        S += torch.outer(phi_k[t], v[t])
        z += phi_k[t]
        weight = phi_q[t] @ z
        if weight != 0:
            answers[t] = phi_q[t] @ S / weight
    return answers, (S, z)
"""
NO_DENOMINATOR = """
def read_on(phi_q, phi_k, v, state=None):
    S, z = (torch.zeros(phi_k.shape[-1], v.shape[-1]), torch.zeros(phi_k.shape[-1])) if state is None else state
    answers = []
    for t in range(len(v)):
        S = S + torch.outer(phi_k[t], v[t])
        z = z + phi_k[t]
        answers.append(phi_q[t] @ S / (phi_q[t] @ z))
    return torch.stack(answers) if answers else v, (S, z)
"""
NOT_FADED = """
def withdraw(S, g, k, v, first):
    return S - k.mT @ v
"""
OWN_DECAY_TOO = """
def withdraw(S, g, k, v, first):
    left = torch.stack([g[t:].sum() for t in range(first, first + len(k))])
    return S - (left.exp()[:, None] * k).mT @ v
"""
ONE_SUM_MINUS_ANOTHER = """
def withdraw(S, g, k, v, first):
    left = g.sum() - g.cumsum(0)[first : first + len(k)]
    return S - (left.exp()[:, None] * k).mT @ v
"""
DIVIDED_BY_GAMMA = """
def by_chunks(phi_q, phi_k, v, g, chunk):
    S, z, outputs = v.new_zeros(phi_k.shape[-1], v.shape[-1]), v.new_zeros(phi_k.shape[-1]), []
    for start in range(0, len(v), chunk):
        Q, K, V, G = (x[start : start + chunk] for x in (phi_q, phi_k, v, g))
        gamma = G.cumsum(0).exp()[:, None]
        scores = ((gamma * Q) @ (K / gamma).mT).tril()
        outputs.append(((gamma * Q) @ S + scores @ V) / ((gamma * Q) @ z + scores.sum(-1))[:, None])
        left = gamma[-1] / gamma * K
        S, z = gamma[-1] * S + left.mT @ V, gamma[-1] * z + left.sum(0)
    return torch.cat(outputs)
"""
TOKEN_BY_TOKEN = """
def by_chunks(phi_q, phi_k, v, g, chunk):
    S, z, outputs = v.new_zeros(phi_k.shape[-1], v.shape[-1]), v.new_zeros(phi_k.shape[-1]), []
    for t in range(len(v)):
        S = g[t].exp() * S + torch.outer(phi_k[t], v[t])
        z = g[t].exp() * z + phi_k[t]
        outputs.append(phi_q[t] @ S / (phi_q[t] @ z))
    return torch.stack(outputs)
"""
ALL_PAIRS = """
def by_chunks(phi_q, phi_k, v, g, chunk):
    since = g.cumsum(0)
    gap = (since[:, None] - since).masked_fill(torch.ones(len(g), len(g)).triu(1).bool(), -math.inf)
    weights = gap.exp() * (phi_q @ phi_k.mT)
    return weights @ v / weights.sum(-1, keepdim=True)
"""
NORMALISED_BY_CHUNK = """
def by_chunks(phi_q, phi_k, v, g, chunk):
    S, outputs = v.new_zeros(phi_k.shape[-1], v.shape[-1]), []
    for start in range(0, len(v), chunk):
        Q, K, V, G = (x[start : start + chunk] for x in (phi_q, phi_k, v, g))
        L = semiseparable_mask(G)
        weights = L * (Q @ K.mT)
        outputs.append(G.cumsum(0).exp()[:, None] * (Q @ S) + weights @ V / weights.sum(-1, keepdim=True))
        S = G.sum().exp() * S + (L[-1, :, None] * K).mT @ V
    return torch.cat(outputs)
"""
IMPORTS_MASK = "from attnledger.ops.ssm import semiseparable_mask\n"
NO_CORRECTION = """
def strengths(records, rho):
    return [1 - rho if rho < 1 else 1.0] * len(records)
"""
COUNTED_BY_PLACE = """
def strengths(records, rho):
    return [1 / sum(rho**a for a in range(t + 1)) for t in range(len(records))]
"""
UNSHIFTED = """
def port(q, k, v, beta, g, state):
    return delta_rule(q, k, v, beta=beta, g=g, state=state, return_state=True)
"""
STATE_NOT_FORGOTTEN = """
def port(q, k, v, beta, g, state):
    before = torch.cat([torch.zeros_like(g[:1]), g[:-1]])
    return delta_rule(q, k, v, beta=beta, g=before, state=state, return_state=True)
"""
MEAN_KEY = """
def worst_write(S, K):
    k = K.sum(0) / K.sum(0).norm()
    v = k @ S
    v[0] += 1
    return k, v
"""
BUSIEST_KEY = """
def worst_write(S, K):
    k = K[(K @ K.mT).square().sum(0).argmax()]
    v = k @ S
    v[0] += 1
    return k, v
"""
WHOLE_RANK = """
def smallest_state(M):
    return torch.linalg.matrix_rank(M, atol=1e-9).item()
"""
STRICT_PAST = """
def smallest_state(M):
    return max([torch.linalg.matrix_rank(M[t:, :t], atol=1e-9).item() for t in range(1, len(M))], default=0)
"""
MIDDLE_ONLY = """
def smallest_state(M):
    t = (len(M) - 1) // 2
    return torch.linalg.matrix_rank(M[t:, : t + 1], atol=1e-9).item()
"""
ALL_LAYERS = """
def undo_pays_from(model, draft, state_bytes, cache_bytes):
    state = costs.linear_state_numbers(model) * state_bytes
    token = costs.kv_numbers_per_token(model) * cache_bytes
    return max(1, int((draft + 1) * state // token) + 1 - draft)
"""
ONE_COPY_PER_DRAFT = """
def undo_pays_from(model, draft, state_bytes, cache_bytes):
    state = costs.linear_state_numbers(model) // len(model.linear_layers) * state_bytes
    token = costs.kv_numbers_per_layer(model) * cache_bytes
    return max(1, int(draft * state // token) + 1 - draft)
"""
HARD_CODED = """
def undo_pays_from(model, draft, state_bytes, cache_bytes):
    return 30 if draft else 9
"""

WRONG = {
    "the state is changed in place": ({"linear-1-resume": IN_PLACE}, {"linear-1-resume-test": 0}),
    "0 / 0 where the denominator is 0": ({"linear-1-resume": NO_DENOMINATOR}, {"linear-1-resume-test": 0}),
    "what is withdrawn has not faded": ({"linear-2-withdraw": NOT_FADED}, {"linear-2-withdraw-test": 0}),
    "a token fades by its own decay": ({"linear-2-withdraw": OWN_DECAY_TOO}, {"linear-2-withdraw-test": 0}),
    "infinity minus infinity": ({"linear-2-withdraw": ONE_SUM_MINUS_ANOTHER}, {"linear-2-withdraw-test": 0}),
    "keys divided by their decay": ({"linear-3-chunks": DIVIDED_BY_GAMMA}, {"linear-3-chunks-hard": 0}),
    "token by token instead of chunks": ({"linear-3-chunks": TOKEN_BY_TOKEN}, {"linear-3-chunks-hard": 0}),
    "all pairs instead of chunks": ({"linear-3-chunks": ALL_PAIRS}, {"linear-3-chunks-hard": 0}),
    "every chunk divided on its own": (
        {"linear-3-chunks": IMPORTS_MASK + NORMALISED_BY_CHUNK},
        {"linear-3-chunks-test": 0, "linear-3-chunks-hard": 0},
    ),
    "a running mean without its start": ({"linear-4-mean": NO_CORRECTION}, {"linear-4-mean-test": 0}),
    "writes counted over all records": ({"linear-4-mean": COUNTED_BY_PLACE}, {"linear-4-mean-test": 0}),
    "the decays are not shifted": ({"linear-5-port": UNSHIFTED}, {"linear-5-port-test": 0}),
    "the state handed on has not forgotten": ({"linear-5-port": STATE_NOT_FORGOTTEN}, {"linear-5-port-test": 0}),
    "the mean of all keys": ({"linear-6-worst": MEAN_KEY}, {"linear-6-worst-test": 0}),
    "the stored key with the largest overlaps": ({"linear-6-worst": BUSIEST_KEY}, {"linear-6-worst-test": 0}),
    "the rank of the whole matrix": ({"linear-7-smallest": WHOLE_RANK}, {"linear-7-smallest-test": 0}),
    "the own token left out": ({"linear-7-smallest": STRICT_PAST}, {"linear-7-smallest-test": 0}),
    "only the block in the middle": ({"linear-7-smallest": MIDDLE_ONLY}, {"linear-7-smallest-test": 0}),
    "all layers against all layers": ({"linear-8-undo": ALL_LAYERS}, {"linear-8-undo-test": 0}),
    "one copy per drafted token": ({"linear-8-undo": ONE_COPY_PER_DRAFT}, {"linear-8-undo-test": 0}),
    "the numbers of the visible test": ({"linear-8-undo": HARD_CODED}, {"linear-8-undo-test": 0}),
}
