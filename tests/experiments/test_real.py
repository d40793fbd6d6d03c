"""The real model's experiment runs end to end on the lab, stops its arms together, and goes on where it stopped."""

import argparse
import dataclasses
import json
import subprocess
import types
from pathlib import Path

import numpy as np
import pytest

from experiments.lab.collect import main as collect
from experiments.lab.collect import rows_of
from experiments.present.completions import common_beginning, copied_share, is_whole, takes_whole
from experiments.present.figures import COLORS, tables
from experiments.present.figures import main as draw
from experiments.present.headline import headline
from experiments.present.qwen_data import (
    CONTESTS,
    over_runs,
    over_seeds,
    over_tests,
    read_measurements,
    read_runs,
    real_collapses,
    real_tables,
)  # fmt: skip
from experiments.present.shared_tokens import shared_table, shared_tokens
from experiments.present.whole_numbers import whole_table
from experiments.qwen.arm import StopTogether, evaluate_arm, train_arm
from experiments.qwen.arm import main as real_arm
from experiments.qwen.pair import SPECS, Pair, Place, arm_options
from gtpo.errors import ConfigError
from gtpo.runs.run import Run
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import Setting


@pytest.mark.parametrize("arm", ["grpo", "grpo-kl", "gtpo", "sft"])
def test_the_recipe_takes_the_options_of_every_arm(arm):
    spec = SPECS["qwen"]
    options = {**spec.options, **({} if arm == "sft" else spec.rl_options), **arm_options(arm)}
    options |= {"use_cpu": True, "output_dir": "runs/nowhere"}
    config = make_plan(spec.recipe, {name: Setting(value, "test") for name, value in options.items()}).config
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (batch, config.max_steps) == (256, 100)  # 32 prompts × 8
    if arm != "sft":
        assert (config.num_generations, config.max_completion_length, config.temperature) == (8, 300, 1.0)
        assert config.learning_rate == 2e-6
    if arm.startswith("grpo"):
        shaping = config.conflict_edges, config.entropy_filter, config.entropy_penalty
        assert (*shaping, config.beta) == ("none", "off", 0.0, 1e-6 if arm == "grpo-kl" else 0.0)


def test_an_arm_is_trained_and_evaluated_and_its_results_read_back(tmp_path):
    place = Place(tmp_path, "dry", "gtpo", 5)
    place.stop_at.parent.mkdir(parents=True)
    place.stop_at.write_text("2")
    assert not place.is_trained
    assert train_arm(place, "lab", None) == 0
    assert place.is_trained
    assert json.loads(place.curve.read_text())["steps"] == 2  # of three: the file said so
    other = Place(tmp_path, "dry", "grpo", 5)
    assert train_arm(other, "lab", None, steps=1) == 0
    assert json.loads(other.curve.read_text())["steps"] == 1
    other.curve.unlink()
    assert evaluate_arm(place, "lab", None) == 0
    assert place.is_evaluated
    (run,) = read_runs(tmp_path / "results", "dry")
    assert (run.method, run.seed, run.num_steps) == ("gtpo", 5, 2)
    found = read_measurements(tmp_path / "results", "dry")
    assert list(found) == [("gtpo", 5, name) for name in ("lab-at-1.2", "lab-greedy", "lab")]
    warm, greedy, sampled = found.values()
    assert sampled.num_problems == greedy.num_problems == 4
    assert {"pass@1", "pass@2", "maj@2", "format_rate", "common_beginning", "copied"} <= set(sampled.values)
    assert {"pass@1", "format_rate"} <= set(greedy.values)
    assert [one.header["settings"]["temperature"] for one in (warm, greedy, sampled)] == [1.2, 0.0, 0.9]
    result = place.evaluation(SPECS["dry"].evaluations[0])
    graded = result.read_bytes()
    result.unlink()
    assert real_arm(["grade", "dry", "gtpo", "5", "--out", str(tmp_path)]) == 0  # the samples are enough
    assert result.read_bytes() == graded


