"""Everything that a run needs except weights, loaded once and checked. A run and a dry run both start here."""

import contextlib
import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from datasets import Dataset
from huggingface_hub import file_exists, snapshot_download
from transformers import AutoConfig, AutoTokenizer
from trl.import_utils import is_vllm_available
from trl.trainer.utils import get_peft_config, get_quantization_config

from gtpo.errors import ConfigError, DataError, MissingExtraError
from gtpo.models import cannot_load, find_model, require_built_in_attention
from gtpo.problems import Problem, filter_by_length, to_messages
from gtpo.problems.problem import encode_prompt
from gtpo.training.config.options import RunOptions
from gtpo.training.config.plan import Plan
from gtpo.training.held_out import check_held_out
from gtpo.training.inputs.adapters import check_adapter
from gtpo.training.inputs.data import make_dataset, training_problems
from gtpo.training.inputs.rewards import Reward, find_reward, needs_answers
from gtpo.training.validation import check_sampler
from gtpo.trl.components import require_spans

WEIGHTS = ["*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack"]


@dataclass(frozen=True)
class Prepared:
    plan: Plan
    trainer_arguments: dict[str, Any]
    rewards: list[Reward]
    model: str
    """A folder or a hub id."""
    model_settings: Any
    """transformers' configuration of the model; None if transformers cannot load it without the model's own code."""
    tokenizer: Any
    problems: list[Problem]
    num_dropped: int
    """Problems that were dropped for the length of their prompt."""
    problems_digest: str
    """Changes with the content and the order of the problems, before any was dropped."""
    dataset: Dataset

    @property
    def is_adapter(self) -> bool:
        """Whether a LoRA adapter is trained, a new one or further."""
        return self.plan.model_config.use_peft or find_model(self.model).base is not None

    def prompt_lengths(self, limit: int | None = None) -> list[int]:
        """The number of tokens of the first `limit` prompts."""
        prompts = [to_messages(problem, self.plan.options.system_prompt) for problem in self.problems[:limit]]
        return [len(encode_prompt(self.tokenizer, prompt)) for prompt in prompts]


def _digest(problems: list[Problem]) -> str:
    """What tells one list of problems from another. Stored in summary.json, so it must not change."""
    names = ("question", "answer", "source", "solution", "subject", "level")
    rows = [tuple(getattr(problem, name) for name in names) for problem in problems]
    others = [problem.others for problem in problems] if any(problem.others for problem in problems) else ""
    prompts = [(problem.prompt, problem.system_prompt) for problem in problems]
    chats = prompts if any(any(prompt) for prompt in prompts) else ""
    return hashlib.sha256(f"{rows}{others}{chats}".encode()).hexdigest()[:16]


def prepare(plan: Plan) -> Prepared:
    """Check whatever can be checked without weights, the cheapest first, and load the problems."""
    options, config = plan.options, plan.config
    is_rl = options.method != "sft"
    if getattr(config, "use_vllm", False) and not is_vllm_available():  # TRL notices after the first evaluation
        install = "pip install 'trl[vllm]' 'vllm==0.24.*'"
        raise MissingExtraError(f"use_vllm=true needs vLLM: {install}. Or sample with transformers: --use_vllm false.")
    check_sampler(plan)
    arguments = _trainer_arguments(plan)
    rewards = [find_reward(name) for name in options.rewards] if is_rl else []
    if options.method == "gtpo" and "token_component" in config.choose_credit().needs:  # imports a user's function
        require_spans(rewards, options.rewards)
    model, tokenizer = _locate_model(
        options.model, plan.model_config.model_revision, trust_remote_code=config.trust_remote_code
    )
    check_adapter(model, plan)
    base, model_settings = find_model(model).base or model, None
    with contextlib.suppress(OSError, ValueError):
        model_settings = AutoConfig.from_pretrained(base, trust_remote_code=config.trust_remote_code)
    if not config.trust_remote_code and plan.model_config.attn_implementation is None:
        require_built_in_attention(options.model, model_settings)
    problems = training_problems(options, config.seed, needs_answer=not is_rl or needs_answers(rewards))
    digest = _digest(problems)
    _require_template(problems, tokenizer, options)
    num_dropped, limit = 0, options.max_prompt_tokens
    if limit is not None:
        problems, num_dropped = filter_by_length(problems, tokenizer, limit, options.system_prompt)
    if not problems:
        raise DataError(f"max_prompt_tokens={limit} drops all {num_dropped} problems of {options.problems}. Raise it.")
    prompts_needed = config.generation_batch_size // config.num_generations if is_rl else 1
    if len(problems) < prompts_needed:  # TRL would finish without a single step
        remedy = "Add problems, or lower per_device_train_batch_size or gradient_accumulation_steps."
        raise DataError(f"A generation batch needs {prompts_needed} problems, but there are {len(problems)}. {remedy}")
    contexts: list[int | None] = [getattr(model_settings, "max_position_embeddings", None)]
    if options.held_out_every:
        contexts.append(getattr(config, "vllm_max_model_length", None))
    context_length = min((length for length in contexts if length is not None), default=None)
    check_held_out(options, tokenizer, context_length, problems)
    dataset = make_dataset(problems, options)
    prepared = Prepared(
        plan, arguments, rewards, model, model_settings, tokenizer, problems, num_dropped, digest, dataset
    )
    _require_context(prepared)
    return prepared


