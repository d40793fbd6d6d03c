"""A run is read from every kind of metrics file, and damage costs only what is damaged."""

import json

import pytest

from gtpo.errors import DataError
from gtpo.logged import Table, series
from gtpo.runs import reading
from gtpo.runs.run import load_run, load_runs
from tests.runs.making import make_run, rows


def test_a_run_has_its_method_seed_steps_and_held_out_results(tmp_path):
    run = load_run(make_run(tmp_path / "x", rows(accuracy=0.5), after={"accuracy": 0.7}, method="gtpo", seed=4))
    assert (run.name, run.method, run.seed, run.num_steps, run.after) == ("x", "gtpo", 4, 40, {"accuracy": 0.7})
    assert run.notes == []


@pytest.mark.parametrize(
    ("name", "method", "seed"),
    [
        ("gtpo-seed3", "gtpo", 3),
        ("my_run_s12", "my_run", 12),
        ("qwen-3b", "qwen-3b", None),
        ("trial-7", "trial", None),
    ],
)
def test_without_run_json_method_and_seed_come_from_the_folders_name(tmp_path, name, method, seed):
    run = load_run(make_run(tmp_path / name, rows(accuracy=0.5)))
    assert (run.method, run.seed) == (method, seed)


def test_a_plain_trl_run_is_read_from_its_last_checkpoint(tmp_path):
    history = [
        {"step": 1, "loss": 0.1, "entropy": 0.4},
        {"step": 1, "eval_loss": 3.0},
        {"step": 2, "train_runtime": 9},
    ]
    (tmp_path / "checkpoint-2").mkdir()
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    run = load_run(tmp_path)
    assert [row["step"] for row in run.rows] == [1]
    assert run.series("entropy").values == [0.4]


def test_a_plain_trl_run_is_named_after_its_folder_not_its_checkpoint(tmp_path):
    for seed in (1, 2):
        checkpoint = tmp_path / f"dapo-seed{seed}" / "checkpoint-20"
        checkpoint.mkdir(parents=True)
        (checkpoint / "trainer_state.json").write_text(json.dumps({"log_history": [{"step": 1, "reward": 0.1}]}))
    runs = load_runs([tmp_path / "dapo-seed1", tmp_path / "dapo-seed2" / "checkpoint-20" / "trainer_state.json"])
    assert [(run.name, run.method, run.seed) for run in runs] == [("dapo-seed1", "dapo", 1), ("dapo-seed2", "dapo", 2)]
    assert runs[0].path.name == "dapo-seed1"  # a report there outlives the checkpoint


def test_checkpoints_of_one_run_are_separate_runs(tmp_path):
    for step in (5, 10):
        checkpoint = tmp_path / "dapo" / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "trainer_state.json").write_text(json.dumps({"log_history": [{"step": step, "reward": 0.1}]}))
    runs = load_runs(sorted((tmp_path / "dapo").iterdir()))
    assert {run.name for run in runs} == {"dapo/checkpoint-5", "dapo/checkpoint-10"}


def test_the_last_steps_are_read_from_the_summary_that_trl_adds_them_to(tmp_path):
    last = {"step": 2, "train_runtime": 9, "train_loss": 0.5, "reward": 0.7}
    run = load_run(make_run(tmp_path / "x", [{"step": 1, "reward": 0.1}, last]))
    assert run.series("reward").values == [0.1, 0.7]


def test_a_run_is_judged_by_its_own_threshold(tmp_path):
    metrics = rows(40, entropy=lambda step: 0.5 if step < 20 else 1.4)
    folder = make_run(tmp_path / "x", metrics)
    assert load_run(folder).health()[-1].level == 2
    (folder / "groups.jsonl").write_text(json.dumps({"entropy_threshold": 2.0}) + "\n")
    run = load_run(folder)
    assert run.health()[-1].level == 1
    assert run.health(0.5)[-1].level == 2


def test_entropy_is_the_one_that_grpo_runs_log_too(tmp_path):
    run = load_run(make_run(tmp_path / "gtpo-seed1", rows(3, **{"entropy": 0.3, "gtpo/entropy_mean": 0.5})))
    assert run.series("entropy").values == [0.3] * 3
    older = load_run(make_run(tmp_path / "gtpo-seed2", rows(3, **{"gtpo/entropy_mean": 0.5})))
    assert older.series("entropy").values == [0.5] * 3


def test_a_csv_is_read_with_its_gaps(tmp_path):
    (tmp_path / "trace.csv").write_text("step,accuracy,loss\n1,0.5,\n2,,nan\n3,0.75,1\n")
    run = load_run(tmp_path / "trace.csv")
    assert run.series("accuracy").steps == [1, 3]
    assert "loss" not in run.rows[0]


