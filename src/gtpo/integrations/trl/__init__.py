"""GTPO on TRL: a configuration and a trainer that stand in for GRPOConfig and GRPOTrainer."""

from gtpo.integrations.trl.config import GTPOConfig
from gtpo.integrations.trl.health import HealthCallback, watch_health
from gtpo.integrations.trl.trainer import GTPOTrainer

__all__ = ["GTPOConfig", "GTPOTrainer", "HealthCallback", "watch_health"]
