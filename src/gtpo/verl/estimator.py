"""`algorithm.adv_estimator=gtpo`: where verl asks for advantages.

verl hands an estimator rewards, mask and uids, but neither tokens nor entropies. The trainer that has them says for
the length of one call how to shape; without it there is nothing that could be computed.
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
    """Ã (B, T), twice: verl wants returns beside advantages, and nothing reads them without a critic."""
    shape = SHAPE.get()
    if shape is None:
        raise ConfigError(
            "algorithm.adv_estimator=gtpo needs the completions and their entropies, which only GTPO's trainer reads. "
            "Remedy: trainer.v1.trainer_mode=gtpo_sync, with trainer.use_v1=True; verl's other trainer modes and its "
            "older trainer (use_v1=False) do not carry them."
        )
    advantages = shape(token_level_rewards.sum(-1), response_mask, index)
    return advantages, advantages
