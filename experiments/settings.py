"""The settings: where the arms are compared. Options of `gtpo train` on top of the lab's recipe, for every arm alike.

How the stress settings were found is in experiments/README.md: by looking at plain GRPO alone.
"""

import dataclasses
import types
from collections.abc import Mapping

from experiments.arms import ARMS, Options


@dataclasses.dataclass(frozen=True)
class Setting:
    """Options of every arm; the temperature is also the one that the policy is measured at."""

    title: str
    options: Options
    sft_options: Options = dataclasses.field(default_factory=dict)
    temperature: float = 1.0


SETTINGS: Mapping[str, Setting] = types.MappingProxyType(
    {
        "comfortable": Setting(
            "comfortable: the lab's recipe (16 prompts × 8, learning rate 2e-4), 100 steps",
            {"max_steps": 100, "save_steps": 50},
        ),
        "rate": Setting(
            "stress by step size: as comfortable, learning rate 1e-3, 100 steps",
            {"max_steps": 100, "save_steps": 50, "learning_rate": 1e-3},
            {"max_steps": 100, "save_steps": 50},
        ),
        "smoke": Setting(
            "two tiny steps, to see that everything runs",
            {"max_steps": 2, "save_steps": 1, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
        ),
    }
)


def train_options(setting: str, arm: str) -> dict[str, str | float | bool]:
    """What `gtpo train` is told, beside seed and folder."""
    where, what = SETTINGS[setting], ARMS[arm]
    if what.method == "sft":
        shared = dict(where.sft_options or where.options)
    else:
        shared = {**where.options, "temperature": where.temperature}
    return {"method": what.method, "held_out_problems": 0, **shared, **what.options}
