"""Tables and figures of the real model, from made-up results."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.lab.collect import main as collect
from experiments.lab.collect import rows_of
from experiments.present.__main__ import draw_all, generated_files, marked_parts
from experiments.present.__main__ import main as present
from experiments.present.lab_figures import COLORS
from experiments.present.qwen_data import (
    CONTESTS,
    over_runs,
    over_seeds,
    over_tests,
    read_measurements,
    read_runs,
    real_collapses,
)
from experiments.present.qwen_tables import IN_ACCURACY, IN_MATH, each_run, real_tables
from experiments.present.shared_tokens import shared_table, shared_tokens
from experiments.present.verdicts import CLAIMS, QWEN, verdicts
from experiments.present.whole_numbers import whole_contests, whole_runs
from gtpo.runs.run import Run


def make_result(folder, arm, seed, right, problems="gsm8k", spec="qwen"):
    """An evaluation in which the first `right` of eight problems are solved."""
    solved = [1.0] * right + [0.0] * (8 - right)
    settings = {"num_samples": 32, "temperature": 0.9, "max_new_tokens": 400}
    header = {"problems": {"name": problems, "sha256": "x", "count": 8}, "settings": settings}
    names = ("pass@1", "pass@8", "pass@32", "maj@4", "maj@8", "maj@32", "format_rate")
    content = {"arm": arm, "seed": seed, "header": header, "values": dict.fromkeys(names, solved)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{spec}_{arm}_seed{seed}_on_{problems}.json").write_text(json.dumps(content))
    curve = {"step": [1, 2], "accuracy": [0.1, 0.5], "format": [0.2, 0.9], "entropy": [0.3, 0.2]}
    (folder / f"{spec}_{arm}_seed{seed}.json").write_text(json.dumps({"arm": arm, "seed": seed, "curve": curve}))


def test_seeds_are_averaged_problem_by_problem_and_arms_compared_over_problems(tmp_path):
    for seed, right in ((1, 4), (2, 6)):
        make_result(tmp_path, "gtpo", seed, right)
    make_result(tmp_path, "grpo", 1, 1)
    measured = read_measurements(tmp_path)
    mean = over_seeds(measured, "gtpo", "gsm8k")
    assert np.array_equal(mean.values["pass@1"], [1, 1, 1, 1, 0.5, 0.5, 0, 0])
    parts = real_tables(read_runs(tmp_path), measured)
    row = next(line for line in parts["real-differences"].splitlines() if "gsm8k pass@1 " in line)
    assert "| GTPO | GRPO | gsm8k pass@1 | 1, 1 | 50.0 | 12.5 | +37.5 |" in row  # GTPO's seed 2 has no partner
    assert "**better**" in row
    assert parts["real-pairs"] == "Not run yet."  # a single pair
    assert parts["real-table-1"] == "Not run yet."  # nothing of AIME and AMC
    make_result(tmp_path, "grpo", 2, 3)
    make_result(tmp_path, "sft", 1, 2)
    make_result(tmp_path, "grpo", 1, 2, "amc23")
    make_result(tmp_path, "grpo", 2, 2, "aime24")
    parts = real_tables(read_runs(tmp_path), read_measurements(tmp_path))
    assert "| GTPO | GRPO | gsm8k pass@1 | 2, 2 | 62.5 | 25.0 | +37.5 |" in parts["real-differences"]
    assert "| GTPO | SFT | gsm8k pass@1 | 2, 1 | 62.5 | 25.0 | +37.5 |" in parts["real-differences"]
    assert "| 1 | 2 | gsm8k pass@1 | 50.0 | 12.5 | +37.5 |" in parts["real-pairs"]
    assert "| 2 | 2 | gsm8k pass@1 | 75.0 | 37.5 | +37.5 |" in parts["real-pairs"]
    make_result(tmp_path, "protect", 2, 7)
    parts = real_tables(read_runs(tmp_path), read_measurements(tmp_path))
    assert "| λ⁺ = 1 | GTPO | gsm8k pass@1 | 1, 1 | 87.5 | 75.0 | +12.5 |" in parts["real-differences"]
    assert "| GRPO (2) |" in parts["real-evaluations"]
    assert parts["real-table-1"].count("| GRPO |") == 1  # one row, whatever the seeds of a set are


def test_runs_are_compared_over_the_seeds_that_both_arms_have():
    def run(arm, seed, end):
        rows = [{"step": step, "accuracy": end} for step in (1, 2)]
        return Run(Path(), f"{arm}-{seed}", arm, seed, rows, {}, [])

    runs = [run("gtpo", 1, 0.5), run("gtpo", 2, 0.7), run("gtpo", 3, 0.0), run("grpo-kl", 2, 0.4)]
    assert over_runs(runs) == {}  # a single shared seed is not enough
    runs += [run("grpo", 1, 0.25), run("grpo", 2, 0.25)]
    (accuracy, *_) = over_runs(runs)["grpo"]
    assert (accuracy.first, accuracy.second) == (pytest.approx(0.6), 0.25)  # without seed 3
    assert over_runs(runs).keys() == {"grpo"}


def test_problem_sets_are_compared_over_seeds(tmp_path):
    for seed, (first, second) in enumerate(((4, 2), (5, 2), (6, 4)), start=1):
        make_result(tmp_path, "gtpo", seed, first)
        make_result(tmp_path, "grpo", seed, second)
    make_result(tmp_path, "gtpo", 4, 8)  # the other arm lacks this seed
    make_result(tmp_path, "gtpo", 1, 8, "amc23")
    make_result(tmp_path, "grpo", 1, 1, "amc23")  # a single seed is not enough
    measured = read_measurements(tmp_path)
    assert {one.name.split()[0] for one, _ in over_tests(measured)} == {"gsm8k"}
    answer, differences = over_tests(measured)[0]
    assert differences == [0.25, 0.375, 0.25]
    assert (answer.first, answer.difference) == pytest.approx((15 / 24, 7 / 24))
    assert answer.verdict == "better"
    row = "| gsm8k pass@1 | 62.5 | 33.3 | +25.0, +37.5, +25.0 | +29.2 |"
    assert row in real_tables([], measured)["real-tests"]
    found = verdicts({}, read_runs(tmp_path), measured)
    assert found[CLAIMS[0]][QWEN].verdict == "better"
    assert "| GSM8K pass@1, % | 25.0, 25.0, 50.0 | 50.0, 62.5, 75.0, 100.0 |" in each_run(measured, IN_ACCURACY)


def test_every_compared_arm_has_a_colour():
    assert {arm for contest in CONTESTS for arm in contest} <= COLORS.keys()


def test_collapses_of_the_real_model_are_counted_against_the_untrained_one(tmp_path):
    make_result(tmp_path, "gtpo", 1, 1)
    make_result(tmp_path, "gtpo", 2, 2)
    assert real_collapses(read_measurements(tmp_path), "gtpo") is None
    make_result(tmp_path, "base", 1, 4)
    assert real_collapses(read_measurements(tmp_path), "gtpo") == [True, False]


def test_problems_of_math500_are_split_by_the_kind_of_their_answer(tmp_path):
    assert whole_runs({}) == whole_contests({}) == "Not run yet."
    for arm, right in (("gtpo", 4), ("grpo", 7)):
        make_result(tmp_path, arm, 2, right, "math500")
        path = tmp_path / f"qwen_{arm}_seed2_on_math500.json"
        content = json.loads(path.read_text())
        content["values"] |= {"takes_whole": [1.0] * 2 + [0.0] * 6, "answered": [1.0] * 2 + [0.5] * 6}
        content["values"] |= {"answered_whole": [1.0] * 2 + [0.125] * 6}
        path.write_text(json.dumps(content))
    measured = read_measurements(tmp_path)
    table = whole_runs(measured)
    assert "yes (2 problems): pass@1, % | no (6 problems): pass@1, %" in table
    assert "| GTPO | 2 | 100.0 [100.0, 100.0] | 33.3 [0.0, 66.7] | 25 |" in table
    contests = whole_contests(measured)
    assert "| GTPO | GRPO | yes | 1, 1 | 100.0 | 100.0 | +0.0 |" in contests
    assert "| GTPO | GRPO | no | 1, 1 | 33.3 | 83.3 | −50.0 |" in contests


def test_the_similarity_of_completions_is_shown_in_numbers_and_percent(tmp_path):
    make_result(tmp_path, "gtpo", 1, 5)
    assert real_tables([], read_measurements(tmp_path))["real-alike"] == "Not run yet."
    path = tmp_path / "qwen_gtpo_seed1_on_gsm8k.json"
    content = json.loads(path.read_text())
    content["values"] |= {"common_beginning": [41.0] * 8, "copied": [0.25] * 8}
    content["values"] |= {"distinct_completions": [9.0] * 8, "distinct_answers": [2.0] * 8}
    path.write_text(json.dumps(content))
    assert (
        "| GTPO (1) | 9.0 [9.0, 9.0] | 2.0 [2.0, 2.0] | 41.0 [41.0, 41.0] | 25.0 [25.0, 25.0] |"
        in (real_tables([], read_measurements(tmp_path))["real-alike"])
    )


def test_results_of_the_real_model_are_collected_and_drawn(tmp_path, capsys):
    make_result(tmp_path / "out" / "results", "gtpo", 1, 5)
    make_result(tmp_path / "out" / "results", "grpo", 1, 4)
    data = tmp_path / "data"
    assert collect([str(tmp_path / "out"), "--data", str(data)]) == 0
    assert sorted(path.name for path in (data / "real").iterdir()) == [
        f"qwen_{arm}_seed1{ending}" for arm in ("grpo", "gtpo") for ending in (".json", "_on_gsm8k.json")
    ]
    for path, parts in marked_parts(data).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("".join(f"<!-- {name} --><!-- /{name} -->" for name in parts))
    present(["--data", str(data), "--root", str(tmp_path)])
    assert {path.stem for path in (tmp_path / "docs/figures").iterdir()} == {"real_curves", "real_pass"}
    assert "| GTPO | 1 | 2 |" in (tmp_path / "docs/results/tables/qwen-runs.md").read_text()
    assert "claim-1-accuracy.md) | not run |" in (tmp_path / "README.md").read_text()  # a single seed is not enough
    assert not (data / "lab_runs.csv").exists()  # there are no results of the lab


def test_runs_on_math_have_a_figure_and_tables_of_their_own(tmp_path):
    assert "docs/results/tables/qwen-math.md" not in generated_files(tmp_path)
    assert each_run({}, IN_MATH) == "Not run yet."
    for arm, rights in (("grpo", (2, 4)), ("gtpo", (3, 6))):
        for seed, right in enumerate(rights, start=21):
            make_result(tmp_path / "real", arm, seed, right, "math500", spec="qwen-math")
    files = generated_files(tmp_path)
    text = files["docs/results/tables/qwen-math.md"]
    assert "| GTPO | 22 | 2 |" in text
    assert "| MATH-500 pass@1, % | 25.0, 50.0 | 37.5, 75.0 |" in text
    assert "| math500 pass@1 | 56.2 | 37.5 | +12.5, +25.0 | +18.8 |" in text
    assert "(qwen-math.md)" in files["docs/results/tables/README.md"]
    assert "| 22 |" not in files["docs/results/tables/qwen-runs.md"]
    (figure,) = draw_all(tmp_path, tmp_path)
    assert "on MATH" in figure.read_text()
    assert figure.name in text


def test_shared_tokens_are_counted_in_groups_that_are_not_tied():
    steps = range(1, 17)
    curve = {"conflict": [0.1] * 8 + [0.05] * 8, "length": [100] * 16, "tied": [0.0] * 8 + [0.75] * 8}
    rows = rows_of({"step": list(steps), **curve})
    run = Run(Path(), "x", "gtpo", 1, rows, {}, [])
    (first, last), tied = shared_tokens(run)
    assert (first, last) == pytest.approx((10, 20))  # the share of all tokens halves, and what is shared doubles
    assert tied == (0, 0.75)
    assert "| Qwen, seed 1 | GTPO | 1 | 10.0 | 20.0 | 0 | 75 |" in shared_table({}, [run])
    assert shared_table({}, [dataclasses.replace(run, rows=[{"step": 1}])]) == "Not run yet."
