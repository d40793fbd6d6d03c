"""`gtpo train` from end to end, on the lab at reduced size."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gtpo.cli.main import main
from gtpo.cli.train import _is_disk_full, _let_threads_sleep
from gtpo.cli.training_view import closing_table
from gtpo.training.config.options import RunOptions
from gtpo.training.run_folder import RunFolder
from tests.cli.launching import SMALL, SMALL_SFT
from tests.reading import read_groups, read_metrics


@pytest.fixture(scope="module", params=["gtpo", "grpo", "sft"])
def trained(request, tmp_path_factory):
    """A run of each method: the method, its folder, and what was printed to stdout and stderr."""
    run = tmp_path_factory.mktemp(request.param) / "run"
    small = SMALL_SFT if request.param == "sft" else SMALL
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["train", "--method", request.param, "--max_steps", "2", "--output_dir", str(run), *small])
    assert code == 0, err.getvalue()
    return request.param, run, out.getvalue(), err.getvalue()


def test_every_method_prints_a_summary_before_and_a_table_after_training(trained):
    method, _, out, err = trained
    for word in ("model", "problems", "method", "written to"):
        assert word in err
    assert "INFO" not in err
    for word in ("before", "after", "accuracy", "format", "entropy", "gtpo eval", "gtpo compare"):
        assert word in out
    assert re.search(r"accuracy  \d+\.\d % \(\d+\.\d to \d+\.\d\) +\d+\.\d % \(", out)
    assert ("gtpo health" in out) == (method != "sft")
    assert "\r" not in err
    assert re.search(r"^2/2 \d\d:\d\d<00:00, (reward|loss) ", err, re.MULTILINE)
    assert ("gtpo inspect" in out) == ("groups.jsonl" in err) == (method != "sft")


def test_every_method_leaves_the_folder_of_a_run(trained):
    method, run, _, _ = trained
    summary = json.loads((run / "summary.json").read_text())
    assert summary["seconds"] > 0
    for when in ("before", "after"):
        assert 0 <= summary[when]["accuracy"] <= 1
        assert 0 <= summary[when]["format"] <= 1
        assert summary[when]["entropy"] > 0
    assert json.loads((run / "run.json").read_text())["versions"]["trl"]
    assert yaml.safe_load((run / "config.yaml").read_text())["method"] == method
    assert [row["step"] for row in read_metrics(run)] == [1, 2]
    assert (run / "model" / "model.safetensors").is_file()
    assert (run / "model" / "README.md").read_text().startswith("---\nlibrary_name: transformers\n")
    assert not (run / "model" / "training_args.bin").exists()
    assert "step 2" in (run / "train.log").read_text()
    if method != "sft":
        assert {"accuracy", "format", "rewards/timeouts"} <= read_metrics(run)[0].keys()
        group = read_groups(run)[0]
        assert group.method == method
        assert group.completions[0].pieces


def test_the_folder_of_a_finished_run_can_be_the_model_of_the_next(trained, tmp_path, capsys):
    _, run, _, _ = trained
    assert main(["train", "--model", str(run), "--problems", "lab", "--dry-run", "--output_dir", "unused"]) == 0
    assert f"     model  {run}\n" in capsys.readouterr().out


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--dry-run", "--max_problems", "64"]) == 0
    plan = capsys.readouterr().out
    for words in (
        "gtpo",
        "64 to train on",
        "80",
        "runs/lab-lab-gtpo-seed42",
        "[20.0, 20.0, 20.0] for right answers",
        "about 1 M",
    ):
        assert words in plan
    assert list(tmp_path.iterdir()) == []
    taken = ["train", "--max_problems", "64", "--output_dir", str(Path(__file__).parent)]
    assert main([*taken, "--dry-run"]) == 0
    assert main(taken) == 2


def test_only_the_main_process_prints_the_plan(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("accelerate.PartialState.is_main_process", False)
    assert main(["train", "--dry-run", "--output_dir", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == ""


WRONG = {
    "an unknown option": (["--learning_rat", "1"], "Did you mean learning_rate?"),
    "a missing recipe": (["nowhere.yaml"], "nowhere.yaml cannot be read"),
    "a missing model": (["--model", "./nowhere"], "'./nowhere' cannot be loaded: there is no such folder"),
    "a resume of nothing": (["--resume", "nowhere"], "is not a run"),
    "a resume with options": (
        ["--resume", "nowhere", "--seed", "1"],
        "takes no recipe and no options but --max_steps",
    ),
    "a dry resume of nothing": (["--resume", "nowhere", "--dry-run"], "is not a run"),
    "what only TRL refuses": (["--method", "grpo", "--sync_ref_model", "true"], "TRL refuses these settings"),
    "a folder in a file": (["--output_dir", f"{__file__}/run"], "is a file. Choose another --output_dir"),
    "a dry run into a file": (["--output_dir", __file__, "--dry-run"], "is a file. Choose another --output_dir"),
    "a folder that the system refuses": (["--output_dir", "/proc/run"], "/proc/run: "),
    "a reward that raises terminal codes": (
        ["--rewards", "tests.training.own_rewards:hostile"],
        "cannot parse �[2J",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_bad_input_gets_one_line_and_leaves_no_folder(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = [] if "--resume" in arguments else ["--max_steps", "1", *SMALL]
    words = [*small, *arguments] if arguments[0].startswith("-") else [*arguments, *small]
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert not list(tmp_path.glob("runs/*"))  # the corrected command finds its folder free


def test_an_error_does_not_repeat_a_huge_value(tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(f"max_steps: {'x' * 100_000}")
    assert main(["train", str(tmp_path / "recipe.yaml")]) == 2
    error = capsys.readouterr().err
    assert "max_steps='xxx" in error
    assert len(error) < 2_100


def test_mistakes_are_reported_and_help_is_printed_before_torch_is_imported(tmp_path):
    (tmp_path / "recipe.yaml").write_text("learning_rat: 1")
    (tmp_path / "broken.yaml").write_text("a: [")
    program = """
