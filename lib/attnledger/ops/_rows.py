"""Where computed rows of an output go: to their place at once, unless autograd has to remember them."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def recorded(*tensors: Tensor) -> bool:
    """Whether autograd, backward or forward, follows what is made of the tensors; torch then refuses ``out=``."""
    backward = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    return backward or any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)


class Rows:
    """Collects parts ``(..., r, d)`` of an output ``(..., length, d)``, from its first row on.

    Recorded parts are kept and concatenated at the end: one step to go back through. Others are written to their place
    as they come, so that the parts and the whole never lie in memory side by side, and no small part, kept between two
    large states that come and go, drives the heap up.
    """

    def __init__(self, length: int):
        self.length = length
        self._filled = 0
        self._parts: list[Tensor] = []
        self._whole: Tensor | None = None

    def append(self, part: Tensor) -> None:
        """Take the next rows; what lies beyond the last one, padding, is left out."""
        begin, self._filled = self._filled, min(self._filled + part.shape[-2], self.length)
        part = part[..., : self._filled - begin, :]
        if self._parts or (self._whole is None and recorded(part)):
            self._parts.append(part)
            return
        if self._whole is None:
            self._whole = part.new_empty(*part.shape[:-2], self.length, part.shape[-1])
        self._whole.narrow(-2, begin, self._filled - begin).copy_(part)

    def joined(self) -> Tensor:
        """The output, once all its rows are there."""
        return torch.cat(self._parts, dim=-2) if self._parts else self._whole