def test_what_has_a_result_is_not_asked_again(tmp_path):
    place = Place(tmp_path, "dry", "base", 1)
    path = place.evaluation(SPECS["dry"].evaluations[0])
    path.parent.mkdir(parents=True)
    path.write_text("kept")
    assert evaluate_arm(place, "lab", None) == 0
    assert path.read_text() == "kept"


def test_arms_stop_after_the_step_that_the_file_names_and_not_before(tmp_path):
    callback = StopTogether(tmp_path / "stop")
    stopped = []
    for step in (1, 2, 3):
        control = types.SimpleNamespace(should_training_stop=False)
        callback.on_step_end(None, types.SimpleNamespace(global_step=step), control)
        stopped.append(control.should_training_stop)
        if step == 1:
            (tmp_path / "stop").write_text("3")
    assert stopped == [False, False, True]


def test_late_arms_are_told_to_stop_after_the_farthest_step_of_any(tmp_path):
    places = [Place(tmp_path, "dry", arm, 1) for arm in ("grpo", "gtpo")]
    for place, num_steps in zip(places, (7, 5), strict=True):
        place.work.mkdir(parents=True)
        (place.work / "metrics.jsonl").write_text('{"step": 1}\n' * num_steps)
    pair = Pair(places, argparse.Namespace(minutes=1.0))
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        pair.processes = dict.fromkeys(places, sleeping)
        pair._stop_together()
        sleeping.kill()
    assert [place.stop_at.read_text() for place in places] == ["8", "8"]


class Rehearsed(Pair):
    """Arms are short scripts that leave what real ones leave."""

    def __init__(self, places, minutes=1.0, seconds=(0.2, 0.6), fails=()):
        super().__init__(places, argparse.Namespace(minutes=minutes, evaluation_minutes=0.0, model="m", data_dir=None))
        self.seconds, self.fails, self.said = seconds, fails, []

    def _start(self, what, place, attempt):
        self.said.append((what, place.arm, attempt))
        number = self.places.index(place)
        if what == "train" and (place.arm, attempt) in self.fails:
            script = "exit 3"
        elif what == "train":
            script = f"""mkdir -p {place.work}/model {place.curve.parent}
                         echo '{{"step": 1}}' > {place.work}/metrics.jsonl
                         sleep {self.seconds[number]}; echo '{{"steps": 7}}' > {place.curve}"""
        else:
            paths = " ".join(str(place.evaluation(asked)) for asked in SPECS[place.spec].evaluations)
            script = f"sleep {self.seconds[number]}; touch {paths}"
        self.processes[place] = subprocess.Popen(["sh", "-c", script], start_new_session=True)


def pair_of(tmp_path):
    return [Place(tmp_path, "dry", arm, 1) for arm in ("grpo", "gtpo")]


def test_arms_start_one_after_the_other_and_are_evaluated_as_they_end(tmp_path):
    pair = Rehearsed(pair_of(tmp_path))
    assert pair.run() == 0
    assert pair.said == [("train", "grpo", 0), ("train", "gtpo", 0), ("evaluate", "grpo", 0), ("evaluate", "gtpo", 0)]


def test_an_arm_that_fails_before_its_first_step_is_tried_once_more(tmp_path):
    pair = Rehearsed(pair_of(tmp_path), fails=[("grpo", 0)])
    assert pair.run() == 0
    assert pair.said[:2] == [("train", "grpo", 0), ("train", "grpo", 1)]


def test_when_the_time_is_over_nothing_goes_on_and_the_pair_is_not_done(tmp_path):
    pair = Rehearsed(pair_of(tmp_path), minutes=1 / 60, seconds=(0.1, 60))
    assert pair.run() == 1
    assert not any(map(pair._is_at_work, pair.places))


def test_an_arm_that_comes_later_goes_as_far_as_the_other_went(tmp_path):
    places = pair_of(tmp_path)
    places[0].curve.parent.mkdir(parents=True)
    places[0].curve.write_text('{"steps": 64}')
    Rehearsed(places)._stop_like_the_others(places[1])
    assert places[1].stop_at.read_text() == "64"


