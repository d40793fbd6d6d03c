"""Qwen on the leaderboard: files as experiments.qwen.arm writes them are collected, compared and shown."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from experiments.lab import collect
from experiments.lab.collect import ABOUT, AFTER, Record, write_data
from experiments.lab.jobs import Job, write_result
from experiments.leaderboard.__main__ import main
from experiments.leaderboard.places import departures, read_places
from experiments.leaderboard.protocol import QWEN_ARMS
from experiments.leaderboard.standings import standings
from experiments.qwen.specs import ArmRun

SETTINGS = {"num_samples": 32, "temperature": 0.9, "top_p": 1.0, "max_new_tokens": 400, "seed": 0}
HEADER = {"gtpo_samples": 1, "problems": {"name": "gsm8k", "count": 2, "sha256": "0"}, "settings": SETTINGS}
GAINS = {
    "gtpo": [0.05, 0.06, 0.05, 0.07],
    "component": [-0.01, 0.02, 0.01, -0.02],
    "annealed": [-0.03, -0.02, -0.05, -0.01],
}
"""Differences in pass@8 to GRPO, seed by seed. The last interval excludes 0, with a p of 0.049 before Holm."""


def write_run(out, arm, seed, pass_at_8, pass_at_1=0.6, steps=50):
    """The two files of a run on two problems, which lie 0.1 to either side of the mean."""
    run = ArmRun(out, "qwen-leaderboard", arm, seed)
    curve = {"step": [1, 2, 3], "grad_norm": [9.0, 2.0, 4.0], "accuracy": [0.5, 0.5, 0.5]}
    about = {"arm": arm, "seed": seed, "versions": {"torch": "2"}, "device": "GPU", "commit": "0", "seconds": 60.0}
    write_result(run.curve, {**about, "steps": steps, "curve": curve})
    values = {"pass@8": [pass_at_8 - 0.1, pass_at_8 + 0.1], "pass@1": [pass_at_1 - 0.1, pass_at_1 + 0.1]}
    header = {**HEADER, "model": arm, "engine": {"engine": "vllm", "weights": run.name}}
    write_result(run.result(run.tasks[0]), {"arm": arm, "seed": seed, "header": header, "values": values})


def write_runs(tmp_path, seeds):
    """Runs of every arm, collected into the data of a leaderboard whose lab has one run."""
    rng = random.Random(0)
    for index, seed in enumerate(seeds):
        grpo = 0.7 + rng.random() / 10
        for arm in QWEN_ARMS:
            gain = GAINS[arm][index] if arm in GAINS else rng.random() / 10
            write_run(tmp_path / "runs", arm, seed, grpo if arm == "grpo" else grpo + gain, rng.random() / 2 + 0.2)
    job = Job("headroom", "grpo", 201)
    record = Record(job, dict.fromkeys(ABOUT, "1"), dict.fromkeys(AFTER, 0.5), {"step": [1], "grad_norm": [1.0]})
    write_data([record], tmp_path / "data")
    assert collect.main([str(tmp_path / "runs"), "--data", str(tmp_path / "data")]) == 0
    return read_places(tmp_path / "data")[-1]


def student_p(differences):
    t = np.mean(differences) / (np.std(differences, ddof=1) / math.sqrt(len(differences)))
    return 2 * stats.t.sf(abs(t), len(differences) - 1)


def test_p_is_that_of_the_paired_t_test_and_holm_corrects_three(tmp_path):
    found = standings(write_runs(tmp_path, (21, 22, 23, 24)))
    p_values = {arm: student_p(gains) for arm, gains in GAINS.items()}
    for arm, p in p_values.items():
        assert found[arm].difference == pytest.approx(np.mean(GAINS[arm]))
        assert found[arm].p == pytest.approx(p)
    assert p_values["gtpo"] < p_values["annealed"] < p_values["component"]
    assert found["gtpo"].holm_p == pytest.approx(3 * p_values["gtpo"])
    assert found["annealed"].holm_p == pytest.approx(2 * p_values["annealed"])
    assert found["component"].holm_p == pytest.approx(p_values["component"])
    verdicts = {arm: found[arm].verdict for arm in GAINS}
    assert verdicts == {"gtpo": "better", "component": "not shown", "annealed": "not shown"}
    assert (found["dr-grpo"].is_primary, found["dr-grpo"].holm_p) == (False, None)
    assert found["gtpo"].grad_norm == 4.0


def test_three_seeds_of_one_arm_give_it_no_p_and_no_primary_a_verdict(tmp_path):
    write_runs(tmp_path, (21, 22, 23, 24))
    for path in (tmp_path / "data/real").glob("*_annealed_seed24*"):
        path.unlink()
    qwen = read_places(tmp_path / "data")[-1]
    found = standings(qwen)
    assert (found["annealed"].p, found["annealed"].verdict) == (None, None)
    assert [found[arm].verdict for arm in ("gtpo", "component")] == [None, None]
    assert found["dr-grpo"].verdict is not None
    assert qwen.num_finished == 19


def test_the_page_shows_qwen_next_to_the_lab(tmp_path):
    write_runs(tmp_path, (21, 22, 23, 24))
    page = tmp_path / "leaderboard.md"
    assert main(["--data", str(tmp_path / "data"), "--page", str(page)]) == 0
    text = page.read_text()
    assert "1 of 304 runs in the lab and 20 of 20 on Qwen are finished." in text
    assert "- *Qwen on GSM8K*: pass@8 is better for **GTPO**" in text
    assert "| **annealed** | 4 | 4 |" in text.partition("## Qwen on GSM8K")[2]
    drawn = (tmp_path / "figures/leaderboard.svg").read_text()
    assert ">Qwen on GSM8K<" in drawn
    assert ">headroom<" not in drawn  # its one run is compared with nothing


def test_a_run_without_its_curve_or_its_steps_is_not_finished(tmp_path):
    write_runs(tmp_path, (21,))
    write_run(tmp_path / "runs", "component", 21, 0.7, steps=49)
    assert collect.main([str(tmp_path / "runs"), "--data", str(tmp_path / "data")]) == 0
    (tmp_path / "data/real/qwen-leaderboard_gtpo_seed21.json").unlink()
    qwen = read_places(tmp_path / "data")[-1]
    assert qwen.arms == ["grpo", "dr-grpo", "annealed"]
    assert qwen.num_finished == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"commit":"0"', '"commit":"1"', "on Qwen come from several commits: 0, 1"),
        ('"device":"GPU"', '"device":"CPU"', "on Qwen come from several kinds of machine: CPU, GPU"),
        ('"torch":"2"', '"torch":"3"', "on Qwen come from several versions of torch: 2, 3"),
    ],
)
def test_runs_of_two_origins_are_named(old, new, message, tmp_path):
    write_runs(tmp_path, (21,))
    path = tmp_path / "data/real/qwen-leaderboard_gtpo_seed21.json"
    path.write_text(path.read_text().replace(old, new))
    assert departures(read_places(tmp_path / "data")) == [f"The runs {message}."]
