"""What the name of a model means, for training and evaluation. Loads nothing."""

from dataclasses import dataclass
from pathlib import Path

from gtpo.errors import ConfigError
from gtpo.lab import lab_model_dir


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are: a folder, or a repository on the hub."""

    location: str
    is_local: bool
    is_adapter: bool = False
    """Whether the folder holds a LoRA adapter, which names its base model in adapter_config.json."""


def find_model(name: str) -> ModelSource:
    """The model that `name` stands for: the word "lab", a model folder, a run's folder, an adapter folder or a hub id.

    A hub id is not looked up. Raises ConfigError for a path that does not exist or holds no model.
    """
    if name == "lab":
        return ModelSource(str(lab_model_dir()), is_local=True)
    path = Path(name)
    if path.suffix == ".gguf":
        raise ConfigError(
            f"Model {name!r} cannot be loaded: GGUF files are not supported. Convert it to a model folder first: "
            "python -m experiments.qwen.dequantise FILE.gguf OUT_DIR (in a checkout of gtpo)."
        )
    for folder in (path, path / "model") if name else ():  # a run keeps its model in RUN/model
        if (folder / "config.json").is_file():
            return ModelSource(str(folder), is_local=True)
        if (folder / "adapter_config.json").is_file():
            return ModelSource(str(folder), is_local=True, is_adapter=True)
    if path.exists():
        raise cannot_load(name, "it has no config.json")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise cannot_load(name, "there is no such folder")
    return ModelSource(name, is_local=False)


def require_built_in_attention(name: str, config: object) -> None:
    """Raise ConfigError if the config.json of a model asks for an attention kernel of the hub, which is code."""
    attention = getattr(config, "_attn_implementation", None)
    if "/" in str(attention):
        raise ConfigError(
            f"Model {name!r} asks for the attention {attention!r}, code that transformers would download and run. "
            "Remove attn_implementation from its config.json."
        )


def cannot_load(name: str, reason: object) -> ConfigError:
    """The error for a model that cannot be loaded, with the first line of the reason."""
    if "trust_remote_code" in str(reason):
        return ConfigError(
            f"Model {name!r} needs Python code that comes with it, which gtpo does not run by itself. Read that code. "
            "If you trust it, add --trust-remote-code to the command."
        )
    first_line = str(reason).strip().partition("\n")[0].rstrip(":. ")
    return ConfigError(
        f"Model {name!r} cannot be loaded: {first_line}. Pass a hub id, a folder with weights and tokenizer files, "
        "the folder of a finished run, or the word lab."
    )
