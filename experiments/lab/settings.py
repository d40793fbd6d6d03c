"""The settings in which arms are compared: options of `gtpo train` on top of the lab's recipe, the same for every arm.

experiments/README.md explains how the stress settings were chosen, from runs of plain GRPO alone.
"""

import dataclasses
import types
from collections.abc import Mapping

from experiments.lab.arms import ARMS, Options


@dataclasses.dataclass(frozen=True)
class Setting:
    """Options of every arm, and the temperature and the number of problems of the evaluation."""

    title: str
    options: Options
    sft_options: Options = dataclasses.field(default_factory=dict)
    temperature: float = 1.0
    num_problems: int = 128


ONE_PROMPT: Options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
"""One prompt per step, as in the paper."""
SFT_STEPS: Options = {"max_steps": 100, "save_steps": 50}
"""SFT has no reward, sampling or groups, so it uses the lab's own batch in every setting."""

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
        "one-prompt": Setting(
            "the paper's batch: 1 prompt × 8, clean reward, learning rate 5e-5, 400 steps",
            {**ONE_PROMPT, "max_steps": 400, "save_steps": 100, "learning_rate": 5e-5},
            SFT_STEPS,
        ),
        "headroom": Setting(
            "head-room: the lab's batch (16 prompts × 8) at a learning rate of 1.5e-5, 50 steps",
            {"max_steps": 50, "save_steps": 50, "learning_rate": 1.5e-5},
        ),
        "smoke": Setting(
            "two tiny steps, to see that everything runs",
            {**ONE_PROMPT, "max_steps": 2, "save_steps": 1},
            num_problems=4,
        ),
    }
)


def train_options(setting: str, arm: str) -> dict[str, str | float | bool]:
    """Options of `gtpo train` except seed and folder; fp32 on every device."""
    chosen, method = SETTINGS[setting], ARMS[arm].method
    if method == "sft":
        shared = dict(chosen.sft_options or chosen.options)
    else:
        shared = {**chosen.options, "temperature": chosen.temperature}
    return {"method": method, "held_out_problems": 0, "bf16": False, **shared, **ARMS[arm].options}