import sys
from gtpo.cli.main import main
for arguments in (["--sed", "1"], ["--method", "ppo"], ["recipe.yaml"], ["broken.yaml"], ["--resume", "nowhere"],
                  ["--method", "sft", "--beta", "1"], ["--held_out_problems", "few"], ["--lora_r", "8"]):
    assert main(["train", *arguments]) == 2
try:
    main(["train", "--help"])
except SystemExit:
    print(sorted({"torch", "transformers", "trl", "datasets"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.endswith("[]\n")
    assert "gtpo has no option sed. Did you mean seed?" in result.stderr
    assert "recipe.yaml: gtpo has no option learning_rat." in result.stderr


def test_a_late_failure_keeps_the_checkpoints(tmp_path, capsys):
    run = tmp_path / "run"
    options = [
        "--rewards",
        "tests.training.own_rewards:late",
        "--max_steps",
        "9",
        "--save_steps",
        "2",
        "--logging_steps",
        "50",
    ]
    assert main(["train", "--output_dir", str(run), *SMALL, *options]) == 2
    assert "broken at last" in capsys.readouterr().err
    assert (run / "checkpoint-4/complete").is_file()


def test_a_full_disk_is_reported_with_the_command_to_continue(tmp_path, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gtpo.trl.fast.resume.ExactResume._save_progress", fail)
    run = tmp_path / "run"
    assert main(["train", "--output_dir", str(run), "--max_steps", "2", "--save_steps", "1", *SMALL]) == 2
    error = capsys.readouterr().err
    assert f"The disk of {run} is full. Free some space, then continue with: gtpo train --resume {run}" in error
    assert (run / "config.yaml").is_file()


def test_a_full_disk_is_recognized_behind_the_errors_of_libraries():
    assert _is_disk_full(RuntimeError("I/O error: No space left on device (os error 28)"))
    assert not _is_disk_full(RuntimeError("unexpected pos 5177920 vs 5177808"))
    assert not _is_disk_full(OSError(13, "Permission denied"))


def write_problems(path: Path, **columns):
    rows = [{"question": f"{i}+{i}=?", "answer": str(2 * i), **columns} for i in range(8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_problem_file_trains_with_its_own_columns_and_without_a_held_out_set(tmp_path, capsys):
    problems, run = write_problems(tmp_path / "mine.jsonl", bonus=2.0), tmp_path / "run"
    options = ["--max_steps", "1", "--rewards", "tests.training.own_rewards:bonus"]
    assert main(["train", "--problems", problems, "--output_dir", str(run), *SMALL, *options]) == 0
    assert read_metrics(run)[0]["reward"] == 0.5
    assert json.loads((run / "summary.json").read_text())["before"] is None
    assert "your data has no test split" in capsys.readouterr().err


def test_the_closing_table_says_what_to_do_next_and_whether_the_run_was_stopped(tmp_path):
    options = RunOptions(method="grpo", problems="gsm8k", data_dir="my data")
    run = RunFolder.create(tmp_path / "run", {}, {})
    run.write_summary(seconds=2.0, steps=7, max_steps=7)
    table = closing_table(run, options)
    assert "7 steps in 2 s" in table
    assert "stopped" not in table
    assert f"gtpo eval {run.path} --problems gsm8k --data-dir 'my data'" in table
    assert "for example of --method gtpo" in table
    assert "pass@k and maj@k" in table
    own = closing_table(run, RunOptions(method="grpo", grader="mine:is_right"))
    assert "maj@k" not in own
    assert re.search("--grader mine:is_right +pass@k\n", own)
    run.write_summary(max_steps=80)
    stopped = f"stopped before step 80 because it was collapsing: `gtpo health {run.path}` explains why"
    assert stopped in closing_table(run, options)


def test_the_closing_table_says_if_the_run_ended_broken(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    run.write_summary(seconds=2.0, steps=40, max_steps=40)
    metrics = run.path / "metrics.jsonl"

    def write(end):
        rows = [{"step": step, "reward": 0.5 if step < 30 else end} for step in range(1, 41)]
        metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return closing_table(run, RunOptions(method="grpo"))

    assert "ended" not in write(0.5)
    table = write(0.0)
    assert "ended collapsing: the reward fell from 0.5 at its best to 0" in table
    assert "what to try: Halve the learning rate" in table
    assert "there is no last-healthy checkpoint" in table
    (run.path / "last-healthy").mkdir()
    assert f"{run.path / 'last-healthy'} is from before" in write(0.0)


@pytest.mark.parametrize("set_by_user", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "100"}])
def test_waiting_threads_sleep_unless_the_environment_says_otherwise(set_by_user, monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")  # restored after the test
        monkeypatch.delenv(name)
    for name, value in set_by_user.items():
        monkeypatch.setenv(name, value)
    _let_threads_sleep()
    assert {name: os.environ.get(name) for name in set_by_user} == set_by_user
    assert (os.environ.get("GOMP_SPINCOUNT") == "3000") == (not set_by_user)


def test_help_is_short_and_help_all_lists_every_option(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert len(capsys.readouterr().out.splitlines()) < 60
    assert main(["train", "--help-all"]) == 0
    everything = capsys.readouterr().out
    for option in ("--entropy_penalty_center", "--held_out_temperature", "--vllm_gpu_memory_utilization"):
        assert option in everything
