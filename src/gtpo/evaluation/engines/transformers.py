"""Sampling with transformers' `generate`, where a logits processor draws the tokens.

`generate` has one random state for a batch, and returns entropies only through the logits of every token, kept until
the end (58 GB for 64 completions of 1,500 tokens of Qwen). The logits processor computes the entropy of each position
during generation, draws the token from the random numbers of the sample, and masks all other tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TopPLogitsWarper,
)

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.sampling import SampledText, SamplingSettings, weights_digest
from gtpo.models import cannot_load, find_model, require_built_in_attention


class TransformersEngine:
    """A causal language model in transformers."""

    def __init__(self, model: Any, tokenizer: Any, weights: str) -> None:
        """Sample from a loaded model, such as one in training. `weights` identifies its weights in sample files.

        The model must be in evaluation mode while it samples.
        """
        self.model, self.tokenizer = model, tokenizer
        self.device: torch.device = model.device
        self.stop_ids = _stop_ids(model, tokenizer)
        pad_id = tokenizer.pad_token_id
        self.pad_id: int = self.stop_ids[0] if pad_id is None else pad_id
        self.context_length: int | None = getattr(model.config, "max_position_embeddings", None)
        self.description = {
            "engine": "transformers",
            "weights": weights,
            "dtype": str(model.dtype).removeprefix("torch."),
        }

    @classmethod
    def load(cls, model: str, *, trust_remote_code: bool = False) -> "TransformersEngine":
        """Load a model: in bfloat16 on a GPU that supports it, otherwise in float32."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        on_gpu = device.type == "cuda" and torch.cuda.is_bf16_supported()
        dtype = torch.bfloat16 if on_gpu else torch.float32
        source = find_model(model)
        try:
            settings = AutoConfig.from_pretrained(source.base or model, trust_remote_code=trust_remote_code)
        except (ImportError, OSError, ValueError, KeyError) as error:
            raise cannot_load(model, error, source.base) from error
        try:
            if not trust_remote_code:
                require_built_in_attention(model, settings)
            tokenizer: Any = AutoTokenizer.from_pretrained(source.tokenizer, trust_remote_code=trust_remote_code)
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, trust_remote_code=trust_remote_code)
        except (ImportError, OSError, ValueError, KeyError) as error:
            raise cannot_load(model, error) from error
        loaded = loaded.to(device).eval()
        return cls(loaded, tokenizer, weights_digest(model, loaded.config))

    @torch.no_grad()  # inference mode would spoil what a model in training caches
    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], settings: SamplingSettings
    ) -> list[SampledText]:
        rows = [torch.tensor(prompt, device=self.device) for prompt in prompts]
        masks = [torch.ones_like(row) for row in rows]
        sampler = _SeededSampler(seeds, settings, self.device)
        # A model may ship its own penalties and cut-offs, which `generate` would merge into ours.
        shipped = self.model.generation_config
        self.model.generation_config = GenerationConfig(
            eos_token_id=self.stop_ids, pad_token_id=self.pad_id, do_sample=False
        )
        try:
            output: Any = self.model.generate(
                input_ids=pad_sequence(rows, batch_first=True, padding_value=self.pad_id, padding_side="left"),
                attention_mask=pad_sequence(masks, batch_first=True, padding_side="left"),
                max_new_tokens=settings.max_new_tokens,
                logits_processor=LogitsProcessorList([sampler]),
            )
        finally:
            self.model.generation_config = shipped
        completions: Tensor = output[:, max(map(len, prompts)) :].cpu()
        entropies = torch.stack(sampler.entropies, dim=1).cpu()  # (B, T)
        if not bool(torch.isfinite(entropies).all()):
            raise DataError(
                "The model's logits are not finite. Its weights are broken, or they overflow in their dtype."
            )
        return [self._completion(ids, entropy) for ids, entropy in zip(completions, entropies, strict=True)]

    def _completion(self, ids: Tensor, entropy: Tensor) -> SampledText:
        stops = torch.isin(ids, torch.tensor(self.stop_ids)).nonzero()
        length = int(stops[0]) + 1 if len(stops) else len(ids)
        return SampledText(
            text=self.tokenizer.decode(ids[:length], skip_special_tokens=True),
            num_tokens=length,
            truncated=len(stops) == 0,
            entropy=float(entropy[:length].double().mean()),
        )


class _SeededSampler(LogitsProcessor):
    """Draws the next token of each row with the random numbers of that row, and records the entropy."""

    def __init__(self, seeds: Sequence[int], settings: SamplingSettings, device: torch.device) -> None:
        self.entropies: list[Tensor] = []
        self._temperature = settings.temperature or 1.0
        self._is_greedy = settings.is_greedy
        self._top_p = TopPLogitsWarper(settings.top_p) if settings.top_p < 1 else None
        streams = [np.random.default_rng(seed).random(settings.max_new_tokens) for seed in seeds]
        self._uniforms = torch.from_numpy(np.stack(streams)).to(device)  # (B, T)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        logits = scores.float() / self._temperature
        probs = logits.softmax(-1)
        self.entropies.append(torch.special.entr(probs).sum(-1))
        if self._is_greedy:
            return scores
        if self._top_p is not None:
            probs = self._top_p(input_ids, logits).softmax(-1)
        cumulative = probs.double().cumsum(-1)
        uniform = self._uniforms[:, len(self.entropies) - 1]
        point = (uniform * cumulative[:, -1]).unsqueeze(1)
        token = torch.searchsorted(cumulative, point, right=True).clamp(max=cumulative.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(1, token, 0.0)


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a completion. Some models have several, of which the tokenizer names only one."""
    ends = [end for end in (model.generation_config.eos_token_id, tokenizer.eos_token_id) if end is not None]
    if not ends:
        raise ConfigError("Neither the model nor its tokenizer has an end-of-sequence token. Set eos_token_id.")
    return np.unique(np.hstack(ends)).tolist()
