"""The leaderboard on made-up results: its numbers are scipy's, and its page and figure are written by one command."""

import random

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from experiments.lab.collect import ABOUT, AFTER, Record, write_data
from experiments.lab.jobs import Job
from experiments.leaderboard.__main__ import DATA, ROOT, draw, main
from experiments.leaderboard.protocol import ARMS, OUTCOMES, PRIMARY_ARMS, lab_jobs
from experiments.leaderboard.standings import standings, summary, table
from experiments.present.lab_figures import STYLE
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


def outcomes(records, arm, outcome="pass@8"):
    return np.array([record.after[outcome] for job, record in records.items() if job.arm == arm])


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
    assert "No verdict before all primaries have their seeds: **GTPO**." in summary(alone)
    assert "Too few seeds" in summary(few)
    assert "Too few seeds" not in summary(alone)
    elsewhere = standings(make_records("grpo", *PRIMARY_ARMS, setting="comfortable"), "comfortable")
    assert {standing.holm_p for standing in elsewhere} == {None}


def test_the_table_is_ordered_by_pass_at_8():
    records = make_records("grpo", "balanced")
    by_outcome = {outcome: standings(records, "headroom", outcome) for outcome in OUTCOMES}
    header, _, *rows = [[cell.strip() for cell in row.split("|")] for row in table(by_outcome).splitlines()]
    for outcome, reverse in (("pass@8", True), ("pass@1", None)):
        shown = [row[header.index(outcome)] for row in rows]
        means = {arm: f"{100 * outcomes(records, arm, outcome).mean():.1f}" for arm in ("grpo", "balanced")}
        assert set(shown) == set(means.values())
        assert reverse is None or shown == sorted(shown, key=float, reverse=True)


def test_one_command_writes_page_and_figure(tmp_path):
    records = {**make_records("grpo", "gtpo", setting="comfortable"), **make_records(*ARMS)}
    write_data(records.values(), tmp_path / "data")
    page = tmp_path / "docs/leaderboard.md"
    page.parent.mkdir()
    assert main(["--data", str(tmp_path / "data"), "--page", str(page)]) == 0
    assert page.read_text().index("## headroom") < page.read_text().index("## comfortable")  # the primary one first
    drawn = (tmp_path / "docs/figures/leaderboard.svg").read_text()
    for label in ("prefix baseline", "GRPO", "primary", "other", "not shown"):
        assert f">{label}<" in drawn
    with pytest.raises(DataError, match="has no runs of the leaderboard"):
        main(["--data", str(tmp_path / "nowhere"), "--page", str(page)])


def with_outcomes(differences, arm, setting):
    """GRPO at 50 %, and one arm that differs from it by `differences`; the other primaries differ by nothing."""
    records = make_records("grpo", *dict.fromkeys([*PRIMARY_ARMS, arm]), setting=setting)
    for job, record in records.items():
        record.after["pass@8"] = 0.5 + (differences[job.seed - 201] if job.arm == arm else 0.0)
    return records


STEADY = [0.03, 0.04, 0.05, 0.03, 0.04, 0.05, 0.04, 0.05]
BARELY = [0.064, 0.058, 0.018, -0.012, 0.047, -0.01, 0.076, 0.019]
"""Eight differences whose interval excludes 0: with p = 1/128, and with p = 6/128, which Holm makes 18/128."""


@pytest.mark.parametrize(
    ("differences", "arm", "setting", "verdict"),
    [
        (STEADY, "gtpo", "headroom", "better"),
        ([-d for d in STEADY], "gtpo", "headroom", "worse"),
        ([*STEADY[:4], *(-d for d in STEADY[4:])], "gtpo", "headroom", "not shown"),
        (BARELY, "gtpo", "headroom", "not shown"),  # a primary needs Holm's p
        (BARELY, "negative", "headroom", "better"),
        (BARELY, "gtpo", "comfortable", "better"),
    ],
)
def test_a_verdict_follows_the_protocol(differences, arm, setting, verdict):
    found = {each.arm: each for each in standings(with_outcomes(differences, arm, setting), setting)}
    assert found[arm].verdict == verdict
    assert found["grpo"].verdict is None
    assert {each.verdict for name, each in found.items() if name not in (arm, "grpo")} == {"not shown"}


def test_an_effect_beyond_the_axis_is_an_arrow_with_its_number(tmp_path):
    found = standings(with_outcomes([d - 0.45 for d in STEADY], "random", "headroom"), "headroom")
    with mpl.rc_context(STYLE):
        draw({"headroom": dict.fromkeys(OUTCOMES, found)}, tmp_path / "figure.svg")
    assert ">−40.9<" in (tmp_path / "figure.svg").read_text()


@pytest.mark.skipif(not DATA.exists(), reason="the leaderboard has no runs yet")
def test_the_committed_page_is_that_of_the_committed_data(tmp_path):
    assert main(["--page", str(tmp_path / "leaderboard.md")]) == 0
    assert (ROOT / "docs/leaderboard.md").read_text() == (tmp_path / "leaderboard.md").read_text()
    assert "(leaderboard.md)" in (ROOT / "docs/results.md").read_text()
    assert "leaderboard.md" in (ROOT / "mkdocs.yml").read_text()


def test_every_scheme_has_an_arm_with_eight_seeds_in_every_setting():
    jobs = lab_jobs()
    assert len(set(jobs)) == len(jobs)
    for setting in ("comfortable", "one-prompt", "headroom"):
        for arm in ARMS:
            assert [job.seed for job in jobs if (job.setting, job.arm) == (setting, arm)] == list(range(201, 209))
