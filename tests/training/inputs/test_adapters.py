"""Training that starts from a LoRA adapter trains this adapter further, from any folder."""

import json
import shutil

import pytest
from safetensors.torch import load_file

from gtpo import ConfigError
from gtpo.cli.main import main
from gtpo.evaluation.engines import load_engine
from gtpo.lab import lab_model_dir
from tests.cli.launching import SMALL

OPTIONS = [*SMALL, "--problems", "lab", "--rewards", "format", "--output_dir", "run"]
LORA = ["--use_peft", "true", "--lora_r", "4", "--lora_target_modules", "all-linear"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a LoRA run on a model that was named by a relative path."""
    folder = tmp_path_factory.mktemp("first")
    shutil.copytree(lab_model_dir(), folder / "base")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert (
            main(["train", "--model", "./base", "--max_steps", "2", "--learning_rate", "1e-3", *OPTIONS, *LORA]) == 0
        )
    return folder / "run"


def adapter_of(run):
    return load_file(run / "model/adapter_model.safetensors")


def test_the_base_of_a_trained_adapter_is_an_absolute_path(first):
    settings = json.loads((first / "model/adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(first.parent / "base")


@pytest.mark.parametrize("method", ["gtpo", "sft"])
def test_an_adapter_is_trained_further(first, method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = OPTIONS if method == "gtpo" else ["--problems", "lab", "--max_problems", "64", "--output_dir", "run"]
    common = ["train", "--method", method, "--model", str(first), "--max_steps", "1", *options]
    assert main([*common, "--held_out_problems", "8", "--learning_rate", "0"]) == 0
    summaries = [json.loads((run / "summary.json").read_text()) for run in (first, tmp_path / "run")]
    assert summaries[1]["before"] == summaries[0]["after"]  # the same weights on the same problems
    start, unchanged = adapter_of(first), adapter_of(tmp_path / "run")
    assert start.keys() == unchanged.keys()
    assert all(start[name].equal(unchanged[name]) for name in start)
    shutil.rmtree(tmp_path / "run")
    assert main([*common, "--held_out_problems", "0", "--learning_rate", "1e-3"]) == 0
    changed = adapter_of(tmp_path / "run")
    assert any(not start[name].equal(changed[name]) for name in start)
    settings = json.loads((tmp_path / "run/model/adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["r"]) == (str(first.parent / "base"), 4)


def test_an_adapter_with_a_reference_resumes_exactly(first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ["train", "--model", str(first), "--beta", "0.1", "--save_steps", "1", "--held_out_problems", "0"]
    common += [*SMALL, "--problems", "lab", "--rewards", "format", "--lr_scheduler_type", "constant"]
    common += ["--learning_rate", "1e-3"]
    assert main([*common, "--output_dir", "whole", "--max_steps", "2"]) == 0
    assert main([*common, "--output_dir", "parts", "--max_steps", "1"]) == 0
    assert main(["train", "--resume", "parts", "--max_steps", "2"]) == 0
    whole, parts = adapter_of(tmp_path / "whole"), adapter_of(tmp_path / "parts")
    assert all(whole[name].equal(parts[name]) for name in whole)
    assert not (tmp_path / "parts/model/ref").exists()


def test_an_adapter_is_evaluated_from_another_folder_until_its_base_is_gone(first, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    adapter = tmp_path / "adapter"
    shutil.copytree(first / "model", adapter)
    (adapter / "tokenizer.json").unlink()
    (adapter / "tokenizer_config.json").unlink()
    assert load_engine("transformers", str(adapter)).tokenizer.chat_template
    with pytest.raises(ConfigError, match=r"takes full models only, and .* is a LoRA adapter"):
        load_engine("vllm", str(adapter))
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "nobody/base"}))
    assert main(["eval", str(adapter), "--problems", "lab", "--limit", "8"]) == 2
    assert f"'nobody/base', the base of the LoRA adapter {adapter}, cannot be loaded" in capsys.readouterr().err


def test_a_damaged_adapter_is_refused_in_a_sentence(first, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(first / "model", tmp_path / "adapter")
    (tmp_path / "adapter/adapter_model.safetensors").write_bytes(b"damaged")
    options = [*OPTIONS, "--max_steps", "1", "--held_out_problems", "0"]
    assert main(["train", "--model", "adapter", *options]) == 2
    assert "error: Model 'adapter' cannot be loaded" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
