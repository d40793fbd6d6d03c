"""`gtpo train` killed, interrupted, resumed and run by several processes, on the lab at reduced size."""

import json
import os
import shutil
import signal
import socket

import pytest
from safetensors.torch import load_file

from gtpo.cli.main import main
from tests.cli.launching import SMALL, has_step, launch, numbers, wait_until
from tests.reading import read_groups, read_metrics

STEPS = [*SMALL, "--seed", "3", "--max_steps", "7", "--save_steps", "2", "--rewards", "format"]
UNMEASURED = ["--held_out_problems", "0"]
"""A new process starts no grading workers, which takes seconds."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run of seven steps that was never interrupted; tests only read it."""
    run = tmp_path_factory.mktemp("unbroken") / "run"
    assert main(["train", "--output_dir", str(run), *STEPS]) == 0
    return run


def test_a_run_that_is_killed_and_resumed_ends_with_the_same_numbers(unbroken, tmp_path):
    run, log = tmp_path / "run", tmp_path / "log"
    process = launch(log, "--output_dir", str(run), *STEPS, *UNMEASURED)
    wait_until(lambda: has_step(run, 5), process, log)
    process.kill()
    process.join()
    assert main(["train", "--resume", str(run)]) == 0
    assert numbers(run) == numbers(unbroken)
    weights, expected = (load_file(folder / "model/model.safetensors") for folder in (run, unbroken))
    assert all(weights[name].equal(expected[name]) for name in expected)
    assert [group.step for group in read_groups(run)] == [group.step for group in read_groups(unbroken)]


def test_an_interrupt_saves_a_checkpoint_and_prints_how_to_continue(unbroken, tmp_path):
    run, log = tmp_path / "run", tmp_path / "log"
    process = launch(log, "--output_dir", str(run), *STEPS, *UNMEASURED)
    wait_until(lambda: has_step(run, 3), process, log)
    os.kill(process.pid, signal.SIGTERM)
    process.join(120)
    assert process.exitcode == 130
    assert "Stopping after this step, with a checkpoint" in log.read_text()
    assert f"gtpo train --resume {run}" in log.read_text()
    assert main(["train", "--resume", str(run)]) == 0
    assert numbers(run) == numbers(unbroken)


def test_an_interrupt_before_the_first_step_prints_how_to_continue(tmp_path):
    run, log = tmp_path / "run", tmp_path / "log"
    slow = ["--max_steps", "2", "--held_out_problems", "256", "--held_out_samples", "64"]
    process = launch(log, "--output_dir", str(run), *SMALL, *slow)
    wait_until(lambda: list(run.glob("held_out/before/*/*.jsonl")), process, log)
    os.kill(process.pid, signal.SIGTERM)
    process.join(120)
    assert process.exitcode == 130
    assert f"gtpo train --resume {run}" in log.read_text()


def copy_unfinished(run, folder):
    """A copy of a finished run as if it had been killed during its last evaluation."""
    shutil.copytree(run, folder)
    summary = json.loads((folder / "summary.json").read_text())
    after = summary.pop("after")
    (folder / "summary.json").write_text(json.dumps(summary))
    return after


def test_a_run_that_is_killed_after_the_last_step_trains_no_further(unbroken, tmp_path):
    run = tmp_path / "run"
    after = copy_unfinished(unbroken, run)
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "held_out/after")
    assert main(["train", "--resume", str(run)]) == 0
    resumed = json.loads((run / "summary.json").read_text())
    assert (resumed["after"], resumed["steps"]) == (after, 7)
    assert numbers(run) == numbers(unbroken)


def test_a_damaged_checkpoint_is_skipped_in_a_sentence_and_the_run_ends_the_same(unbroken, tmp_path, capsys):
    run = tmp_path / "run"
    copy_unfinished(unbroken, run)
    newest = max(run.glob("checkpoint-*"), key=lambda folder: int(folder.name.split("-")[1]))
    os.truncate(newest / "complete", 0)
    (newest / "optimizer.pt").unlink()
    shutil.rmtree(run / "model")
    assert main(["train", "--resume", str(run)]) == 0
    error = capsys.readouterr().err
    assert f"Skipped {newest.name} (its file 'complete' is empty or cannot be parsed; renamed to damaged-1-" in error
    assert "Resuming from checkpoint-" in error
    weights, expected = (load_file(folder / "model/model.safetensors") for folder in (run, unbroken))
    assert all(weights[name].equal(expected[name]) for name in expected)


