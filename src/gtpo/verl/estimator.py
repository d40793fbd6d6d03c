"""`algorithm.adv_estimator=gtpo`: the function that verl calls for advantages.

verl passes rewards, mask and uids to an estimator, but neither tokens nor entropies. GTPO's trainer, which has them,
sets `SHAPE` for the duration of that call.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est  # pyright: ignore[reportMissingImports]

from gtpo.errors import ConfigError

Shape = Callable[[Tensor, Tensor, Any], Tensor]

SHAPE: ContextVar[Shape | None] = ContextVar("gtpo_shape", default=None)


@register_adv_est("gtpo")  # pyright: ignore[reportUntypedFunctionDecorator]
def gtpo_advantages(
    token_level_rewards: Tensor, response_mask: Tensor, index: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """Ã (B, T) as advantages and as returns, which nothing uses without a critic."""
    shape = SHAPE.get()
    if shape is None:
        raise ConfigError(
            "algorithm.adv_estimator=gtpo needs the completions and their entropies, which only GTPO's trainer reads. "
            "Remedy: trainer.v1.trainer_mode=gtpo_sync, with trainer.use_v1=True; verl's other trainer modes and its "
            "older trainer (use_v1=False) do not pass them on."
        )
    advantages = shape(token_level_rewards.sum(-1), response_mask, index)
    return advantages, advantages
