"""GTPO's entropies from the update itself, without a scoring pass before it.

The filter δ and the penalty γ⟨H⟩ need the mean entropy of every completion. While the weights stay the same, the
update computes the entropies that a pass before it would. The conflict weights λ need no entropies, so micro-batches
start with λ in place of advantages, and δ_i (A_i − γ⟨H⟩_i) is multiplied in between the forward pass and the loss.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import shape_advantages
from gtpo.trl.fast.correction import update_is_a_scoring_pass
from gtpo.trl.fast.padding import ROW_NUMBER
from gtpo.trl.gathering import Rows


def update_can_shape(trainer: Any) -> bool:
    """Whether the update computes every entropy that the next generation batch needs, for rows of this process alone.

    Every completion has to be in the update: tied ones are pushed too, and few are filtered. With
    `entropy_filter="auto"` few are: a policy that starts out above the threshold is not filtered, and one that starts
    out below it has few completions above. With "all" and "negative" most of a batch may be filtered, and a pass
    before the update pays.
    """
    args, shaping = trainer.args, trainer.args.shaping
    return (
        args.credit == "gtpo"
        and trainer.initial_entropy.is_frozen
        and shaping.entropy_filter in ("auto", "off")
        and shaping.entropy_penalty > 0
        and not (shaping.entropy_penalty_center or shaping.entropy_penalty_relative)
        and args.per_device_train_batch_size * args.steps_per_generation % trainer.num_generations == 0
        and trainer.num_iterations == 1
        and update_is_a_scoring_pass(trainer)
    )


@dataclasses.dataclass
class UnshapedBatch:
    """A generation batch of complete groups whose entropies the update is going to compute."""

    rows: Rows
    config: ShapingConfig
    initial_entropy: float | None
    num_micro_batches: int
    num_shaped: int = 0

    def __post_init__(self) -> None:
        self.token_entropy = torch.zeros(self.rows.completion_ids.shape, device=self.rows.advantages.device)
        self.token_logps = torch.full_like(self.token_entropy, torch.nan)

    def for_update(self) -> dict[str, Tensor]:
        """λ in place of the advantages, and the numbers of the rows.

        λ is 0 on all tokens of a bad completion that shares all of them. Such a row gets NaN, so that trimming keeps
        it in the update, which computes its entropy.
        """
        rows, trained = self.rows, self.rows.trained
        config = dataclasses.replace(self.config, entropy_filter="off", entropy_penalty=0.0)
        weight = rows.shaped(self.token_entropy, None, config).token_weight * trained
        weight = weight.masked_fill(trained & ~weight.any(dim=1, keepdim=True), torch.nan)
        return {"advantages": weight, ROW_NUMBER: torch.arange(len(weight), device=weight.device)}

    def shape(self, inputs: dict[str, Any], logps: Tensor, entropy: Tensor) -> None:
        """Complete the advantages of a micro-batch, whose λ trimming may have rescaled, and keep its entropies."""
        numbers, weight = inputs.pop(ROW_NUMBER), inputs["advantages"]
        is_trained = weight.ne(0).any(dim=1)
        shaped = shape_advantages(
            inputs["completion_ids"],
            inputs["completion_mask"],
            self.rows.advantages[numbers],
            entropy,
            numbers,
            initial_entropy=self.initial_entropy,
            loss_mask=inputs["completion_mask"] * inputs.get("tool_mask", 1),
            valid=is_trained,
            config=dataclasses.replace(self.config, conflict_edges="none"),
        )
        inputs["advantages"] = weight.nan_to_num(0.0) * shaped.advantages
        numbers, width = numbers[is_trained], weight.shape[1]
        self.token_entropy[numbers, :width] = entropy.detach().float()[is_trained]
        self.token_logps[numbers, :width] = logps.detach().float()[is_trained]
        self.num_shaped += 1

    @property
    def is_complete(self) -> bool:
        return self.num_shaped == self.num_micro_batches

    def rows_with_entropy(self) -> Rows:
        return dataclasses.replace(self.rows, token_entropy=self.token_entropy)
