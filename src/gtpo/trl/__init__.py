"""GTPO on TRL: a configuration and a trainer that stand in for GRPOConfig and GRPOTrainer."""

from gtpo.trl.config import GTPOConfig
from gtpo.trl.trainer import GTPOTrainer
from gtpo.trl.watch import HealthCallback, watch_health

__all__ = ["GTPOConfig", "GTPOTrainer", "HealthCallback", "watch_health"]
