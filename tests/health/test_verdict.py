"""Every kind of trouble is found, and what only comes close to it is healthy."""

import json
import math
import random

import pytest

from gtpo.health.held_out import HeldOut
from gtpo.health.verdict import CHECKS, Health, first_alarms, health_of, last_verdict
from tests.runs.making import rows

LENGTH, CUT, TIED = "completions/mean_length", "completions/clipped_ratio", "frac_reward_zero_std"
RATIO, CLIPPED = "sampling/importance_sampling_ratio/mean", "clip_ratio/region_mean"
GAP = "sampling/sampling_logp_difference/mean"


def to(end, start=1.0, at=20):
    """`start` before step `at`, `end` from there on."""
    return lambda step: start if step < at else end


LATE = [
    ("not_finite", 2, {"grad_norm": to(float("nan"))}),
    ("not_finite", 2, {"loss": to(None, 0.1), "grad_norm": 1.0}),  # records write null for what is not finite
    ("nothing_scored", 1, {"reward": to(None, 0.5), "gtpo/frac_kept": to(0.0)}),  # not because of the filter
    ("gradient_exploding", 1, {"grad_norm": to(15.0, at=36)}),
    ("gradient_exploding", 2, {"grad_norm": to(150.0, at=36)}),
    ("gradient_exploding", 1, {"grad_norm": lambda step: 40.0 if step == 38 else 1.0}),  # a spike
    ("gradient_exploding", 1, {"grad_norm": lambda step: 5000.0 if step == 38 else 1.0}),  # one step, however large
    ("no_gradient", 2, {"grad_norm": to(0.0), TIED: 0.1}),
    ("entropy_rising", 1, {"entropy": to(0.75, 0.4)}),
    ("entropy_rising", 2, {"entropy": to(1.1, 0.4)}),
    ("entropy_rising", 1, {"entropy": to(0.5, 0.1)}),  # five times what it was, though below ln 2
    ("entropy_rising", 1, {"entropy": to(1.6, 1.0)}),  # began above the threshold
    ("entropy_vanishing", 1, {"gtpo/entropy_mean": to(0.002, 0.4)}),
    ("policy_uniform", 2, {"entropy": to(5.0, 0.4), "health/vocab_size": 300}),
    ("policy_uniform", 2, {"entropy": to(5.2, 0.4)}),  # too much for any vocabulary
    ("reward_falling", 1, {"reward": to(0.4, 0.6)}),
    ("reward_falling", 2, {"reward": to(0.0, 0.6)}),
    ("reward_falling", 2, {"reward": to(-0.9, 0.5)}),
    ("reward_falling", 2, {"reward": 1.0, "rewards/judge/mean": to(0.1, 0.6), "rewards/style/mean": 0.5}),
    ("reward_hacking", 2, {"reward": to(3.0), "rewards/solved/mean": to(0.1, 0.6), "rewards/long/mean": to(2.9, 0.4)}),
    ("reward_hacking", 1, {"reward": to(3.0), "accuracy": to(0.4, 0.6)}),
    ("format_falling", 1, {"format": to(0.75, 0.9)}),
    ("format_falling", 2, {"format": to(0.5, 0.9)}),
    ("accuracy_falling", 1, {"accuracy": to(0.4, 0.6)}),
    ("accuracy_falling", 2, {"rewards/accuracy_reward/mean": to(0.2, 0.6)}),
    ("length_exploding", 1, {LENGTH: to(180, 100), CUT: to(0.4, 0.0)}),
    ("length_exploding", 2, {LENGTH: to(180, 100), CUT: to(0.8, 0.0)}),
    ("length_exploding", 1, {LENGTH: to(140, 100), "accuracy": to(0.4, 0.5)}),
    ("length_vanishing", 1, {LENGTH: to(20, 100)}),
    ("length_vanishing", 2, {LENGTH: to(40, 100), "format": to(1.0, 0.9), "accuracy": 0.1}),
    ("all_truncated", 1, {CUT: to(1.0, 0.1)}),
    ("all_truncated", 2, {CUT: to(1.0, 0.1), TIED: to(1.0, 0.1)}),
    ("groups_tied", 1, {TIED: to(0.9, 0.1)}),
    ("groups_tied", 2, {TIED: to(1.0, 0.1), "reward": to(0.0, 0.6)}),
    ("completions_filtered", 1, {"gtpo/frac_kept": to(0.4)}),
    ("completions_filtered", 2, {"gtpo/frac_kept": to(0.05)}),
    ("rewards_timing_out", 1, {"rewards/timeouts": to(2.0, 0.0)}),
    ("sampler_off", 1, {RATIO: to(0.7)}),
    ("sampler_off", 2, {RATIO: to(2.2)}),
    ("sampler_off", 2, {RATIO: 1.0, GAP: to(1.0, 0.01)}),
    ("policy_far_off", 1, {CLIPPED: to(0.5, 0.0)}),
]
"""The kind and the level of the trouble that begins at step 20 or later."""

