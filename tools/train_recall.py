"""Train one small model per token mixer on associative recall and on copying; write the results as data.

    python tools/train_recall.py

For authors: some minutes on one core. Seven models differ in the mixer of their four layers and in nothing else; their
parameters have the same shapes, also where a mixer leaves a gate idle. What is written holds settings, seeds, losses
and accuracies, so that the page ``hybrid/layer-mix`` can say what was seen without training anything.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnledger.ops.delta import delta_rule, softplus_gate
from attnledger.ops.linear import identity, linear_attention
from attnledger.ops.msa import select_blocks
from attnledger.ops.softmax import attention
from attnledger.ops.sparse import sliding_window_attention

RESULT = Path(__file__).resolve().parent.parent / "lib" / "attnledger" / "data" / "recall.json"
WIDTH, D, TAPS = 32, 16, 3  # channels of the model, of keys and values (one head), of the short convolution
WINDOW = 8  # keys and values of 8 tokens are 2 · 8 · 16 numbers, as many as a state of 16 × 16
BLOCK, BLOCKS = 4, 4  # block selection reads at most 16 tokens
KEYS, VALUES = 32, 32  # recall: token ids 0 … 31 and 32 … 63
SYMBOLS = 64  # copying: ids 0 … 63; 64 starts the text and the copy
VOCABULARY = 65
BATCH, STEPS, WARM_UP, RATE, LOG_EVERY, EVALUATED = 32, 700, 50, 1e-2, 20, 256
SIZES = {"recall": (4, 8, 16, 32), "copying": (8, 16, 32, 48)}
SEEDS = (0, 1)

Batch = tuple[Tensor, Tensor]


# the tasks


def recall(size: int, batch: int, random: torch.Generator) -> Batch:
    """`size` keys, each followed by its value, then all keys in another order; wanted is the value of each.

    Returns:
        Tokens ``(batch, 3 size)`` and the tokens wanted at the last ``size`` places ``(batch, size)``.

    Source: multi-query associative recall, Arora et al. 2023 (*Zoology*), with all the queries at the end.
    """
    key = torch.rand(batch, KEYS, generator=random).argsort(-1)[:, :size]
    value = torch.randint(KEYS, KEYS + VALUES, (batch, size), generator=random)
    order = torch.rand(batch, size, generator=random).argsort(-1)
    pairs = torch.stack([key, value], dim=-1).flatten(1)  # (batch, 2 size)
    return torch.cat([pairs, key.gather(1, order)], dim=1), value.gather(1, order)


def copying(size: int, batch: int, random: torch.Generator) -> Batch:
    """A sign, `size` different symbols, the sign, the symbols again; wanted is each symbol, one place early."""
    text = torch.rand(batch, SYMBOLS, generator=random).argsort(-1)[:, :size]
    sign = torch.full((batch, 1), SYMBOLS)
    return torch.cat([sign, text, sign, text[:, :-1]], dim=1), text


TASKS: dict[str, Callable[[int, int, torch.Generator], Batch]] = {"recall": recall, "copying": copying}


# the mixers: q, k, v (batch, T, d), a writing strength and a log decay (batch, T), and how sharp the softmax is


def softmax(q, k, v, beta, g, scale):
    return attention(q * scale, k, v, scale=1.0)


def linear(q, k, v, beta, g, scale):
    return linear_attention(q, k, v, feature_map=identity, normalize=False)


def delta(q, k, v, beta, g, scale):
    return delta_rule(q, k, v, beta=beta)


def gated(q, k, v, beta, g, scale):
    return delta_rule(q, k, v, beta=beta, g=g)


def window(q, k, v, beta, g, scale):
    return sliding_window_attention(q * scale, k, v, window=WINDOW, scale=1.0)


def block_mask(q: Tensor, k: Tensor) -> Tensor:
    """Which tokens each query may read: the newest block and the best of the others, scored with the same q and k."""
    q, k = q.detach().unsqueeze(1), k.detach().unsqueeze(1)  # one head
    blocks = select_blocks(q, k, block_size=BLOCK, top_k=BLOCKS).squeeze(1)  # (batch, T, BLOCKS)
    total = -(-k.shape[-2] // BLOCK)
    chosen = torch.zeros(*blocks.shape[:-1], total + 1, dtype=torch.bool)
    chosen = chosen.scatter(-1, blocks.masked_fill(blocks < 0, total), True)[..., :total]
    return chosen.repeat_interleave(BLOCK, dim=-1)[..., : k.shape[-2]]  # (batch, T, T)


def msa(q, k, v, beta, g, scale):
    """The numbers of ``block_sparse_attention``, by a mask: for short texts in batches that is faster."""
    return attention(q * scale, k, v, mask=block_mask(q, k), scale=1.0)


STACKS = {
    "softmax": [softmax] * 4,
    "linear": [linear] * 4,
    "delta": [delta] * 4,
    "gated": [gated] * 4,
    "window": [window] * 4,
    "msa": [msa] * 4,
    "hybrid": [delta] * 3 + [softmax],
}
GATES = {delta: ("beta",), gated: ("beta", "g")}  # the others leave theirs idle
SHARP = {softmax, window, msa}


# the model


class Layer(nn.Module):
    """Normalise, project, shift a little, mix, project, add."""

    def __init__(self, mix: Callable):
        super().__init__()
        self.mix = mix
        self.qkv = nn.Linear(WIDTH, 3 * D, bias=False)
        self.taps = nn.Parameter(torch.zeros(TAPS, 3 * D))
        self.beta, self.g = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)
        self.sharpness = nn.Parameter(torch.tensor(2.0))
        self.out = nn.Linear(D, WIDTH, bias=False)
        with torch.no_grad():
            self.taps.normal_(0.0, TAPS**-0.5)

    def idle(self) -> int:
        """Parameters this layer's mixer never reads."""
        unused = [gate for gate in ("beta", "g") if gate not in GATES.get(self.mix, ())]
        return sum(WIDTH + 1 for _ in unused) + (self.mix not in SHARP)

    def forward(self, x: Tensor) -> Tensor:
        inside = F.rms_norm(x, (WIDTH,))
        shifted, T = F.pad(self.qkv(inside), (0, 0, TAPS - 1, 0)), x.shape[-2]
        mixed = sum(self.taps[i] * shifted[:, i : i + T] for i in range(TAPS))  # the last tap is the token itself
        q, k, v = mixed.split(D, dim=-1)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        beta, z = torch.sigmoid(self.beta(inside).squeeze(-1)), self.g(inside).squeeze(-1)
        o = self.mix(q, k, v, beta, softplus_gate(z, 0.0, -4.0), self.sharpness.exp())
        return x + self.out(F.rms_norm(o, (D,)))