def test_unfinished_samples_are_not_graded(tmp_path):
    place = Place(tmp_path, "dry", "gtpo", 1)
    settings = {"num_samples": 2, "temperature": 0.9, "top_p": 1.0, "max_new_tokens": 9, "seed": 0}
    problems = {"name": "lab", "count": 4, "sha256": "0"}
    header = {"gtpo_samples": 1, "model": "m", "engine": {}, "problems": problems, "settings": settings}
    sample = {"problem": 0, "sample": 0, "gold": "1", "text": "", "num_tokens": 1, "truncated": False, "entropy": None}
    path = place.samples(SPECS["dry"].evaluations[0])
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, sample)))
    with pytest.raises(ConfigError, match="samples of lab"):
        real_arm(["grade", "dry", "gtpo", "1", "--out", str(tmp_path)])


def made_up(folder, arm, seed, right, problems="gsm8k"):
    """An evaluation in which the first `right` of eight problems are solved."""
    solved = [1.0] * right + [0.0] * (8 - right)
    settings = {"num_samples": 32, "temperature": 0.9, "max_new_tokens": 400}
    header = {"problems": {"name": problems, "sha256": "x", "count": 8}, "settings": settings}
    names = ("pass@1", "pass@8", "pass@32", "maj@4", "maj@8", "maj@32", "format_rate")
    content = {"arm": arm, "seed": seed, "header": header, "values": dict.fromkeys(names, solved)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"qwen_{arm}_seed{seed}_on_{problems}.json").write_text(json.dumps(content))
    curve = {"step": [1, 2], "accuracy": [0.1, 0.5], "format": [0.2, 0.9], "entropy": [0.3, 0.2]}
    (folder / f"qwen_{arm}_seed{seed}.json").write_text(json.dumps({"arm": arm, "seed": seed, "curve": curve}))


def test_seeds_are_averaged_problem_by_problem_and_arms_compared_over_problems(tmp_path):
    for seed, right in ((1, 4), (2, 6)):
        made_up(tmp_path, "gtpo", seed, right)
    made_up(tmp_path, "grpo", 1, 1)
    measured = read_measurements(tmp_path)
    mean = over_seeds(measured, "gtpo", "gsm8k")
    assert np.array_equal(mean.values["pass@1"], [1, 1, 1, 1, 0.5, 0.5, 0, 0])
    parts = real_tables(read_runs(tmp_path), measured)
    row = next(line for line in parts["real-differences"].splitlines() if "gsm8k pass@1 " in line)
    assert "| GTPO | GRPO | gsm8k pass@1 | 1, 1 | 50.0 | 12.5 | +37.5 |" in row  # GTPO's seed 2 has no partner
    assert "**better**" in row
    assert parts["real-pairs"] == "Not run yet."  # a single pair
    assert parts["real-table-1"] == "Not run yet."  # nothing of AIME and AMC
    made_up(tmp_path, "grpo", 2, 3)
    made_up(tmp_path, "sft", 1, 2)
    made_up(tmp_path, "grpo", 1, 2, "amc23")
    made_up(tmp_path, "grpo", 2, 2, "aime24")
    parts = real_tables(read_runs(tmp_path), read_measurements(tmp_path))
    assert "| GTPO | GRPO | gsm8k pass@1 | 2, 2 | 62.5 | 25.0 | +37.5 |" in parts["real-differences"]
    assert "| GTPO | SFT | gsm8k pass@1 | 2, 1 | 62.5 | 25.0 | +37.5 |" in parts["real-differences"]
    assert "| 1 | 2 | gsm8k pass@1 | 50.0 | 12.5 | +37.5 |" in parts["real-pairs"]
    assert "| 2 | 2 | gsm8k pass@1 | 75.0 | 37.5 | +37.5 |" in parts["real-pairs"]
    made_up(tmp_path, "protect", 2, 7)
    parts = real_tables(read_runs(tmp_path), read_measurements(tmp_path))
    assert "| λ⁺ = 1 | GTPO | gsm8k pass@1 | 1, 1 | 87.5 | 75.0 | +12.5 |" in parts["real-differences"]
    assert "| GRPO (2) |" in parts["real-evaluations"]
    assert parts["real-table-1"].count("| GRPO |") == 1  # one row, whatever the seeds of a set are