FROM_START = [
    ("all_truncated", 2, 3, {CUT: 1.0, TIED: 1.0, "reward": 0.0}),
    ("policy_uniform", 2, 2, {"entropy": 5.7, "health/vocab_size": to(None, 300, at=2)}),
    ("groups_tied", 2, 10, {TIED: 1.0, "reward": 0.5}),
    ("groups_tied", 2, 12, {TIED: to(1.0, 0.0, at=3), "reward": to(0.0, 0.6, at=3)}),  # dies in its second step
    ("no_gradient", 2, 10, {"grad_norm": 0.0, TIED: 0.0}),
    ("sampler_off", 2, 2, {RATIO: 3.0}),
    ("not_finite", 2, 1, {"grad_norm": float("nan")}),
    ("nothing_learned", 1, 50, {"reward": lambda step: 0.5 + 0.1 * (-1) ** step}),
]
"""The kind, the level and the first step of trouble that is there from the start."""

SOUND = [
    {"grad_norm": to(8.0)},
    {"grad_norm": lambda step: 0.0 if step % 3 else 50.0},
    {"grad_norm": lambda step: 200.0 if step == 30 else 25.0},  # one wild step
    {"grad_norm": 0.0, TIED: 0.96, "reward": lambda step: step / 100},  # because the groups are tied: a warning
    {"entropy": to(0.65, 0.4)},
    {"entropy": to(1.2, 1.0)},
    {"entropy": lambda step: 2.0 + 0.2 * (step % 2), "health/vocab_size": 64},  # a tiny model
    {"entropy": lambda step: 0.6 + 0.3 * (-1) ** step},  # noisy, and above ln 2 now and then
    {"entropy": to(0.05, 0.4)},
    {"entropy": to(0.008, 0.02)},  # was small from the start
    {"format": to(0.85, 0.9)},
    {"accuracy": to(0.5, 0.6)},
    {"accuracy": lambda step: 0.0 if step == 30 else 0.6},  # one bad step
    {"reward": lambda step: float(step % 9 == 4)},  # rarely anything
    {"reward": to(-11.0, -10.0)},
    {"reward": lambda step: random.Random(step).random() + step / 100},
    {"reward": to(3.0), "rewards/solved/mean": to(0.8, 0.5), "rewards/brief/mean": to(0.45, 0.5)},
    {LENGTH: to(250, 100), "accuracy": to(0.8, 0.5), CUT: 0.05},  # longer and better
    {LENGTH: to(45, 100), "accuracy": to(0.8, 0.5), "format": to(1.0, 0.9)},  # shorter and better
    {TIED: 0.7},
    {TIED: lambda step: float(step % 4 != 0), "reward": 0.5},
    {"gtpo/frac_kept": 0.6},
    {"rewards/timeouts": lambda step: float(step == 30)},
    {RATIO: 0.95, GAP: 0.03, CLIPPED: 0.1},
    {"learning_rate": 1e-6},
]


@pytest.mark.parametrize(("kind", "level", "columns"), LATE)
def test_trouble_is_found_with_a_reason_and_a_remedy(kind, level, columns):
    verdicts = health_of(rows(40, **columns))
    assert max(verdict.level for verdict in verdicts[:19]) == 0
    findings = {finding.kind: finding for finding in verdicts[-1].findings}
    assert findings[kind].level == level
    assert len(findings[kind].reason) > 10
    assert findings[kind].reason.count(". ") == 0  # one sentence
    assert len(findings[kind].remedy) > 10
    json.dumps([vars(finding) for finding in verdicts[-1].findings], allow_nan=False)


@pytest.mark.parametrize(("kind", "level", "step", "columns"), FROM_START)
def test_trouble_from_the_start_is_found_without_anything_to_compare_with(kind, level, step, columns):
    verdicts = health_of(rows(60, **columns))
    assert first_alarms(verdicts)[kind, level].step == step
    assert all(verdict.level == level for verdict in verdicts[step - 1 :])


def test_a_task_that_is_solved_from_the_start_need_not_be_learned():
    def reward(step):
        return 0.95 + 0.03 * (-1) ** step

    assert health_of(rows(60, reward=reward))[-1].name == "healthy"
    assert health_of(rows(60, reward=lambda step: 2 * reward(step)))[-1].name == "warning"  # the top is not known


@pytest.mark.parametrize("columns", SOUND)
def test_what_is_only_close_to_trouble_is_healthy(columns):
    verdicts = health_of(rows(40, **columns))
    kinds = {finding.kind for verdict in verdicts for finding in verdict.findings}
    assert kinds <= ({"groups_tied"} if columns.get(TIED) == 0.96 else set())