class Model(nn.Module):
    """Tokens to scores of the next token; order comes from the short convolutions and from the mixers."""

    def __init__(self, stack: list[Callable]):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(VOCABULARY, WIDTH))
        self.layers = nn.Sequential(*(Layer(mix) for mix in stack))
        self.read = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.read(F.rms_norm(self.layers(F.embedding(tokens, self.embed)), (WIDTH,)))


def train(stack: str, task: str, seed: int, *, steps: int = STEPS) -> Iterator[tuple[int, float, Model]]:
    """Yield step, loss and model after every step; sizes come in turn, one per batch."""
    torch.manual_seed(seed)
    model, random = Model(STACKS[stack]), torch.Generator().manual_seed(1000 + seed)  # all stacks see the same batches
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    sizes = SIZES[task]
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(step / WARM_UP, 1.0, 1.02 - step / steps)
        tokens, wanted = TASKS[task](sizes[step % len(sizes)], BATCH, random)
        scores = model(tokens)[:, -wanted.shape[1] :]
        loss = F.cross_entropy(scores.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield step, loss.item(), model


@torch.no_grad()
def accuracy(model: Model, task: str, size: int, texts: int = EVALUATED) -> float:
    """Share of wanted tokens that score highest, on texts that no training step has drawn."""
    tokens, wanted = TASKS[task](size, texts, torch.Generator().manual_seed(9000 + size))
    return (model(tokens)[:, -wanted.shape[1] :].argmax(-1) == wanted).double().mean().item()


def run(stack: str, task: str, seed: int, *, steps: int = STEPS, log_every: int = LOG_EVERY) -> dict:
    """Train and measure one model."""
    losses, recent = [], []
    for step, loss, model in train(stack, task, seed, steps=steps):  # noqa: B007
        recent.append(loss)
        if step % log_every == 0:
            losses.append(round(sum(recent) / len(recent), 4))  # the mean since the last entry
            recent = []
    accuracies = [round(accuracy(model, task, size), 4) for size in SIZES[task]]
    return {"mixer": stack, "task": task, "seed": seed, "accuracy": accuracies, "loss": losses}


def settings(seeds=SEEDS, steps=STEPS) -> dict:
    return {
        "torch": torch.__version__.split("+")[0],
        "dtype": "float32",
        "threads": 1,
        "seeds": list(seeds),
        "width": WIDTH,
        "d": D,
        "layers": 4,
        "heads": 1,
        "taps": TAPS,
        "window": WINDOW,
        "block": BLOCK,
        "blocks": BLOCKS,
        "keys": KEYS,
        "values": VALUES,
        "symbols": SYMBOLS,
        "batch": BATCH,
        "steps": steps,
        "warm_up": WARM_UP,
        "rate": RATE,
        "log_every": LOG_EVERY,
        "evaluated": EVALUATED,
        "sizes": {task: list(sizes) for task, sizes in SIZES.items()},
        "state": D * D,
        "parameters": {name: sum(p.numel() for p in Model(stack).parameters()) for name, stack in STACKS.items()},
        "idle": {name: sum(layer.idle() for layer in Model(stack).layers) for name, stack in STACKS.items()},
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    runs = []
    for task in TASKS:
        for stack in STACKS:
            for seed in SEEDS:
                start = time.process_time()
                runs.append(run(stack, task, seed))
                done = runs[-1]
                print(
                    f"{task:8} {stack:8} seed {seed}  loss {done['loss'][-1]:.3f}  accuracy {done['accuracy']}  "
                    f"{time.process_time() - start:.0f} s of CPU",
                    flush=True,
                )
    lines = ",\n".join("  " + json.dumps(one) for one in runs)
    text = f'{{\n "settings": {json.dumps(settings(), indent=1)},\n "runs": [\n{lines}\n ]\n}}\n'
    RESULT.write_text(text, encoding="utf8")


if __name__ == "__main__":
    main()
