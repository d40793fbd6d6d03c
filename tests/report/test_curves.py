"""Curves of reward functions and evaluations, thinned without losing extremes, with links to recorded groups."""

import json

import pytest

from gtpo.report.curves import sections
from gtpo.report.page import report_page
from gtpo.runs.run import load_run, load_runs
from tests.report.test_page import HOSTILE, Tags
from tests.runs.making import make_run, rows


def keys(run, section):
    return [panel.key for panel in sections([run]).get(section, [])]


def test_every_reward_function_has_a_panel_if_there_are_several(tmp_path):
    two = {"rewards/tags/mean": 0.5, "rewards/tags/std": 0.1, "rewards/answer/mean": lambda step: step / 10}
    run = load_run(make_run(tmp_path / "two", rows(9, reward=1.0, **two)))
    assert keys(run, "Reward functions") == ["rewards/tags/mean", "rewards/answer/mean"]
    tags, answer = sections([run])["Reward functions"]
    assert (tags.title, answer.title) == ("tags", "answer")
    assert answer.lines[0].y == pytest.approx([step / 10 for step in range(1, 10)])
    single = load_run(make_run(tmp_path / "one", rows(9, **{"reward": 1.0, "rewards/tags/mean": 1.0})))
    assert keys(single, "Reward functions") == []  # the reward itself


def test_evaluations_during_training_are_drawn_as_they_were_logged(tmp_path):
    training = rows(8, reward=0.5)
    evaluated = [
        {"step": step, "eval_reward": step / 8, "eval_rewards/tags/mean": 0.5, "eval_loss": 0.1, "eval_runtime": 3.0}
        for step in (4, 8)
    ]
    run = load_run(make_run(tmp_path / "x", [*training[:4], evaluated[0], *training[4:], evaluated[1]]))
    assert len(run.rows) == 8
    panels = {panel.key: panel for panel in sections([run])["Evaluation"]}
    assert list(panels) == ["eval_reward", "eval_rewards/tags/mean", "eval_loss"]  # not the time it took
    (line,) = panels["eval_reward"].lines
    assert (line.x, line.y) == ([4, 8], [0.5, 1.0])
    assert "eval_reward" in report_page([run])
    assert keys(load_run(make_run(tmp_path / "y", training)), "Evaluation") == []


def test_of_what_trl_logs_in_an_evaluation_the_means_are_drawn(tmp_path):
    logged = (
        "loss runtime samples_per_second steps_per_second num_tokens completions/mean_length completions/min_length "
        "completions/max_length completions/clipped_ratio completions/mean_terminated_length rewards/f/mean "
        "rewards/f/std reward reward_std frac_reward_zero_std entropy clip_ratio/low_mean clip_ratio/high_max"
    )
    evaluated = {"step": 3, "epoch": 0.5, **{f"eval_{name}": 1.0 for name in logged.split()}}
    run = load_run(make_run(tmp_path / "x", [*rows(3, reward=0.5), evaluated]))
    drawn = "reward rewards/f/mean completions/clipped_ratio completions/mean_length entropy loss"
    assert keys(run, "Evaluation") == [f"eval_{name}" for name in drawn.split()]


def test_evaluations_of_several_datasets_at_one_step_are_merged(tmp_path):
    evaluated = [{"step": 2, "eval_a_reward": 0.1}, {"step": 2, "eval_b_reward": 0.2}]
    run = load_run(make_run(tmp_path / "x", [*rows(3, reward=0.5), *evaluated]))
    assert keys(run, "Evaluation") == ["eval_a_reward", "eval_b_reward"]


def test_held_out_problems_are_points_before_and_after_training(tmp_path):
    folder = make_run(tmp_path / "x", rows(20, reward=0.5))
    (folder / "summary.json").write_text(json.dumps({"before": {"accuracy": 0.25}, "after": {"accuracy": 0.75}}))
    (panel,) = sections([load_run(folder)])["Evaluation"]
    assert (panel.lines[0].x, panel.lines[0].y) == ([0, 20], [25, 75])


def test_held_out_problems_measured_while_training_are_points_too(tmp_path):
    metrics = rows(20, reward=0.5)
    for step, value in ((8, 0.5), (16, 0.625), (20, 0.7)):
        metrics[step - 1] |= {"held_out/pass@1": value, "held_out/pass@4": 1.0, "held_out/seconds": 3.0}
    folder = make_run(tmp_path / "x", metrics)
    drawn = {panel.title: panel.lines[0] for panel in sections([load_run(folder)])["Evaluation"]}
    assert {title: line.x for title, line in drawn.items()} == {
        "held-out accuracy": [8, 16, 20],
        "held-out pass@4": [8, 16, 20],
    }
    (folder / "summary.json").write_text(json.dumps({"before": {"accuracy": 0.25}, "after": {"accuracy": 0.75}}))
    accuracy, _ = sections([load_run(folder)])["Evaluation"]
    assert (accuracy.lines[0].x, accuracy.lines[0].y) == ([0, 8, 16, 20], [25, 50, 62.5, 75])


