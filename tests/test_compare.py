"""A verdict is given when the seeds carry it, and only then."""

import dataclasses
import math
import random

import numpy as np
import pytest

from gtpo.compare import compare_evaluations, compare_runs, unpaired_seeds
from gtpo.errors import ConfigError, DataError
from gtpo.logged import Series
from gtpo.runs.measures import area, final, steps_to, worst_drop
from gtpo.runs.run import Run
from tests.runs.making import rows


def run(seed, accuracy, method="m", **columns):
    after = columns.pop("after", {})
    return Run(None, f"{method}-{seed}", method, seed, rows(50, accuracy=accuracy, **columns), after, [])


def named(comparisons, name):
    return next(one for one in comparisons if one.name == name)


def test_what_is_measured_of_a_curve():
    rising = Series(list(range(1, 101)), [step / 100 for step in range(1, 101)])
    assert final(rising) == pytest.approx(0.955)  # 0.91 … 1.00
    assert area(rising) == pytest.approx(0.505)
    assert area(Series([0, 1, 10], [0.0, 0.0, 1.0])) == pytest.approx(0.45)  # steps are not evenly logged
    assert steps_to(rising, 0.5) == 52  # the mean of 0.48 … 0.52
    assert steps_to(rising, 2.0) == 100  # never: the last step
    fallen = Series(list(range(20)), [0.8] * 10 + [0.2] * 10)
    assert worst_drop(fallen) == pytest.approx(0.6)
    assert worst_drop(rising) == 0


def test_a_difference_that_every_seed_shows_is_better_or_worse():
    first = [run(seed, 0.7 + 0.01 * seed) for seed in range(4)]
    second = [run(seed, 0.5 + 0.012 * seed) for seed in range(4)]
    found = named(compare_runs(first, second), "accuracy, end of training")
    assert found.is_paired
    assert found.difference == pytest.approx(0.197)
    assert (found.verdict, found.more_seeds) == ("better", None)
    assert 0 < found.low < found.difference < found.high
    assert named(compare_runs(second, first), "accuracy, end of training").verdict == "worse"


def test_fewer_steps_and_smaller_drops_are_better():
    def fast(step, seed):
        return min(0.9, step / 10) + seed / 1000

    def slow(step, seed):
        return min(0.9, step / (30 + seed))

    first = [run(seed, lambda step, s=seed: fast(step, s)) for seed in range(4)]
    second = [run(seed, lambda step, s=seed: slow(step, s)) for seed in range(4)]
    found = named(compare_runs(first, second, [0.8]), "steps to accuracy 80 %")
    assert found.difference < 0
    assert found.verdict == "better"


def test_pairing_takes_out_what_the_seeds_have_in_common():
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
    found = named(compare_runs([run(1, 0.9)], [run(1, 0.1)]), "accuracy, end of training")
    assert (found.low, found.verdict, found.more_seeds) == (None, "not shown", None)


def test_noise_is_called_real_about_as_often_as_promised():
    rng = random.Random(0)
    wrong = 0
    for _ in range(300):
        first, second = ([Run(None, "", "m", s, rows(1, accuracy=rng.gauss(0.5, 0.05)), {}, []) for s in range(3)]
                         for _ in range(2))  # fmt: skip
        wrong += named(compare_runs(first, second), "accuracy, end of training").verdict != "not shown"
    assert wrong / 300 < 0.09  # 0.05 promised; a plain bootstrap over three pairs gives 0.25


def test_the_seeds_it_would_take_are_those_of_the_formula_for_power():
    differences = [0.05, -0.03, 0.06, 0.0]
    first = [run(seed, 0.5 + d) for seed, d in enumerate(differences)]
    found = named(compare_runs(first, [run(seed, 0.5) for seed in range(4)]), "accuracy, end of training")
    spread = np.std(differences, ddof=1)
    by_normal = math.ceil(((1.96 + 0.8416) * spread / np.mean(differences)) ** 2)
    assert found.verdict == "not shown"
    assert by_normal <= 4 + found.more_seeds <= by_normal + 4  # Student's t asks for a few more


