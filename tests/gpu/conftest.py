"""Everything here runs on CUDA: without one it fails, since it is run only by those who asked for it."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _needs_cuda():
    assert torch.cuda.is_available(), "these tests need a CUDA device"
