"""Log-probabilities and entropies of a few completions, from one small pass that leaves no trace in the training."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

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
    """Log-probabilities and entropies, (rows, longest size) each, at the sampling temperature.

    `sizes` are the lengths of these completions. The random state of the process stays as it is.
    """
    from trl.models.utils import disable_gradient_checkpointing

    device, width = trainer.accelerator.device, max(1, *sizes)
    inside = torch.arange(width, device=device) < torch.tensor(sizes, device=device).unsqueeze(1)
    ids = torch.cat([batch["prompt_ids"][rows], batch["completion_ids"][rows][:, :width]], dim=1)
    mask = torch.cat([batch["prompt_mask"][rows], inside.to(batch["prompt_mask"].dtype)], dim=1)
    with (
        torch.no_grad(),
        disable_gradient_checkpointing(trainer.model, trainer.args.gradient_checkpointing_kwargs),
        torch.random.fork_rng(_devices(trainer), device_type=device.type),
    ):
        batch_size = trainer.args.per_device_train_batch_size
        logps, entropy, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, width, batch_size=batch_size, compute_entropy=True
        )
    if logps.shape != inside.shape or entropy.shape != inside.shape:
        raise ValueError(f"the trainer returned shapes {tuple(logps.shape)} and {tuple(entropy.shape)}")
    return logps.float().cpu(), entropy.float().cpu()


def _devices(trainer: Any) -> list[torch.device]:
    """The devices of the model that have a random state of their own."""
    if trainer.accelerator.device.type in ("cpu", "mps"):
        return []
    return sorted({parameter.device for parameter in trainer.model.parameters()}, key=str)
