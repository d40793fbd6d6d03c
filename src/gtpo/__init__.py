"""GTPO: Group-relative Trajectory-based Policy Optimization (arXiv:2508.03772).

A training step, in the order in which it runs:

trl/trainer         lets TRL sample and score a batch, and keeps its rewards and entropies
trl/gathering       brings the completions of each prompt together
core/shaping        gives every token its advantage; credit/ has other schemes than GTPO
trl/watching        records groups and checks the run's health
trl/fast            removes padding and repeated prompts; the loss is TRL's

training/ is the way to that step from a recipe, and verl/ the same step on verl. rewards/ and evaluation/ judge
completions. runs/, health/, report/, token_view/ and compare read what a run left.

Importing this package loads nothing heavy. The names below load torch or TRL when they are first used, and raise
MissingExtraError with the pip command if it is not installed.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gtpo.errors import ConfigError, DataError, GTPOError, MissingExtraError, naming_the_extra

if TYPE_CHECKING:
    from gtpo.core.config import ShapingConfig
    from gtpo.core.conflicts import conflict_mask
    from gtpo.core.entropy import completion_entropy, entropy_filter
    from gtpo.core.shaping import ShapedAdvantages, shape_advantages
    from gtpo.trl.config import GTPOConfig
    from gtpo.trl.fast.trainer import FastGRPOTrainer
    from gtpo.trl.trainer import GTPOTrainer
    from gtpo.trl.watching.watch import watch

__version__ = "0.2.0"

__all__ = [
    "ConfigError",
    "DataError",
    "FastGRPOTrainer",
    "GTPOConfig",
    "GTPOError",
    "GTPOTrainer",
    "MissingExtraError",
    "ShapedAdvantages",
    "ShapingConfig",
    "completion_entropy",
    "conflict_mask",
    "entropy_filter",
    "shape_advantages",
    "watch",
]

_HOMES = {
    "ShapingConfig": "gtpo.core.config",
    "conflict_mask": "gtpo.core.conflicts",
    "credit": "gtpo.credit",
    "completion_entropy": "gtpo.core.entropy",
    "entropy_filter": "gtpo.core.entropy",
    "ShapedAdvantages": "gtpo.core.shaping",
    "shape_advantages": "gtpo.core.shaping",
    "GTPOConfig": "gtpo.trl.config",
    "FastGRPOTrainer": "gtpo.trl.fast.trainer",
    "GTPOTrainer": "gtpo.trl.trainer",
    "watch": "gtpo.trl.watching.watch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_the_extra():
        home = importlib.import_module(_HOMES[name])
        return home if name == "credit" else getattr(home, name)


def __dir__() -> list[str]:
    return __all__
