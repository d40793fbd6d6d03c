"""What a run or a recipe causes besides training, and which runs were started here.

Settings can name Python code (a reward, a credit scheme, the code of a model, a kernel from the hub) or send data
away. A run that was started here may do so again when it is resumed. Any other run folder needs `--trust-run`, and so
does one whose config.yaml was edited. The runs that were started here are noted in the user's state folder, which a
downloaded folder cannot change.
"""

import hashlib
import importlib.util
import json
import logging
import os
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from gtpo.errors import ConfigError, shortened
from gtpo.training.config.recipe import COMMAND_LINE, Settings
from gtpo.training.config.settings import check_settings

logger = logging.getLogger(__name__)


def _is_on(value: Any) -> bool:
    """Whether an option that is true or false is on."""
    return str(value).lower() not in ("", "none", "false", "no", "f", "n", "0")


def _is_set(value: Any) -> bool:
    """Whether an option that takes a text, a list or a mapping has a value: 'n' and '0' are names too."""
    return str(value).lower() not in ("", "none", "['none']", "[]")


def _is_kernel(value: Any) -> bool:
    """Whether transformers may load the attention from the hub: by its id, or in place of a missing package."""
    return "/" in str(value) or (str(value).startswith("flash") and importlib.util.find_spec("flash_attn") is None)


EFFECTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "trust_remote_code": (_is_on, "runs Python code that comes with the model {model}"),
    "attn_implementation": (_is_kernel, "downloads a kernel from the hub and runs it"),
    "model_init_kwargs": (_is_set, "is passed to transformers, which can load code with it"),
    "generation_kwargs": (_is_set, "is passed to transformers, which can load code with it"),
    "deepspeed": (_is_set, "is passed to DeepSpeed, which can import modules with it"),
    "chat_template_path": (_is_set, "loads the tokenizer of another model"),
    "report_to": (lambda value: _is_set(value) and value != "tensorboard", "sends metrics to a tracker"),
    "push_to_hub": (_is_on, "uploads the model to the hub"),
    "log_completions_hub_repo": (_is_set, "uploads completions to the hub"),
    "vllm_server_base_url": (_is_set, "sends prompts and weights to this server"),
    "vllm_server_host": (_is_set, "sends prompts and weights to this server"),
}
"""The options of TRL and transformers that run code or send data: which values do, and what happens then."""


def effects(settings: Settings) -> dict[str, str]:
    """What these settings cause besides training, by option. Imports nothing."""
    options = check_settings(settings)
    texts: dict[str, str] = {}
    for name, (has_effect, text) in EFFECTS.items():
        if name in settings and has_effect(settings[name].value):
            texts[name] = f"{name}={shortened(settings[name].value)} {text.format(model=options.model)}"
    imported = {name: f"{name} is imported from {source}" for name, source in _sources(settings).items()}
    if rewards := [imported[name] for name in options.rewards if name in imported]:
        texts["rewards"] = "the reward " + ", ".join(rewards)
    if options.grader in imported:
        texts["grader"] = f"the grader {imported[options.grader]}"
    if (credit := _own_credit(settings)) in imported:
        texts["credit"] = f"the credit scheme {imported[credit]}"
    return texts


def notices(settings: Settings) -> list[str]:
    """A line for each effect that the command line does not ask for, and for the functions of the user."""
    return [
        f"{settings[name].origin}: {text}."
        for name, text in effects(settings).items()
        if name in ("rewards", "grader", "credit") or settings[name].origin != COMMAND_LINE
    ]


def require_trusted(folder: Path, settings: Settings, *, trusts_run: bool) -> None:
    """Raise ConfigError if resuming the run in `folder` has effects, unless it started here or the user trusts it."""
    if os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK", "0") != "0":
        return  # the other processes wait for the main one before they import anything
    texts = [*effects(settings).values(), *_effects_of_files(folder, settings)]
    sources = _noted_sources(folder)
    if trusts_run:
        remember(folder, settings)
    elif sources is None and texts:
        raise ConfigError(
            f"{folder} was not started here, or its config.yaml was edited, and resuming it does more than train: "
            f"{'; '.join(texts)}. If you have read it and trust where it comes from, add --trust-run."
        )
    elif sources is None:
        logger.warning("%s was not started here, or its config.yaml was edited since.", folder)
    else:
        _require_same_sources(sources, _sources(settings))