def test_runs_are_compared_over_the_seeds_that_both_arms_have():
    def run(arm, seed, end):
        rows = [{"step": step, "accuracy": end} for step in (1, 2)]
        return Run(Path(), f"{arm}-{seed}", arm, seed, rows, {}, [])

    runs = [run("gtpo", 1, 0.5), run("gtpo", 2, 0.7), run("gtpo", 3, 0.0), run("grpo-kl", 2, 0.4)]
    assert over_runs(runs) == {}  # one seed in common says nothing about others
    runs += [run("grpo", 1, 0.25), run("grpo", 2, 0.25)]
    (accuracy, *_) = over_runs(runs)["grpo"]
    assert (accuracy.first, accuracy.second) == (pytest.approx(0.6), 0.25)  # without seed 3
    assert over_runs(runs).keys() == {"grpo"}


def test_test_problems_are_compared_over_seeds(tmp_path):
    for seed, (first, second) in enumerate(((4, 2), (5, 2), (6, 4)), start=1):
        made_up(tmp_path, "gtpo", seed, first)
        made_up(tmp_path, "grpo", seed, second)
    made_up(tmp_path, "gtpo", 4, 8)  # no partner
    made_up(tmp_path, "gtpo", 1, 8, "amc23")
    made_up(tmp_path, "grpo", 1, 1, "amc23")  # one seed says nothing about others
    measured = read_measurements(tmp_path)
    assert {one.name.split()[0] for one, _ in over_tests(measured)} == {"gsm8k"}
    answer, differences = over_tests(measured)[0]
    assert differences == [0.25, 0.375, 0.25]
    assert (answer.first, answer.difference) == pytest.approx((15 / 24, 7 / 24))
    assert answer.verdict == "better"
    row = "| gsm8k pass@1 | 62.5 | 33.3 | +25.0, +37.5, +25.0 | +29.2 |"
    assert row in real_tables([], measured)["real-tests"]
    head = headline({}, read_runs(tmp_path), measured)["headline"]
    assert "62.5 against 33.3: **holds**" in head


def test_every_arm_that_is_compared_has_a_colour():
    assert {arm for contest in CONTESTS for arm in contest} <= COLORS.keys()


def test_collapses_of_the_real_model_are_counted_against_the_untrained_one(tmp_path):
    made_up(tmp_path, "gtpo", 1, 1)
    made_up(tmp_path, "gtpo", 2, 2)
    assert real_collapses(read_measurements(tmp_path), "gtpo") is None
    made_up(tmp_path, "base", 1, 4)
    assert real_collapses(read_measurements(tmp_path), "gtpo") == [True, False]


def test_common_beginnings_and_copied_words():
    texts = ["<reasoning>Tom has", "<reasoning>Tom had", "<reasoning>Tom"]
    assert common_beginning(texts) == pytest.approx((17 + 14 + 14) / 3)
    assert common_beginning(["", "a"]) == 0
    question = "Tom has three green pens."
    assert copied_share("<reasoning>\nTom has three green pens", question) == 1
    assert copied_share("<reasoning>tom has three green hats", question) == 0.5
    assert copied_share("No tag", question) == 0
    assert copied_share("x " * 100 + question, question) == 0  # beyond the beginning


def test_whole_numbers_are_told_from_other_answers():
    assert all(map(is_whole, ("13", " -1,200 ", "$7$")))
    assert not any(map(is_whole, ("13/15", "2k + 2", "3.5", "x", "", "1 2", "3,5,7", "\\frac{1}{2}")))


