"""GTPO on TRL: a configuration and a trainer that replace GRPOConfig and GRPOTrainer.

The files fall into two groups. The second imports nothing of the first.

GTPO on TRL                         config, trainer, gathering, state, recording
for any trainer of TRL's GRPO       resume, trimming, padding, watch, checks
"""

from gtpo.trl.config import GTPOConfig
from gtpo.trl.trainer import GTPOTrainer
from gtpo.trl.watch import HealthCallback, watch_health

__all__ = ["GTPOConfig", "GTPOTrainer", "HealthCallback", "watch_health"]
