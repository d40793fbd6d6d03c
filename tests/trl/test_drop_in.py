"""A GRPO script with everything that scripts have runs with the names of the classes changed, and nothing else."""

from importlib.resources import files
from types import SimpleNamespace

import pytest
import transformers
from packaging.version import Version
from peft import get_peft_model_state_dict
from safetensors.torch import load_file
from tokenizers import AddedToken

from tests.tiny import tiny_model, tiny_tokenizer

SCRIPT = '''
from datasets import Dataset
from peft import LoraConfig

from trl import GRPOConfig, GRPOTrainer


def add(a: int, b: int) -> int:
    """
    Add two numbers.

    Args:
        a: The first number.
        b: The second number.

    Returns:
        Their sum.
    """
    calls.append((a, b))
    return a + b


def wanted_reward(completions, wanted, **columns):
    return [float(word in completion[-1]["content"]) for completion, word in zip(completions, wanted)]


def short_reward(completions, **columns):
    return [-float(len(completion[-1]["content"])) for completion in completions]


rows = [{"prompt": [{"role": "user", "content": f"say w{i} :"}], "wanted": f"w{i}"} for i in range(12)]
trainer = GRPOTrainer(
    model=model,
    reward_funcs=[wanted_reward, short_reward],
    args=GRPOConfig(
        output_dir=folder,
        max_steps=max_steps,
        learning_rate=1e-3,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=24,
        num_iterations=2,
        scale_rewards="group",
        reward_weights=[1.0, 0.01],
        logging_steps=1,
        log_completions=True,
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        load_best_model_at_end=True,
        report_to="tensorboard",
        bf16=False,  # for a CPU
    ),
    train_dataset=Dataset.from_list(rows[:8]),
    eval_dataset=Dataset.from_list(rows[8:]),
    peft_config=LoraConfig(r=4, target_modules="all-linear"),
    tools=[add],
)
trainer.train(resume_from_checkpoint=resumes)
'''
CALLS = [f'<tool_call>\n{{"name": "add", "arguments": {{"a": 1, "b": {b}}}}}\n</tool_call>' for b in range(40)]
"""Each is one token of the tiny model, so that a random policy calls the tool now and then."""


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    """The folder of a tiny model whose tokenizer knows Qwen's chat template and has tokens that are calls."""
    folder = tmp_path_factory.mktemp("caller")
    tokenizer = tiny_tokenizer()
    template = files("trl") / "chat_templates/qwen3.jinja"
    if not template.is_file():
        pytest.skip("this version of TRL ships no chat template of Qwen")
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    tokenizer.add_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken(text, special=False) for text in CALLS])
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokenizer.eos_token = "<|im_end|>"
    model = tiny_model(vocab_size=len(tokenizer), max_position_embeddings=1024, eos_token_id=end)
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def run(script, model, folder, max_steps, *, resumes):
    names = {"model": model, "folder": str(folder), "max_steps": max_steps, "resumes": resumes, "calls": []}
    exec(compile(script, "script.py", "exec"), names)
    return SimpleNamespace(**names)


SCRIPTS = {
    "GRPO": SCRIPT,
    "GTPO": SCRIPT.replace("from trl import", "from gtpo import").replace("GRPO", "GTPO"),
    "FastGRPO": SCRIPT.replace(", GRPOTrainer", "\nfrom gtpo import FastGRPOTrainer").replace(
        "= GRPOTrainer(", "= FastGRPOTrainer("
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_grpo_runs_and_resumes_with_only_names_changed(name, caller, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    if Version(transformers.__version__) < Version("5.13"):
        pytest.importorskip("jmespath", reason="tools need jmespath with transformers before 5.13")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    first = run(SCRIPTS[name], caller, tmp_path / "run", 2, resumes=None)
    second = run(SCRIPTS[name], caller, tmp_path / "run", 4, resumes=True)
    assert type(second.trainer).__name__ == f"{name}Trainer"
    assert first.calls
    assert {a for a, _ in first.calls + second.calls} == {1}
    history = second.trainer.state.log_history
    assert [row["step"] for row in history if "loss" in row] == [1, 2, 3, 4]
    assert [row["step"] for row in history if "eval_reward" in row] == [2, 4]
    best = load_file(f"{second.trainer.state.best_model_checkpoint}/adapter_model.safetensors")
    weights = get_peft_model_state_dict(second.trainer.model)
    assert all(weights[name].equal(best[name]) for name in best)
    assert (tmp_path / "run/checkpoint-4/adapter_model.safetensors").is_file()
    assert [path.name for path in sorted((tmp_path / "run/completions").iterdir())][-1] == "completions_00004.parquet"
    assert list((tmp_path / "events").rglob("events.*"))