def test_which_right_answers_a_whole_number_can_be():
    taken = ["7", "90^\\circ", "x=5", "\\$32,\\!348", "52_8", "10,080", "1{,}000"]
    others = ["\\frac{13}{15}", "2k+2", "3, 5, 7", "-2,1", "0.5", "\\pi", "\\sqrt{2}"]
    assert takes_whole([*taken, *others]) == [True] * len(taken) + [False] * len(others)


def test_problems_of_math500_are_taken_apart_by_the_kind_of_their_right_answer(tmp_path):
    assert whole_table({})["real-whole"] == "Not run yet."
    for arm, right in (("gtpo", 4), ("grpo", 7)):
        made_up(tmp_path, arm, 2, right, "math500")
        path = tmp_path / f"qwen_{arm}_seed2_on_math500.json"
        content = json.loads(path.read_text())
        content["values"] |= {"takes_whole": [1.0] * 2 + [0.0] * 6, "answered": [1.0] * 2 + [0.5] * 6}
        content["values"] |= {"answered_whole": [1.0] * 2 + [0.125] * 6}
        path.write_text(json.dumps(content))
    table = whole_table(read_measurements(tmp_path))["real-whole"]
    assert "yes (2 problems): pass@1, % | no (6 problems): pass@1, %" in table
    assert "| GTPO | 2 | 100.0 [100.0, 100.0] | 33.3 [0.0, 66.7] | 25 |" in table
    assert "| GTPO | GRPO | yes | 1, 1 | 100.0 | 100.0 | +0.0 |" in table
    assert "| GTPO | GRPO | no | 1, 1 | 33.3 | 83.3 | −50.0 |" in table


def test_how_alike_completions_are_is_shown_in_numbers_and_percent(tmp_path):
    made_up(tmp_path, "gtpo", 1, 5)
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
    made_up(tmp_path / "out" / "results", "gtpo", 1, 5)
    made_up(tmp_path / "out" / "results", "grpo", 1, 4)
    data = tmp_path / "data"
    assert collect([str(tmp_path / "out"), "--data", str(data)]) == 0
    assert sorted(path.name for path in (data / "real").iterdir()) == [
        f"qwen_{arm}_seed1{ending}" for arm in ("grpo", "gtpo") for ending in (".json", "_on_gsm8k.json")
    ]
    document = tmp_path / "results.md"
    document.write_text("".join(f"<!-- {name} --><!-- /{name} -->\n" for name in tables(data)))
    draw(
        [
            "--data",
            str(data),
            "--figures",
            str(tmp_path / "f"),
            *("--document", str(document)),
            *("--readme", str(document)),
        ]
    )
    assert {path.stem for path in (tmp_path / "f").iterdir()} == {"real_curves", "real_pass"}
    assert "| GTPO | 1 | 2 |" in document.read_text()
    head = document.read_text().partition("<!-- headline -->")[2]
    assert "Qwen2.5-Coder-1.5B on GSM8K: 1 seed, 2 steps" in head
    assert "62.5 against 50.0" not in head  # one seed says nothing about others
    assert not (data / "lab_runs.csv").exists()  # no result of the lab, no data of it


def test_shared_tokens_are_counted_in_groups_that_have_good_and_bad_completions():
    steps = range(1, 17)
    curve = {"conflict": [0.1] * 8 + [0.05] * 8, "length": [100] * 16, "tied": [0.0] * 8 + [0.75] * 8}
    rows = rows_of({"step": list(steps), **curve})
    run = Run(Path(), "x", "gtpo", 1, rows, {}, [])
    (first, last), tied = shared_tokens(run)
    assert (first, last) == pytest.approx((10, 20))  # the share of all tokens halves, and what is shared doubles
    assert tied == (0, 0.75)
    assert "| Qwen, seed 1 | GTPO | 1 | 10.0 | 20.0 | 0 | 75 |" in shared_table({}, [run])["shared"]
    assert shared_table({}, [dataclasses.replace(run, rows=[{"step": 1}])])["shared"] == "Not run yet."
