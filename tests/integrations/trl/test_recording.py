"""What a run writes beside its checkpoints can be read back, and a resumed run does not write a step twice."""

import pytest

from gtpo import GTPOTrainer
from gtpo.records import read_groups, read_metrics

from integrations.trl.checked import settings, train


def test_metrics_and_groups_are_written_and_read_back(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, record_groups=2, record_every=2, trainer=GTPOTrainer))
    metrics = read_metrics(tmp_path)
    assert [row["step"] for row in metrics] == [1, 2, 3, 4]
    assert all("gtpo/frac_kept" in row and row["seconds"] >= 0 for row in metrics)
    groups = read_groups(tmp_path)
    assert [group.step for group in groups] == [1, 1, 3, 3]
    for group in groups:
        assert group.prompt.startswith("say w")
        assert len(group.completions) == 4
        assert sum(c.advantage for c in group.completions) == pytest.approx(0, abs=1e-5)
        for c in group.completions:
            delta = 1.0 if c.kept else 0.0
            assert c.token_advantage == pytest.approx([delta * c.push * w for w in c.token_weight], abs=1e-6)
            assert len(c.token_ids) == len(c.pieces) == len(c.token_weight) == len(c.token_entropy)
            assert c.entropy == pytest.approx(sum(c.token_entropy) / len(c.token_entropy), abs=1e-3)
            assert c.push == pytest.approx(c.advantage - 0.1 * c.entropy, abs=1e-5)
            assert c.rewards == {"parity_reward": float(sum(c.token_ids) % 2)}


def test_recording_can_be_turned_off(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, record_groups=0, trainer=GTPOTrainer))
    assert not (tmp_path / "groups.jsonl").exists()


def test_a_resumed_run_cuts_its_records_back_to_the_checkpoint(tiny_model, tmp_path):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, record_every=1, trainer=GTPOTrainer)
    train(tiny_model, **{**options, "max_steps": 3})
    (tmp_path / "metrics.jsonl").open("a").write('{"step": 4, "lo')  # killed while writing
    train(tiny_model, **options, resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3, 4]
    assert [group.step for group in read_groups(tmp_path)] == [1, 2, 3, 4]
