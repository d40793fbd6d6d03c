"""Training that continues from a LoRA adapter: the adapter itself is trained further, with its own settings."""

from typing import Any

from peft import PeftModel
from trl.trainer.utils import create_model_from_path

from gtpo.errors import ConfigError
from gtpo.models import adapter_settings, cannot_load, find_model
from gtpo.training.config.plan import Plan

_NAMES = {
    "lora_r": "r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "lora_target_modules": "target_modules",
    "lora_target_parameters": "target_parameters",
    "lora_modules_to_save": "modules_to_save",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
}
"""Options of TRL that an adapter has decided already, and their names in adapter_config.json."""


def check_adapter(model: str, plan: Plan) -> None:
    """Refuse options that differ from the settings of the adapter `model`; another model passes."""
    source = find_model(model)
    if source.base is None:
        return
    settings = adapter_settings(source.location)
    if settings.get("peft_type") != "LORA":
        kind = settings.get("peft_type")
        raise ConfigError(f"{model} is an adapter of type {kind!r}. Training continues from LoRA adapters only.")
    if plan.model_config.model_revision != "main":
        raise ConfigError(f"model_revision does not apply to {model}, a LoRA adapter in a folder. Leave it out.")
    for option, name in _NAMES.items():
        value = getattr(plan.model_config, option)
        is_given = option in plan.settings and _as_set(value) != {"all-linear"}  # stored as the names that it finds
        if is_given and _as_set(value) != _as_set(settings.get(name)):
            raise ConfigError(
                f"{option}={value}, but the LoRA adapter {model} has {settings.get(name)} and is trained further as "
                f"it is. Leave {option} out."
            )


def _as_set(value: Any) -> set[Any]:
    """Module names in any order; anything else by itself."""
    return set(value) if isinstance(value, list) else {value}


def load_adapter(adapter: str, base: str, config: Any, quantization: Any) -> Any:
    """The base model with the adapter on top, whose weights are trained. Loaded as TRL would load the base."""
    options: dict[str, Any] = {"trust_remote_code": config.trust_remote_code, **(config.model_init_kwargs or {})}
    if quantization is not None:
        options["quantization_config"] = quantization
    if config.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
        options["device_map"] = None
    try:
        loaded = create_model_from_path(base, **options)
    except (ImportError, OSError, ValueError) as error:
        raise cannot_load(adapter, error, base) from error
    try:
        model: Any = PeftModel.from_pretrained(loaded, adapter, is_trainable=True)
    except Exception as error:  # safetensors has an exception of its own
        raise cannot_load(adapter, error) from error
    model.peft_config["default"].base_model_name_or_path = base  # absolute, for evaluations from another folder
    return model
