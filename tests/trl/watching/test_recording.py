"""The records that a run writes can be read back, and a resumed run does not write a step twice."""

import pytest
import torch

import gtpo
from gtpo import GTPOConfig, GTPOTrainer
from gtpo.cli.main import main
from gtpo.files import JsonLines
from tests.oracle import paper
from tests.reading import read_groups, read_metrics
from tests.trl.checked import parity_reward, prompts, settings, train
from tests.trl.watching.watched import grpo_trainer
from trl import GRPOTrainer


def test_metrics_and_groups_are_written_and_read_back(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, record_groups=2, record_every=3, trainer=GTPOTrainer))
    metrics = read_metrics(tmp_path)
    assert [row["step"] for row in metrics] == [1, 2, 3, 4]
    assert all("gtpo/frac_kept" in row and row["seconds"] >= 0 for row in metrics)
    groups = read_groups(tmp_path)
    assert [group.step for group in groups] == [1, 1, 2, 2, 4, 4]  # the first two steps, then every third
    for group in groups:
        assert group.prompt.startswith("say w")
        assert len(group.completions) == 4
        assert sum(c.advantage for c in group.completions) == pytest.approx(0, abs=1e-5)
        for c in group.completions:
            delta = 1.0 if c.kept else 0.0
            assert c.token_advantage == pytest.approx([delta * c.push * w for w in c.token_weight], abs=1e-6)
            assert (
                len(c.token_ids) == len(c.pieces) == len(c.token_weight) == len(c.token_entropy) == len(c.token_logp)
            )
            assert c.entropy == pytest.approx(sum(c.token_entropy) / len(c.token_entropy), abs=1e-3)
            assert c.push == pytest.approx(c.advantage - 0.1 * c.entropy, abs=1e-5)
            assert c.rewards == {"parity_reward": float(sum(c.token_ids) % 2)}


def test_steps_after_the_last_log_are_not_lost(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, max_steps=5, logging_steps=3, trainer=GTPOTrainer))
    metrics = read_metrics(tmp_path)
    assert [row["step"] for row in metrics] == [3, 5]
    assert "gtpo/frac_kept" in metrics[1]
    assert not any(name.startswith("train_") for name in metrics[1])


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"steps_per_generation": 3, "per_device_train_batch_size": 4}, [1, 4, 7]),  # for the steps 1, 5 and 9
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 1, "max_steps": 5}, [1, 2, 5]),
    ],
    ids=["a generation for three steps", "two generations per step"],
)
def test_a_due_step_is_recorded_once_however_many_steps_a_generation_covers(options, steps, tiny_model, tmp_path):
    base = {"max_steps": 12, "record_every": 4, "record_groups": 1, "num_generations": 4, "trainer": GTPOTrainer}
    train(tiny_model, **settings(tmp_path, **{**base, **options}))
    assert [group.step for group in read_groups(tmp_path)] == steps


def test_evaluating_before_training_works(tiny_model, tmp_path):
    trainer = GTPOTrainer(
        tiny_model,
        parity_reward,
        GTPOConfig(**settings(tmp_path, per_device_eval_batch_size=4)),
        prompts(),
        eval_dataset=prompts(4),
    )
    assert "eval_gtpo/frac_kept" in trainer.evaluate()
    trainer.train()
    assert [row["step"] for row in read_metrics(tmp_path) if "loss" in row] == [1, 2, 3, 4]


def test_a_second_run_in_the_same_folder_backs_up_the_records_of_the_first(tiny_model, tmp_path):
    for _ in range(2):
        train(tiny_model, **settings(tmp_path, max_steps=2, trainer=GTPOTrainer))
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2]
    assert [row["step"] for row in JsonLines(tmp_path / "metrics.earlier-1.jsonl").rows()] == [1, 2]


def test_recording_can_be_turned_off(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, record_groups=0, trainer=GTPOTrainer))
    assert not (tmp_path / "groups.jsonl").exists()