def test_a_finished_run_is_not_changed(unbroken, capsys):
    before = (unbroken / "summary.json").read_bytes()
    assert main(["train", "--resume", str(unbroken)]) == 0
    assert "is finished; there is nothing to resume" in capsys.readouterr().err
    assert (unbroken / "summary.json").read_bytes() == before


def test_a_damaged_file_of_a_run_is_named(unbroken, tmp_path, capsys):
    for name, content in {"config.yaml": "a: [", "summary.json": "{"}.items():
        run = tmp_path / name
        run.mkdir()
        shutil.copy(unbroken / "config.yaml", run)
        (run / name).write_text(content)
        assert main(["train", "--resume", str(run)]) == 2
        assert f"{run / name}" in capsys.readouterr().err


def test_a_run_resumes_from_any_folder_but_not_with_changed_problems(tmp_path, monkeypatch, capsys):
    rows = [json.dumps({"question": f"{n} + 1 = ?", "answer": n + 1}) for n in range(20)]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    options = ["--problems", "mine.jsonl", "--output_dir", "first", "--max_steps", "1", "--save_steps", "1"]
    assert main(["train", *SMALL, *options]) == 0
    copy_unfinished(tmp_path / "first", tmp_path / "run")
    (tmp_path / "mine.jsonl").write_text("\n".join(rows[:12]))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["train", "--resume", "../run"]) == 2
    assert "have changed since this run started" in capsys.readouterr().err
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    assert main(["train", "--resume", "../run"]) == 0


def train_with_two_processes(tmp_path, *arguments):
    """Two processes that train together; their exit codes and what they printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
    processes = [
        launch(log, *arguments, RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank, log in enumerate(logs)
    ]
    for process in processes:
        process.join(240)
    return [process.exitcode for process in processes], [log.read_text() for log in logs]


def test_two_processes_train_one_run_and_end_without_threads_that_could_abort_them(tmp_path):
    run = tmp_path / "run"
    options = ["--output_dir", str(run), "--max_steps", "2", "--use_cpu", "--rewards", "format", *SMALL]
    options += ["--held_out_every", "1"]
    codes, texts = train_with_two_processes(tmp_path, *options)
    assert codes == [0, 0], texts
    assert [row["step"] for row in read_metrics(run) if 0 <= row["held_out/pass@1"] <= 1] == [1, 2]
    assert len((run / "held_out/step-2/lab.jsonl").read_text().splitlines()) == 1 + 8
    assert (run / "best/rollouts_1.pt").is_file()
    assert [text.count("before") for text in texts] == [2, 0]  # the summary and the table, by the main process
    assert all("threads [" in text and "gloo" not in text for text in texts)


@pytest.mark.slow
def test_two_processes_resume_from_the_same_intact_checkpoint_or_fail_with_the_same_error(tmp_path):
    run = tmp_path / "run"
    options = ["--output_dir", str(run), "--max_steps", "3", "--save_steps", "1", "--use_cpu", "--rewards", "format"]
    codes, texts = train_with_two_processes(tmp_path, *options, *SMALL, *UNMEASURED)
    assert codes == [0, 0], texts
    copy_unfinished(run, tmp_path / "copy")
    expected = load_file(run / "model/model.safetensors")
    os.truncate(tmp_path / "copy/checkpoint-3/rollouts_1.pt", 10)
    codes, texts = train_with_two_processes(tmp_path, "--resume", str(tmp_path / "copy"))
    assert codes == [0, 0], texts
    assert ["Skipped checkpoint-3 (rollouts_1.pt has 10 bytes" in text for text in texts] == [True, False]
    weights = load_file(tmp_path / "copy/model/model.safetensors")
    assert all(weights[name].equal(expected[name]) for name in expected)
    assert not list((tmp_path / "copy").glob("damaged-2-*"))
    for marker in (tmp_path / "copy").glob("checkpoint-*/complete"):
        marker.write_text('{"num_processes": 3, "files": {}}')
    copy_unfinished(tmp_path / "copy", tmp_path / "of three")
    codes, texts = train_with_two_processes(tmp_path, "--resume", str(tmp_path / "of three"))
    assert codes == [2, 2], texts
    assert all("was written by 3 processes, but this run has 2" in text for text in texts)
