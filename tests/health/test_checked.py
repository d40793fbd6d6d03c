"""A verdict says what was checked and what was not, and its remedies fit the method and the finding."""

import pytest

from gtpo.health.held_out import HeldOut, held_out_in, read_held_out
from gtpo.health.verdict import CHECKS, health_of
from tests.runs.making import rows

TIED = "frac_reward_zero_std"


def fall(step):
    return 0.6 if step < 20 else 0.0


@pytest.mark.parametrize(
    ("columns", "count", "name"),
    [
        ({"reward": 0.5}, 3, "unknown"),  # too few rows
        ({"reward": 0.5}, 9, "unknown"),  # too few steps
        ({"reward": 0.5}, 10, "healthy"),
        ({"learning_rate": 1e-6}, 40, "unknown"),  # nothing to judge by
        ({"grad_norm": float("nan")}, 1, "collapsing"),
    ],
)
def test_a_run_is_healthy_only_if_its_reward_could_be_checked(columns, count, name):
    assert health_of(rows(count, **columns))[-1].name == name


def test_four_rows_of_ten_steps_are_enough():
    sparse = [{"step": 10 * row, "reward": 0.5} for row in range(1, 5)]
    assert [verdict.name for verdict in health_of(sparse)] == ["unknown"] * 3 + ["healthy"]


def test_a_run_logged_every_ten_steps_that_dies_at_once_is_found_in_its_second_row():
    dead = [{"step": 10, "reward": 0.1, TIED: 0.8}, *({"step": 10 * n, "reward": 0.0, TIED: 1.0} for n in (2, 3, 4))]
    assert [verdict.level for verdict in health_of(dead)][1:] == [2, 2, 2]


def test_a_reward_that_is_lost_after_the_first_row_of_ten_steps_is_found_although_groups_are_not_tied():
    def lost(row):
        return 0.4 if row == 1 else 0.02 + 0.01 * (row % 2)

    verdicts = health_of([{"step": 10 * row, "reward": lost(row), TIED: 0.7} for row in range(1, 11)])
    assert [verdict.level for verdict in verdicts] == [0] * 5 + [2] * 5
    assert "in the first logged row" in verdicts[-1].reason
    for begin in (0, 100):  # also in a log that begins at step 101
        by_step = health_of([{"step": begin + row, "reward": lost(row), TIED: 0.7} for row in range(1, 10)])
        assert by_step[-1].level == 0  # one row of one step is high by chance
    late = health_of([{"step": 100 + 10 * row, "reward": lost(row), TIED: 0.7} for row in range(1, 11)])
    assert late[-1].level == 2


def test_every_check_either_ran_on_values_or_says_why_not():
    metrics = rows(12, reward=lambda step: step / 10, **{"rewards/solved/mean": 0.5, "rewards/tags/mean": 0.25})
    verdict = health_of(metrics)[-1]
    assert len(verdict.checked) + len(verdict.skipped) == len(CHECKS)
    values = {result.kind: result.values for result in verdict.checked}
    assert values["reward_falling"]["reward"] == pytest.approx({"first": 0.3, "best": 0.5, "recent": 1.0})
    assert values["reward_falling"]["rewards/solved"]["recent"] == 0.5
    skipped = {result.kind: result.skipped for result in verdict.skipped}
    assert skipped["accuracy_falling"] == "accuracy not logged"
    assert skipped["nothing_learned"] == "needs 50 steps, has 12"
    assert skipped["held_out_worse"].startswith("no summary.json")
    assert {result.kind: result.skipped for result in health_of(metrics[:2])[-1].skipped}["reward_falling"] == (
        "needs 4 logged rows, has 2"
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"entropy": lambda step: 0.4 if step < 20 else 2.0},
        {"entropy": lambda step: 0.4 if step < 20 else 0.002},
        {"reward": fall, TIED: lambda step: float(step >= 20)},
        {"completions/clipped_ratio": 1.0, TIED: 1.0, "reward": 0.0},
    ],
)
def test_a_run_of_grpo_is_not_told_to_set_options_of_gtpo(columns):
    remedies = " ".join(finding.remedy for finding in health_of(rows(40, **columns))[-1].findings)
    assert remedies
    for option in ("entropy_filter", "entropy_penalty", "conflict_positive_weight"):
        assert option not in remedies


def test_a_run_of_gtpo_is():
    metrics = rows(40, **{"gtpo/entropy_mean": lambda step: 0.4 if step < 20 else 2.0})
    assert "entropy_filter='all'" in health_of(metrics)[-1].findings[0].remedy


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        ({"reward": fall, TIED: lambda step: float(step >= 20)}, "Halve the learning rate"),  # dead
        ({"reward": 0.5, TIED: 1.0}, "Check the reward function and the difficulty"),  # constant
        ({"reward": lambda step: 0.9 + step / 1000, TIED: 0.9}, "harder problems"),  # solved
        ({"reward": lambda step: min(0.0, step / 20 - 1), TIED: 0.9}, "Read some completions"),  # gamed or solved
        ({"reward": lambda step: 0.1 * (step % 12 == 0), TIED: 0.9}, "easier problems"),  # too hard
    ],
)
def test_the_advice_on_tied_groups_depends_on_the_reason(columns, advice):
    (*_, verdict) = health_of(rows(40, **columns))
    remedies = " ".join(finding.remedy for finding in verdict.findings)
    assert advice in remedies
    assert ("easier problems" in remedies) == (advice == "easier problems")


@pytest.mark.parametrize("count", [20, 400])
def test_a_run_that_dies_early_is_told_to_start_again_however_late_it_is_judged(count):
    columns = {"reward": lambda step: 0.6 if step < 4 else 0.0, TIED: lambda step: float(step > 3)}
    died = health_of(rows(count, **columns))[-1]
    assert died.level == 2
    for finding in died.findings:
        assert "Start again with a smaller learning rate" in finding.remedy


def test_what_was_not_logged_was_not_checked():
    skipped = {result.kind: result.skipped for result in health_of(rows(12, accuracy=0.5))[-1].skipped}
    assert skipped["not_finite"] == "loss and grad_norm not in the last row"
    assert skipped["nothing_scored"] == "reward not in the last row"
    assert skipped["groups_tied"] == "frac_reward_zero_std not logged"  # the name that TRL has for it
    assert skipped["completions_filtered"] == "gtpo/frac_kept not logged"
    checked = {result.kind for result in health_of(rows(12, grad_norm=float("nan"), reward=None))[-1].checked}
    assert {"not_finite", "nothing_scored"} <= checked


@pytest.mark.parametrize("content", ["", "[]", "{", '{"before": 3, "after": {"accuracy": "x", "format": 7}}'])
def test_a_damaged_summary_is_no_measurement(content, tmp_path):
    (tmp_path / "summary.json").write_text(content)
    assert read_held_out(tmp_path) == HeldOut()
    assert read_held_out(tmp_path / "nowhere") == HeldOut()


def test_a_summary_has_measurements_before_and_after():
    entry = {"accuracy": 0.5, "format": 1.0, "num_problems": 64, "temperature": 1.0}
    measured = held_out_in({"before": entry, "after": None, "seconds": 3})
    assert measured == HeldOut({"accuracy": 0.5, "format": 1.0}, {}, 64)
