"""What is asked of a model, and the one small interface behind which transformers or vLLM answers.

A sample is determined by the seed, its problem and its number: an interruption before it plays no part, and the batch
it was made in only as far as batches of another shape round differently.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

from gtpo.errors import ConfigError, require, require_choice
from gtpo.models import find_model
from gtpo.problems.problem import encode_prompt as encode_prompt

ENGINES = ("transformers", "vllm")
GPU_MEMORY = 0.9
SAMPLING_TEMPERATURE = 0.9
MAX_NEW_TOKENS = 1500


@dataclasses.dataclass(frozen=True)
class SamplingSettings:
    """Everything that shapes a completion beside model and prompt; written into every file of samples.

    `temperature=None` chooses: 0, which is greedy, for one sample, else 0.9. `max_new_tokens=None` is 1,500, or as
    many as the model's context leaves after the longest prompt.
    """

    num_samples: int = 16
    temperature: float | None = None
    top_p: float = 1.0
    max_new_tokens: int | None = None
    seed: int = 0
    system_prompt: str | None = None

    def __post_init__(self) -> None:
        require(self.num_samples >= 1, "samples", self.num_samples, "at least 1")
        require(self.temperature is None or self.temperature >= 0, "temperature", self.temperature, "at least 0")
        require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        require(
            self.max_new_tokens is None or self.max_new_tokens >= 1,
            "max_new_tokens",
            self.max_new_tokens,
            "at least 1",
        )
        if self.temperature is None:
            object.__setattr__(self, "temperature", 0.0 if self.num_samples == 1 else SAMPLING_TEMPERATURE)
        if self.is_greedy and self.num_samples > 1:
            raise ConfigError(
                f"At temperature 0 all {self.num_samples} samples of a problem are the same. "
                "Ask for one sample, or for a temperature above 0."
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    def fitted(self, longest_prompt: int, context_length: int | None) -> "SamplingSettings":
        """The same settings with a number of new tokens that fits the model's context."""
        if context_length is None:
            return dataclasses.replace(self, max_new_tokens=self.max_new_tokens or MAX_NEW_TOKENS)
        room = context_length - longest_prompt
        if room < (self.max_new_tokens or 1):
            raise ConfigError(
                f"The longest prompt has {longest_prompt} tokens and the model's context {context_length}: there is "
                f"room for {max(room, 0)} new tokens, not for {self.max_new_tokens or 1}. "
                + (f"Set --max-new-tokens to at most {room}." if room >= 1 else "Leave such problems out.")
            )
        return dataclasses.replace(self, max_new_tokens=self.max_new_tokens or min(MAX_NEW_TOKENS, room))


@dataclasses.dataclass(frozen=True)
class Completion:
    """One answer of a model: its text, and what can be known about it only while it is being made."""

    text: str
    num_tokens: int
    """With the token that ends it."""
    truncated: bool
    entropy: float | None
    """Mean over its tokens of the full-vocabulary entropy at the sampling temperature (1 if greedy); None: unknown."""


class Engine(Protocol):
    """A loaded model that answers batches of prompts."""

    tokenizer: Any
    context_length: int | None
    """The most tokens that a prompt and its completion may have together; None: unknown."""
    description: dict[str, str]
    """What identifies the weights and how they run; part of the header of the samples."""

    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], settings: SamplingSettings
    ) -> list[Completion]: ...


def load_engine(name: str, model: str, *, gpu_memory: float = GPU_MEMORY) -> Engine:
    """Load `model`, any name that `gtpo.models.find_model` accepts, into the engine called `name`.

    `gpu_memory` is the fraction of GPU memory that vLLM reserves; the transformers engine takes what it needs.
    """
    require_choice("engine", name, ENGINES)
    require(0 < gpu_memory <= 1, "gpu_memory", gpu_memory, "above 0 and at most 1")
    location = find_model(model).location
    if name == "vllm":
        from gtpo.evaluation.engines.vllm import VLLMEngine

        return VLLMEngine(location, gpu_memory_utilization=gpu_memory)
    from gtpo.evaluation.engines.transformers import TransformersEngine

    return TransformersEngine(location)


def row_seed(seed: int, problem: int, sample: int) -> int:
    """A seed of its own for every sample, unrelated to those of its neighbours."""
    digest = hashlib.sha256(f"{seed}/{problem}/{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
