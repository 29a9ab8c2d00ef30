"""For the tests of problem sets: the folder's helpers, and torch as it was before."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def defaults():
    """Problem sets compute in fp64; the other tests should not."""
    before, random = torch.get_default_dtype(), torch.get_rng_state()
    yield
    torch.set_default_dtype(before)
    torch.set_rng_state(random)
