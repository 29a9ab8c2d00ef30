"""An operator's precision is its own, and rows are brought to a size at which products neither over- nor underflow."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

DEVICES = ("cpu", "cuda", "mps", "xpu")  # with a switch of their own each, whether the machine has them or not
Args, Result = ParamSpec("Args"), TypeVar("Result")


def own_precision(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Keep ``torch.autocast`` out of an operator: it computes in the dtype it is given, halves in fp32.

    Autocast would turn the products inside into half-precision ones, among them sums over all tokens, and would leave
    products that are written in place as they are, which then meet a dtype that is not theirs. This holds for the
    operator itself: a backward pass runs after it, so that autocast reaches it unless it runs outside the region, where
    torch wants it anyway.
    """

    @wraps(function)
    def outside(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        with ExitStack() as off:
            for device in filter(torch.is_autocast_enabled, DEVICES):
                off.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    # torch.compile counts compilations by code object: with one for all operators, the ninth would not be compiled
    outside.__code__ = outside.__code__.replace(co_name=function.__name__)
    return outside


def near_one(x: Tensor) -> Tensor:
    """Divide each row ``(..., d)`` by the power of two that leaves its largest number in [1, 2): exact."""
    largest = x.detach().abs().amax(-1, keepdim=True)
    power = largest / (2 * torch.frexp(largest).mantissa)
    return x / torch.where(largest > 0, power, 1.0)
