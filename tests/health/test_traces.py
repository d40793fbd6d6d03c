"""On recorded lab runs, broken ones are found and sound ones are not. Half were unseen when the thresholds were set.

`benchmarks/make_health_traces.py` recorded the traces. Whether a trace is broken is checked here by its accuracy.
"""

from pathlib import Path

import pytest

from gtpo.health.verdict import first_alarms, health_of
from gtpo.runs.run import load_run

FOLDER = Path(__file__).parents[1] / "golden" / "health"
TRACES = {path.stem: load_run(path) for path in sorted(FOLDER.glob("*.csv"))}
BROKEN = [name for name in TRACES if name.startswith("broken")]
SOUND = [name for name in TRACES if name.startswith("sound")]


def tens(name):
    values = TRACES[name].series("accuracy").values
    return [sum(values[end - 10 : end]) / 10 for end in range(10, len(values) + 1)]


def test_there_are_traces_of_both_kinds():
    assert len(BROKEN) >= 8
    assert len(SOUND) >= 3


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_has_lost_its_accuracy_and_is_collapsing(name):
    assert tens(name)[-1] < 0.2 * max(tens(name))
    verdicts = health_of(TRACES[name].rows)
    assert verdicts[-1].level == 2
    first = next(verdict.step for verdict in verdicts if verdict.level == 2)
    assert first <= 26


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_has_kept_its_accuracy_and_is_never_collapsing(name):
    assert tens(name)[-1] > 0.8 * max(tens(name))
    assert tens(name)[-1] > 1.5 * tens(name)[0]
    assert max(verdict.level for verdict in health_of(TRACES[name].rows)) < 2


def test_one_of_four_sound_runs_has_a_warning_at_one_step_and_the_others_never():
    warned = {name: sum(verdict.level > 0 for verdict in health_of(TRACES[name].rows)) for name in SOUND}
    assert {name: count for name, count in warned.items() if count} == {"sound_grpo_5e-5": 1}
    assert len(SOUND) == 4


def test_a_declining_run_has_a_warning_and_is_not_collapsing():
    (name,) = [name for name in TRACES if name.startswith("declining")]
    assert 0.5 * max(tens(name)) < tens(name)[-1] < 0.8 * max(tens(name))
    assert {verdict.level for verdict in health_of(TRACES[name].rows)} == {0, 1}


def test_kinds_of_collapse_are_distinguished():
    def kinds(name):
        return {kind for kind, _ in first_alarms(health_of(TRACES[name].rows))}

    assert "entropy_rising" in kinds("broken_grpo_wrong_sign")
    assert "length_exploding" in kinds("broken_grpo_long")
    assert "length_vanishing" in kinds("broken_grpo_short")
    assert "groups_tied" in kinds("broken_grpo_6e-3")
