"""Seeing what an answer does, for exercises that ask for more than the right numbers."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "linear")


class Watch(TorchDispatchMode):
    """Remembers which operations ran and what they made, without keeping it alive: ``with Watch() as seen: ...``"""

    def __init__(self):
        super().__init__()
        self.calls: list[str] = []
        self.made: list[tuple[StorageWeakRef, torch.Size]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: nothing is compiled here, and telling the compiler so would load it first, for seconds."""
        return False

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **(kwargs or {}))
        self.calls.append(operation.name().split("::")[-1].split(".")[0])
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, torch.Tensor):
                self.made.append((StorageWeakRef(x.untyped_storage()), x.shape))
        return out

    def called(self, *parts: str) -> str | None:
        """The first operation whose name has one of these parts in it, or None."""
        return next((name for name in self.calls if any(part in name for part in parts)), None)

    def products(self) -> int:
        """How many matrix products ran."""
        return sum(name in PRODUCTS for name in self.calls)

    def shape_made(self, *shape: int) -> bool:
        """Whether any operation made a tensor of this shape, whatever stands in front of it."""
        return any(tuple(made[-len(shape) :]) == shape for _, made in self.made)

    def alive(self, numbers: int) -> int:
        """How many pieces of memory of at least so many numbers are still there."""
        return len({ref.cdata for ref, shape in self.made if shape.numel() >= numbers and not ref.expired()})
