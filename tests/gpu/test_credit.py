"""Every credit scheme gives on CUDA what it gives on the CPU, and stays there."""

import dataclasses

import pytest
import torch

from gtpo.credit import SCHEMES, token_advantages
from tests.credit.rollouts import credit_input, random_batch

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(8))
def test_a_scheme_on_cuda_equals_the_cpu(scheme, seed):
    inputs = credit_input(random_batch(seed), extra_padding=3)
    fields = {field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)}
    tensors = {name: value.cuda() for name, value in fields.items() if isinstance(value, torch.Tensor)}
    parameters = {"right_at": 1.0, "k": 2} if scheme == "pass_at_k" else {}
    there = token_advantages(scheme, dataclasses.replace(inputs, **tensors), **parameters)
    assert there.is_cuda
    torch.testing.assert_close(there.cpu(), token_advantages(scheme, inputs, **parameters), atol=1e-6, rtol=1e-6)
