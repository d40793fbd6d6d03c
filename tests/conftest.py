"""Everything the tests need of a language model, made locally from a seed: no hub, no download."""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
if "-m gpu" not in " ".join(sys.argv):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same numbers on every machine

import jaxtyping
import pytest
import torch
from hypothesis import settings

from tests.tiny import save_tiny_model

IS_GPU_RUN = "-m gpu" in " ".join(sys.argv)  # pytest -m gpu

torch.set_num_threads(1)
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)  # pytest --hypothesis-profile=searching: new examples every time
settings.load_profile("repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need CUDA are run when they are asked for, and not at all otherwise."""
    if not IS_GPU_RUN:
        hidden = [item for item in items if item.get_closest_marker("gpu")]
        items[:] = [item for item in items if item not in hidden]
        config.hook.pytest_deselected(items=hidden)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a randomly initialised two-layer Llama over 64 words."""
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder)
    return str(folder)


@pytest.fixture
def unchecked_types():
    """As users run it: without the type checker that otherwise speaks before our own errors do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
