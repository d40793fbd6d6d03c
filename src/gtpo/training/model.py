"""Which weights, and how they are loaded."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer
from trl.trainer.model_config import ModelConfig
from trl.trainer.utils import get_peft_config, get_quantization_config

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.lab.model import lab_model_dir
from gtpo.training.dequantise import dequantised

WEIGHTS = ["*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack"]


def locate_model(name: str, run: Path, revision: str = "main", *, with_weights: bool = True) -> str:
    """A hub id or a folder: the lab's own, the one that was named, or a GGUF file dequantised into the run."""
    if name == "lab":
        return str(lab_model_dir())
    path = Path(name)
    if path.suffix == ".gguf":
        return dequantised(path, run / "base")
    if path.exists() and not (path / "config.json").is_file():
        if (path / "adapter_config.json").is_file():
            raise ConfigError(
                f"{name} holds a LoRA adapter, not a model: merge it into its base first (docs/training.md)."
            )
        if (path / "model" / "config.json").is_file():
            raise ConfigError(f"{name} is the folder of a run: give the model in it, {path / 'model'}.")
        raise ConfigError(f"{name} is no model: it has no config.json. Give a folder that save_pretrained wrote.")
    if not path.exists() and (path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1):
        raise ConfigError(f"There is no model at {name}. Give an existing folder, a .gguf file, or a hub id.")
    if revision != "main" and not path.exists():
        from huggingface_hub import snapshot_download

        # One folder for tokenizer, trainer and evaluations.
        return snapshot_download(name, revision=revision, ignore_patterns=None if with_weights else WEIGHTS)
    return name


def load_tokenizer(model: str) -> Any:
    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"Model {model!r} cannot be loaded: {str(error).strip().splitlines()[0]} "
            "Give a hub id, a folder with weights and tokenizer files, a .gguf file, or the word lab."
        ) from error


def trainer_arguments(model_config: ModelConfig, config: Any) -> dict[str, Any]:
    """What TRL's trainers take about the model: adapters, quantisation, and how to load the weights."""
    on_cpu = config.device.type == "cpu"
    if on_cpu and str(model_config.dtype) in ("bfloat16", "float16"):
        raise ConfigError(f"dtype={model_config.dtype} on a CPU is slow or does not run: leave it out for float32.")
    if model_config.load_in_4bit or model_config.load_in_8bit:
        try:
            import bitsandbytes  # noqa: F401  # pyright: ignore
        except ImportError as error:
            raise MissingExtraError("4-bit and 8-bit weights need bitsandbytes: pip install bitsandbytes") from error
    config.model_init_kwargs = {
        "attn_implementation": model_config.attn_implementation,
        "dtype": "float32" if on_cpu else model_config.dtype,
        **(config.model_init_kwargs or {}),
    }
    arguments = {
        "peft_config": get_peft_config(model_config),
        "quantization_config": get_quantization_config(model_config),
    }
    return {name: value for name, value in arguments.items() if value is not None}
