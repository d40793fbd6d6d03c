"""What a run and a dry run refuse before any weight is loaded, and what they load."""

import json
import shutil

import pytest

from gtpo import ConfigError, DataError, MissingExtraError
from gtpo.lab import lab_model_dir
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.inputs import data
from gtpo.training.prepare import prepare

SMALL = "--per_device_train_batch_size 8 --gradient_accumulation_steps 1 --num_generations 4 --max_completion_length 8"


def prepared(*options):
    return prepare(make_plan(None, parse_overrides([*SMALL.split(), *options])))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with an adapter and problem files: without rows, without solutions, with long questions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gtpo.training.prepare.is_vllm_available", lambda: False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "adapter").mkdir()
    adapter = {"base_model_name_or_path": "nobody/base", "peft_type": "LORA", "r": 8, "lora_alpha": 16}
    (tmp_path / "adapter/adapter_config.json").write_text(json.dumps(adapter))
    local = {**adapter, "base_model_name_or_path": str(lab_model_dir())}
    for name, changes in {"local": {}, "ia3": {"peft_type": "IA3"}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text(json.dumps(local | changes))
    rows = {"empty": [], "mine": ["1+1=?"] * 8, "long": ["1+1+" * 300] * 8}
    for name, questions in rows.items():
        lines = [json.dumps({"question": question, "answer": "2"}) + "\n" for question in questions]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    (tmp_path / "open.jsonl").write_text('{"prompt": "Say hi."}\n' * 8)
    return tmp_path


REFUSED = {
    "an unknown problem set": (["--problems", "gsm9k"], ConfigError, "gsm9k"),
    "an unknown reward": (["--rewards", "nice"], ConfigError, "There is no reward 'nice'"),
    "a credit function that does not exist": (
        ["--credit", "nowhere:f"],
        ConfigError,
        "'nowhere:f' cannot be imported",
    ),
    "component credit without a reward that has spans": (
        ["--credit", "component"],
        ConfigError,
        r"none of the rewards \(paper\) has an attribute `spans`",
    ),
    "vLLM that is not installed": (["--use_vllm", "true"], MissingExtraError, r"pip install 'trl\[vllm\]'"),
    "half precision on a CPU": (["--dtype", "bfloat16"], ConfigError, "is slow or not supported on a CPU"),
    "a model's code by another name": (
        ["--model_init_kwargs", '{"\\u0074rust_remote_code": true}'],
        ConfigError,
        "model_init_kwargs has trust_remote_code. Use the option of this name instead",
    ),
    "an adapter without its base": (
        ["--model", "adapter", "--problems", "lab"],
        ConfigError,
        r"'nobody/base', the base of the LoRA adapter adapter, cannot be loaded: .*[Oo]ffline",
    ),
    "an adapter with another rank": (
        ["--model", "local", "--problems", "lab", "--use_peft", "true", "--lora_r", "4"],
        ConfigError,
        "lora_r=4, but the LoRA adapter local has 8 and is trained further as it is. Leave lora_r out",
    ),
    "an adapter of another type": (["--model", "ia3", "--problems", "lab"], ConfigError, "adapter of type 'IA3'"),
    "a revision of an adapter": (
        ["--model", "local", "--problems", "lab", "--model_revision", "v2"],
        ConfigError,
        "model_revision does not apply to local",
    ),
    "a GGUF file": (["--model", "tiny.gguf"], ConfigError, "GGUF files are not supported"),
    "prompts that are all too long": (["--max_prompt_tokens", "1"], DataError, "max_prompt_tokens=1 drops all"),
    "too few problems": (["--max_problems", "1"], DataError, "needs 2 problems, but there are 1"),
    "rows without an answer that a reward needs": (
        ["--problems", "open.jsonl", "--rewards", "tests.training.own_rewards:awaited", "correctness"],
        DataError,
        r"open\.jsonl, line 1: this row has no 'answer', only prompt.*--columns answer=NAME",
    ),
    "rows without an answer that the grader needs": (
        ["--held_out", "open.jsonl"],
        DataError,
        r"open\.jsonl, line 1: this row has no 'answer'",
    ),
    "an unknown grader": (["--grader", "boxes"], ConfigError, "There is no grader 'boxes'"),
    "an empty held-out file": (["--held_out", "empty.jsonl"], DataError, r"empty\.jsonl has no problems\. Add rows"),
    "a held-out prompt that is too long": (
        ["--held_out", "long.jsonl"],
        ConfigError,
        r"Held-out problems, long\.jsonl: The longest prompt has",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_before_weights_are_loaded(options, error, message, folder):
    with pytest.raises(error, match=message):
        prepared(*options)


def test_held_out_problems_that_are_trained_on_too_get_a_warning(folder, caplog):
    rows = [{"question": question, "answer": "2", "system_prompt": "Add."} for question in ("1+1=?", "2+0=?")]
    (folder / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepared("--problems", "mine.jsonl", "--held_out", "other.jsonl")
    assert "1 of the 2 held-out problems of other.jsonl are trained on too" in caplog.text


def test_a_prompt_that_the_chat_template_refuses_is_named(folder):
    shutil.copytree(lab_model_dir(), "strict")
    raises = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system role') }}{% endif %}"
    template = folder / "strict/chat_template.jinja"
    template.write_text(raises + template.read_text())
    rows = [{"question": "1+1=?", "answer": "2", "system_prompt": text} for text in ("", "", "Add.", "")]
    (folder / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match=r"chat\.jsonl, problem 3: .*No system role.*set the system prompt to ''"):
        prepared("--model", "strict", "--problems", "chat.jsonl")


def test_sft_needs_solutions(folder):
    words = "--method sft --problems mine.jsonl --max_steps 1"
    with pytest.raises(DataError, match=r"mine\.jsonl has no solutions to imitate. Use method gtpo or grpo"):
        prepare(make_plan(None, parse_overrides(words.split())))


def test_a_model_that_is_neither_cached_nor_reachable_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for revision in ("main", "v2"):
        with pytest.raises(ConfigError, match=r"'nobody/nothing' cannot be loaded: .*[Oo]ffline"):
            prepared("--model", "nobody/nothing", "--problems", "lab", "--model_revision", revision)


@pytest.mark.parametrize("has_weights", [True, False])
def test_a_cached_model_needs_its_weights_when_the_hub_cannot_be_reached(has_weights, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    snapshot = tmp_path / "models--some--model" / "snapshots" / ("0" * 40)
    shutil.copytree(lab_model_dir(), snapshot)
    (tmp_path / "models--some--model" / "refs").mkdir()
    (tmp_path / "models--some--model" / "refs" / "main").write_text("0" * 40)
    for module in ("huggingface_hub.constants", "transformers.utils.hub.constants"):
        monkeypatch.setattr(f"{module}.HF_HUB_CACHE", str(tmp_path))
    options = ("--model", "some/model", "--problems", "lab", "--max_problems", "8")
    if has_weights:
        assert prepared(*options).model == "some/model"
    else:
        (snapshot / "model.safetensors").unlink()
        with pytest.raises(ConfigError, match=r"'some/model' cannot be loaded: .*[Oo]ffline"):
            prepared(*options)


def test_a_revision_is_prepared_from_its_own_snapshot_without_weights(tmp_path, monkeypatch):
    requests = []

    def snapshot(name, revision, ignore_patterns=None, local_files_only=False):
        if not local_files_only:
            requests.append((name, revision, "*.safetensors" in (ignore_patterns or ())))
        return str(lab_model_dir())

    monkeypatch.setattr("gtpo.training.prepare.snapshot_download", snapshot)
    model = prepared("--model", "some/model", "--problems", "lab", "--model_revision", "v2").model
    assert model == str(lab_model_dir())
    assert requests == [("some/model", "v2", True)]


def test_problems_are_loaded_once(folder, monkeypatch):
    calls = []
    load = data.load_problems
    monkeypatch.setattr(data, "load_problems", lambda *args, **kwargs: calls.append(args) or load(*args, **kwargs))
    ready = prepared("--problems", "mine.jsonl", "--max_prompt_tokens", "250")
    assert len(calls) == 1
    assert (len(ready.problems), len(ready.dataset), ready.num_dropped) == (8, 8, 0)


def test_columns_apply_to_the_held_out_file_too(tmp_path):
    for name in ("train", "test"):
        rows = [{"task": f"{i}+{i}=?", "truth": str(2 * i)} for i in range(8)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = ["--problems", str(tmp_path / "train.jsonl"), "--held_out", str(tmp_path / "test.jsonl")]
    ready = prepared(*files, "--columns", "question=task,answer=truth")
    assert [problem.answer for problem in ready.problems[:2]] == ["0", "2"]


def test_the_digest_of_problems_changes_with_every_column(tmp_path):
    digests = set()
    for bonus in ("1", "2"):
        rows = [{"question": f"{i}+{i}=?", "answer": str(2 * i), "bonus": bonus} for i in range(8)]
        (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        digests.add(prepared("--problems", str(tmp_path / "mine.jsonl")).problems_digest)
    assert len(digests) == 2


def test_rows_without_an_answer_are_trained_on_if_no_reward_needs_them(folder):
    words = ["--problems", "open.jsonl", "--rewards", "tests.training.own_rewards:awaited", "--system_prompt", ""]
    first = prepared(*words)
    assert first.dataset["prompt"][0] == [{"role": "user", "content": "Say hi."}]
    assert first.dataset["answer"][0] is None
    changed = (folder / "open.jsonl").read_text().replace("}", ', "system_prompt": "Be brief."}')
    (folder / "open.jsonl").write_text(changed)
    assert prepared(*words).problems_digest != first.problems_digest
