"""GTPO: Group-relative Trajectory-based Policy Optimization (arXiv:2508.03772).

Importing this loads torch and nothing heavier; the trainer's names load TRL when they are first used.
"""

from typing import TYPE_CHECKING, Any

from gtpo.core.conflicts import conflict_mask
from gtpo.core.entropy import completion_entropy, entropy_filter
from gtpo.core.shaping import ShapedAdvantages, ShapingConfig, shape_advantages
from gtpo.errors import ConfigError, DataError, GTPOError, MissingExtraError

if TYPE_CHECKING:
    from gtpo.integrations.trl import GTPOConfig, GTPOTrainer

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DataError",
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
]


def __getattr__(name: str) -> Any:
    if name in ("GTPOConfig", "GTPOTrainer"):
        from gtpo.integrations import trl

        return getattr(trl, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