def _require_same_sources(before: dict[str, str], now: dict[str, str]) -> None:
    """Refuse a function that Python would import from another place than when the run started."""
    for name, source in now.items():
        if before.get(name, source) != source:
            raise ConfigError(
                f"The function {name} was imported from {before[name]} when the run started, and now from {source}. "
                "Resume in the folder where the run started, or add --trust-run."
            )


def remember(folder: Path, settings: Settings) -> None:
    """Note that the run in `folder` was started here, for `require_trusted`."""
    try:
        note = _note(folder)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps({"folder": str(folder.absolute()), "rewards": _sources(settings)}))
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        if effects(settings) or _loads_pickles(settings):
            logger.warning("Cannot note that this run was started here: %s. --resume will need --trust-run.", error)


def started_here(folder: Path) -> bool:
    """Whether the run in `folder` was started here, or trusted, and its config.yaml is unchanged since."""
    return _noted_sources(folder) is not None


def _noted_sources(folder: Path) -> dict[str, str] | None:
    """Where the functions of the run were imported from when it started here; None if it did not."""
    try:
        return json.loads(_note(folder).read_text())["rewards"]
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def _note(folder: Path) -> Path:
    """The file that exists if the run was started here, named by the digest of its config.yaml.

    config.yaml contains a random number, so nobody else's is equal. One file per run needs no lock.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = state if state.is_absolute() else Path.home() / ".local/state"
    return state / "gtpo/runs" / hashlib.sha256((folder / "config.yaml").read_bytes()).hexdigest()


def _sources(settings: Settings) -> dict[str, str]:
    """The rewards, the grader and the credit scheme that are functions of the user, and where they come from."""
    options = check_settings(settings)
    names = (*(options.rewards if options.method != "sft" else ()), options.grader, _own_credit(settings))
    return {name: _source(name) for name in names if ":" in name}


def _own_credit(settings: Settings) -> str:
    """The credit scheme if it is a function of the user, otherwise ''."""
    name = str(settings["credit"].value) if "credit" in settings else ""
    return name if ":" in name else ""


def _source(function: str) -> str:
    """Where Python imports the top-level module of a function from: its path, then the current folder."""
    package = function.partition(":")[0].partition(".")[0]
    try:
        spec = importlib.util.find_spec(package)  # of a top-level module: imports nothing
    except (ImportError, ValueError):
        spec = None
    spec = spec or PathFinder.find_spec(package, [os.getcwd()])
    if spec is None:
        return "nowhere: it is not on the Python path, nor in the current folder"
    if not spec.has_location and not spec.submodule_search_locations:
        return "Python itself"
    return os.path.abspath(next(iter(spec.submodule_search_locations or [str(spec.origin)])))


def _effects_of_files(folder: Path, settings: Settings) -> list[str]:
    """What the files of a run cause, whatever its settings are."""
    links = {path: Path(os.path.realpath(path)) for path in folder.rglob("*") if path.is_symlink()}
    outside = [(path, target) for path, target in links.items() if folder.resolve() not in target.parents]
    texts = [f"{path} is a link to {target}, where files would be written" for path, target in outside[:3]]
    if _loads_pickles(settings):
        texts.append(f"DeepSpeed and FSDP load the checkpoints in {folder} with pickle, which runs what they contain")
    return texts


def _loads_pickles(settings: Settings) -> bool:
    """Whether checkpoints are DeepSpeed's or FSDP's, by an option or by `accelerate launch`."""
    launched = [os.environ.get(f"ACCELERATE_USE_{engine}", "") for engine in ("DEEPSPEED", "FSDP")]
    chosen = [settings[name].value for name in ("deepspeed", "fsdp") if name in settings]
    return any(map(_is_on, launched)) or any(map(_is_set, chosen))
