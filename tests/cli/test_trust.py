"""Code that somebody else wrote does not run before the user was told of it: run folders, recipes and models."""

import json
import logging
import shutil
import sys

import pytest

from gtpo.cli.console import PrintableFormatter
from gtpo.cli.main import main
from gtpo.token_view.encoders import load_encoder
from gtpo.training.run_folder import RunFolder
from tests.cli.launching import SMALL
from tests.tiny import save_tiny_model

MARKER = "ran"
HOSTILE_REWARD = f"""
import pathlib
pathlib.Path({MARKER!r}).touch()
raise RuntimeError("imported")
"""
HOSTILE_MODEL = f"""
import pathlib
pathlib.Path({MARKER!r}).touch()
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

class OwnConfig(LlamaConfig):
    model_type = "own"

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig

class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A downloaded folder, in which the user stands: a model with code, a reward, a recipe and a run."""
    model, auto_map = tmp_path / "their_model", {"AutoTokenizer": ["own.OwnTokenizer", None]}
    save_tiny_model(model)
    for name, more in {
        "config.json": {
            "model_type": "own",
            "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel", **auto_map},
        },
        "tokenizer_config.json": {"tokenizer_class": None, "auto_map": auto_map},
    }.items():
        content = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps({**content, **more}))
    (model / "own.py").write_text(HOSTILE_MODEL)
    (tmp_path / "their_reward.py").write_text(HOSTILE_REWARD)
    (tmp_path / "recipe.yaml").write_text("rewards: [their_reward:f]\noutput_dir: new")
    RunFolder.create(tmp_path / "run", {"rewards": ["their_reward:f"], "max_steps": 1}, {})
    options = {"model": str(model), "problems": "lab", "trust_remote_code": True, "max_steps": 1}
    RunFolder.create(tmp_path / "run_of_model", {**options, "held_out_problems": 0}, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks on a terminal; a user may say yes
    yield tmp_path
    sys.modules.pop("their_reward", None)


def has_run(folder):
    """Whether the marker was written since the last call."""
    ran = (folder / MARKER).exists()
    (folder / MARKER).unlink(missing_ok=True)
    return ran


@pytest.mark.parametrize(
    ("run", "texts"),
    {
        "run": ["the reward their_reward:f is imported from {folder}/their_reward.py"],
        "run_of_model": ["trust_remote_code=True runs Python code that comes with the model {folder}/their_model"],
    }.items(),
)
def test_a_run_of_somebody_else_runs_no_code_until_it_is_trusted(run, texts, folder, capsys):
    assert main(["train", "--resume", run]) == 2
    error = capsys.readouterr().err
    assert all(text.format(folder=folder) in error for text in texts)
    assert error.endswith("add --trust-run.\n")
    assert not has_run(folder)


def test_a_trusted_run_runs_its_code_and_is_remembered(folder, capsys):
    for flags in (["--trust-run"], []):
        assert main(["train", "--resume", "run", *flags]) == 2  # the import fails
        assert "Reward 'their_reward:f' cannot be imported: RuntimeError" in capsys.readouterr().err
        assert has_run(folder)


def test_the_flag_is_only_for_resuming(folder, capsys):
    assert main(["train", "recipe.yaml", "--trust-run"]) == 2
    assert "--trust-run only applies to --resume" in capsys.readouterr().err
    assert not has_run(folder)


def test_a_recipe_imports_its_rewards_and_says_from_where(folder, capsys):
    (folder / "their_reward.py").write_text("def f(completions, **columns): return [0.5] * len(completions)")
    assert main(["train", "recipe.yaml", "--dry-run", "--max_problems", "64"]) == 0
    captured = capsys.readouterr()
    assert f"recipe.yaml: the reward their_reward:f is imported from {folder}/their_reward.py.\n" in captured.err
    assert "their_reward:f: [0.5, 0.5, 0.5] for right answers" in captured.out


def test_a_recipe_cannot_switch_the_code_of_a_model_on(folder, capsys):
    (folder / "recipe.yaml").write_text("model: their_model\nproblems: lab\ntrust_remote_code: true")
    for dry in (["--dry-run"], []):
        assert main(["train", "recipe.yaml", *dry]) == 2
        assert "recipe.yaml: trust_remote_code runs code" in capsys.readouterr().err
        assert not has_run(folder)


COMMANDS = {
    "train": ["train", "--model", "their_model", "--problems", "lab", "--output_dir", "new", *SMALL],
    "dry run": ["train", "--model", "their_model", "--problems", "lab", "--output_dir", "new", "--dry-run"],
    "eval": ["eval", "their_model", "--problems", "lab", "--limit", "1"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_model_with_code_of_its_own_is_refused_without_a_question(command, folder, capsys):
    assert main(command) == 2
    assert "needs Python code that comes with it" in capsys.readouterr().err
    assert not has_run(folder)


def test_a_tokenizer_with_code_of_its_own_is_refused_without_a_question(folder, capsys):
    with pytest.raises(ValueError, match="Cannot load the tokenizer"):
        load_encoder("their_model")
    assert not has_run(folder)


def test_a_model_with_code_of_its_own_is_trained_and_evaluated_when_asked_for(folder, capsys):
    words = (
        "--trust-remote-code --max_steps 1 --held_out_problems 2 --held_out_tokens 4 --rewards format --save_steps 1"
    )
    assert main([*COMMANDS["train"], *words.split()]) == 0, capsys.readouterr().err
    assert has_run(folder)
    summary = json.loads((folder / "new/summary.json").read_text())
    del summary["after"]
    (folder / "new/summary.json").write_text(json.dumps(summary))
    shutil.move(folder / "new", folder / "moved")
    assert main(["train", "--resume", "moved"]) == 0, capsys.readouterr().err
    words = "--samples 1 --max-new-tokens 4 --trust-remote-code --out evaluated"
    assert main([*COMMANDS["eval"], *words.split()]) == 0


@pytest.mark.parametrize(
    "command", [["eval", "their_model", "--problems", "lab"], ["train", "--model", "their_model", "--problems", "lab"]]
)
def test_a_model_that_asks_for_a_kernel_of_the_hub_is_refused(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_tiny_model(tmp_path / "their_model")
    config = tmp_path / "their_model/config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "attn_implementation": "nobody/kernel"}))
    assert main(command) == 2
    assert "asks for the attention 'nobody/kernel', code that" in capsys.readouterr().err


def test_control_characters_in_log_messages_are_not_printed():
    record = logging.makeLogRecord({"msg": "Skipped %s", "args": ("\x1b[2Jgone\nsecond line",)})
    text = PrintableFormatter().format(record)
    assert "\x1b" not in text
    assert text.endswith("gone\nsecond line")
