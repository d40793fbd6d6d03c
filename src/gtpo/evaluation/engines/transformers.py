"""Sampling with transformers: `generate`, with the drawing of tokens in our hands.

`generate` keeps one random state for a whole batch, and gives entropies only through the logits of every token, held
until the end (58 GB for 64 completions of 1,500 tokens of Qwen). So a logits processor reads the entropy of each
position as it passes, draws the token from the sample's own stream of random numbers, and leaves `generate` no choice.
"""

import hashlib
import inspect
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TopPLogitsWarper,
)

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.sampling import Completion, SamplingSettings


class TransformersEngine:
    """A causal language model of transformers: float32 on a CPU, bfloat16 on a GPU that has it."""

    def __init__(self, model: str) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        on_gpu = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        dtype = torch.bfloat16 if on_gpu else torch.float32
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"Model {model!r} cannot be loaded: {_reason(error)} "
                "Give a hub id, a folder with weights and tokenizer files, or the word lab."
            ) from error
        self.model = loaded.to(self.device).eval()
        self.stop_ids = _stop_ids(self.model, self.tokenizer)
        pad_id = self.tokenizer.pad_token_id
        self.pad_id: int = self.stop_ids[0] if pad_id is None else pad_id
        # A model may ship penalties and cut-offs of its own; `generate` would fill ours up with them.
        self.model.generation_config = GenerationConfig(
            eos_token_id=self.stop_ids, pad_token_id=self.pad_id, do_sample=False
        )
        self.context_length: int | None = getattr(self.model.config, "max_position_embeddings", None)
        self.description = {
            "engine": "transformers",
            "weights": _weights_digest(model, self.model),
            "dtype": str(dtype).removeprefix("torch."),
        }

    @torch.inference_mode()
    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], settings: SamplingSettings
    ) -> list[Completion]:
        width = max(map(len, prompts))
        input_ids = torch.tensor(
            [[self.pad_id] * (width - len(prompt)) + prompt for prompt in prompts], device=self.device
        )
        mask = torch.tensor(
            [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=self.device
        )
        drawing = _Drawing(seeds, settings, self.device)
        output: Any = self.model.generate(
            input_ids=input_ids,
            attention_mask=mask,
            max_new_tokens=settings.max_new_tokens,
            logits_processor=LogitsProcessorList([drawing]),
        )
        completions: Tensor = output[:, width:].cpu()
        entropies = torch.stack(drawing.entropies, dim=1).cpu()  # (B, T)
        if not bool(torch.isfinite(entropies).all()):
            raise DataError("The model's logits are not finite: its weights are broken, or too large for their dtype.")
        return [self._completion(ids, entropy) for ids, entropy in zip(completions, entropies, strict=True)]

    def _completion(self, ids: Tensor, entropy: Tensor) -> Completion:
        stops = torch.isin(ids, torch.tensor(self.stop_ids)).nonzero()
        length = int(stops[0]) + 1 if len(stops) else len(ids)
        return Completion(
            text=self.tokenizer.decode(ids[:length], skip_special_tokens=True),
            num_tokens=length,
            truncated=len(stops) == 0,
            entropy=float(entropy[:length].double().mean()),
        )


class _Drawing(LogitsProcessor):
    """Draws each row's next token by its own random number, and notes the entropy it was drawn from."""

    def __init__(self, seeds: Sequence[int], settings: SamplingSettings, device: torch.device) -> None:
        self.entropies: list[Tensor] = []
        self._temperature = settings.temperature or 1.0
        self._is_greedy = settings.is_greedy
        self._cut = TopPLogitsWarper(settings.top_p) if settings.top_p < 1 else None
        streams = [np.random.default_rng(seed).random(settings.max_new_tokens) for seed in seeds]
        self._uniforms = torch.from_numpy(np.stack(streams)).to(device)  # (B, T)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        logits = scores.float() / self._temperature
        probs = logits.softmax(-1)
        self.entropies.append(torch.special.entr(probs).sum(-1))
        if self._is_greedy:
            return scores
        if self._cut is not None:
            probs = self._cut(input_ids, logits).softmax(-1)
        cumulative = probs.double().cumsum(-1)
        uniform = self._uniforms[:, len(self.entropies) - 1]
        point = (uniform * cumulative[:, -1]).unsqueeze(1)
        token = torch.searchsorted(cumulative, point, right=True).clamp(max=cumulative.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(1, token, 0.0)


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a completion: some models have several, and the tokenizer names only one."""
    ends = [model.generation_config.eos_token_id, tokenizer.eos_token_id]
    ids = itertools.chain.from_iterable(end if isinstance(end, list) else [end] for end in ends)
    found = sorted({int(i) for i in ids if i is not None})
    if not found:
        raise ConfigError("Neither the model nor its tokenizer names an end-of-sequence token: set eos_token_id.")
    return found


def _weights_digest(source: str, model: Any) -> str:
    """A name for the weights: the commit of a hub model, else a digest of a few values of every parameter."""
    if not Path(source).is_dir() and (commit := getattr(model.config, "_commit_hash", None)):
        return str(commit)
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        flat = parameter.detach().flatten()
        few = flat[:: max(1, len(flat) // 64)].float().cpu().numpy()
        digest.update(name.encode() + few.tobytes())
    return digest.hexdigest()[:16]


def _reason(error: Exception) -> str:
    line = inspect.cleandoc(str(error)).strip().partition("\n")[0].rstrip(": ")
    return line if line.endswith(".") else f"{line}."