def test_every_check_has_a_case_here():
    kinds = {kind for kind, *_ in (*LATE, *FROM_START)} | {"held_out_worse"}
    assert {check.__name__ for check in CHECKS} == kinds


@pytest.mark.parametrize(("after", "level"), [(0.1, 2), (0.35, 1), (0.48, 0), (0.7, 0)])
def test_a_model_that_solves_fewer_held_out_problems_than_before_is_found_at_the_end(after, level):
    held_out = HeldOut({"accuracy": 0.5}, {"accuracy": after}, num_problems=200)
    verdicts = health_of(rows(40, reward=0.5), held_out=held_out)
    assert [verdict.level for verdict in verdicts] == [0] * 39 + [level]
    (values,) = [result.values for result in verdicts[-1].checked if result.kind == "held_out_worse"]
    assert values == {"held-out accuracy": {"before": 0.5, "after": after}}  # next to the accuracy in training
    assert all("last healthy" not in finding.remedy for finding in verdicts[-1].findings)  # it may be this model


@pytest.mark.parametrize(("point", "level"), [(0.1, 2), (0.3, 1), (0.38, 0), (0.7, 0)])
def test_a_measurement_on_held_out_problems_while_training_is_part_of_the_verdict(point, level):
    metrics = rows(20, reward=0.5)
    metrics[11]["held_out/pass@1"] = point
    metrics[15]["held_out/pass@1"] = 0.5
    verdicts = health_of(metrics, held_out=HeldOut({"accuracy": 0.5}, num_problems=200))
    assert [verdict.level for verdict in verdicts] == [0] * 11 + [level] * 4 + [0] * 5
    if level:
        assert verdicts[11].reason == f"held-out accuracy fell from 50 % to {100 * point:.0f} % at step 12"


def test_accuracy_is_compared_with_held_out_problems_before_training():
    metrics = rows(20, accuracy=lambda step: 0.05 + 0.01 * (step % 2))  # dead before the first row
    assert health_of(metrics)[-1].level == 0
    verdict = health_of(metrics, held_out=HeldOut({"accuracy": 0.6}))[-1]
    assert (verdict.level, verdict.findings[0].kind) == (2, "accuracy_falling")
    assert health_of(metrics, held_out=HeldOut({"accuracy": 0.09}))[-1].level == 0


def test_a_slow_fall_in_noisy_rows_is_found():
    def reward(step):  # eight completions of one prompt: hard or easy by chance
        return min(1.0, max(0.0, 0.6 - step / 150 + random.Random(step).uniform(-0.3, 0.3)))

    assert health_of(rows(30, reward=reward))[-1].level == 0
    verdict = health_of(rows(90, reward=reward))[-1]
    assert (verdict.level, verdict.findings[0].kind) == (2, "reward_falling")


def test_chance_alone_is_no_fall_however_long_a_run_is():
    rng = random.Random(0)

    def solved(step):  # of eight completions
        return sum(rng.random() < 0.4 for _ in range(8)) / 8

    verdicts = health_of(rows(4000, reward=lambda step: rng.random(), accuracy=solved))
    falls = [finding for verdict in verdicts for finding in verdict.findings if finding.kind != "nothing_learned"]
    assert len(falls) < 40  # 1 % of the rows
    assert max((fall.level for fall in falls), default=0) < 2


def test_most_runs_that_learn_nothing_are_warned_of_and_few_that_learn():
    def share(gain):
        warned = 0
        for seed in range(100):
            rng = random.Random(seed)
            metrics = rows(60, reward=lambda step, rng=rng: 0.4 + gain * step / 60 + rng.gauss(0, 0.06))
            warned += last_verdict(metrics).name == "warning"
        return warned / 100

    assert share(0.0) > 0.6
    assert share(0.1) < 0.02


def test_the_most_severe_finding_decides_the_verdict():
    verdict = health_of(rows(40, format=to(0.1, 0.9), **{CLIPPED: 0.5}))[-1]
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
    assert {key: verdict.step for key, verdict in alarms.items()} == {("format_falling", 2): 21}


def test_a_row_with_values_of_the_wrong_types_is_accepted():
    health = Health()
    row = {"step": 1, "entropy": "high", "format": True, "accuracy": [], "loss": 0.1, "health/vocab_size": "big"}
    assert health.add(row).level == 0
    assert health.add({}).level == 0


def test_the_entropy_is_the_one_that_the_filter_compares():
    health = Health()
    for row in rows(5, **{"entropy": 0.3, "gtpo/entropy_mean": 0.9}):  # the update holds only what passed the filter
        health.add(row)
    assert health.state["completion_entropy"].recent == pytest.approx(0.9)
