"""On recorded lab runs, broken ones are found and sound ones are not. Half were unseen when the thresholds were set.

`benchmarks/make_health_traces.py` recorded the traces whose names end in a seed, under TRL's defaults. Those with an
odd seed are the unseen ones. What a run is, is checked here by `true/accuracy`, which no check reads, or by a fact.
"""

import re
import runpy
from pathlib import Path

import pytest

from gtpo.health.verdict import first_alarms, health_of
from gtpo.runs.run import load_run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "golden" / "health"
TRACES = {path.stem: load_run(path) for path in sorted(FOLDER.glob("*.csv"))}
WITH_DEFAULTS = [name for name in TRACES if re.search(r"_s\d+$", name)]
OLDER = [name for name in TRACES if name not in WITH_DEFAULTS]
MISSED = {"broken_entropy_s12", "broken_entropy_s13", "broken_wrong_sign_s5"}
"""Broken runs that get no more than a warning."""


def named(label, names):
    return [name for name in names if name.startswith(label)]


def column(name, column):
    return [row[column] for row in TRACES[name].rows if column in row]


def accuracy_by_third(name):
    values = column(name, "true/accuracy")
    third = len(values) // 3
    return sum(values[:third]) / third, sum(values[-third:]) / third


def is_lost(name):
    """The last third of the rows solves next to nothing."""
    return accuracy_by_third(name)[1] < 0.1


FACTS = {
    "truncated": lambda name: min(column(name, "completions/clipped_ratio")) > 0.9,
    "tied": lambda name: min(column(name, "frac_reward_zero_std")) == 1.0,
    "late": lambda name: sum(column(name, "true/accuracy")[-8:]) < 1.0,
    "gradient": lambda name: min(column(name, "grad_norm")[25:]) > 100 * max(column(name, "grad_norm")[:24]),
    "no_gradient": lambda name: max(column(name, "grad_norm")) == 0.0 == min(column(name, "frac_reward_zero_std")),
    "explosion": lambda name: is_lost(name) and column(name, "entropy")[-1] > 5 * column(name, "entropy")[0],
    "nan": lambda name: TRACES[name].rows[-1]["grad_norm"] is None,  # logged, but not a number
}
"""What is wrong from the start or at once; all other broken runs lose their accuracy."""


@pytest.mark.parametrize("label", ["broken", "sound"])
def test_there_are_enough_kinds_of_traces_and_half_are_unseen(label):
    names = named(label, WITH_DEFAULTS)
    assert len({re.sub(r"_s\d+$", "", name) for name in names}) >= 8
    assert sum(int(name.rpartition("_s")[2]) % 2 for name in names) >= len(names) / 2


@pytest.mark.parametrize("name", named("broken", WITH_DEFAULTS))
def test_a_broken_run_under_the_defaults_is_collapsing_at_its_end(name):
    kind = re.sub(r"^broken_|_s\d+$", "", name)
    assert FACTS.get(kind, is_lost)(name)
    assert health_of(TRACES[name].rows)[-1].level == (1 if name in MISSED else 2)


@pytest.mark.parametrize("name", named("sound", WITH_DEFAULTS))
def test_a_sound_run_under_the_defaults_is_never_collapsing(name):
    first, last = accuracy_by_third(name)
    assert last > 0.9 * first
    assert max(verdict.level for verdict in health_of(TRACES[name].rows)) < 2


@pytest.mark.parametrize("name", named("mismatch", WITH_DEFAULTS))
def test_a_run_whose_sampler_is_off_is_warned_of(name):
    assert min(column(name, "sampling/sampling_logp_difference/mean")) > 0.05
    verdict = health_of(TRACES[name].rows)[-1]
    assert "sampler_off" in {finding.kind for finding in verdict.findings}


def test_a_run_that_is_dead_in_its_first_rows_is_found_within_ten():
    verdicts = health_of(TRACES["broken_learning_rate_s0"].rows)
    assert column("broken_learning_rate_s0", "reward")[3:10] == [0.0] * 7
    assert all(verdict.level == 2 for verdict in verdicts[9:])


def test_the_tables_of_the_page_are_those_of_the_benchmark():
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "bench_health.py"))
    assert benchmark["tables"](sorted(FOLDER.glob("*.csv"))) in (ROOT / "docs" / "health.md").read_text()


def tens(name):
    values = TRACES[name].series("accuracy").values
    return [sum(values[end - 10 : end]) / 10 for end in range(10, len(values) + 1)]


@pytest.mark.parametrize("name", named("broken", OLDER))
def test_a_broken_run_has_lost_its_accuracy_and_is_collapsing(name):
    assert tens(name)[-1] < 0.2 * max(tens(name))
    verdicts = health_of(TRACES[name].rows)
    assert verdicts[-1].level == 2
    first = next(verdict.step for verdict in verdicts if verdict.level == 2)
    assert first <= 17


@pytest.mark.parametrize("name", named("sound", OLDER))
def test_a_sound_run_has_kept_its_accuracy_and_is_never_warned_of(name):
    assert tens(name)[-1] > 0.8 * max(tens(name))
    assert tens(name)[-1] > 1.5 * tens(name)[0]
    assert {verdict.level for verdict in health_of(TRACES[name].rows)} == {0}


def test_a_declining_run_has_a_warning_and_is_not_collapsing():
    (name,) = named("declining", TRACES)
    assert 0.5 * max(tens(name)) < tens(name)[-1] < 0.8 * max(tens(name))
    assert {verdict.level for verdict in health_of(TRACES[name].rows)} == {0, 1}


def test_kinds_of_collapse_are_distinguished():
    def kinds(name):
        return {kind for kind, _ in first_alarms(health_of(TRACES[name].rows))}

    assert "entropy_rising" in kinds("broken_grpo_wrong_sign")
    assert "length_exploding" in kinds("broken_grpo_long")
    assert "length_vanishing" in kinds("broken_grpo_short")
    assert "groups_tied" in kinds("broken_grpo_6e-3")
    assert "reward_hacking" in kinds("broken_hack_length_s6")
