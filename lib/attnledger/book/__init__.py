"""What a page uses to show things: figures, sliders, tables, spoken numbers, the ledger, exercise checks."""

import torch

from . import check
from .claims import all_claims, errata, ledger
from .drawing import figure
from .measured import measured
from .personal import personal
from .slider import explore
from .text import say, table
from .trial import fresh, trial

# A page must print the same on every run and every machine. This is torch.use_deterministic_algorithms(True) without
# its import of the compiler, which takes longer than all of torch.
torch.set_deterministic_debug_mode("error")

__all__ = [
    "all_claims",
    "check",
    "errata",
    "explore",
    "figure",
    "fresh",
    "ledger",
    "measured",
    "personal",
    "say",
    "table",
    "trial",
]
