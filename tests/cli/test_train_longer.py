"""`gtpo train --resume RUN --max_steps N` gives a run more steps."""

import json
import shutil

import pytest
import yaml
from safetensors.torch import load_file

from gtpo.cli.main import main
from tests.cli.launching import SMALL, numbers
from tests.reading import read_metrics

STEPS = [*SMALL, "--rewards", "format", "--save_steps", "3"]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A finished run of two steps with the lab's schedule, constant after a warm-up. Copy it to change it."""
    run = tmp_path_factory.mktemp("short") / "run"
    assert main(["train", "--max_steps", "2", "--output_dir", str(run), *STEPS]) == 0
    return run


def test_a_longer_run_equals_one_that_was_planned_longer(short, tmp_path, capsys):
    run, planned = shutil.copytree(short, tmp_path / "run"), tmp_path / "planned"
    assert main(["train", "--max_steps", "4", "--output_dir", str(planned), *STEPS]) == 0
    after = json.loads((run / "summary.json").read_text())["after"]
    capsys.readouterr()
    assert main(["train", "--resume", str(run), "--max_steps", "4"]) == 0
    out, err = capsys.readouterr()
    assert "planned anew over 4 steps instead of 2: after 2 steps, the rate stays at 8e-05" in err
    assert out.startswith("\n4 steps in ")
    assert numbers(run) == numbers(planned)
    weights, expected = (load_file(folder / "model/model.safetensors") for folder in (run, planned))
    assert all(weights[name].equal(expected[name]) for name in expected)
    summary, other = (json.loads((folder / "summary.json").read_text()) for folder in (run, planned))
    assert (summary["after"], summary["steps"], summary["max_steps"]) == (other["after"], 4, 4)
    assert summary["earlier"] == {"after-2": after}
    assert (run / "held_out/after-2").is_dir()
    assert yaml.safe_load((run / "config.yaml").read_text())["max_steps"] == "4"
    assert main(["train", "--resume", str(run)]) == 0  # its config.yaml is still known
    error = capsys.readouterr().err
    assert "is finished; there is nothing to resume. To train further, add --max_steps N" in error
    assert "was not started here" not in error


def test_a_schedule_that_ended_at_zero_is_planned_anew(tmp_path, capsys):
    run = tmp_path / "run"
    linear = ["--lr_scheduler_type", "linear", "--warmup_steps", "0", "--learning_rate", "1e-4"]
    options = [*STEPS, *linear, "--held_out_problems", "0"]
    assert main(["train", "--max_steps", "2", "--output_dir", str(run), *options]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", str(run), "--max_steps", "4"]) == 0
    assert "after 2 steps, the rate changes from 0 to 5e-05 in step 3" in capsys.readouterr().err
    assert [row["learning_rate"] for row in read_metrics(run)] == pytest.approx([1e-4, 5e-5, 5e-5, 2.5e-5])


def test_refused_options_and_a_dry_run_change_nothing(short, tmp_path, capsys):
    run = shutil.copytree(short, tmp_path / "run")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for options, message in {
        ("--max_steps", "2"): f"{run} has done 2 steps already. Set --max_steps to the total number of steps, above 2",
        ("--max_steps", "-5"): "max_steps must be a number of steps, got '-5'",
        ("--max_steps", "4", "--seed", "1"): "--resume takes no recipe and no options but --max_steps",
    }.items():
        assert main(["train", "--resume", str(run), *options]) == 2
        assert message in capsys.readouterr().err
    assert main(["train", "--resume", str(run), "--max_steps", "4", "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert "from checkpoint-2 (step 2 of 4)" in plan
    assert "planned anew over 4 steps instead of 2" in plan
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    shutil.rmtree(run / "checkpoint-2")
    assert main(["train", "--resume", str(run), "--max_steps", "4"]) == 2
    assert "has no complete checkpoint to continue from. Start a new run from its model" in capsys.readouterr().err
