"""A difference is better or worse if the interval over seeds or problems excludes 0, and only then."""

import dataclasses
import math
import random

import numpy as np
import pytest

from gtpo.compare import compare_evaluations, compare_runs, compare_values, unpaired_seeds
from gtpo.errors import ConfigError, DataError
from gtpo.runs.run import Run
from tests.runs.making import rows


def run(seed, accuracy, method="m", **columns):
    after = columns.pop("after", {})
    return Run(None, f"{method}-{seed}", method, seed, rows(50, accuracy=accuracy, **columns), after, [])


def named(comparisons, name):
    return next(comparison for comparison in comparisons if comparison.name == name)


def test_a_difference_in_every_seed_is_better_or_worse():
    first = [run(seed, 0.7 + 0.01 * seed) for seed in range(4)]
    second = [run(seed, 0.5 + 0.012 * seed) for seed in range(4)]
    comparison = named(compare_runs(first, second), "accuracy, end of training")
    assert comparison.is_paired
    assert comparison.difference == pytest.approx(0.197)
    assert (comparison.verdict, comparison.more_seeds) == ("better", None)
    assert 0 < comparison.low < comparison.difference < comparison.high
    assert named(compare_runs(second, first), "accuracy, end of training").verdict == "worse"


def test_fewer_steps_and_smaller_drops_are_better():
    def fast(step, seed):
        return min(0.9, step / 10) + seed / 1000

    def slow(step, seed):
        return min(0.9, step / (30 + seed))

    first = [run(seed, lambda step, s=seed: fast(step, s)) for seed in range(4)]
    second = [run(seed, lambda step, s=seed: slow(step, s)) for seed in range(4)]
    comparison = named(compare_runs(first, second, [0.8]), "steps to accuracy 80 %")
    assert comparison.difference < 0
    assert comparison.verdict == "better"


def test_pairing_removes_what_the_seeds_have_in_common():
    shared = [0.1, 0.5, 0.3, 0.8]
    first = [run(seed, base + 0.05 + 0.001 * seed) for seed, base in enumerate(shared)]
    second = [run(seed, base) for seed, base in enumerate(shared)]
    other_seeds = [run(seed + 10, base) for seed, base in enumerate(shared)]
    assert named(compare_runs(first, second), "accuracy, end of training").verdict == "better"
    unpaired = named(compare_runs(first, other_seeds), "accuracy, end of training")
    assert (unpaired.is_paired, unpaired.verdict) == (False, "not shown")
    assert unpaired.more_seeds > 10
    assert unpaired_seeds(first[:3], second) == ["m-3"]


def test_one_run_on_each_side_shows_nothing():
    comparison = named(compare_runs([run(1, 0.9)], [run(1, 0.1)]), "accuracy, end of training")
    assert (comparison.low, comparison.verdict, comparison.more_seeds) == (None, "not shown", None)


def test_noise_is_significant_about_as_often_as_promised():
    rng = random.Random(0)
    wrong = 0
    for _ in range(300):
        first, second = ({seed: rng.gauss(0.5, 0.05) for seed in range(3)} for _ in range(2))
        wrong += compare_values("accuracy", first, second).verdict != "not shown"
    assert wrong / 300 < 0.08  # 0.05 promised; a plain bootstrap over three pairs gives 0.25


def test_a_difference_that_is_not_shown_says_how_many_more_seeds_it_takes():
    differences = [0.05, -0.03, 0.06, 0.0]
    first = {seed: 0.5 + difference for seed, difference in enumerate(differences)}
    comparison = compare_values("accuracy", first, dict.fromkeys(range(4), 0.5))
    by_normal = math.ceil(((1.96 + 0.8416) * np.std(differences, ddof=1) / np.mean(differences)) ** 2)
    assert comparison.verdict == "not shown"
    assert by_normal <= 4 + comparison.more_seeds <= by_normal + 4  # Student's t asks for a few more


def test_collapses_are_counted_by_the_health_verdict():
    broken = [run(seed, lambda step: 0.8 if step < 20 else 0.0) for seed in range(4)]
    sound = [run(seed, 0.8 + seed / 1000) for seed in range(4)]
    comparison = named(compare_runs(sound, broken), "collapsed runs")
    assert (comparison.first, comparison.second, comparison.verdict) == (0.0, 1.0, "better")
    assert named(compare_runs(sound[:3], broken[:3]), "collapsed runs").verdict == "not shown"