def test_a_resumed_run_truncates_its_records_to_the_checkpoint(tiny_model, tmp_path):
    options = settings(
        tmp_path, save_strategy="steps", save_steps=2, record_every=1, record_groups=1, trainer=GTPOTrainer
    )
    train(tiny_model, **{**options, "max_steps": 3})
    (tmp_path / "metrics.jsonl").open("a").write('{"step": 4, "lo')  # killed while writing
    train(tiny_model, **options, resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3, 4]
    assert [group.step for group in read_groups(tmp_path)] == [1, 2, 3, 4]


class Remembering(GRPOTrainer):
    """Keeps what it computed in the first step, to compare the records with."""

    first = None

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.sampled = completion_ids_list, rewards
        return rewards

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        if self.first is None:
            prompt = batch["prompt_ids"], batch["prompt_mask"]
            logps = [self.plain_logps(*row) for row in zip(*prompt, self.sampled[0], strict=True)]
            self.first = {"logps": logps, "ids": self.sampled[0], "rewards": self.sampled[1], **batch}
        return batch

    def plain_logps(self, prompt_ids, prompt_mask, completion_ids):
        ids = torch.tensor([[*prompt_ids.tolist(), *completion_ids]])
        mask = torch.tensor([[*prompt_mask.tolist(), *[1] * len(completion_ids)]])
        with torch.no_grad():
            logits = self.model(input_ids=ids, attention_mask=mask).logits / self.temperature
        return logits[0, -len(completion_ids) - 1 : -1].log_softmax(-1)


@pytest.mark.parametrize("options", [{}, {"mask_truncated_completions": True}], ids=["plain", "masked truncation"])
def test_a_plain_grpo_run_records_what_its_trainer_computed(options, tiny_model, tmp_path):
    trainer = grpo_trainer(tiny_model, tmp_path, Remembering, max_steps=1, temperature=0.7, **options)
    gtpo.watch(trainer)
    trainer.train()
    first, groups = trainer.first, read_groups(tmp_path)
    assert [(group.method, group.step) for group in groups] == [("grpo", 1)] * 2
    seen = set()
    for group in groups:
        sampled = [c.token_ids for c in group.completions]
        rows = next(range(start, start + 4) for start in (0, 4) if first["ids"][start : start + 4] == sampled)
        batch = [paper.Completion(c.token_ids, c.advantage, 0, valid=c.valid) for c in group.completions]
        for c, row, mine in zip(group.completions, rows, batch, strict=True):
            logp, size = first["logps"][row], len(c.token_ids)
            is_truncated = c.token_ids[-1] not in {*trainer.eos_token_ids, 0}
            is_trained = not (options and is_truncated)
            seen.add(is_truncated)
            assert c.truncated == is_truncated
            assert c.valid == is_trained
            assert c.trained == [is_trained] * size
            assert c.rewards == {"parity_reward": first["rewards"][row].item()}
            assert c.advantage == pytest.approx(first["advantages"][row].item(), rel=1e-6)
            assert c.token_advantage == pytest.approx([c.advantage * is_trained] * size, rel=1e-5)
            assert c.token_logp == pytest.approx(logp[range(size), c.token_ids].tolist(), abs=1e-4)
            assert c.token_entropy == pytest.approx((-(logp.exp() * logp).sum(-1)).tolist(), abs=1e-4)
            conflicts = paper.conflicts(batch, mine, "both", "position")
            weight = 2.0 if c.advantage > 0 else 0.0
            assert c.token_weight == [is_trained * (weight if conflict else 1.0) for conflict in conflicts]
    assert seen == {True, False}


def test_without_texts_no_prompt_and_no_token_is_written(tiny_model, tmp_path, capsys):
    trainer = grpo_trainer(tiny_model, tmp_path, max_steps=1)
    gtpo.watch(trainer, texts=False)
    trainer.train()
    (row, *_) = JsonLines(tmp_path / "groups.jsonl").rows()
    assert row["prompt"] is None
    for completion in row["completions"]:
        assert completion["token_ids"] is None
        assert completion["pieces"] is None
        assert len(completion["token_entropy"]) == len(completion["trained"]) > 0
    assert main(["inspect", str(tmp_path), "--terminal"]) == 0
    out, err = capsys.readouterr()
    assert "prompt not recorded" in out
    assert " 1 2" in out
    assert "The texts were not recorded (texts=False): tokens are shown by their position." in err
