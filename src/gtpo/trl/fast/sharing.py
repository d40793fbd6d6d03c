"""Prompts that are computed once for several completions.

The completions of a prompt are packed into one row:

    prompt without its last token | last token, completion 1 | last token, completion 2 | …

A completion attends to the prompt and to itself, and its positions continue those of the prompt. The model therefore
computes what it computes for separate rows, and each copy of the last token predicts the first one of its completion.
"""

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from trl.trainer import grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer

from gtpo.trl.fast.padding import Padding, lengths

_Parent: Any = GRPOTrainer if TYPE_CHECKING else object

ATTENTION_COLUMNS = 5000
"""The width of a row at which attention costs about as much as everything else. Wider rows must save more tokens."""

SCORES_MARKED_TOKENS = hasattr(grpo_trainer, "add_fused_lm_head")
"""Whether TRL calls the model and scores only the tokens that the mask marks, as it does from 1.15 on."""

FAMILIES = frozenset(
    {"gemma", "gpt_neox", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3"}
)
"""Types of models whose tokens depend on others through attention alone, with rotary positions or none."""

ALIGNMENT = 16
"""The attention kernels of CUDA copy masks whose width is not a multiple of this."""


def can_share(model: Any, padding: Padding) -> bool:
    """Whether the model takes any mask and any positions: full attention by SDPA, in code of transformers."""
    while hasattr(model, "get_base_model"):  # an adapter
        if any(getattr(adapter, "alora_invocation_tokens", None) for adapter in model.peft_config.values()):
            return False  # it acts from where a row last has these tokens
        model = model.get_base_model()
    config = model.config.get_text_config()
    layers: Any = getattr(config, "layer_types", None)
    has_windows = set(layers) != {"full_attention"} if layers else getattr(config, "sliding_window", None) is not None
    return (
        padding.prompts
        and config.model_type in FAMILIES
        and _module(model).startswith("transformers.models.")
        and not has_windows
        and config._attn_implementation == "sdpa"
        and not getattr(config, "output_router_logits", False)  # a loss over the router reads the mask too
    )


def _module(model: Any) -> str:
    """Where the class of the model is defined; FSDP2 derives a class of its own from it."""
    return next(name for name in (kind.__module__ for kind in type(model).__mro__) if not name.startswith("torch."))


class SharedPrompts(_Parent):
    """Mixin for GRPO trainers, before the parent and after the mixin that sorts rows. It acts where rows share one."""

    accelerator: Any

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, **others: Any
    ) -> Any:
        given = {name for name, value in others.items() if value is not None and value is not False}
        packed = None
        if given <= {"compute_entropy"} and self._shares_prompts(model):
            packed = PackedRows.of(input_ids, attention_mask, logits_to_keep, self.pad_to_multiple_of)
        if packed is None:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, **others
            )
        with packed.replacing_inputs(self.accelerator.unwrap_model(model)):
            scored = super()._get_per_token_logps_and_entropies(
                model, packed.ids, packed.is_scored, packed.ids.shape[1] - 1, **others
            )
        return tuple(values if values is None else packed.unpack(values) for values in scored)

    def _shares_prompts(self, model: Any) -> bool:
        args: Any = self.args
        if not (SCORES_MARKED_TOKENS and getattr(args, "trim_batches", True)):
            return False
        if self._is_vlm or self.aux_loss_enabled or args.torch_compile:
            return False
        if self.top_entropy_quantile < 1.0:  # tokens after the same ones tie at the quantile, up to the last bit
            return False
        unwrapped = self.accelerator.unwrap_model(model)
        return can_share(unwrapped, Padding.of(unwrapped))