def _locate_model(name: str, revision: str, *, trust_remote_code: bool) -> tuple[str, Any]:
    """The folder or the hub id of a model whose weights can be loaded, and its tokenizer. Downloads no weights."""
    source = find_model(name)
    model = source.location
    weights = source.base or model
    try:
        if not Path(weights).is_dir() and not _is_cached(weights, revision):
            file_exists(weights, "config.json", revision=revision)  # raises if the hub cannot be reached
        if not source.is_local and revision != "main":
            # One folder for tokenizer, trainer and evaluations, which take no revision.
            model = snapshot_download(name, revision=revision, ignore_patterns=WEIGHTS)
    except Exception as error:  # the hub's client raises OSError, ValueError and its HTTP library's own errors
        raise cannot_load(name, error, source.base) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(find_model(model).tokenizer, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise cannot_load(name, error) from error
    return model, tokenizer


def download_weights(name: str, revision: str) -> None:
    """Complete the folder that `_locate_model` returned for a revision other than main."""
    if revision != "main" and not find_model(name).is_local:
        snapshot_download(name, revision=revision)


def _is_cached(name: str, revision: str) -> bool:
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except OSError:
        return False
    return any(any(folder.glob(pattern)) for pattern in WEIGHTS)


def _trainer_arguments(plan: Plan) -> dict[str, Any]:
    """What TRL's trainers take about the model: adapters, quantization, and how to load the weights."""
    config, model_config = plan.config, plan.model_config
    on_cpu = config.device.type == "cpu"
    if on_cpu and str(model_config.dtype) in ("bfloat16", "float16"):
        raise ConfigError(f"dtype={model_config.dtype} is slow or not supported on a CPU. Leave it out: float32.")
    if (model_config.load_in_4bit or model_config.load_in_8bit) and find_spec("bitsandbytes") is None:
        raise MissingExtraError("4-bit and 8-bit weights need bitsandbytes: pip install bitsandbytes")
    given: dict[str, Any] = config.model_init_kwargs or {}
    for name in given.keys() & {"trust_remote_code", "attn_implementation"}:
        raise ConfigError(f"model_init_kwargs has {name}. Use the option of this name instead: --{name}.")
    config.model_init_kwargs = {
        "attn_implementation": model_config.attn_implementation,
        "dtype": "float32" if on_cpu else model_config.dtype,
        **given,
    }
    quantization = get_quantization_config(model_config)
    return {"peft_config": get_peft_config(model_config), "quantization_config": quantization}


def _require_template(problems: list[Problem], tokenizer: Any, options: RunOptions) -> None:
    """Refuse prompts that the chat template refuses. One prompt is tried for each sequence of roles."""
    tried: set[tuple[str, ...]] = set()
    for number, problem in enumerate(problems, start=1):
        messages = to_messages(problem, options.system_prompt)
        roles = tuple(message["role"] for message in messages)
        if roles in tried:
            continue
        tried.add(roles)
        try:
            encode_prompt(tokenizer, messages)
        except ConfigError as error:
            raise ConfigError(f"{options.problems}, problem {number}: {error}") from error


def _require_context(prepared: Prepared) -> None:
    """Refuse a `vllm_max_model_length` that would truncate completions or fail at the first long prompt."""
    config = prepared.plan.config
    context: int | None = getattr(config, "vllm_max_model_length", None)
    if context is None:
        return
    longest = max(prepared.prompt_lengths())
    needed = longest + config.max_completion_length
    if context < needed:
        lengths = f"the longest prompt ({longest}) and max_completion_length ({config.max_completion_length})"
        raise ConfigError(f"vllm_max_model_length={context} is too small: {lengths} add up to {needed} tokens.")
