"""What a model name means, for training and evaluation alike."""

import re

import pytest

from gtpo import ConfigError
from gtpo.lab import lab_model_dir
from gtpo.models import ModelSource, cannot_load, find_model


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a model, a finished run, an adapter, a run of LoRA, an unfinished run and a file."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "model/config.json",
        "run/model/config.json",
        "run/config.yaml",
        "adapter/adapter_config.json",
        "lora_run/model/adapter_config.json",
        "unfinished/config.yaml",
        "lab/config.json",
        "weights.bin",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"base_model_name_or_path": "Qwen/Qwen2.5-3B-Instruct"}')
    return tmp_path


MEANINGS = {
    "model": ModelSource("model", is_local=True),
    "model/": ModelSource("model", is_local=True),
    "run": ModelSource("run/model", is_local=True),
    "adapter": ModelSource("adapter", is_local=True, base="Qwen/Qwen2.5-3B-Instruct"),
    "lora_run": ModelSource("lora_run/model", is_local=True, base="Qwen/Qwen2.5-3B-Instruct"),
    "Qwen/Qwen2.5-3B-Instruct": ModelSource("Qwen/Qwen2.5-3B-Instruct", is_local=False),
    "gpt2": ModelSource("gpt2", is_local=False),
    "lab": ModelSource(str(lab_model_dir()), is_local=True),
}


@pytest.mark.parametrize(("name", "source"), MEANINGS.items())
def test_a_name_means_the_same_everywhere(folder, name, source):
    assert find_model(name) == source


@pytest.mark.parametrize(
    ("name", "message"),
    {
        "unfinished": "'unfinished' cannot be loaded: it has no config.json",
        "weights.bin": "it has no config.json",
        "": "it has no config.json",
        "./nowhere": r"'\./nowhere' cannot be loaded: there is no such folder\. Pass a hub id",
        "/nowhere": "there is no such folder",
        "~/nowhere": "there is no such folder",
        "runs/mine/model": "there is no such folder",
        "tiny.gguf": r"GGUF files are not supported.*python -m experiments\.qwen\.dequantise FILE\.gguf OUT_DIR",
    }.items(),
)
def test_a_name_that_is_not_a_model_is_refused(folder, name, message):
    with pytest.raises(ConfigError, match=message):
        find_model(name)


BASES = {
    '{"base_model_name_or_path": "./gone"}': "The base of the LoRA adapter adapter is './gone', which does not exist",
    '{"base_model_name_or_path": "/gone/model"}': "'/gone/model', which does not exist. Correct base_model",
    '{"base_model_name_or_path": "adapter"}': "is 'adapter', which holds no model",
    '{"base_model_name_or_path": null}': "names no base model. Correct base_model_name_or_path in adapter/adapter_con",
    "[]": "must be a JSON object",
    "{": "Cannot read adapter/adapter_config.json",
}


@pytest.mark.parametrize(("content", "message"), BASES.items())
def test_an_adapter_without_its_base_is_refused_with_the_name_of_the_base(folder, content, message):
    (folder / "adapter/adapter_config.json").write_text(content)
    with pytest.raises(ConfigError, match=re.escape(message)):
        find_model("adapter")


def test_a_relative_base_becomes_absolute_and_lends_its_tokenizer(folder):
    (folder / "adapter/adapter_config.json").write_text('{"base_model_name_or_path": "model"}')
    source = find_model("adapter")
    assert (source.base, source.tokenizer) == (str(folder / "model"), str(folder / "model"))
    (folder / "adapter/tokenizer.json").write_text("{}")
    assert find_model("adapter").tokenizer == "adapter"


def test_a_base_that_cannot_be_loaded_is_named_with_the_file_to_correct(folder):
    error = cannot_load("lora_run", OSError("offline\nmore"), find_model("lora_run").base)
    assert str(error).startswith("Model 'Qwen/Qwen2.5-3B-Instruct', the base of the LoRA adapter lora_run, cannot be")
    assert str(error).endswith("correct base_model_name_or_path in lora_run/model/adapter_config.json.")
