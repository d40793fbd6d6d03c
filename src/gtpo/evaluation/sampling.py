"""The sampling settings, and the interface of the engines that sample.

A sample is determined by the seed, its problem and its number. Interruptions do not change it. The batch that it is
made in changes it only through rounding, which depends on the shape of a batch.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

from gtpo.errors import ConfigError, require

ENGINES = ("transformers", "vllm")
GPU_MEMORY = 0.9
SAMPLING_TEMPERATURE = 0.9
MAX_NEW_TOKENS = 1500


@dataclasses.dataclass(frozen=True)
class SamplingSettings:
    """Everything that determines a completion, apart from the model and the prompt. Recorded in every sample file.

    `temperature=None` means 0 (greedy) for one sample and 0.9 for several. `max_new_tokens=None` means 1,500, or what
    the longest prompt leaves of the model's context.
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
        has_room = self.max_new_tokens is None or self.max_new_tokens >= 1
        require(has_room, "max_new_tokens", self.max_new_tokens, "at least 1")
        if self.temperature is None:
            object.__setattr__(self, "temperature", 0.0 if self.num_samples == 1 else SAMPLING_TEMPERATURE)
        if self.is_greedy and self.num_samples > 1:
            raise ConfigError(
                f"At temperature 0 all {self.num_samples} samples of a problem are the same. "
                "Use one sample, or a temperature above 0."
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    def fitted(self, longest_prompt: int, context_length: int | None) -> "SamplingSettings":
        """These settings with a `max_new_tokens` that fits the model's context."""
        if context_length is None:
            return dataclasses.replace(self, max_new_tokens=self.max_new_tokens or MAX_NEW_TOKENS)
        room = context_length - longest_prompt
        if room < 1:
            raise ConfigError(
                f"The longest prompt has {longest_prompt} tokens and the model's context {context_length}: there is "
                "no room for new tokens. Remove such problems from the set."
            )
        if self.max_new_tokens is not None and self.max_new_tokens > room:
            raise ConfigError(
                f"The longest prompt has {longest_prompt} tokens and the model's context {context_length}: there is "
                f"room for {room} new tokens, not for {self.max_new_tokens}. Set --max-new-tokens to at most {room}."
            )
        return dataclasses.replace(self, max_new_tokens=self.max_new_tokens or min(MAX_NEW_TOKENS, room))


@dataclasses.dataclass(frozen=True)
class SampledText:
    """One sampled completion: its text, and what is known about it only while it is sampled."""

    text: str
    num_tokens: int
    """Includes the token that ends it."""
    truncated: bool
    entropy: float | None
    """Mean full-vocabulary entropy of its tokens at the sampling temperature (1 if greedy); None if unknown."""


class Engine(Protocol):
    """A loaded model that samples completions for batches of prompts."""

    tokenizer: Any
    context_length: int | None
    """The maximum number of tokens of a prompt and its completion together; None if unknown."""
    description: dict[str, str]
    """Identifies the weights and how they run; part of the header of a sample file."""

    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], settings: SamplingSettings
    ) -> list[SampledText]: ...


def row_seed(seed: int, problem: int, sample: int) -> int:
    """A separate seed for every sample, unrelated to the seeds of its neighbours."""
    digest = hashlib.sha256(f"{seed}/{problem}/{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
