"""How much memory a run takes, and whether gradient checkpointing can be off. Estimates for `gtpo train --dry-run`.

The bytes that a token's activations take are those of a Llama-like layer under bf16 autocast. They are within a third
of what was measured for Qwen2.5-Coder-1.5B with 32 rows of 480 tokens: 75 GB without checkpointing and 11 GB with it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from gtpo.models import find_model
from gtpo.training.prepare import Prepared

PER_HIDDEN, PER_INTERMEDIATE, PER_WORD = 42, 8, 6
"""Bytes that a token keeps for the backward pass: per layer and width, per layer and width of the MLP, per word."""
HEADROOM = 0.85
"""Share of the memory that an estimate may fill."""


@dataclass(frozen=True)
class Activations:
    """Bytes for the activations of one micro-batch."""

    checkpointed: float
    complete: float


def activations(settings: Any, num_rows: int, prompt_tokens: int, completion_tokens: int) -> Activations | None:
    """For rows of this many tokens; None if the configuration of the model does not say enough.

    A checkpointed layer keeps its input, and the layer at work keeps everything. Only completions have logits.
    """
    text: Any = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")
    sizes = [getattr(text, name, None) for name in names]
    if not all(isinstance(size, int) for size in sizes) or getattr(text, "num_experts", None):
        return None
    layers, hidden, intermediate, words = (size or 0 for size in sizes)
    tokens = num_rows * (prompt_tokens + completion_tokens)
    layer = tokens * (PER_HIDDEN * hidden + PER_INTERMEDIATE * intermediate)
    logits = num_rows * completion_tokens * PER_WORD * words
    return Activations(layers * tokens * 4 * hidden + layer + logits, layers * layer + logits)


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
    needs = activations(prepared.model_settings, rows, prompt_tokens, completion) if completion else None
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


def _state_bytes(prepared: Prepared, parameters: int) -> float:
    """Weights and, for what is trained, gradients and Adam's moments in float32."""
    model_config = prepared.plan.model_config
    weight_bytes = 0.5 if model_config.load_in_4bit else 4
    is_adapter = model_config.use_peft or find_model(prepared.model).base is not None
    return parameters * (weight_bytes + (0 if is_adapter else 12))


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:.2g} GiB"
