"""The settings: where the arms are compared. Options of `gtpo train` on top of the lab's recipe, for every arm alike.

How the stress settings were found is in experiments/README.md: by looking at plain GRPO alone.
"""

import dataclasses
import types
from collections.abc import Mapping

from experiments.lab.arms import ARMS, Options


@dataclasses.dataclass(frozen=True)
class Setting:
    """Options of every arm; the temperature is also the one that the policy is measured at, on so many problems."""

    title: str
    options: Options
    sft_options: Options = dataclasses.field(default_factory=dict)
    temperature: float = 1.0
    num_problems: int = 128


ONE_PROMPT: Options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
"""As in the paper: a step is one prompt."""
SFT_STEPS: Options = {"max_steps": 100, "save_steps": 50}
"""SFT has nothing to do with reward, sampling or groups: the lab's own batch, in every setting."""

SETTINGS: Mapping[str, Setting] = types.MappingProxyType(
    {
        "comfortable": Setting(
            "comfortable: the lab's recipe (16 prompts × 8, learning rate 2e-4), 100 steps",
            {"max_steps": 100, "save_steps": 50},
        ),
        "noise": Setting(
            "stress by noise: 1 prompt × 8, temperature 1.4, reward noise of 10, learning rate 4e-4, 200 steps",
            {
                **ONE_PROMPT,
                "max_steps": 200,
                "save_steps": 100,
                "learning_rate": 4e-4,
                "rewards": "experiments.lab.rewards:noisy_reward",
            },
            SFT_STEPS,
            temperature=1.4,
        ),
        "edge": Setting(
            "edge of learning: 1 prompt × 8, temperature 1.4, reward noise of 10, learning rate 2e-4, 200 steps",
            {
                **ONE_PROMPT,
                "max_steps": 200,
                "save_steps": 100,
                "learning_rate": 2e-4,
                "rewards": "experiments.lab.rewards:noisy_reward",
            },
            SFT_STEPS,
            temperature=1.4,
        ),
        "batch": Setting(
            "stress by step size: 1 prompt × 8, learning rate 5e-4, 200 steps",
            {**ONE_PROMPT, "max_steps": 200, "save_steps": 100, "learning_rate": 5e-4},
            SFT_STEPS,
        ),
        "smoke": Setting(
            "two tiny steps, to see that everything runs",
            {**ONE_PROMPT, "max_steps": 2, "save_steps": 1},
            num_problems=4,
        ),
    }
)


def train_options(setting: str, arm: str) -> dict[str, str | float | bool]:
    """What `gtpo train` is told, beside seed and folder: in fp32, wherever it runs."""
    where, what = SETTINGS[setting], ARMS[arm]
    if what.method == "sft":
        shared = dict(where.sft_options or where.options)
    else:
        shared = {**where.options, "temperature": where.temperature}
    return {"method": what.method, "held_out_problems": 0, "bf16": False, **shared, **what.options}
