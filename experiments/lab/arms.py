"""The arms that are compared: a method, and the options in which it differs from that method's defaults."""

import dataclasses
import types
from collections.abc import Mapping

from gtpo.errors import require_choice

Options = Mapping[str, str | float | bool]


@dataclasses.dataclass(frozen=True)
class Arm:
    """A method (`none`: nothing is trained) and its options on top of the method's defaults."""

    title: str
    method: str
    options: Options = dataclasses.field(default_factory=dict)


NO_CONFLICTS: Options = {"conflict_edges": "none"}
SLOW_ADAM: Options = {"adam_beta1": 0.999999, "adam_beta2": 0.999999}
"""The optimizer of the paper."""
NO_ENTROPY: Options = {"entropy_filter": "off", "entropy_penalty": 0.0}

ARMS: Mapping[str, Arm] = types.MappingProxyType(
    {
        "base": Arm("untrained", "none"),
        "grpo": Arm("GRPO", "grpo"),
        "grpo-entropy": Arm("GRPO + filter and penalty", "gtpo", NO_CONFLICTS),
        "grpo-conflicts": Arm("GRPO + conflict weights", "gtpo", NO_ENTROPY),
        "gtpo": Arm("GTPO", "gtpo"),
        "grpo-kl": Arm("GRPO, β = 1e-6", "grpo", {"beta": 1e-6}),
        "sft": Arm("SFT", "sft"),
        "gamma-0": Arm("γ = 0", "gtpo", {"entropy_penalty": 0.0}),
        "gamma-0.001": Arm("γ = 0.001", "gtpo", {"entropy_penalty": 0.001}),
        "centred": Arm("penalty centred", "gtpo", {"entropy_penalty_center": True}),
        "threshold-0.7": Arm("threshold 0.7", "gtpo", {"entropy_threshold": 0.7}),
        "threshold-1.05": Arm("threshold 1.05", "gtpo", {"entropy_threshold": 1.05}),
        "threshold-2": Arm("threshold 2.0", "gtpo", {"entropy_threshold": 2.0}),
        "filter-off": Arm("no filter", "gtpo", {"entropy_filter": "off"}),
        "filter-all": Arm("filter: all", "gtpo", {"entropy_filter": "all"}),
        "filter-negative": Arm("filter: negative", "gtpo", {"entropy_filter": "negative"}),
        "prefix": Arm("prefix only", "gtpo", {"conflict_edges": "prefix"}),
        "suffix": Arm("suffix only", "gtpo", {"conflict_edges": "suffix"}),
        "protect": Arm("λ⁺ = 1", "gtpo", {"conflict_positive_weight": 1.0}),
        "skip": Arm("λ⁺ = 0", "gtpo", {"conflict_positive_weight": 0.0}),
        "match-prefix": Arm("match: prefix", "gtpo", {"conflict_match": "prefix"}),
        "dr-grpo": Arm("Dr. GRPO", "grpo", {"loss_type": "dr_grpo"}),
        "annealed": Arm("annealed", "gtpo", {"credit": "annealed"}),
        "balanced": Arm("balanced", "gtpo", {"credit": "balanced"}),
        "component": Arm("component", "gtpo", {"credit": "component", "rewards": "format,correctness"}),
        "process-sets": Arm("process sets", "gtpo", {"credit": "process_sets"}),
        "prefix-baseline": Arm("prefix baseline", "gtpo", {"credit": "prefix_baseline"}),
        "negative": Arm("negative", "gtpo", {"credit": "negative"}),
        "pass-at-k": Arm("pass@k", "gtpo", {"credit": "pass_at_k", "credit_parameters": '{"right_at": 20.0}'}),
        "random": Arm("random rewards", "grpo", {"rewards": "experiments.lab.rewards:random_reward"}),
        "grpo-slow-adam": Arm("GRPO with slow Adam", "grpo", SLOW_ADAM),
        "gtpo-slow-adam": Arm("GTPO with slow Adam", "gtpo", SLOW_ADAM),
    }
)

GROUPS: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {
        "main": ("base", "grpo", "gtpo", "grpo-entropy", "grpo-conflicts"),
        "baselines": ("grpo-kl", "sft"),
        "entropy": (
            "gamma-0",
            "gamma-0.001",
            "centred",
            "threshold-0.7",
            "threshold-1.05",
            "threshold-2",
            "filter-off",
            "filter-all",
            "filter-negative",
        ),
        "conflicts": ("prefix", "suffix", "protect", "skip", "match-prefix"),
        "credit": (
            "base",
            "grpo",
            "gtpo",
            "dr-grpo",
            "protect",
            "annealed",
            "balanced",
            "component",
            "process-sets",
            "prefix-baseline",
            "negative",
            "pass-at-k",
            "random",
        ),
        "slow-adam": ("grpo-slow-adam", "gtpo-slow-adam"),
    }
)
"""Names for several arms, in the order in which they are run."""


def select_arms(names: str) -> list[str]:
    """Arms from a comma-separated list of arms and groups; `all` is every group.

    >>> select_arms("main,protect")
    ['base', 'grpo', 'gtpo', 'grpo-entropy', 'grpo-conflicts', 'protect']
    """
    arms: list[str] = []
    for name in names.split(","):
        require_choice("arms", name, (*GROUPS, *ARMS, "all"))
        arms += [arm for group in GROUPS.values() for arm in group] if name == "all" else GROUPS.get(name, (name,))
    return list(dict.fromkeys(arms))
