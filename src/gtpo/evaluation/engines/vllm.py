"""Sampling with vLLM: many completions at once on a GPU, without entropies, which vLLM cannot return."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.evaluation.sampling import SampledText, SamplingSettings


class VLLMEngine:
    """A model in vLLM. Every sample has its own seed; results repeat as far as vLLM's kernels are deterministic.

    vLLM draws rows with seeds one by one. `seeds_samples=False` is faster: vLLM then draws all rows at once from its
    own random numbers. `options` are those of `vllm.LLM`, such as gpu_memory_utilization.
    """

    def __init__(self, model: str, *, seeds_samples: bool = True, **options: Any) -> None:
        try:
            import vllm  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtraError("engine='vllm' needs vLLM: pip install 'trl[vllm]' 'vllm==0.24.*'") from error
        self._vllm: Any = vllm
        self._seeds_samples = seeds_samples
        try:
            # "vllm" ignores the sampling defaults in the model's generation_config.json.
            self._llm: Any = vllm.LLM(model=model, generation_config="vllm", **options)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"Model {model!r} cannot be loaded by vLLM: {str(error).strip().partition(chr(10))[0]}"
            ) from error
        config: Any = self._llm.llm_engine.model_config
        self.tokenizer: Any = self._llm.get_tokenizer()
        self.context_length: int | None = config.max_model_len
        self.description = {
            "engine": "vllm",
            "weights": _weights_digest(model, config.hf_config),
            "dtype": str(config.dtype).removeprefix("torch."),
        }

    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], settings: SamplingSettings
    ) -> list[SampledText]:
        params = [
            self._vllm.SamplingParams(
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_tokens=settings.max_new_tokens,
                seed=seed if self._seeds_samples else None,
            )
            for seed in seeds
        ]
        inputs = [{"prompt_token_ids": prompt} for prompt in prompts]
        outputs = self._llm.generate(inputs, params, use_tqdm=False)
        return [self._completion(output.outputs[0]) for output in outputs]

    @staticmethod
    def _completion(output: Any) -> SampledText:
        return SampledText(
            text=output.text,
            num_tokens=len(output.token_ids),
            truncated=output.finish_reason == "length",
            entropy=None,
        )


def _weights_digest(source: str, config: Any) -> str:
    """Identifies the weights: the commit of a hub model, otherwise a digest of some pages of every weight file."""
    if not Path(source).is_dir():
        return str(getattr(config, "_commit_hash", None) or source)
    digest = hashlib.sha256()
    for path in sorted(path for path in Path(source).iterdir() if path.suffix in (".safetensors", ".bin", ".pt")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            for offset in range(0, size, max(1, size // 64)):
                file.seek(offset)
                digest.update(file.read(4096))
    return digest.hexdigest()[:16]