def test_torn_lines_and_other_schemas_cost_only_themselves(tmp_path):
    folder = make_run(tmp_path / "x", [*rows(3, accuracy=0.5), {"epoch": 1, "val_acc": 3}])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "accu')
    run = load_run(folder)
    assert run.num_steps == 3
    assert any("1 incomplete JSON lines skipped (line 5)" in note for note in run.notes)
    assert any("1 rows without a step" in note for note in run.notes)


def test_a_torn_run_json_is_noted_and_left_out(tmp_path):
    folder = make_run(tmp_path / "gtpo-seed2", rows(accuracy=0.5))
    (folder / "run.json").write_text('{"method": "gt')
    run = load_run(folder)
    assert (run.method, run.seed) == ("gtpo", 2)
    assert any("run.json" in note for note in run.notes)


@pytest.mark.parametrize("name", ["run.json", "summary.json"])
def test_a_json_file_of_endless_brackets_is_noted_and_left_out(tmp_path, name):
    folder = make_run(tmp_path / "gtpo-seed2", rows(accuracy=0.5))
    (folder / name).write_text("[" * 200_000)
    assert any(f"{name} is not a complete JSON object" in note for note in load_run(folder).notes)


def test_numbers_that_do_not_fit_a_float_are_left_out(tmp_path):
    metrics = rows(8, accuracy=0.5, reward=lambda step: 10**400 if step < 3 else 1.0, loss=1e308)
    run = load_run(make_run(tmp_path / "x", metrics, after={"accuracy": 10**400, "format": 0.5}, seed=10**400))
    assert run.series("reward").steps == [3, 4, 5, 6, 7, 8]
    assert run.series("loss").values == []
    assert (run.after, run.seed) == ({"format": 0.5}, None)


def test_a_step_that_was_logged_twice_counts_once_with_its_later_value(tmp_path):
    run = load_run(make_run(tmp_path / "x", [*rows(5, accuracy=0.1), *rows(3, accuracy=0.9)]))
    assert run.series("accuracy").values == [0.9, 0.9, 0.9, 0.1, 0.1]


def test_rewards_stand_in_for_accuracy_only_if_they_are_fractions():
    fractions = rows(2, **{"rewards/accuracy_reward/mean": 0.4})
    points = rows(2, **{"rewards/correctness/mean": 7.0})
    assert series(fractions, "accuracy").values == [0.4, 0.4]
    assert series(points, "accuracy").values == []


def test_a_missing_accuracy_is_noted_and_the_rest_is_used(tmp_path):
    run = load_run(make_run(tmp_path / "x", rows(entropy=0.5)))
    assert any("no accuracy" in note for note in run.notes)
    assert len(run.series("entropy").values) == 40


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("trainer_state.json", b'{"log_history"', "Cannot read .*trainer_state.json"),
        ("trainer_state.json", b"[" * 200_000, "Cannot read .*too many nested brackets"),
        ("trainer_state.json", b"\xff", "Cannot read .*utf-8"),
        ("results.json", b'{"a": 1}', "no log_history"),
        ("metrics.jsonl", b"", "no training metrics"),
        (
            "metrics.jsonl",
            b"[1]\nfoo\n",
            r"2 .* lines skipped \(line 1, 2\): was the run killed there\? Wait",
        ),
        (
            "metrics.jsonl",
            b'{"step": 1, "reward": 1, "eval_reward": 1}',
            r"Rows with eval_\* names count as evaluations\.",
        ),
        ("metrics.jsonl", bytes(range(256)) * 8, r"9 incomplete JSON lines skipped \(line 1, 2, 3, …\)"),
        ("wide.csv", b"step\n" + b"1" * 200_000, "Cannot read .*field larger"),
        ("long_row.csv", b"step\nx,2\n", "1 rows without a step"),
    ],
)
def test_a_file_without_metrics_is_refused_with_the_reason(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_run(tmp_path / name)


def test_a_path_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(DataError, match="is not a run: it has no metrics"):
        load_run(tmp_path)


def test_the_same_run_twice_is_refused(tmp_path):
    folder = make_run(tmp_path / "x", rows(accuracy=0.5))
    with pytest.raises(DataError, match="passed twice"):
        load_runs([folder, folder])


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        ({"config.yaml": "max_steps: 80\n"}, "40 of 80"),
        ({"config.yaml": "max_steps: -1\n", "checkpoint-20/trainer_state.json": '{"max_steps": 50}'}, "40 of 50"),
        ({"checkpoint-20/trainer_state.json": '{"max_steps": 50, "log_history": [{"loss": NaN}]}'}, "40 of 50"),
        ({"summary.json": '{"max_steps": 60}', "config.yaml": "max_steps: 80\n"}, "40 of 60"),
        ({"config.yaml": "max_steps: 40\n"}, "40"),
        ({"config.yaml": "max_steps: [1e999]\n", "checkpoint-1/trainer_state.json": "{"}, "40"),
        ({}, "40"),
    ],
)
def test_the_planned_number_of_steps_is_known_from_what_the_run_left(tmp_path, files, steps):
    folder = make_run(tmp_path / "x", rows(reward=0.5))
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    assert load_run(folder).steps_text == steps


