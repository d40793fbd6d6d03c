"""A GTPOTrainer with any credit scheme that recomputes its advantages with the loops of tests/oracle."""

import math
from typing import Any

import pytest
import torch

from gtpo import GTPOTrainer
from tests.oracle import credit as oracle
from tests.trl.checked import CheckedTrainer, parity_reward, settings, train

WEIGHTS = [1.0, 3.0]


def short_reward(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    return [None if len(ids) == 5 else 1.0 / len(ids) for ids in completion_ids]


short_reward.spans = lambda text: [(0, len(text.split(" ")[0]))]  # its first word


def is_word(token: int) -> bool:
    """Whether the tiny tokenizer decodes this token to a word: neither a special token nor beyond its vocabulary."""
    return 2 < token < 62


class CreditedTrainer(CheckedTrainer):
    """`checks` counts compared batches, `passes` the scoring forwards over the policy, `num_judged` judged tokens."""

    num_judged = 0

    def _credit(self, rows: Any, batch: dict[str, Any], *others: Any) -> torch.Tensor:
        credit = GTPOTrainer._credit(self, rows, batch, *others)
        passes = self.passes
        rollouts = self.rollouts(batch)
        self.passes = passes
        for row, rollout in enumerate(rollouts):
            expected = oracle.credit(self.loops, rollouts, rollout, **self.options(rollouts))
            got = credit[row].tolist()
            assert got[: len(expected)] == pytest.approx(expected, abs=1e-4)
            assert not any(got[len(expected) :])
        self.num_judged += sum(judge == 1 for rollout in rollouts for judge in rollout.judges)
        self.checks += 1
        return credit

    @property
    def loops(self) -> Any:
        return getattr(oracle, self.args.credit)

    def options(self, rollouts: oracle.Batch) -> dict[str, Any]:
        """The parameters of the scheme, as its loops take them."""
        own = dict(self.args.credit_parameters or {})
        if self.args.credit not in ("gtpo", "annealed"):
            return own
        counted = [rollout for rollout in rollouts if rollout.valid]
        entropy = sum(oracle.paper.mean_entropy(rollout) for rollout in counted) / len(counted)
        own |= {"initial_entropy": self.args.initial_entropy, "threshold": self.args.entropy_threshold}
        return own | ({"batch_entropy": entropy} if self.args.credit == "annealed" else {})

    def rollouts(self, batch: dict[str, Any]) -> oracle.Batch:
        completions = self.completions(batch)
        parts = [
            [0.0 if math.isnan(score) else weight * score for weight, score in zip(WEIGHTS, scores, strict=True)]
            for scores in self.raw_rewards.tolist()
        ]
        rollouts = []
        for row, completion in enumerate(completions):
            group = [parts[other] for other, one in enumerate(completions) if one.group == completion.group]
            means = [sum(column) / len(group) for column in zip(*group, strict=True)]
            words = [t for t, token in enumerate(completion.tokens) if is_word(token)]
            rollouts.append(
                oracle.Rollout(
                    **vars(completion),
                    reward=sum(parts[row]),
                    components=[part - mean for part, mean in zip(parts[row], means, strict=True)],
                    judges=[1 if words[:1] == [t] else -1 for t in range(len(completion.tokens))],
                )
            )
        return rollouts


def train_with(model: str, folder: Any, trainer: type = CreditedTrainer, **options: Any) -> Any:
    known = {"reward_weights": WEIGHTS, "max_steps": 2, "record_every": 1, **options}
    return train(model, [parity_reward, short_reward], trainer=trainer, **settings(folder, **known))
