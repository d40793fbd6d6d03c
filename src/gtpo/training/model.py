"""Where the model's files are, its tokenizer, and what TRL's trainers take about its weights."""

from pathlib import Path
from typing import Any

from huggingface_hub import file_exists, snapshot_download
from transformers import AutoTokenizer
from trl.trainer.model_config import ModelConfig
from trl.trainer.utils import get_peft_config, get_quantization_config

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.models import find_model

WEIGHTS = ["*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack"]


def locate_model(name: str, revision: str = "main") -> str:
    """The folder or the hub id of a model whose weights can be loaded. Downloads no weights."""
    source = find_model(name)
    if source.is_adapter:
        raise ConfigError(
            f"{source.location} holds a LoRA adapter. Training starts from a full model: merge the adapter into its "
            "base first (docs/training.md)."
        )
    if source.is_local:
        return source.location
    try:
        if not _is_cached(name, revision):
            file_exists(name, "config.json", revision=revision)
        # One folder for tokenizer, trainer and evaluations, which take no revision.
        return name if revision == "main" else snapshot_download(name, revision=revision, ignore_patterns=WEIGHTS)
    except Exception as error:  # the hub's client raises OSError, ValueError and its HTTP library's own errors
        raise _cannot_load(name, error) from error


def download_weights(name: str, revision: str) -> None:
    """Complete the folder that `locate_model` returned for a revision other than main."""
    if revision != "main" and not find_model(name).is_local:
        snapshot_download(name, revision=revision)


def _is_cached(name: str, revision: str) -> bool:
    """Whether the weights are in the cache."""
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except OSError:
        return False
    return any(any(folder.glob(pattern)) for pattern in WEIGHTS)


def load_tokenizer(model: str) -> Any:
    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise _cannot_load(model, error) from error


def _cannot_load(model: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"Model {model!r} cannot be loaded: {str(error).strip().splitlines()[0]} "
        "Give a hub id, a folder with weights and tokenizer files, or the word lab."
    )


def trainer_arguments(model_config: ModelConfig, config: Any) -> dict[str, Any]:
    """What TRL's trainers take about the model: adapters, quantization, and how to load the weights."""
    on_cpu = config.device.type == "cpu"
    if on_cpu and str(model_config.dtype) in ("bfloat16", "float16"):
        raise ConfigError(
            f"dtype={model_config.dtype} is slow or not supported on a CPU. Leave it out to train in float32."
        )
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
