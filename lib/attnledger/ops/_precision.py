"""An operator's precision is its own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def own_precision(function: Callable) -> Callable:
    """Keep ``torch.autocast`` out of an operator: it computes in the dtype it is given, halves in fp32.

    Autocast would turn the products inside into half-precision ones, among them sums over all tokens, and would leave
    products that are written in place as they are, which then meet a dtype that is not theirs.
    """

    @wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return function(*args, **kwargs)

    return outside
