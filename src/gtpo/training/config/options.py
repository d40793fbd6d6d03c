"""The options of gtpo itself. Every other option is TRL's or transformers', under its own name."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from gtpo.errors import ConfigError, require, require_choice
from gtpo.problems import SYSTEM_PROMPT
from gtpo.problems.loading import is_own, parse_columns

METHODS = ("gtpo", "grpo", "sft")


def _option(default: Any, text: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RunOptions:
    """What is trained, on what, and by which method."""

    method: str = _option("gtpo", "gtpo, grpo or sft")
    model: str = _option("lab", "hub id, model folder, folder of a finished run, or lab")
    problems: str = _option("lab", "gsm8k, math, lab, …, a .jsonl/.csv/.parquet file, a folder, or a hub id")
    rewards: tuple[str, ...] = _option(("paper",), "paper, format, correctness, or package.module:function")
    data_dir: str | None = _option(None, "folder of JSONL files, used instead of the hub")
    system_prompt: str = _option(SYSTEM_PROMPT, "replaces the paper's instruction; '' for none")
    max_prompt_tokens: int | None = _option(None, "drop problems with longer prompts")
    max_problems: int | None = _option(None, "train on the first N problems only")
    held_out: str | None = _option(None, "evaluated before and after; default: the test split")
    held_out_problems: int = _option(64, "number of held-out problems; 0 turns the evaluation off")
    held_out_samples: int = _option(1, "completions per held-out problem")
    held_out_temperature: float = _option(1.0, "sampling temperature on held-out problems")
    held_out_tokens: int | None = _option(None, "max tokens of a completion; default: what fits")
    held_out_every: int | None = _option(None, "also every N steps, and keep the best checkpoint")
    grader: str = _option("answer", "of held-out problems: answer, boxed, math-verify, or package.module:function")
    columns: str | None = _option(None, "your column names: question=task,answer=truth")
    on_collapse: str = _option("warn", "warn or stop when the run is collapsing")

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_choice("on_collapse", self.on_collapse, ("warn", "stop"))
        require(bool(self.rewards), "rewards", self.rewards, "at least one reward")
        require(self.held_out_problems >= 0, "held_out_problems", self.held_out_problems, "at least 0")
        require(self.held_out_temperature > 0, "held_out_temperature", self.held_out_temperature, "above 0")
        for name in ("max_problems", "max_prompt_tokens", "held_out_samples", "held_out_tokens", "held_out_every"):
            value = getattr(self, name)
            require(value is None or value >= 1, name, value, "at least 1")
        if self.columns and not any(map(is_own, (self.problems, self.held_out or "lab"))):
            raise ConfigError(
                f"`columns` only applies to data of your own; {self.problems!r} is a built-in problem set."
            )
        if self.held_out_every and self.held_out_set is None:
            raise ConfigError("held_out_every needs held-out problems. Set --held_out to a problem set or a file.")
        if self.method == "sft" and self.on_collapse == "stop":
            raise ConfigError("on_collapse=stop is for gtpo and grpo: an SFT run has no health check.")

    @property
    def held_out_set(self) -> str | None:
        """What is evaluated: `held_out`, or the test split, which the user's own data is not known to have."""
        if self.held_out_problems == 0:
            return None
        return self.held_out or (None if is_own(self.problems) else self.problems)

    def columns_of(self, name: str) -> dict[str, str] | None:
        """The column names of the user's data `name`; None for a built-in problem set."""
        return parse_columns(self.columns) if self.columns and is_own(name) else None


NAMES = tuple(field.name for field in dataclasses.fields(RunOptions))
