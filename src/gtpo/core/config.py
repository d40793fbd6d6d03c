"""The options of the method."""

import dataclasses
import math
from typing import Literal, get_args

from gtpo.errors import require, require_choice, require_number

Edges = Literal["both", "prefix", "suffix", "none"]
Match = Literal["position", "prefix"]
EntropyFilter = Literal["auto", "all", "negative", "off"]
LN2 = math.log(2)
LARGEST = 1e6
"""Of a coefficient: advantages that are multiplied by it stay far below the largest float32."""


@dataclasses.dataclass(frozen=True)
class ShapingConfig:
    """The options of the method. The defaults are the paper's.

    >>> ShapingConfig(conflict_positive_weight=1.0).conflict_negative_weight  # protect, do not amplify
    0.0
    """

    conflict_edges: Edges = "both"
    conflict_match: Match = "position"
    conflict_positive_weight: float = 2.0  # λ on the conflict tokens of good completions
    conflict_negative_weight: float = 0.0  # λ on the conflict tokens of bad completions
    entropy_filter: EntropyFilter = "auto"
    entropy_threshold: float = LN2
    entropy_penalty: float = 0.1  # γ, in units of reward
    entropy_penalty_center: bool = False
    entropy_penalty_relative: bool = False  # γ in units of the spread of the group's rewards

    def __post_init__(self) -> None:
        require_choice("conflict_edges", self.conflict_edges, get_args(Edges))
        require_choice("conflict_match", self.conflict_match, get_args(Match))
        require_choice("entropy_filter", self.entropy_filter, get_args(EntropyFilter))
        positive, negative = self.conflict_positive_weight, self.conflict_negative_weight
        require_number(
            "conflict_positive_weight", positive, lambda x: 0 <= x <= LARGEST, f"a number between 0 and {LARGEST:g}"
        )
        require_number("conflict_negative_weight", negative, lambda x: 0 <= x <= 1, "a number between 0 and 1")
        threshold, penalty = self.entropy_threshold, self.entropy_penalty
        require_number("entropy_threshold", threshold, lambda x: x > 0, "a number > 0, in nats (the paper's is ln 2)")
        rule = f"a number between 0 and {LARGEST:g}, in units of reward"
        require_number("entropy_penalty", penalty, lambda x: 0 <= x <= LARGEST, rule)
        for name in ("entropy_penalty_center", "entropy_penalty_relative"):
            require(getattr(self, name) in (True, False), name, getattr(self, name), "True or False")
