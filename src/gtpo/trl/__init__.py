"""GTPO on TRL, and what serves every trainer of TRL's GRPO.

The files fall into two groups. The second imports nothing of the first.

GTPO on TRL                         config, trainer, gathering, state, recording
for any trainer of TRL's GRPO       fast, resume, checkpoints, trimming, padding, watch, checks, versions

The names below are loaded when they are first used: one that a version of TRL breaks does not break the others.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from gtpo.trl.versions import warn_if_untested

if TYPE_CHECKING:
    from gtpo.trl.config import GTPOConfig
    from gtpo.trl.fast import FastGRPOTrainer
    from gtpo.trl.trainer import GTPOTrainer
    from gtpo.trl.watch import HealthCallback, watch_health

__all__ = ["FastGRPOTrainer", "GTPOConfig", "GTPOTrainer", "HealthCallback", "watch_health"]

_HOMES = {
    "FastGRPOTrainer": "fast",
    "GTPOConfig": "config",
    "GTPOTrainer": "trainer",
    "HealthCallback": "watch",
    "watch_health": "watch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


warn_if_untested(importlib.metadata.version("trl"))
