"""The lab: a tiny language model and a problem family of its own, small enough to train on a laptop in minutes."""

from pathlib import Path

from gtpo.problems.lab import lab_problems

__all__ = ["lab_model_dir", "lab_problems"]


def lab_model_dir() -> Path:
    """The folder of the shipped base model, for `from_pretrained`: weights, config and tokenizer."""
    return Path(__file__).parent / "base"
