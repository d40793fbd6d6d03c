"""Convert a GGUF file to a model folder in float32, for `gtpo train --model` and `gtpo eval`.

pip install gguf
python -m experiments.qwen.dequantise FILE.gguf OUT_DIR
"""

import argparse
import sys
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


def dequantise(file: Path, folder: Path) -> None:
    """Write the file's weights and tokenizer to `folder`. An interruption leaves `folder` untouched."""
    if not file.is_file():
        raise ConfigError(f"There is no file {file}.")
    if folder.exists():
        raise ConfigError(f"{folder} exists. Choose another output folder.")
    try:
        import gguf  # noqa: F401  # pyright: ignore
        from transformers import GgufConfig
    except ImportError as error:
        raise MissingExtraError("Reading GGUF files needs the package gguf: pip install gguf") from error
    options: Any = {"gguf_file": file.name, "dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), **options)
    restore_rope_scaling(model.config, file)
    partial = folder.with_name(f"{folder.name}.partial")
    model.save_pretrained(partial)
    AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(partial)
    partial.rename(folder)


def restore_rope_scaling(config: Any, file: Path) -> None:
    """Restore Llama 3's rotary scaling, which transformers ignores in a GGUF file; refuse any other scaling."""
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

        expected = torch.tensor(divisors)
        theta = config.rope_parameters["rope_theta"]
        plain = theta ** -(torch.arange(len(expected)) / len(expected))
        config.rope_parameters = {**LLAMA3_ROPE, "rope_theta": theta, "factor": expected.max().item()}
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
        if torch.allclose(plain / scaled, expected, rtol=1e-3):
            return
    raise ConfigError(
        f"{file} scales its rotary positions in a way that transformers does not support for GGUF "
        f"(rope.scaling.type {scaling!r}). Use the original model."
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.qwen.dequantise", description="Convert a GGUF file.")
    parser.add_argument("file", type=Path, help="a .gguf file")
    parser.add_argument("folder", type=Path, help="where to write the model folder")
    options = parser.parse_args(arguments)
    dequantise(options.file, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