@dataclasses.dataclass(frozen=True)
class PackedRows:
    """Rows of several completions each, and where the tokens of every completion are."""

    ids: Tensor  # (R, W)
    is_scored: Tensor  # (R, W): 1 for tokens of completions
    positions: Tensor  # (R, W)
    segments: Tensor  # (R, W): 0 for the prompt, 1, 2, … for its completions, -1 for padding
    places: Tensor  # (B, T): where a token is in the flattened rows without their first column; -1 if it is padding

    @classmethod
    def of(cls, ids: Tensor, mask: Tensor, num_completion: int, multiple: int | None = None) -> "PackedRows | None":
        """Pack rows that are padded on both sides; None if that does not save anything."""
        split = ids.shape[1] - num_completion
        prompts, completions = mask[:, :split].sum(dim=1), mask[:, split:].sum(dim=1)
        has_holes = (prompts != lengths(mask[:, :split].flip(1))) | (completions != lengths(mask[:, split:]))
        sizes = torch.stack([prompts, completions, has_holes]).tolist()
        if any(sizes[2]) or not all(sizes[0]) or not any(sizes[1]):
            return None
        members = _same_prompts(ids[:, :split], sizes[0])
        _, width, packed_rows = _cheapest_rows(members, sizes[0], sizes[1])
        if len(packed_rows) == len(ids):
            return None
        multiple = multiple or (ALIGNMENT if ids.is_cuda else 1)
        return cls._filled(ids, split, packed_rows, -(-width // multiple) * multiple, sizes)

    @classmethod
    def _filled(
        cls, ids: Tensor, split: int, packed_rows: list[list[int]], width: int, sizes: Sequence[Sequence[int]]
    ) -> "PackedRows":
        num_rows, num_completion = len(ids), ids.shape[1] - split
        sources = torch.zeros(len(packed_rows), width, dtype=torch.long)  # where a token is in `ids`, flattened
        positions, segments = torch.zeros_like(sources), torch.full_like(sources, -1)
        places = torch.full((num_rows, num_completion), -1)
        for number, rows in enumerate(packed_rows):
            prompt = sizes[0][rows[0]]
            start = prompt - 1
            sources[number, :start] = rows[0] * ids.shape[1] + torch.arange(split - prompt, split - 1)
            positions[number, :start] = torch.arange(start)
            segments[number, :start] = 0
            for segment, row in enumerate(rows, 1):
                end = start + 1 + sizes[1][row]  # the last token of the prompt, and the completion
                sources[number, start:end] = row * ids.shape[1] + torch.arange(split - 1, split - 1 + end - start)
                positions[number, start:end] = torch.arange(prompt - 1, prompt - 1 + end - start)
                segments[number, start:end] = segment
                places[row, : end - start - 1] = number * (width - 1) + torch.arange(start, end - 1)
                start = end
        is_scored = (segments > 0) & (segments == segments.roll(1, dims=1))
        is_scored[:, 0] = False
        sources, positions, segments, places, scored = (
            x.to(ids.device) for x in (sources, positions, segments, places, is_scored.long())
        )
        return cls(ids.flatten()[sources], scored, positions, segments, places)

    def unpack(self, values: Tensor) -> Tensor:
        """(R, W - 1) -> (B, T): one value per token of each completion, 0 for padding."""
        return values.flatten()[self.places.clamp(min=0)].masked_fill(self.places < 0, 0.0)

    @contextlib.contextmanager
    def replacing_inputs(self, model: Any) -> Generator[None]:
        """Let the model see the mask and the positions of packed rows. The mask of the caller says what is scored."""
        queries, keys = self.segments.unsqueeze(2), self.segments.unsqueeze(1)
        columns = torch.arange(self.ids.shape[1], device=self.ids.device)
        is_seen = ((keys == 0) | (keys == queries)) & (columns <= columns.unsqueeze(1))
        inputs = {"attention_mask": is_seen.unsqueeze(1), "position_ids": self.positions}

        def replace(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**kwargs, **inputs}

        hook = model.register_forward_pre_hook(replace, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()


def shared_order(prompt_ids: Tensor, prompt_mask: Tensor, completions: Sequence[int]) -> tuple[list[int], list[int]]:
    """An order in which the completions of a prompt are next to each other, and how many tokens each of them adds.

    Prompts with the most tokens come first, and completions of length 0, which are not computed, last.
    """
    prompts: list[int] = prompt_mask.sum(dim=1).tolist()
    added = [0] * len(completions)
    keys: list[tuple[int, ...]] = [()] * len(completions)
    for rows in _same_prompts(prompt_ids, prompts):
        computed = [row for row in rows if completions[row]]
        for row in computed:
            added[row] = completions[row] + 1 + prompts[row] // len(computed)
        total = sum(added[row] for row in computed)
        for row in rows:
            keys[row] = (not added[row], -total, rows[0], -added[row])
    order = sorted(range(len(added)), key=keys.__getitem__)
    return order, [added[row] for row in order]


def cost(prompt_ids: Tensor, prompts: Sequence[int], completions: Sequence[int]) -> float:
    """Of computing the rows of a micro-batch, packed or not: tokens with padding, more for those in wide rows."""
    if not any(completions):
        return 0.0
    return _cheapest_rows(_same_prompts(prompt_ids, prompts), prompts, completions)[0]


def _same_prompts(prompt_ids: Tensor, num_tokens: Sequence[int]) -> list[list[int]]:
    """Rows whose prompts have the same tokens, in the order of their first rows."""
    members: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, (ids, length) in enumerate(zip(prompt_ids.tolist(), num_tokens, strict=True)):
        members[tuple(ids[len(ids) - length :])].append(row)
    return list(members.values())


def _cheapest_rows(
    members: list[list[int]], prompts: Sequence[int], completions: Sequence[int]
) -> tuple[float, int, list[list[int]]]:
    """The cost, the width to which all rows are padded, and which completions share a row.

    >>> _cheapest_rows([[0, 1, 2], [3]], prompts=[100] * 4, completions=[10, 20, 30, 40])[1:]
    (162, [[0, 1, 2], [3]])
    >>> _cheapest_rows([[0, 1]], prompts=[100, 100], completions=[5000, 5000])[1:]
    (5100, [[0], [1]])
    """
    members = [[row for row in rows if completions[row]] for rows in members]  # empty completions need no place
    widest = max(prompts[row] + completions[row] for rows in members for row in rows)
    widths = {widest}
    for rows in filter(None, members):
        width = prompts[rows[0]] - 1
        for row in rows:
            width += 1 + completions[row]
            widths.add(max(width, widest))
    choices: list[tuple[float, int, list[list[int]]]] = []
    for width in sorted(widths):
        packed = [row for rows in members for row in _rows_of(rows, width, prompts, completions)]
        choices.append((len(packed) * width * (1 + width / ATTENTION_COLUMNS), width, packed))
    return min(choices)


def _rows_of(rows: list[int], width: int, prompts: Sequence[int], completions: Sequence[int]) -> list[list[int]]:
    """The completions of one prompt in rows of at most this width."""
    packed: list[list[int]] = []
    used = width
    for row in rows:
        if used + 1 + completions[row] > width:
            packed.append([])
            used = prompts[row] - 1
        packed[-1].append(row)
        used += 1 + completions[row]
    return packed
