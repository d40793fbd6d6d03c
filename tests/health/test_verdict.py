"""Every kind of trouble is found, and what only comes close to it is healthy."""

import json
import math

import pytest

from gtpo.health.checks import CHECKS
from gtpo.health.verdict import Health, first_alarms, health_of
from tests.runs.making import rows

LENGTH, CUT = "completions/mean_length", "completions/clipped_ratio"
RATIO, CLIPPED = "sampling/importance_sampling_ratio/mean", "clip_ratio/region_mean"


def to(end, start=1.0, at=20):
    """`start` before step `at`, `end` from there on."""
    return lambda step: start if step < at else end


TROUBLE = [
    ("not_finite", 2, {"grad_norm": to(float("nan"))}),
    ("not_finite", 2, {"loss": to(None, 0.1), "grad_norm": 1.0}),  # records write null for what is not finite
    ("nothing_scored", 1, {"reward": to(None, 0.5), "gtpo/frac_kept": to(0.0)}),  # not because of the filter
    ("gradient_exploding", 1, {"grad_norm": to(15.0, at=36)}),
    ("gradient_exploding", 2, {"grad_norm": to(150.0, at=36)}),
    ("entropy_rising", 1, {"entropy": to(0.75, 0.4)}),
    ("entropy_rising", 2, {"entropy": to(1.1, 0.4)}),
    ("entropy_rising", 1, {"entropy": to(0.5, 0.1)}),  # five times what it was, though below ln 2
    ("entropy_rising", 1, {"entropy": to(1.6, 1.0)}),  # began above the threshold
    ("entropy_vanishing", 1, {"gtpo/entropy_mean": to(0.002, 0.4)}),
    ("format_falling", 1, {"format": to(0.75, 0.9)}),
    ("format_falling", 2, {"format": to(0.5, 0.9)}),
    ("accuracy_falling", 1, {"accuracy": to(0.4, 0.6)}),
    ("accuracy_falling", 2, {"rewards/accuracy_reward/mean": to(0.2, 0.6)}),
    ("length_exploding", 1, {LENGTH: to(180, 100), CUT: to(0.4, 0.0)}),
    ("length_exploding", 2, {LENGTH: to(180, 100), CUT: to(0.8, 0.0)}),
    ("length_exploding", 1, {LENGTH: to(140, 100), "accuracy": to(0.4, 0.5)}),
    ("length_vanishing", 1, {LENGTH: to(20, 100)}),
    ("length_vanishing", 2, {LENGTH: to(40, 100), "format": to(1.0, 0.9), "accuracy": 0.1}),
    ("groups_tied", 1, {"frac_reward_zero_std": to(0.9, 0.1)}),
    ("completions_filtered", 1, {"gtpo/frac_kept": to(0.4)}),
    ("completions_filtered", 2, {"gtpo/frac_kept": to(0.05)}),
    ("rewards_timing_out", 1, {"rewards/timeouts": to(2.0, 0.0)}),
    ("ratios_off", 1, {RATIO: to(0.7)}),
    ("ratios_off", 2, {RATIO: to(2.2)}),
    ("ratios_off", 1, {CLIPPED: to(0.5, 0.0)}),
]
SOUND = [
    {"grad_norm": to(8.0)},
    {"grad_norm": lambda step: 0.0 if step % 3 else 50.0},
    {"grad_norm": lambda step: 200.0 if step == 30 else 25.0},  # one wild step
    {"entropy": to(0.65, 0.4)},
    {"entropy": to(1.2, 1.0)},
    {"entropy": to(0.05, 0.4)},
    {"entropy": to(0.008, 0.02)},  # was small from the start
    {"format": to(0.85, 0.9)},
    {"accuracy": to(0.5, 0.6)},
    {"accuracy": lambda step: 0.0 if step == 30 else 0.6},  # one bad step
    {LENGTH: to(250, 100), "accuracy": to(0.8, 0.5), CUT: 0.05},  # longer and better
    {LENGTH: to(45, 100), "accuracy": to(0.8, 0.5), "format": to(1.0, 0.9)},  # shorter and better
    {"frac_reward_zero_std": 0.7},
    {"gtpo/frac_kept": 0.6},
    {"rewards/timeouts": lambda step: float(step == 30)},
    {RATIO: 0.95, CLIPPED: 0.1},
    {"learning_rate": 1e-6},
]


