"""The sampling settings, and the interface of the engines that sample.

A sample is determined by the seed, its problem and its number. Interruptions do not change it. The batch that it is
sampled in changes it only through rounding, which depends on the shape of a batch.
"""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from gtpo.errors import ConfigError, require
from gtpo.problems import SYSTEM_PROMPT

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
    system_prompt: str = SYSTEM_PROMPT

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
        room = math.inf if context_length is None else context_length - longest_prompt
        max_new_tokens = self.max_new_tokens or max(1, int(min(MAX_NEW_TOKENS, room)))
        if max_new_tokens > room:
            raise ConfigError(
                f"The longest prompt has {longest_prompt} tokens, which leaves {room} of the model's {context_length} "
                f"for a completion, but max_new_tokens is {max_new_tokens}. Lower it, or remove the longest problems."
            )
        return dataclasses.replace(self, max_new_tokens=max_new_tokens)


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


def weights_digest(model: str, config: Any) -> str:
    """Identifies the weights: the commit of a hub model, otherwise a digest of some pages of every weight file."""
    if not Path(model).is_dir():
        return str(getattr(config, "_commit_hash", None) or model)
    digest = hashlib.sha256()
    for path in sorted(path for path in Path(model).iterdir() if path.suffix in (".safetensors", ".bin", ".pt")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            for offset in range(0, size, max(1, size // 64)):
                file.seek(offset)
                digest.update(file.read(4096))
    return digest.hexdigest()[:16]
