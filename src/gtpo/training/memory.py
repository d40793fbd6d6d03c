"""How much memory a run takes, and whether gradient checkpointing can be off. Estimates for `gtpo train --dry-run`.

The bytes that a token's activations take are those of a Llama-like layer, fitted to what was measured for Qwen2.5-1.5B
on an H200 with TRL 1.16 (tests/training/test_memory.py) and within a third of it. TRL 1.16 stores no logits; a version
that does needs more.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from gtpo.training.prepare import Prepared

PER_HIDDEN = {2: 27, 4: 68}
"""Bytes that a token keeps for the backward pass per layer and width, by the bytes of a weight: bf16, or fp32 under
autocast."""
PER_INTERMEDIATE = 8
"""The same per layer and width of the MLP."""
HEADROOM = 0.85
"""Share of the memory that an estimate may fill."""


@dataclass(frozen=True)
class Activations:
    """Bytes for the activations of one micro-batch."""

    checkpointed: float
    complete: float


def activations(settings: Any, num_tokens: int, weight_bytes: int = 4) -> Activations | None:
    """For a micro-batch of this many tokens; None if the configuration of the model does not say enough.

    A checkpointed layer keeps its input, and the layer at work keeps everything. The head computes logits in tiles and
    keeps two matrices of its size in float32.
    """
    text: Any = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")
    sizes = [getattr(text, name, None) for name in names]
    if not all(isinstance(size, int) for size in sizes) or getattr(text, "num_experts", None):
        return None
    layers, hidden, intermediate, words = (size or 0 for size in sizes)
    layer = num_tokens * (PER_HIDDEN[weight_bytes] * hidden + PER_INTERMEDIATE * intermediate)
    inputs, head = layers * num_tokens * weight_bytes * hidden, 8 * words * hidden
    return Activations(inputs + layer + head, layers * layer + head)


def fits_without_checkpointing(needs: Activations, state: float, total: float, sampler_share: float) -> bool:
    """Whether weights, optimizer and complete activations fit next to a vLLM that takes a share of the memory."""
    return state + needs.complete <= HEADROOM * total * (1 - sampler_share)


def memory_lines(prepared: Prepared, prompt_tokens: int) -> list[tuple[str, str]]:
    """Names and texts for the report of a dry run. `prompt_tokens` is the length of a long prompt."""
    config, parameters = prepared.plan.config, _num_parameters(prepared)
    if parameters is None:
        return [("size", "unknown")]
    state = _state_bytes(prepared, parameters)
    lines = [("size", f"about {parameters / 1e6:,.0f} M parameters, {_gib(state)} for weights and optimizer")]
    rows, completion = config.per_device_train_batch_size, getattr(config, "max_completion_length", 0)
    num_tokens = rows * (prompt_tokens + completion)
    needs = activations(prepared.model_settings, num_tokens, _weight_bytes(prepared)) if completion else None
    if needs is not None:
        both = f"{_gib(needs.checkpointed)} with gradient checkpointing, {_gib(needs.complete)} without"
        lines.append(("memory", f"activations of {rows} rows, about: {both}"))
    if needs is not None and config.gradient_checkpointing and torch.cuda.is_available():
        total = torch.cuda.get_device_properties(config.device).total_memory
        is_colocated = config.use_vllm and config.vllm_mode == "colocate"
        share = config.vllm_gpu_memory_utilization if is_colocated else 0.0
        if fits_without_checkpointing(needs, state, total, share):
            lines.append(("", f"fits into the {_gib(total)} of this GPU without: --gradient_checkpointing false"))
    return lines


def _num_parameters(prepared: Prepared) -> int | None:
    trusts = prepared.plan.config.trust_remote_code
    try:
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(prepared.model_settings, trust_remote_code=trusts).num_parameters()
    except Exception:  # a model with its own code
        return None


def _weight_bytes(prepared: Prepared) -> int:
    """Bytes of a weight that is not quantized. With dtype=auto, weights are loaded as the configuration says."""
    dtype = (prepared.plan.config.model_init_kwargs or {}).get("dtype")
    dtype = getattr(prepared.model_settings, "dtype", None) if dtype == "auto" else dtype
    return 2 if str(dtype).endswith("float16") else 4  # bfloat16, torch.bfloat16, …


def _state_bytes(prepared: Prepared, parameters: int) -> float:
    """Weights and, for what is trained, gradients and Adam's two moments, which have the dtype of the weights."""
    weight_bytes = _weight_bytes(prepared)
    stored = 0.5 if prepared.plan.model_config.load_in_4bit else weight_bytes
    return parameters * (stored + (0 if prepared.is_adapter else 3 * weight_bytes))


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:.2g} GiB"
