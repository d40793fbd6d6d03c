"""Sampling with vLLM: many completions at once on a GPU, without entropies, which vLLM cannot return."""

from collections.abc import Sequence
from typing import Any

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.evaluation.sampling import SampledText, SamplingSettings, weights_digest


class VLLMEngine:
    """A model in vLLM. Every sample has its own seed; results repeat as far as vLLM's kernels are deterministic.

    vLLM draws rows with seeds one by one. `seeds_samples=False` is faster: vLLM then draws all rows at once from its
    own random numbers.
    """

    def __init__(self, llm: Any, tokenizer: Any, weights: str, *, seeds_samples: bool = True) -> None:
        """Sample from a loaded `vllm.LLM`, such as one in training. `weights` identifies its weights."""
        self._llm = llm
        self._seeds_samples = seeds_samples
        config: Any = llm.llm_engine.model_config
        self.tokenizer = tokenizer
        self.context_length: int | None = config.max_model_len
        self.description = {"engine": "vllm", "weights": weights, "dtype": str(config.dtype).removeprefix("torch.")}

    @classmethod
    def load(cls, model: str, *, seeds_samples: bool = True, **options: Any) -> "VLLMEngine":
        """Load a model into vLLM. `options` are those of `vllm.LLM`, such as gpu_memory_utilization."""
        try:
            import vllm  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtraError("engine='vllm' needs vLLM: pip install 'trl[vllm]' 'vllm==0.24.*'") from error
        try:
            # "vllm" ignores the sampling defaults in the model's generation_config.json.
            llm: Any = vllm.LLM(model=model, generation_config="vllm", **options)
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(f"Model {model!r} cannot be loaded by vLLM: {reason}") from error
        weights = weights_digest(model, llm.llm_engine.model_config.hf_config)
        return cls(llm, llm.get_tokenizer(), weights, seeds_samples=seeds_samples)

    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], settings: SamplingSettings
    ) -> list[SampledText]:
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

        params: list[Any] = [
            SamplingParams(
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_tokens=settings.max_new_tokens,
                seed=seed if self._seeds_samples else None,
                detokenize=False,  # vLLM would decode every token on its own, between two steps on the GPU
            )
            for seed in seeds
        ]
        inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
        outputs = self._llm.generate(inputs, params, use_tqdm=False)
        return [self._text(output.outputs[0]) for output in outputs]

    def _text(self, completion: Any) -> SampledText:
        ids = list(completion.token_ids)
        shown = ids[:-1] if completion.finish_reason == "stop" else ids  # without the token that ends it
        text = self.tokenizer.decode(shown, skip_special_tokens=True)
        return SampledText(text, len(ids), completion.finish_reason == "length", entropy=None)