@pytest.mark.parametrize(("kind", "level", "columns"), TROUBLE)
def test_trouble_is_found_with_a_reason_and_a_remedy(kind, level, columns):
    verdicts = health_of(rows(40, **columns))
    assert max(verdict.level for verdict in verdicts[:19]) == 0
    findings = {finding.kind: finding for finding in verdicts[-1].findings}
    assert findings[kind].level == level
    assert len(findings[kind].reason) > 10
    assert findings[kind].reason.count(". ") == 0  # one sentence
    assert len(findings[kind].remedy) > 10
    json.dumps([vars(finding) for finding in verdicts[-1].findings])


@pytest.mark.parametrize("columns", SOUND)
def test_what_is_only_close_to_trouble_is_healthy(columns):
    assert [verdict.level for verdict in health_of(rows(40, **columns))] == [0] * 40


def test_every_check_has_a_case_here():
    assert {check.__name__ for check in CHECKS} == {kind for kind, _, _ in TROUBLE}


def test_the_most_severe_finding_decides_the_verdict():
    verdict = health_of(rows(40, format=to(0.1, 0.9), frac_reward_zero_std=0.95))[-1]
    assert (verdict.level, verdict.name) == (2, "collapsing")
    assert verdict.reason.startswith("format fell")
    assert [finding.level for finding in verdict.findings] == [2, 1]


def test_the_verdict_depends_only_on_the_rows_so_far():
    metrics = rows(40, format=to(0.1, 0.9), entropy=lambda step: step / 50)
    verdicts = health_of(metrics)
    assert health_of(metrics[:25]) == verdicts[:25]
    assert health_of(metrics) == verdicts


def test_the_threshold_can_be_set():
    metrics = rows(40, entropy=to(1.5, 0.4))
    assert health_of(metrics)[-1].level == 2
    assert health_of(metrics, entropy_threshold=math.log(8))[-1].level == 1  # still four times what it was


def test_a_reward_that_leaves_0_to_1_was_not_an_accuracy():
    name = "rewards/accuracy_reward/mean"
    metrics = rows(40, **{name: lambda step: 0.93 if step < 8 else 1.4 if step < 12 else 0.47})
    assert {verdict.level for verdict in health_of(metrics)} == {0}
    fraction = rows(40, **{name: lambda step: 0.93 if step < 12 else 0.47})
    assert health_of(fraction)[-1].reason.startswith("accuracy fell")


def test_a_reward_logged_with_the_accuracy_does_not_hide_its_fall():
    def accuracy(step):
        return 0.6 if step < 12 else 0.02

    signed = {"rewards/correctness_signed/mean": lambda step: 2 * accuracy(step) - 1}  # leaves 0 to 1 as it falls
    assert health_of(rows(28, accuracy=accuracy, **signed))[-1].level == 2


def test_first_alarms_name_the_step():
    alarms = first_alarms(health_of(rows(40, format=to(0.1, 0.9))))
    assert {key: verdict.step for key, verdict in alarms.items()} == {
        ("format_falling", 1): 20,
        ("format_falling", 2): 21,
    }


def test_a_row_with_values_of_the_wrong_types_is_accepted():
    health = Health()
    assert health.add({"step": 1, "entropy": "high", "format": True, "accuracy": [], "loss": 0.1}).level == 0
    assert health.add({}).level == 0


def test_the_entropy_is_the_one_that_the_filter_compares():
    health = Health()
    for row in rows(5, **{"entropy": 0.3, "gtpo/entropy_mean": 0.9}):  # the update holds only what passed the filter
        health.add(row)
    assert health.state["completion_entropy"].recent == pytest.approx(0.9)
