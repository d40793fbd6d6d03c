"""Everything that a run needs except weights, loaded once and checked. A run and a dry run both start here."""

import contextlib
from dataclasses import dataclass
from typing import Any

from datasets import Dataset
from transformers import AutoConfig
from trl.import_utils import is_vllm_available

from gtpo.errors import ConfigError, DataError, MissingExtraError
from gtpo.problems import Problem, to_messages
from gtpo.problems.problem import encode_prompt, filter_by_length
from gtpo.training.config.plan import Plan
from gtpo.training.data import make_dataset, problems_digest, require_enough, system_prompt, training_problems
from gtpo.training.held_out import check_held_out
from gtpo.training.model import load_tokenizer, locate_model, trainer_arguments
from gtpo.training.rewards import Reward, find_reward


@dataclass(frozen=True)
class Prepared:
    plan: Plan
    model: str
    """A folder or a hub id."""
    model_settings: Any
    """transformers' configuration of the model; None if transformers cannot load it without the model's own code."""
    tokenizer: Any
    problems: list[Problem]
    num_dropped: int
    """Problems that were dropped for the length of their prompt."""
    problems_digest: str
    """Of all problems, before any was dropped."""
    dataset: Dataset
    rewards: list[Reward]
    trainer_arguments: dict[str, Any]

    def prompt_lengths(self, limit: int | None = None) -> list[int]:
        """The number of tokens of the first `limit` prompts."""
        prompt = system_prompt(self.plan.options)
        return [len(encode_prompt(self.tokenizer, to_messages(p, prompt))) for p in self.problems[:limit]]


def prepare(plan: Plan) -> Prepared:
    """Check whatever can be checked without weights, the cheapest first, and load the problems."""
    options, config = plan.options, plan.config
    is_rl = options.method != "sft"
    _require_vllm(plan)
    arguments = trainer_arguments(plan.model_config, config)
    rewards = [find_reward(name) for name in options.rewards] if is_rl else []
    model = locate_model(options.model, plan.model_config.model_revision)
    tokenizer, model_settings = load_tokenizer(model), _load_settings(model)
    problems = training_problems(options, config.seed)
    digest = problems_digest(problems)
    num_dropped = 0
    if options.max_prompt_tokens is not None:
        problems, num_dropped = filter_by_length(
            problems, tokenizer, options.max_prompt_tokens, system_prompt(options)
        )
    if not problems:
        raise DataError(
            f"{options.problems} has no problem to train on: the set is empty, or max_prompt_tokens="
            f"{options.max_prompt_tokens} dropped all {num_dropped}."
        )
    if is_rl:
        require_enough(problems, config)
    check_held_out(options, tokenizer, getattr(model_settings, "max_position_embeddings", None))
    dataset = make_dataset(problems, options)
    prepared = Prepared(
        plan, model, model_settings, tokenizer, problems, num_dropped, digest, dataset, rewards, arguments
    )
    _require_context(prepared)
    return prepared


def _load_settings(model: str) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return AutoConfig.from_pretrained(model)
    return None


def _require_vllm(plan: Plan) -> None:
    """Refuse `use_vllm` without vLLM. TRL would, but only after the evaluation before training."""
    if getattr(plan.config, "use_vllm", False) and not is_vllm_available():
        raise MissingExtraError(
            "use_vllm=true needs vLLM. Install it with: pip install 'trl[vllm]' 'vllm==0.24.*', or sample with "
            "transformers: --use_vllm false."
        )


def _require_context(prepared: Prepared) -> None:
    """Refuse a `vllm_max_model_length` that would truncate completions or fail at the first long prompt."""
    options, config = prepared.plan.options, prepared.plan.config
    context: int | None = getattr(config, "vllm_max_model_length", None)
    if context is None:
        return
    if options.max_prompt_tokens is not None:
        longest, source = options.max_prompt_tokens, "max_prompt_tokens"
    else:
        longest, source = max(prepared.prompt_lengths()), f"the longest prompt of {options.problems}"
    needed = longest + config.max_completion_length
    if context < needed:
        raise ConfigError(
            f"vllm_max_model_length={context} is too small: {source} ({longest}) and max_completion_length "
            f"({config.max_completion_length}) add up to {needed} tokens."
        )
