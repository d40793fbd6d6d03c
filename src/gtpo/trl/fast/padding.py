"""Which padding can be removed without changing what the model computes, and its removal.

TRL pads completions on the right and prompts on the left, and passes no position ids. Nothing attends to the padding
after a completion, so it can go, with two exceptions: rotary frequencies that depend on the width of the batch
(dynamic NTK, longrope), and an index that selects the tokens to attend to and breaks ties by that width. Removing the
padding before a prompt shifts every position, so it can go only where the model depends on nothing but distances.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

PROMPT_KEYS = frozenset({"prompt_ids", "prompt_mask"})
COMPLETION_KEYS = frozenset(
    {
        "completion_ids",
        "completion_mask",
        "tool_mask",
        "advantages",
        "old_per_token_logps",
        "ref_per_token_logps",
        "sampling_per_token_logps",
        "importance_sampling_ratio",
    }
)
SHARED_KEYS = frozenset({"num_items_in_batch"})
ROW_NUMBER = "row_number"
"""The number of a row in its generation batch: a key of gtpo's own (gtpo.trl.one_pass)."""

FIXED_ROTARY = frozenset({"default", "linear", "llama3", "yarn", "proportional"})
ABSOLUTE = frozenset({"blt", "hunyuan_v1_dense", "hunyuan_v1_moe"})
"""Types of models that depend on more than distances: patches of neighbours, norms after the rotation."""
FIXED_ATTENTION = frozenset({"full_attention", "sliding_attention"})


@dataclasses.dataclass(frozen=True)
class Padding:
    """Whether padding after completions and before prompts can be removed. Widths stay multiples of `multiple`."""

    completions: bool
    prompts: bool
    multiple: int = 1

    @classmethod
    def of(cls, model: Any, multiple: int | None = None) -> "Padding":
        config = model.config.get_text_config()
        rotary: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
        per_layer = [value for value in rotary.values() if isinstance(value, dict)] or [rotary]
        is_fixed = all(layer.get("rope_type", "default") in FIXED_ROTARY for layer in per_layer)
        is_fixed = is_fixed and getattr(config, "index_topk", None) is None
        is_rotary = bool(rotary) and (per_layer == [rotary] or None not in rotary.values())  # in all of its layers
        depends_on_distances_only = (
            is_rotary
            and config.model_type not in ABSOLUTE
            and not any("llama_4_scaling_beta" in layer for layer in per_layer)
            and not getattr(config, "alibi", False)
            and not getattr(model, "_is_stateful", False)
            and set(getattr(config, "layer_types", None) or ()) <= FIXED_ATTENTION
            and not any(adapter.is_prompt_learning for adapter in (getattr(model, "peft_config", None) or {}).values())
        )
        return cls(is_fixed, is_fixed and depends_on_distances_only, multiple or 1)

    def widths(self, prompt_mask: Tensor, completion_mask: Tensor) -> tuple[int, int]:
        """How many columns stay: the last ones of the prompts, the first ones of the completions; at least 1 each."""
        prompt = self._used(prompt_mask.flip(1)) if self.prompts else prompt_mask.shape[1]
        completion = self._used(completion_mask) if self.completions else completion_mask.shape[1]
        return prompt, completion

    def columns(self, prompt_mask: Tensor, completion_mask: Tensor) -> Tensor:
        """(B,): how many columns each row needs, if prompts are as wide as the longest."""
        prompt, completion = self.widths(prompt_mask, completion_mask)
        used = lengths(completion_mask).clamp(min=1)
        rounded = (-(-used // self.multiple) * self.multiple).clamp(max=completion)
        return prompt + (rounded if self.completions else torch.full_like(used, completion))

    def _used(self, mask: Tensor) -> int:
        used = max(1, int(lengths(mask).max()))
        return min(mask.shape[1], -(-used // self.multiple) * self.multiple)

    def cut(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The same rows without removable padding. One value per completion, (B,) or (B, 1), keeps its shape."""
        prompt, completion = self.widths(batch["prompt_mask"], batch["completion_mask"])
        full = batch["completion_mask"].shape[1]
        completion = max(completion, min(2, full))  # TRL's metrics take a single column for one value per completion

        def narrowed(key: str, value: Any) -> Any:
            if key in PROMPT_KEYS:
                return value[:, -prompt:].contiguous()
            if key in COMPLETION_KEYS and value.shape[1:] == (full,):
                return value[:, :completion].contiguous()
            return value

        return {key: narrowed(key, value) for key, value in batch.items()}


def lengths(mask: Tensor) -> Tensor:
    """(B, T) -> (B,): the position of the last 1 of each row, counted from 1; 0 if there is none."""
    positions = mask.new_ones(mask.shape[1]).cumsum(0)
    return (mask.ne(0) * positions).amax(dim=1)
