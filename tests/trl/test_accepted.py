"""What options that TRL has for GRPO change in a run of GTPO. Their advantages are checked in test_trainer.py."""

import math

import pytest
import torch

from gtpo import GTPOTrainer
from tests.trl.checked import CheckedTrainer, last_log, settings, train
from trl import GRPOTrainer

OPTIONS = {
    "cispo": {"epsilon_high": 1.001},
    "luspo": {"importance_sampling_level": "sequence"},
    "sapo": {"sapo_temperature_pos": 1.5},
}


def expected_loss(loss_type, args, rows):
    """`rows` have, for each completion, the (log-prob, old log-prob, advantage) of its tokens."""
    losses = []
    for row in rows:
        level = [sum(new - old for new, old, _ in row) / len(row)] * len(row)
        for (new, old, advantage), mean in zip(row, level, strict=True):
            ratio = math.exp(mean if loss_type == "luspo" else new - old)
            if loss_type == "cispo":
                losses.append(-min(ratio, args.epsilon_high) * advantage * new)
            elif loss_type == "luspo":
                clipped = min(max(ratio, 1 - args.epsilon), 1 + args.epsilon)
                losses.append(-min(ratio * advantage, clipped * advantage) / len(rows))
            else:
                heat = args.sapo_temperature_pos if advantage > 0 else args.sapo_temperature_neg
                soft = 4 / heat / (1 + math.exp(-heat * (ratio - 1)))
                losses.append(-soft * advantage / len(row) / len(rows))
    return sum(losses) / (sum(map(len, rows)) if loss_type == "cispo" else 1)


@pytest.mark.parametrize("loss_type", OPTIONS)
def test_the_loss_is_that_of_its_type_with_one_advantage_per_token(loss_type, tiny_model, tmp_path):
    farthest = []

    class Recomputed(GTPOTrainer):
        def _compute_loss(self, model, inputs):
            loss = super()._compute_loss(model, inputs)
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            width = inputs["completion_ids"].shape[1]
            with torch.no_grad():
                logits = model(input_ids=ids, attention_mask=mask).logits[:, -width - 1 : -1]
            logps = logits.log_softmax(-1).gather(2, inputs["completion_ids"].unsqueeze(2)).squeeze(2)
            columns = (logps, inputs["old_per_token_logps"], inputs["advantages"])
            rows = [
                [tuple(column[row, t].item() for column in columns) for t in range(int(size))]
                for row, size in enumerate(inputs["completion_mask"].sum(1))
            ]
            assert loss.item() == pytest.approx(expected_loss(loss_type, self.args, rows), rel=1e-3, abs=1e-4)
            assert len({advantage for row in rows for _, _, advantage in row}) > 4
            farthest.append(max(abs(new - old) for row in rows for new, old, _ in row))
            return loss

    options = {"loss_type": loss_type, "num_iterations": 2, "trim_batches": False, **OPTIONS[loss_type]}
    train(tiny_model, trainer=Recomputed, **settings(tmp_path, **options))
    assert len(farthest) == 4
    assert max(farthest) > 0.01


@pytest.mark.parametrize("scale_rewards", ["group", "batch"])
def test_equal_rewards_are_exactly_tied_when_advantages_are_divided(scale_rewards, tiny_model, tmp_path, monkeypatch):
    noise = []
    generate = GRPOTrainer._generate_and_score_completions

    def noting(self, inputs):
        batch = generate(self, inputs)
        noise.append(batch["advantages"].abs().max().item())
        return batch

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", noting)
    options = {"scale_rewards": scale_rewards, "num_generations": 6, "per_device_train_batch_size": 6}
    options |= {"entropy_penalty": 0.0, "max_steps": 1}
    rewards = [0.99] * 6
    trainer = train(tiny_model, lambda **_: rewards, **settings(tmp_path, **options))
    assert max(noise) > 1e-5  # TRL's advantages, which would have signs
    assert last_log(trainer)["gtpo/frac_tied_groups"] == 1.0
    assert last_log(trainer)["grad_norm"] == 0.0


def test_an_entropy_bonus_is_taken_over_all_completions_including_filtered_ones(tiny_model, tmp_path):
    trainer = train(tiny_model, **settings(tmp_path, entropy_coef=0.5))
    assert trainer.seen["filtered"] > 0
    for log in trainer.state.log_history[:-1]:
        assert log["loss"] == pytest.approx(log["policy_loss"] - 0.5 * log["entropy"], rel=1e-3)
        assert log["entropy"] == pytest.approx(log["gtpo/token_entropy"], rel=1e-4)


def test_an_adaptive_entropy_bonus_is_a_floor_under_the_filter(tiny_model, tmp_path):
    options = {"use_adaptive_entropy": True, "entropy_target": 1.7, "entropy_coef_delta": 0.1}
    trainer = train(tiny_model, trainer=CheckedTrainer, **settings(tmp_path, max_steps=6, **options))
    coefficient = 0.0
    for log in trainer.state.log_history[:-1]:
        coefficient = coefficient + 0.1 if log["entropy"] <= 1.7 else max(0.0, coefficient - 0.1)
        assert log["entropy_coef"] == pytest.approx(coefficient)
