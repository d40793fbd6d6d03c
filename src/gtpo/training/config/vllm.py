"""What must hold before vLLM samples: it is installed, and the longest prompt fits with its completion."""

from typing import Any

from trl.import_utils import is_vllm_available

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.problems import to_messages
from gtpo.problems.problem import encode_prompt
from gtpo.training.config.plan import Plan
from gtpo.training.data import system_prompt, training_problems
from gtpo.training.model import load_tokenizer


def require_vllm(plan: Plan) -> None:
    """Refuse `use_vllm` where there is no vLLM. TRL refuses it too, but only after the evaluation before training."""
    if getattr(plan.config, "use_vllm", False) and not is_vllm_available():
        raise MissingExtraError(
            "use_vllm=true needs vLLM: pip install 'trl[vllm]' 'vllm==0.24.*', or give --use_vllm false to sample "
            "with transformers."
        )


def require_room(plan: Plan, model: str | None) -> None:
    """Refuse a `vllm_max_model_length` that would cut completions short or fail at the first long prompt.

    Without a model to take the tokenizer from, only `max_prompt_tokens` says how long a prompt is.
    """
    options, config = plan.options, plan.config
    room: int | None = getattr(config, "vllm_max_model_length", None)
    if room is None:
        return
    prompt, source = options.max_prompt_tokens, "max_prompt_tokens"
    if prompt is None and model is not None:
        prompt, source = _longest_prompt(plan, load_tokenizer(model)), f"the longest prompt of {options.problems}"
    if prompt is not None and room < prompt + config.max_completion_length:
        raise ConfigError(
            f"vllm_max_model_length={room} is too small: {source} ({prompt}) and max_completion_length "
            f"({config.max_completion_length}) make {prompt + config.max_completion_length} tokens."
        )


def _longest_prompt(plan: Plan, tokenizer: Any) -> int:
    problems, _ = training_problems(plan.options, tokenizer, plan.config.seed)
    return max(len(encode_prompt(tokenizer, to_messages(one, system_prompt(plan.options)))) for one in problems)