def test_a_plain_trl_run_knows_its_plan_and_its_last_step(tmp_path):
    history = [{"step": 10, "reward": 0.5}, {"step": 14, "train_runtime": 9.0, "train_loss": 0.1}]
    path = tmp_path / "trainer_state.json"
    for tail in ("}", ', "best_metric": NaN}'):  # Python writes NaN, which is not JSON
        path.write_text(json.dumps({"log_history": history, "max_steps": 14})[:-1] + tail)
        run = load_run(tmp_path)
        assert (run.num_steps, run.planned_steps, run.steps_text) == (14, 14, "14")


def test_the_last_verdict_alone_is_that_of_the_history(tmp_path):
    def reward(step):
        return [0.5, 0.4, 0.6][step % 3] if step < 60 else 0.05

    odd = {12: None, 30: 1.5}  # TRL logs None if no completion could be scored
    columns = {"reward": reward, "rewards/accuracy/mean": lambda step: odd.get(step, reward(step))}
    columns |= {"rewards/tags/mean": lambda step: None if step == 7 else 0.5, "grad_norm": 0.1, "gtpo/frac_kept": 0.9}
    for count in (1, 5, 45, 90, 200):
        run = load_run(make_run(tmp_path / str(count), rows(count, **columns), after={"accuracy": 0.1}))
        assert run.verdict == run.health()[-1]
    assert run.verdict.level == 2


def test_rows_keep_what_was_logged(tmp_path):
    metrics = [{"step": 2, "loss": float("nan"), "a": 1.5}, {"step": 1, "a": "x", "b": True}, {"step": 3}]
    run = load_run(make_run(tmp_path / "x", metrics))
    assert list(run.rows) == [{"step": 1, "a": None, "b": None}, {"step": 2, "loss": None, "a": 1.5}, {"step": 3}]
    assert run.rows[-1] == {"step": 3}
    assert run.rows[:1] == [run.rows[0]]


def test_names_without_end_are_left_out_with_a_note(tmp_path):
    long = {"x" * 10_000_000: 1.0, "reward": 0.5}
    many = {f"metric {number}": 1.0 for number in range(600)}
    run = load_run(make_run(tmp_path / "x", [{"step": 1, **long}, {"step": 2, "reward": 0.5, **many}]))
    assert run.series("reward").values == [0.5, 0.5]
    assert any("103 values were left out: their names are too long, or too many" in note for note in run.notes)


def test_a_table_does_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(Table, "MOST_VALUES", 1000)
    with pytest.raises(DataError, match=r"metrics\.jsonl: it has more than 1,000 values"):
        load_run(make_run(tmp_path / "x", rows(600, reward=0.5)))


def test_a_line_without_end_is_skipped_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 100)
    folder = make_run(tmp_path / "x", [{"step": 1, "reward": 0.5}, {"step": 2, "text": "x" * 1000}, {"step": 3}])
    run = load_run(folder)
    assert [row["step"] for row in run.rows] == [1, 3]
    assert any("incomplete JSON lines skipped" in note for note in run.notes)


def test_a_method_without_end_is_shortened(tmp_path):
    run = load_run(make_run(tmp_path / "x", rows(reward=0.5), method="m" * 10_000_000, seed=1))
    assert run.method == "m" * 200


def test_links_that_lead_nowhere_or_in_circles_are_not_followed(tmp_path):
    folder = make_run(tmp_path / "x", rows(reward=0.5))
    for name in ("run.json", "summary.json", "config.yaml", "groups.jsonl", "results.json", "inspect.html"):
        (folder / name).symlink_to(folder / name)
    (folder / "checkpoint-5").mkdir()
    (folder / "checkpoint-5" / "trainer_state.json").symlink_to("/nowhere")
    (folder / "checkpoint-6").symlink_to(folder)
    run = load_run(folder)
    assert (run.steps_text, run.has_groups, run.verdict.name) == ("40", False, "healthy")
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").symlink_to(folder / "metrics.jsonl")
    with pytest.raises(DataError, match="is not a run"):
        load_run(folder)