def test_held_out_numbers_come_from_the_summary():
    first = [run(seed, 0.5, after={"accuracy": 0.8 + seed / 100}) for seed in range(3)]
    second = [run(seed, 0.5, after={"accuracy": 0.6 + seed / 90}) for seed in range(3)]
    comparison = named(compare_runs(first, second), "accuracy, held out after training")
    assert comparison.verdict == "better"
    assert comparison.first == pytest.approx(0.81)


def test_held_out_numbers_of_different_problems_are_not_compared():
    first, second = run(1, 0.5, after={"accuracy": 0.8}), run(1, 0.5, after={"accuracy": 0.6})
    alike = [dataclasses.replace(run, held_out="problems lab, num problems 256") for run in (first, second)]
    assert named(compare_runs(alike[:1], alike[1:]), "accuracy, held out after training").first == 0.8
    other = dataclasses.replace(second, held_out="problems mine.jsonl, num problems 20")
    assert not any("held out" in comparison.name for comparison in compare_runs(alike[:1], [other]))


def test_runs_with_a_reward_of_their_own_are_compared_by_it():
    sides = [
        [Run(None, "a", "a", seed, rows(20, reward=level + seed), {}, []) for seed in (1, 2, 3)] for level in (2, 1)
    ]
    comparison = named(compare_runs(*sides), "reward, end of training")
    assert (comparison.first, comparison.second, comparison.kind) == (4, 3, "value")


def test_nothing_in_common_and_levels_that_are_not_fractions_are_refused():
    with pytest.raises(DataError, match="nothing in common"):
        compare_runs([Run(None, "a", "a", 1, rows(5, entropy=0.1), {}, [])], [run(1, 0.5)])
    with pytest.raises(ConfigError, match="level must be a fraction"):
        compare_runs([run(1, 0.5)], [run(1, 0.5)], [80])


class Measured:
    def __init__(self, values, problems="toy", digest="d", num_samples=4, **more):
        self.model, self.problems = "m", problems
        self.values = {name: np.array(column) for name, column in {"pass@1": values, **more}.items()}
        self.header = {"problems": {"sha256": digest}, "settings": {"num_samples": num_samples}}
        self.num_problems = len(values)


def test_evaluations_are_compared_problem_by_problem():
    easy = [1.0, 0.9, 0.8, 0.2, 0.1, 0.3, 0.7, 0.6]
    better = [value + 0.05 for value in easy]
    (comparison,) = compare_evaluations([Measured(better), Measured(easy)], [Measured(easy)])
    assert isinstance(comparison.low, float)
    assert (comparison.name, comparison.verdict) == ("toy pass@1", "better")
    assert comparison.difference == pytest.approx(0.025)  # two files of a side: the mean of each problem
    with pytest.raises(DataError, match="differ between the files"):
        compare_evaluations([Measured(easy)], [Measured(easy, digest="e")])
    with pytest.raises(DataError, match="different problem sets"):
        compare_evaluations([Measured(easy)], [Measured(easy, problems="other")])


def test_five_problems_show_nothing():
    def verdict(count):
        (comparison,) = compare_evaluations([Measured([1.0] * count)], [Measured([0.0] * count)])
        return comparison.verdict

    assert (verdict(1), verdict(5), verdict(6)) == ("not shown", "not shown", "better")


def test_counts_of_distinct_answers_are_compared_only_for_the_same_number_of_samples():
    values = [0.5, 0.25, 0.75] * 2
    four, eight = (Measured(values, num_samples=n, distinct_answers=[n / 2] * 6) for n in (4, 8))
    assert [comparison.name for comparison in compare_evaluations([four], [eight])] == ["toy pass@1"]
    comparisons = compare_evaluations([eight], [Measured(values, num_samples=8, distinct_answers=[3.0] * 6)])
    assert [(comparison.name, comparison.verdict, comparison.kind) for comparison in comparisons] == [
        ("toy pass@1", "not shown", "fraction"),
        ("toy distinct_answers", "differs", "count"),  # neither better nor worse
    ]


def test_a_lower_truncation_rate_is_better():
    values = [0.5] * 6
    comparisons = compare_evaluations(
        [Measured(values, truncation_rate=[0.1, 0.0, 0.2, 0.1, 0.0, 0.1])],
        [Measured(values, truncation_rate=[0.5] * 6)],
    )
    assert named(comparisons, "toy truncation_rate").verdict == "better"