def test_collapses_are_counted_by_the_verdict_on_health():
    broken = [run(seed, lambda step: 0.8 if step < 20 else 0.0) for seed in range(4)]
    sound = [run(seed, 0.8 + seed / 1000) for seed in range(4)]
    found = named(compare_runs(sound, broken), "collapsed runs")
    assert (found.first, found.second, found.verdict) == (0.0, 1.0, "better")
    assert named(compare_runs(sound[:3], broken[:3]), "collapsed runs").verdict == "not shown"


def test_held_out_numbers_come_from_the_summary():
    first = [run(seed, 0.5, after={"accuracy": 0.8 + seed / 100}) for seed in range(3)]
    second = [run(seed, 0.5, after={"accuracy": 0.6 + seed / 90}) for seed in range(3)]
    found = named(compare_runs(first, second), "accuracy, held out after training")
    assert found.verdict == "better"
    assert found.first == pytest.approx(0.81)


def test_held_out_numbers_of_different_problems_are_not_compared():
    first, second = run(1, 0.5, after={"accuracy": 0.8}), run(1, 0.5, after={"accuracy": 0.6})
    alike = [dataclasses.replace(one, held_out="lab: 256 problems × 1 at temperature 1") for one in (first, second)]
    assert "accuracy, held out after training" in {one.name for one in compare_runs(alike[:1], alike[1:])}
    other = dataclasses.replace(second, held_out="mine.jsonl: 20 problems × 1 at temperature 1")
    assert not any("held out" in one.name for one in compare_runs(alike[:1], [other]))


def test_runs_with_a_reward_of_their_own_are_compared_by_it():
    sides = [
        [Run(None, "a", "a", seed, rows(20, reward=level + seed), {}, []) for seed in (1, 2, 3)] for level in (2, 1)
    ]
    found = named(compare_runs(*sides), "reward, end of training")
    assert (found.first, found.second) == (4, 3)


def test_nothing_in_common_and_levels_that_are_none_are_refused():
    with pytest.raises(DataError, match="nothing in common"):
        compare_runs([Run(None, "a", "a", 1, rows(5, entropy=0.1), {}, [])], [run(1, 0.5)])
    with pytest.raises(ConfigError, match="level must be a fraction"):
        compare_runs([run(1, 0.5)], [run(1, 0.5)], [80])


class Measured:
    def __init__(self, values, problems="toy", digest="d", num_samples=4, **more):
        self.model, self.problems = "m", problems
        self.values = {name: np.array(column) for name, column in {"pass@1": values, **more}.items()}
        self.header = {"problems": {"sha256": digest}, "settings": {"num_samples": num_samples}}


def test_evaluations_are_compared_problem_by_problem():
    easy = [1.0, 0.9, 0.8, 0.2, 0.1, 0.3, 0.7, 0.6]
    better = [value + 0.05 for value in easy]
    (found,) = compare_evaluations([Measured(better), Measured(easy)], [Measured(easy)])
    assert isinstance(found.low, float)
    assert (found.name, found.verdict) == ("toy pass@1", "better")
    assert found.difference == pytest.approx(0.025)  # two files of a side: the mean of each problem
    with pytest.raises(DataError, match="differ between the files"):
        compare_evaluations([Measured(easy)], [Measured(easy, digest="e")])
    with pytest.raises(DataError, match="different problem sets"):
        compare_evaluations([Measured(easy)], [Measured(easy, problems="other")])


def test_a_handful_of_problems_shows_nothing():
    def verdict(count):
        (found,) = compare_evaluations([Measured([1.0] * count)], [Measured([0.0] * count)])
        return found.verdict

    assert (verdict(1), verdict(5), verdict(6)) == ("not shown", "not shown", "better")


def test_counts_among_samples_are_compared_for_the_same_number_of_samples_only():
    values = [0.5, 0.25, 0.75] * 2
    four, eight = (Measured(values, num_samples=n, distinct_answers=[n / 2] * 6) for n in (4, 8))
    assert [one.name for one in compare_evaluations([four], [eight])] == ["toy pass@1"]
    found = compare_evaluations([eight], [Measured(values, num_samples=8, distinct_answers=[3.0] * 6)])
    assert [(one.name, one.verdict) for one in found] == [
        ("toy pass@1", "not shown"),
        ("toy distinct_answers", "differs"),  # neither better nor worse
    ]