def test_runs_that_share_no_step_are_drawn_without_a_mean(tmp_path):
    runs = [
        load_run(make_run(tmp_path / str(number), [{"step": 9 * number + 1, "reward": 1.0}], method="grpo"))
        for number in range(21)
    ]
    (line,) = sections(runs)["Learning"][0].lines
    assert (line.x, len(line.thin)) == ([], 21)
    assert report_page(runs).count('class="thin') == 21


def test_thinning_keeps_the_extremes(tmp_path):
    spikes = {1501: 9.0, 2222: -9.0}
    runs = load_runs(
        [
            make_run(tmp_path / f"x-seed{seed}", rows(3000, reward=lambda step: spikes.get(step, 0.0)))
            for seed in (1, 2)
        ]
    )
    (panel,) = [panel for panel in sections(runs)["Learning"] if panel.key == "reward"]
    (line,) = panel.lines
    reach = 3000 // 40
    highest, lowest = 9.0 / (2 * reach + 1), -9.0 / (2 * reach + 1)  # means over a twentieth of the steps
    for values in (line.y, line.low, line.high, *(curve.values for curve in line.thin)):
        assert (max(values), min(values)) == (pytest.approx(highest), pytest.approx(lowest))
        assert len(values) <= 1200
    assert (line.x[0], line.x[-1]) == (1, 3000)


@pytest.fixture
def recorded(tmp_path):
    """A run with groups at steps 1 and 11, in a folder whose name looks like an address."""
    folder = make_run(tmp_path / 'javascript:alert(1)"><b>', rows(20, reward=lambda step: step, entropy=0.5))
    (folder / "groups.jsonl").write_text('{"step": 1, "schema": 2}\n{"step": 11}\n{"step": 11}\n{"st\n{"step": "x"}\n')
    return folder


def links(page):
    return [value for name, value in Tags(page).attributes if name == "href"]


def test_recorded_steps_lead_to_the_token_view_of_the_run(recorded):
    run = load_run(recorded)
    assert links(report_page([run], recorded)) == []  # there is no such page yet
    (recorded / "inspect.html").write_text("")
    page = report_page([run], recorded)
    assert set(links(page)) == {"inspect.html", "inspect.html#step-1", "inspect.html#step-11"}
    assert links(page).count("inspect.html#step-11") == 2  # a panel for the reward, and one for the entropy
    assert page.count('tabindex="-1"') == 2  # only those of the first panel are in the tab order
    assert "A circle leads to the groups" in page
    outside = links(report_page([run], recorded.parent))
    assert "javascript%3Aalert%281%29%22%3E%3Cb%3E/inspect.html#step-11" in outside


def test_runs_of_the_same_name_lead_to_their_own_pages(tmp_path):
    folders = [make_run(tmp_path / parent / "same", rows(5, reward=0.5)) for parent in "ab"]
    for folder in folders:
        (folder / "groups.jsonl").write_text('{"step": 1}\n')
        (folder / "inspect.html").write_text("")
    page = report_page(load_runs(folders), tmp_path)
    assert links(page) == [
        *(f"{parent}/same/inspect.html" for parent in "ab"),
        *(f"{parent}/same/inspect.html#step-1" for parent in "ab"),
    ]


def test_the_curves_of_many_runs_have_no_marks_but_their_names_are_links(tmp_path):
    folders = [make_run(tmp_path / f"x-seed{seed}", rows(5, reward=0.5)) for seed in range(13)]
    for folder in folders:
        (folder / "groups.jsonl").write_text('{"step": 1}\n')
        (folder / "inspect.html").write_text("")
    page = report_page(load_runs(folders), tmp_path)
    assert links(page) == [f"x-seed{seed}/inspect.html" for seed in range(13)]


def test_hostile_names_of_rewards_and_evaluations_stay_text(tmp_path):
    logged = {f"rewards/{HOSTILE}/mean": 1.0, "rewards/other/mean": 1.0}
    folder = make_run(tmp_path / "x", [*rows(5, **logged), {"step": 5, f"eval_{HOSTILE}": 1.0}])
    page = report_page([load_run(folder)])
    tags = Tags(page)
    assert tags.open == []
    assert not {"script", "img"} & set(tags.tags)
    assert page.count("&lt;script&gt;alert(1)") >= 2
