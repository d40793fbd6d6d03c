"""Generation with a colocated vLLM: the same completions, log-probs and weights with less work for Python.

Decoding waits for Python, and so does what comes before and after it: TRL loads every parameter by a call of its own,
and reads each log-prob from a dict.
"""

from typing import Any
from unittest import mock

from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

REQUEST: dict[str, Any] = {"detokenize": False, "flat_logprobs": True}
"""What a request does not need, as arguments of vLLM's SamplingParams: text, and an object per log-prob."""


class LeanGeneration(VLLMGeneration):
    """TRL's VLLMGeneration in less time."""

    @classmethod
    def adopt(cls, generation: Any) -> None:
        """Turn the object that TRL's trainer has created into one of this class."""
        if type(generation) is VLLMGeneration and generation.mode == "colocate":
            generation.__class__ = cls

    def sync_weights(self) -> None:
        if self.enable_sleep_mode or not hasattr(self, "_iter_named_params"):  # which TRL has from 1.11 on
            super().sync_weights()
            return
        model = self.llm.llm_engine.model_executor.driver_worker.model_runner.model
        model.load_weights(self._iter_named_params())
        self.llm.reset_prefix_cache()

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        with mock.patch.object(vllm_generation, "extract_logprobs", read_logprobs):
            return super().generate(*args, **kwargs)


_extract_logprobs = vllm_generation.extract_logprobs


def read_logprobs(outputs: list[Any]) -> tuple[Any, Any]:
    """The log-prob and the id of each sampled token, as TRL's `extract_logprobs` returns them: one-element lists."""
    sequences = [completion.logprobs for output in outputs for completion in output.outputs]
    if not all(_has_one_per_token(sequence) for sequence in sequences):
        return _extract_logprobs(outputs)
    logprobs = [[[None if value != value else value] for value in sequence.logprobs] for sequence in sequences]
    return logprobs, [[[token] for token in sequence.token_ids] for sequence in sequences]


def _has_one_per_token(sequence: Any) -> bool:
    """Whether these are vLLM's flat log-probs, of the sampled tokens alone."""
    return hasattr(sequence, "start_indices") and len(sequence.token_ids) == len(sequence.start_indices)
