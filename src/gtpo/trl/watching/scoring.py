"""Log-probabilities and entropies of completions, from a pass of our own that leaves no trace in the training."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

IMAGE_INPUTS = (
    "pixel_values",
    "pixel_attention_mask",
    "image_grid_thw",
    "image_sizes",
    "image_position_ids",
    "spatial_shapes",
    "num_images",
    "num_tiles",
    "token_type_ids",
    "mm_token_type_ids",
)
"""What a batch of a vision-language model may have in addition, under the names that a scoring pass takes."""

_OTHER_INPUTS = re.compile("pixel|image|video|audio|feature|token_type|spatial|tiles")
"""Parts of the names of batch entries that only multimodal models take."""


def can_score(trainer: Any, batch: dict[str, Any]) -> bool:
    """Whether one process alone can score a few rows: the model is not sharded and takes only text."""
    accelerator = trainer.accelerator
    kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
    plugin: Any = getattr(accelerator.state, "deepspeed_plugin", None)
    is_complete = kind == "NO" or kind.startswith("MULTI_") or (kind == "DEEPSPEED" and plugin.zero_stage < 3)
    mesh = getattr(accelerator, "parallelism_config", None)
    is_split = any(getattr(mesh, f"{kind}_enabled", False) for kind in ("tp", "cp", "sp"))
    return is_complete and not is_split and not any(map(_OTHER_INPUTS.search, batch))


def token_scores(
    trainer: Any, batch: dict[str, Any], rows: Sequence[int], sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of these rows, (rows, longest size) each. `sizes` are their lengths."""
    width = max(1, *sizes)
    ids, mask = batch["completion_ids"][rows][:, :width], batch["prompt_mask"][rows]
    inside = torch.arange(width, device=mask.device) < torch.tensor(sizes, device=mask.device).unsqueeze(1)
    some = {"prompt_ids": batch["prompt_ids"][rows], "prompt_mask": mask, "completion_ids": ids}
    logps, entropy = batch_scores(trainer, {**some, "completion_mask": inside.to(mask.dtype)})
    if logps.shape != inside.shape or entropy.shape != inside.shape:
        raise ValueError(f"the trainer returned shapes {tuple(logps.shape)} and {tuple(entropy.shape)}")
    return logps.float().cpu(), entropy.float().cpu()


def batch_scores(trainer: Any, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of a batch at the sampling temperature, without gradient.

    The random state of the process stays as it is.
    """
    from trl.models.utils import disable_gradient_checkpointing

    args = trainer.args
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    images = {name: batch[name] for name in IMAGE_INPUTS if name in batch}
    batch_size = args.per_device_train_batch_size if trainer.model.training else args.per_device_eval_batch_size
    with (
        torch.no_grad(),
        disable_gradient_checkpointing(trainer.model, args.gradient_checkpointing_kwargs),
        torch.random.fork_rng(_devices(trainer), device_type=trainer.accelerator.device.type),
    ):
        logps, entropy, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, width, batch_size=batch_size, compute_entropy=True, **images
        )
    return logps, entropy


def _devices(trainer: Any) -> list[torch.device]:
    """The devices of the model that have a random state of their own."""
    if trainer.accelerator.device.type in ("cpu", "mps"):
        return []
    return sorted({parameter.device for parameter in trainer.model.parameters()}, key=str)
