"""Fixtures that several folders share. Models are built locally from a seed: no hub, no download."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import jaxtyping
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)  # pytest --hypothesis-profile=searching draws new examples
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPU from every run but `pytest -m gpu`, for the same numbers on every machine."""
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the notes about runs that tests start out of the user's own state folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a randomly initialised two-layer Llama with 64 words."""
    from tests.tiny import save_tiny_model

    folder = tmp_path_factory.mktemp("tiny")
    save_tiny_model(folder)
    return str(folder)


@pytest.fixture(scope="session")
def lab_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two small steps that `gtpo train` left. Read it; copy it to change it."""
    from gtpo.cli.main import main

    run = tmp_path_factory.mktemp("trained") / "lab-run"
    options = (
        "--max_steps 2 --per_device_train_batch_size 8 --gradient_accumulation_steps 1 --num_generations 4 "
        "--max_completion_length 40 --max_problems 64 --held_out_problems 8"
    )
    assert main(["train", "--output_dir", str(run), *options.split()]) == 0
    return run


@pytest.fixture
def unchecked_types():
    """Turn off the shape checks of the tests, which would raise before our own errors do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
