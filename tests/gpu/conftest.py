"""What runs on a GPU only: `make test-gpu` on a machine that has one."""

import gc

import pytest
import torch

GPU = dict(use_cpu=False)
"""Of every config here; the rest of the suite sets use_cpu=True."""


@pytest.fixture(autouse=True)
def memory_of_one_test():
    """What a test leaves on the device goes before the next one starts."""
    yield
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
