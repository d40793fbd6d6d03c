"""The leaderboard on made-up results: its numbers are scipy's, and its page and figure are written by one command."""

import random

import numpy as np
import pytest
from scipy import stats

from experiments.lab.collect import ABOUT, AFTER, Record, write_data
from experiments.lab.jobs import Job
from experiments.leaderboard.__main__ import main
from experiments.leaderboard.protocol import ARMS, PRIMARY_ARMS, lab_jobs
from experiments.leaderboard.standings import standings, table
from gtpo.errors import DataError


def make_records(*arms, num_seeds=8, setting="headroom"):
    records = {}
    for arm in arms:
        for seed in range(201, 201 + num_seeds):
            rng = random.Random(f"{arm} {seed}")
            after = {name: rng.random() for name in AFTER}
            curve = {"step": [1, 2], "grad_norm": [1.0, 2.0 if arm == "grpo" else 4.0]}
            job = Job(setting, arm, seed)
            records[job] = Record(job, dict.fromkeys(ABOUT, "1"), after, curve)
    return records


def outcomes(records, arm):
    return np.array([record.after["pass@8"] for job, record in records.items() if job.arm == arm])


def test_differences_p_and_holms_p_are_those_of_the_definition():
    records = make_records("grpo", *PRIMARY_ARMS, "negative")
    found = {standing.arm: standing for standing in standings(records, "headroom")}
    p_values = {}
    for arm in (*PRIMARY_ARMS, "negative"):
        difference = outcomes(records, arm) - outcomes(records, "grpo")
        assert found[arm].difference == pytest.approx(difference.mean())
        student = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
        low, high = found[arm].interval
        assert low <= student.low + 1e-9
        assert high >= student.high - 1e-9
        test = stats.permutation_test((difference,), np.mean, permutation_type="samples", n_resamples=2**8)
        assert found[arm].p == pytest.approx(test.pvalue)
        p_values[arm] = test.pvalue
    smallest = min(PRIMARY_ARMS, key=p_values.get)
    assert found[smallest].holm_p == pytest.approx(min(1.0, 3 * p_values[smallest]))
    assert (found["negative"].holm_p, found["grpo"].difference, found["grpo"].p) == (None, None, None)
    assert (found["grpo"].grad_norm, found["gtpo"].grad_norm) == (1.5, 2.5)


def test_an_arm_with_fewer_seeds_or_without_the_other_primaries_gets_no_verdict():
    few = standings(make_records("grpo", *PRIMARY_ARMS, num_seeds=7), "headroom")
    assert {standing.p for standing in few} == {None}
    alone = standings(make_records("grpo", "gtpo"), "headroom")
    assert [standing.holm_p for standing in alone] == [None, None]
    elsewhere = standings(make_records("grpo", *PRIMARY_ARMS, setting="comfortable"), "comfortable")
    assert {standing.holm_p for standing in elsewhere} == {None}


def test_the_table_is_ordered_by_pass_at_8():
    records = make_records("grpo", "balanced")
    rows = table(standings(records, "headroom")).splitlines()[2:]
    means = [100 * outcomes(records, arm).mean() for arm in ("grpo", "balanced")]
    assert [f"{mean:.1f}" for mean in sorted(means, reverse=True)] == [row.split("|")[4].strip() for row in rows]


def test_one_command_writes_page_and_figure(tmp_path):
    write_data(make_records(*ARMS).values(), tmp_path / "data")
    page = tmp_path / "docs/leaderboard.md"
    page.parent.mkdir()
    assert main(["--data", str(tmp_path / "data"), "--page", str(page)]) == 0
    assert "## headroom" in page.read_text()
    assert "prefix baseline" in (tmp_path / "docs/figures/leaderboard.svg").read_text()
    with pytest.raises(DataError, match="has no runs of the leaderboard"):
        main(["--data", str(tmp_path / "nowhere"), "--page", str(page)])


def test_every_scheme_has_an_arm_with_eight_seeds_in_every_setting():
    jobs = lab_jobs()
    assert len(set(jobs)) == len(jobs)
    for setting in ("comfortable", "one-prompt", "headroom"):
        for arm in ARMS:
            assert [job.seed for job in jobs if (job.setting, job.arm) == (setting, arm)] == list(range(201, 209))
