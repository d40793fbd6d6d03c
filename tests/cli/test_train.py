"""`gtpo train` as a stranger meets it, on the lab at reduced size."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file

from gtpo.cli.main import main
from gtpo.cli.training_view import closing_table, opening
from gtpo.lab import lab_model_dir
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.run_folder import RunFolder
from tests.reading import read_groups, read_metrics

SMALL = [
    "--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "1", "--max_completion_length", "40",
    "--num_generations", "4", "--held_out_problems", "8", "--max_problems", "64",
]  # fmt: skip
SMALL_SFT = ["--per_device_train_batch_size", "8", "--held_out_problems", "8", "--max_problems", "64"]
TIMES = ("seconds", "step_time", "gtpo/seconds_sampling", "gtpo/seconds_shaping")


def numbers(run):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run)]


@pytest.mark.parametrize("method", ["gtpo", "grpo", "sft"])
def test_the_lab_trains_by_every_method_and_the_run_is_a_folder(method, tmp_path, capsys):
    run = tmp_path / "run"
    small = SMALL_SFT if method == "sft" else SMALL
    assert main(["train", "--method", method, "--max_steps", "2", "--output_dir", str(run), *small]) == 0
    shown = capsys.readouterr()
    for word in ("model", "problems", "method", "written to"):
        assert word in shown.err
    assert "INFO" not in shown.err
    for word in ("before", "after", "accuracy", "format", "entropy", "gtpo eval", "gtpo compare"):
        assert word in shown.out
    assert ("gtpo inspect" in shown.out) == ("groups.jsonl" in shown.err) == (method == "gtpo")
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
    if method != "sft":
        assert {"accuracy", "format", "rewards/timeouts"} <= read_metrics(run)[0].keys()
    if method == "gtpo":
        assert read_groups(run)[0].completions[0].pieces


def launch(run, *options):
    command = [
        sys.executable,
        "-m",
        "gtpo.cli.main",
        "train",
        "--output_dir",
        str(run),
        "--seed",
        "3",
        *SMALL,
        *options,
    ]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)


def wait_for_step(run, step, process, limit=240):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.jsonl").exists() and any(row["step"] >= step for row in read_metrics(run)):
            return
        time.sleep(0.02)
    raise AssertionError(f"step {step} was not reached: {process.stderr.read()[-2000:]}")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    run = tmp_path_factory.mktemp("unbroken") / "run"
    process = launch(run, "--max_steps", "7", "--save_steps", "2")
    assert process.wait(300) == 0
    return run


def test_killed_anywhere_and_resumed_it_ends_with_the_same_numbers(unbroken, tmp_path):
    run = tmp_path / "run"
    process = launch(run, "--max_steps", "7", "--save_steps", "2")
    wait_for_step(run, 5, process)
    process.kill()
    process.wait()
    assert main(["train", "--resume", str(run)]) == 0
    assert numbers(run) == numbers(unbroken)
    mine, theirs = (load_file(folder / "model/model.safetensors") for folder in (run, unbroken))
    assert all(mine[name].equal(theirs[name]) for name in theirs)
    after = [json.loads((folder / "summary.json").read_text())["after"] for folder in (run, unbroken)]
    assert after[0] == after[1]
    assert [group.step for group in read_groups(run)] == [group.step for group in read_groups(unbroken)]


def test_killed_after_the_last_step_it_makes_no_other(unbroken, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "held_out/after")
    summary = json.loads((run / "summary.json").read_text())
    after = summary.pop("after")
    (run / "summary.json").write_text(json.dumps(summary))
    assert main(["train", "--resume", str(run)]) == 0
    resumed = json.loads((run / "summary.json").read_text())
    assert (resumed["after"], resumed["steps"]) == (after, 7)
    assert numbers(run) == numbers(unbroken)


def test_an_interrupt_before_the_first_step_says_how_to_go_on(tmp_path):
    run = tmp_path / "run"
    process = launch(run, "--max_steps", "2", "--held_out_problems", "256", "--held_out_samples", "64")
    deadline = time.monotonic() + 120
    while not list(run.glob("held_out/before/*/*.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"gtpo train --resume {run}" in said


def test_an_interrupt_saves_a_checkpoint_and_says_how_to_go_on(unbroken, tmp_path):
    run = tmp_path / "run"
    process = launch(run, "--max_steps", "7", "--save_steps", "2")
    wait_for_step(run, 3, process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Stopping after this step, with a checkpoint" in said
    assert f"gtpo train --resume {run}" in said
    assert main(["train", "--resume", str(run)]) == 0
    assert numbers(run) == numbers(unbroken)


def test_a_finished_run_is_left_alone(unbroken, capsys):
    before = (unbroken / "summary.json").read_bytes()
    assert main(["train", "--resume", str(unbroken)]) == 0
    assert "finished" in capsys.readouterr().err
    assert (unbroken / "summary.json").read_bytes() == before


def test_a_dry_run_says_the_plan_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--dry-run", "--max_problems", "64"]) == 0
    plan = capsys.readouterr().out
    for words in ("gtpo", "64 to train on", "80", "runs/lab-lab-gtpo-seed42", "[20.0, 20.0, 20.0] for right answers"):
        assert words in plan
    assert list(tmp_path.iterdir()) == []


def train_by_two_processes(*options, module="gtpo.cli.main", **environment):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", module,
        "train", "--max_steps", "2", *SMALL, "--use_cpu", *options,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_processes_make_one_run(tmp_path):
    run = tmp_path / "run"
    shown = train_by_two_processes("--output_dir", str(run))
    assert [row["step"] for row in read_metrics(run)] == [1, 2]
    assert shown.count("before") == 1


def test_processes_end_without_threads_that_could_abort_them(tmp_path):
    (tmp_path / "name_threads.py").write_text(
        "import pathlib\n"
        "from gtpo.cli.main import main\n"
        "assert main() == 0\n"
        "print('threads', [path.read_text() for path in pathlib.Path('/proc/self/task').glob('*/comm')], flush=True)\n"
    )
    shown = train_by_two_processes(
        "--output_dir",
        str(tmp_path / "run"),
        module="name_threads",
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )
    assert shown.count("threads") == 2
    assert "gloo" not in shown


def test_two_processes_say_one_plan_about_both(tmp_path):
    shown = train_by_two_processes("--output_dir", str(tmp_path / "run"), "--dry-run")
    assert shown.count("Nothing was trained") == 1
    assert "a generation batch of 16 over 2 processes" in shown  # 8 of each


async def awaited_reward(completions, **columns):
    return [0.25] * len(completions)


def test_a_dry_run_looks_at_the_revision_that_would_be_trained_and_fetches_no_weights(tmp_path, monkeypatch, capsys):
    asked = []

    def snapshot(name, revision, ignore_patterns):
        asked.append((name, revision, "*.safetensors" in (ignore_patterns or ())))
        return str(lab_model_dir())

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--dry-run", "--model", "some/model", "--model_revision", "v2"]) == 0
    assert asked == [("some/model", "v2", True)]


def test_a_resumed_run_is_refused_other_problems_than_it_began_with(tmp_path, capsys):
    rows = [json.dumps({"question": f"{n} + 1 = ?", "answer": n + 1}) for n in range(20)]
    problems, run = tmp_path / "mine.jsonl", str(tmp_path / "run")
    problems.write_text("\n".join(rows))
    small = ["--problems", str(problems), "--output_dir", run, "--max_steps", "1", "--save_steps", "1", *SMALL]
    assert main(["train", *small]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    del summary["after"]  # as if it had been killed before its end
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    problems.write_text("\n".join(rows[:12]))
    assert main(["train", "--resume", run]) == 2
    assert "are not those that this run began with" in capsys.readouterr().err
    problems.write_text("\n".join(rows))
    assert main(["train", "--resume", run]) == 0


def test_the_closing_says_what_to_do_next_and_whether_it_was_stopped(tmp_path):
    settings = {"method": "grpo", "problems": "gsm8k", "data_dir": "my data"}
    run = RunFolder.create(tmp_path / "run", settings, {**settings, "model": "m", "seed": 1})
    run.write_summary(seconds=2.0, steps=7, max_steps=7)
    said = closing_table(run)
    assert "7 steps in 2 s" in said
    assert "stopped" not in said
    assert f"gtpo eval {run.model} --problems gsm8k --data-dir 'my data'" in said
    assert "such as one of --method gtpo" in said
    run.write_summary(max_steps=80)
    assert f"stopped before step 80, since it was collapsing: `gtpo health {run.path}` says why" in closing_table(run)


@pytest.mark.parametrize(
    ("options", "says"),
    {
        "the paper's": ([], "GTPO (arXiv:2508.03772), λ = 2 / 0, filter at 0.693 nats, γ = 0.1"),
        "neutral": (
            ["--conflict_edges", "none", "--entropy_filter", "off", "--entropy_penalty", "0"],
            "GTPO (arXiv:2508.03772), no conflict weights, no filter, γ = 0",
        ),
        "parts": (
            ["--conflict_edges", "prefix", "--entropy_filter", "negative"],
            "GTPO (arXiv:2508.03772), λ = 2 / 0 (prefix only), filter at 0.693 nats (negative), γ = 0.1",
        ),
        "grpo": (["--method", "grpo"], "GRPO, β = 0"),
    }.values(),
)
def test_the_opening_says_what_is_on_and_what_is_off(options, says, tmp_path):
    plan = make_plan(None, parse_overrides([*options, "--output_dir", str(tmp_path)]))
    assert f"    method  {says}\n" in opening(plan, RunFolder(tmp_path))


def binary_reward(completions, answer, **columns):
    return [float(f">{gold}<" in one[0]["content"]) for one, gold in zip(completions, answer, strict=True)]


def test_a_dry_run_notes_a_penalty_that_is_too_large_for_the_rewards(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = []
    binary = ["--rewards", "cli.test_train:binary_reward"]
    for options in ([], binary, [*binary, "--entropy_penalty", "0.005"]):
        assert main(["train", "--dry-run", *options]) == 0
        shown.append(capsys.readouterr().out)
    assert [text.count("here differ by 1. Try --entropy_penalty 0.005.") for text in shown] == [0, 1, 0]


def test_a_dry_run_waits_for_rewards_that_are_awaited(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--dry-run", "--rewards", "cli.test_train:awaited_reward"]) == 0
    assert "awaited_reward: [0.25, 0.25, 0.25] for right answers" in capsys.readouterr().out


calls = []


def late_reward(completions, **columns):
    calls.append(1)
    if len(calls) > 4:
        raise RuntimeError("broken at last")
    return [float(i % 2) for i in range(len(completions))]


def test_a_late_failure_loses_nothing(tmp_path, capsys):
    run = tmp_path / "run"
    options = [
        "--rewards",
        "cli.test_train:late_reward",
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


def broken_reward(completions, **columns):
    raise RuntimeError("my reward is broken")


def hostile_reward(completions, **columns):
    raise ValueError("cannot parse \x1b[2J")


def greedy_reward(completions, bonus, **columns):
    raise AssertionError("is never reached")  # pragma: no cover


def wordy_reward(completions, **columns):
    return ["much"] * len(completions)


WRONG = {
    "an unknown option": (["--learning_rat", "1"], "Did you mean learning_rate?"),
    "a missing model": (["--model", "./nowhere"], "There is no model at ./nowhere"),
    "an unknown problem set": (["--problems", "gsm9k"], "gsm9k"),
    "an unknown reward": (["--rewards", "nice"], "There is no reward 'nice'"),
    "a reward that raises": (["--rewards", "cli.test_train:broken_reward"], "my reward is broken"),
    "a resume of nothing": (["--resume", "nowhere"], "is not a run"),
    "a resume with options": (["--resume", "nowhere", "--seed", "1"], "takes no recipe and no options"),
    "a dry resume": (["--resume", "nowhere", "--dry-run"], "takes no recipe and no options"),
    "an option that would do nothing": (["--lora_r", "8"], "lora_r does nothing without use_peft"),
    "no vllm": (["--use_vllm", "true"], "pip install 'trl[vllm]'"),
    "no vllm for a dry run": (["--use_vllm", "true", "--dry-run"], "pip install 'trl[vllm]'"),
    "vllm's option without vllm": (["--vllm_mode", "server"], "vllm_mode does nothing without use_vllm: true"),
    "a checkpoint by trl's name": (["--resume_from_checkpoint", "x"], "Use `gtpo train --resume RUN`"),
    "what trl refuses": (["--method", "grpo", "--sync_ref_model", "true"], "TRL refuses these settings"),
    "more weights than rewards": (["--reward_weights", "1", "2"], "reward_weights has 2 numbers for 1 rewards"),
    "a tracker that is not there": (["--report_to", "wandb", "--dry-run"], "report_to: WandbCallback requires wandb"),
    "a tracker of no such name": (["--report_to", "nonsense"], "report_to: nonsense is not supported"),
    "an empty held-out file": (["--held_out", "empty.jsonl", "--dry-run"], "held_out must be a set with problems"),
    "a reward that returns nothing": (["--rewards", "cli.test_train:silent_reward"], "silent_reward returned nothing"),
    "a reward without columns": (["--rewards", "cli.test_train:narrow_reward"], "It must take **columns"),
    "a reward that wants more": (["--rewards", "cli.test_train:greedy_reward"], "there is none of that name"),
    "an adapter for a model": (["--model", "adapter"], "holds a LoRA adapter, not a model: merge it into its base"),
    "a run for a model": (["--model", "run"], "is the folder of a run: give the model in it, run/model"),
    "columns of no file": (["--columns", "answer=truth"], "names the columns of a file, and lab is none"),
    "no problem left": (["--max_prompt_tokens", "1"], "No problem of lab is left"),
    "a reward of words": (["--rewards", "cli.test_train:wordy_reward"], "returned 'much'"),
    "a folder in a file": (["--output_dir", f"{__file__}/run"], "is a file. Choose another --output_dir"),
    "a dry run into a file": (["--output_dir", __file__, "--dry-run"], "is a file. Choose another --output_dir"),
    "a folder that the system refuses": (["--output_dir", "/proc/run"], "/proc/run: "),
    "a missing recipe": (["nowhere.yaml"], "nowhere.yaml cannot be read"),
    "fewer problems than a step asks": (
        ["--max_problems", "1"],
        "There are 1 problems, and one generation batch asks 2",
    ),
    "a reward that raises hostile text": (["--rewards", "cli.test_train:hostile_reward"], "cannot parse �[2J"),
}


def silent_reward(completions, **columns):
    pass


def narrow_reward(completions):
    return [1.0] * len(completions)


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_bad_input_gets_one_line_and_a_nonzero_exit(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    for file in ("adapter/adapter_config.json", "run/model/config.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("{}")
    monkeypatch.setattr("gtpo.training.config.vllm.is_vllm_available", lambda: False)
    evaluations = []
    if "--use_vllm" in arguments:
        monkeypatch.setattr("gtpo.training.session.evaluate", lambda *_, **__: evaluations.append(1))
    small = [] if "--resume" in arguments else ["--max_steps", "1", *SMALL]
    words = [*small, *arguments] if arguments[0].startswith("-") else [*arguments, *small]  # the last option counts
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert not evaluations
    assert not list(tmp_path.glob("runs/*"))  # the mended command finds its folder free


def test_a_closed_folder_is_said_before_anything_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    assert main(["train", "--output_dir", str(tmp_path / "a" / "b"), *SMALL]) == 2
    assert f"{tmp_path} is not writable. Choose another --output_dir" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


FULL = {
    "the system's": (OSError(28, "No space left on device"), 10**12),
    "safetensors'": (
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        10**12,
    ),
    "torch's": (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 5177920 vs 5177808"), 0),
}


@pytest.mark.parametrize(("error", "room"), FULL.values(), ids=FULL.keys())
def test_a_full_disk_is_said_plainly(error, room, tmp_path, monkeypatch, capsys):
    def full(*args, **kwargs):
        raise error

    monkeypatch.setattr("shutil.disk_usage", lambda path: types.SimpleNamespace(free=room))
    monkeypatch.setattr("gtpo.trl.resume.ExactResume._save_progress", full)
    run = tmp_path / "run"
    assert main(["train", "--output_dir", str(run), "--max_steps", "2", "--save_steps", "1", *SMALL]) == 2
    assert f"No space left on the disk of {run}. Make room, then go on: gtpo train --resume" in capsys.readouterr().err
    assert (run / "config.yaml").is_file()


def test_a_damaged_folder_is_said_plainly(unbroken, tmp_path, capsys):
    for name, content in {"config.yaml": "", "summary.json": "{"}.items():
        run = tmp_path / name
        shutil.copytree(unbroken, run)
        (run / "summary.json").unlink()
        (run / name).write_text(content)
        assert main(["train", "--resume", str(run)]) == 2
        assert f"{name} is damaged" in capsys.readouterr().err


def test_a_file_of_ones_own_is_not_its_own_held_out_set(tmp_path, capsys):
    rows = [{"question": f"{i}+{i}=?", "truth": str(2 * i)} for i in range(8)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = [*SMALL[: SMALL.index("--max_problems")], "--max_steps", "1", "--columns", "answer=truth"]
    run = tmp_path / "run"
    assert main(["train", "--problems", str(tmp_path / "mine.jsonl"), "--output_dir", str(run), *small]) == 0
    assert json.loads((run / "summary.json").read_text())["before"] is None
    assert "a file has no test split" in capsys.readouterr().err
    assert "accuracy" in (run / "train.log").read_text()


def bonus_reward(completions, bonus, **columns):
    return [0.25 * value for value in bonus]


def test_a_resume_from_another_folder_says_where_the_run_was_started(tmp_path, monkeypatch, capsys):
    rows = [{"question": f"{i}+{i}=?", "answer": str(2 * i)} for i in range(8)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    small = [*SMALL[: SMALL.index("--max_problems")], "--max_steps", "1"]
    assert main(["train", "--problems", "mine.jsonl", "--output_dir", "run", *small]) == 0
    (tmp_path / "run/summary.json").unlink()  # as if it had been killed
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["train", "--resume", "../run"]) == 2
    assert f"no file mine.jsonl: give the path of a .jsonl or .parquet file. The run was started in {tmp_path}" in (
        " ".join(capsys.readouterr().err.split())
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.jsonl").write_text("")
    assert main(["train", "--resume", "run"]) == 2
    assert "The run was started in" not in capsys.readouterr().err
    (tmp_path / "run/run.json").write_text("{")
    assert main(["train", "--resume", "run"]) == 2


def test_what_is_wrong_with_held_out_problems_is_said_of_them(tmp_path, capsys):
    for name, question in (("train", "1+1=?"), ("test", "1+1+" * 300)):
        rows = [{"question": question, "answer": "2"}] * 8
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = ["--problems", str(tmp_path / "train.jsonl"), "--held_out", str(tmp_path / "test.jsonl")]
    assert main(["train", *files, "--output_dir", str(tmp_path / "run"), "--max_steps", "1", *SMALL]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "Held-out problems, test.jsonl: The longest prompt has" in err


def test_every_column_of_a_file_reaches_a_reward(tmp_path):
    rows = [{"question": f"{i}+{i}=?", "answer": str(2 * i), "bonus": 2.0} for i in range(8)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = [*SMALL[: SMALL.index("--max_problems")], "--max_steps", "1", "--rewards", "cli.test_train:bonus_reward"]
    run = tmp_path / "run"
    assert main(["train", "--problems", str(tmp_path / "mine.jsonl"), "--output_dir", str(run), *small]) == 0
    assert read_metrics(run)[0]["reward"] == 0.5


def test_columns_name_those_of_the_held_out_file_too(tmp_path):
    rows = [{"task": f"{i}+{i}=?", "truth": str(2 * i)} for i in range(8)]
    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = ["--problems", str(tmp_path / "train.jsonl"), "--held_out", str(tmp_path / "test.jsonl")]
    options = [*SMALL[: SMALL.index("--max_problems")], "--max_steps", "1", "--columns", "question=task,answer=truth"]
    assert main(["train", *files, "--output_dir", str(tmp_path / "run"), *options, "--dry-run"]) == 0
    assert main(["train", *files, "--output_dir", str(tmp_path / "run"), *options]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["after"]["problems"] == "test.jsonl"


def test_a_folder_called_lab_is_not_taken_for_the_lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lab").mkdir()
    assert main(["train", "--max_steps", "1", *SMALL, "--output_dir", "run"]) == 0


def test_the_default_folder_is_always_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["train", "--max_steps", "1", *SMALL, "--held_out_problems", "0"]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["lab-lab-gtpo-seed42", "lab-lab-gtpo-seed42-2"]


def test_help_is_short_and_help_all_is_not(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 60
    assert main(["train", "--help-all"]) == 0
    everything = capsys.readouterr().out
    assert "--entropy_penalty_center" in everything
    assert "--held_out_temperature" in everything
    assert "--vllm_gpu_memory_utilization" in everything
