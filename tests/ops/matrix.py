"""What every operator is tried on: lengths around the powers of two, seeded inputs, gradients, and how to compare."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 65, 100, 129)
CHUNKS = (1, 7, 16, 48, 64)
SPLITS = (0, 1, 7, 16, 31, 64, 100, 129)


class Inputs:
    """Seeded normal numbers, fp64 unless said otherwise."""

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float64):
        self.random, self.dtype = torch.Generator().manual_seed(seed), dtype

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.random, dtype=torch.float64).to(self.dtype)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.random, dtype=torch.float64).to(self.dtype)

    def choice(self, values: Tensor, *shape: int) -> Tensor:
        return values[torch.randint(len(values), shape, generator=self.random)]

    def unit(self, *shape: int) -> Tensor:
        return torch.nn.functional.normalize(self.normal(*shape), dim=-1)


def assert_close(got: Tensor, want: Tensor, tolerance: float, what: str = "", floor: float = 1e-30) -> None:
    """The largest error, relative to the largest number wanted or `floor`, is within `tolerance`; NaN never passes."""
    assert got.shape == want.shape, f"{what} {got.shape} {want.shape}"
    if want.numel():
        error = (got.double() - want.double()).abs().max().item()
        size = want.double().abs().max().item()
        assert error <= tolerance * max(size, floor), f"{what} error {error:.2e} on numbers up to {size:.2e}"


def gradients(function: Callable[..., Tensor | Sequence[Tensor]], inputs: Iterable[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random weighting of everything `function` returns."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    outs = function(*leaves)
    outs = [outs] if isinstance(outs, Tensor) else list(outs)
    draw = Inputs(99)
    loss = sum((out.double() * draw.normal(*out.shape)).sum() for out in outs)
    return list(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))


def assert_same_gradients(got: Sequence[Tensor], want: Sequence[Tensor], tolerance: float, names: str) -> None:
    """Within `tolerance` of the largest, or of 1: a gradient may be next to nothing beside the terms it sums."""
    for name, a, b in zip(names.split(), got, want, strict=True):
        assert_close(a, b, tolerance, f"gradient of {name}", floor=1.0)


def made_elsewhere() -> torch.device:
    """``with made_elsewhere():`` a tensor made without naming a device lies where no other can meet it."""
    return torch.device("meta")


def routes(monkeypatch: pytest.MonkeyPatch, module: object, *names: str) -> list[tuple[str, int | None]]:
    """Replace functions of a module; what they are called with in their place, the first word and ``chunk``."""
    taken = []
    for name in names:
        word = name.partition("_")[0]
        monkeypatch.setattr(module, name, lambda *_, word=word, **options: taken.append((word, options.get("chunk"))))
    return taken


def complains(name: str):
    """A ValueError that names the argument, what it got and what it wants."""
    return pytest.raises(ValueError, match=rf"^{name}.*: got .*, want .*")


# Wrong values of the options that softmax attention and its tiled form share: the argument to be named, and how it goes
# wrong.
WRONG_OPTIONS = {
    "causal: a mask": ("causal", lambda a: a | {"causal": torch.ones(4, 6, dtype=torch.bool)}),
    "causal: None": ("causal", lambda a: a | {"causal": None}),
    "scale: a word": ("scale", lambda a: a | {"scale": "a"}),
    "scale: a list": ("scale", lambda a: a | {"scale": [0.5]}),
    "scale: complex": ("scale", lambda a: a | {"scale": 1j}),
    "scale: an array": ("scale", lambda a: a | {"scale": np.ones(2)}),
    "scale: a tensor": ("scale", lambda a: a | {"scale": torch.ones(6)}),
    "scale: NaN": ("scale", lambda a: a | {"scale": math.nan}),
    "scale: True": ("scale", lambda a: a | {"scale": True}),
}
