"""A GGUF file as an ordinary model folder."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gtpo.errors import ConfigError, MissingExtraError

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def dequantised(file: Path, folder: Path) -> str:
    """The file's weights in float32 and its tokenizer, written once; a half-written folder is written again."""
    if (folder / "config.json").is_file():
        return str(folder)
    if not file.is_file():
        raise ConfigError(f"There is no file {file}.")
    try:
        import gguf  # noqa: F401  # pyright: ignore
        from transformers import GgufConfig
    except ImportError as error:
        raise MissingExtraError("Reading GGUF files needs the package gguf: pip install gguf") from error
    options: Any = {"gguf_file": file.name, "dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), **options)
    restore_rope_scaling(model.config, file)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    model.save_pretrained(unfinished)
    AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(unfinished)
    unfinished.rename(folder)
    return str(folder)


def restore_rope_scaling(config: Any, file: Path) -> None:
    """Put back Llama 3's rotary scaling, which transformers drops with the file's divisors; refuse any other."""
    from gguf import GGUFReader

    if (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default") != "default":
        return
    reader = GGUFReader(file)
    scaling = next(
        (field.contents() for name, field in reader.fields.items() if name.endswith("rope.scaling.type")), "none"
    )
    divisors = next((tensor.data for tensor in reader.tensors if tensor.name == "rope_freqs.weight"), None)
    if scaling == "none" and divisors is None:
        return
    if scaling == "none" and config.model_type == "llama":
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        wanted = torch.tensor(divisors)
        theta = config.rope_parameters["rope_theta"]
        plain = theta ** -(torch.arange(len(wanted)) / len(wanted))
        config.rope_parameters = {**LLAMA3_ROPE, "rope_theta": theta, "factor": wanted.max().item()}
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
        if torch.allclose(plain / scaled, wanted, rtol=1e-3):
            return
    raise ConfigError(
        f"{file} scales its rotary positions in a way that transformers does not read from GGUF "
        f"(rope.scaling.type {scaling!r}). Give the original model's hub id or folder."
    )
