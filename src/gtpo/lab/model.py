"""The lab's model: a Llama of about a million parameters, shipped with its weights."""

from pathlib import Path


def lab_model_dir() -> Path:
    """The folder of the shipped base model, for `from_pretrained`: weights, config and tokenizer."""
    return Path(__file__).parent / "base"
