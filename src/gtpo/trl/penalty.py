"""A warning if the entropy penalty is too large for the rewards.

γ is in units of reward, and the paper's 0.1 is for rewards from 0 to 20. With half of the rewards at 10, half at 20
and an entropy of 0.5, γ⟨H⟩ = 0.05 is a hundredth of their standard deviation. With rewards between 0 and 1 the same γ
can push down every completion, good and bad.
"""

import logging

from torch import Tensor

from gtpo.core.config import ShapingConfig
from gtpo.core.groups import advantage_sign, is_tied
from gtpo.core.shaping import ShapedAdvantages

LARGE = 0.1
"""A penalty of more than this fraction of the spread of rewards within groups is warned about."""

USUAL = 0.01
"""The fraction that the warning suggests, as in the paper."""

logger = logging.getLogger(__name__)


class PenaltyCheck:
    """Compares the penalty with the rewards in the first batches that have groups with different rewards."""

    def __init__(self, config: ShapingConfig, num_batches: int = 5) -> None:
        self.config = config
        self.num_batches = num_batches  # how many are still to be checked

    def check(self, advantages: Tensor, shaped: ShapedAdvantages, group_ids: Tensor) -> None:
        """Log a warning, once, if the mean penalty is large against the spread of rewards within groups.

        The spread is the root mean square of A over the valid completions of groups that are not tied. Complete groups
        are expected; those of one process are enough.
        """
        coefficient = self.config.entropy_penalty
        if coefficient == 0 or self.num_batches == 0:
            return
        counted = shaped.valid & ~is_tied(advantage_sign(advantages, shaped.valid), group_ids)
        if not counted.any():
            return
        self.num_batches -= 1
        penalty = (advantages - shaped.push)[counted].abs().mean().item()
        spread = advantages[counted].square().mean().sqrt().item()
        if penalty > LARGE * spread:
            self.num_batches = 0
            fitting = coefficient * USUAL / penalty  # in standard deviations
            other = f", or entropy_penalty={fitting:.1g} with entropy_penalty_relative=True, for rewards of any scale"
            logger.warning(
                "entropy_penalty=%g is large for these rewards: on average it changes the advantage of a completion "
                "by %.2g, and advantages have a standard deviation of %.2g within a group. Good completions may be "
                "pushed down; gtpo/frac_sign_flipped counts them. Set entropy_penalty=%.1g%s.",
                coefficient,
                penalty,
                spread,
                fitting * spread,
                "" if self.config.entropy_penalty_relative else other,
            )
