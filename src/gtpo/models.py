"""What the name of a model means, for training and evaluation. Loads nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gtpo.errors import ConfigError, shortened
from gtpo.files import parse_json
from gtpo.lab import lab_model_dir

ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are: a folder, or a repository on the hub."""

    location: str
    is_local: bool
    base: str | None = None
    """If `location` is the folder of a LoRA adapter: the model under it, an absolute path or a hub id."""

    @property
    def tokenizer(self) -> str:
        """Where the tokenizer's files are. An adapter without its own has that of its base."""
        has_own = any((Path(self.location) / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
        return self.location if self.base is None or has_own else self.base


def find_model(name: str) -> ModelSource:
    """The model that `name` stands for: the word "lab", a model folder, a run's folder, an adapter folder or a hub id.

    A hub id is not looked up. Raises ConfigError for a path that does not exist or holds no model, and for an adapter
    whose base is a path that does not exist.
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
        if (folder / ADAPTER_CONFIG).is_file():
            return ModelSource(str(folder), is_local=True, base=_base_of(folder))
    if path.exists():
        raise cannot_load(name, "it has no config.json")
    if _is_path(name):
        raise cannot_load(name, "there is no such folder")
    return ModelSource(name, is_local=False)


def adapter_settings(folder: Path | str) -> dict[str, Any]:
    """The content of an adapter's adapter_config.json."""
    path = Path(folder) / ADAPTER_CONFIG
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Save the adapter again.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be a JSON object, got {shortened(content)}. Save the adapter again.")
    return cast("dict[str, Any]", content)


def _base_of(adapter: Path) -> str:
    """The model under an adapter: an absolute path, or a hub id, which is not looked up."""
    base = adapter_settings(adapter).get("base_model_name_or_path")
    remedy = f"Correct base_model_name_or_path in {adapter / ADAPTER_CONFIG}"
    if not isinstance(base, str) or not base:
        raise ConfigError(f"The LoRA adapter {adapter} names no base model. {remedy}.")
    if (Path(base) / "config.json").is_file():
        return str(Path(base).absolute())
    if Path(base).exists() or _is_path(base):
        problem = "holds no model" if Path(base).exists() else "does not exist"
        raise ConfigError(f"The base of the LoRA adapter {adapter} is {shortened(base)}, which {problem}. {remedy}.")
    return base


def _is_path(name: str) -> bool:
    """Whether a name can only be a path, and not a hub id."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def require_built_in_attention(name: str, config: object) -> None:
    """Raise ConfigError if the config.json of a model asks for an attention kernel of the hub, which is code."""
    attention = getattr(config, "_attn_implementation", None)
    if "/" in str(attention):
        raise ConfigError(
            f"Model {name!r} asks for the attention {attention!r}, code that transformers would download and run. "
            "Remove attn_implementation from its config.json."
        )


def cannot_load(name: str, reason: object, base: str | None = None) -> ConfigError:
    """The error for a model that cannot be loaded, with the first line of the reason.

    `base` is the model under an adapter, if that one cannot be loaded.
    """
    if "trust_remote_code" in str(reason):
        return ConfigError(
            f"Model {name!r} needs Python code that comes with it, which gtpo does not run by itself. Read that code. "
            "If you trust it, add --trust-remote-code to the command."
        )
    first_line = str(reason).strip().partition("\n")[0].rstrip(":. ")
    if base is not None:
        settings = Path(find_model(name).location) / ADAPTER_CONFIG
        return ConfigError(
            f"Model {base!r}, the base of the LoRA adapter {name}, cannot be loaded: {first_line}. Download it, or "
            f"correct base_model_name_or_path in {settings}."
        )
    if isinstance(reason, Exception) and not Path(name).exists():
        first_line = f"there is no such folder, and it cannot be loaded from the hub ({first_line})"
    return ConfigError(
        f"Model {name!r} cannot be loaded: {first_line}. Pass a hub id, a folder with weights and tokenizer files, "
        "the folder of a finished run, or the word lab."
    )
