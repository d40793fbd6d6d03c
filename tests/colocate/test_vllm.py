"""Training and evaluation with vLLM in the trainer's process, on a CPU: run by `make test-vllm`."""

import json
from typing import Any

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from experiments.qwen.lane import load_weights
from gtpo import FastGRPOTrainer, GTPOConfig, GTPOTrainer
from gtpo.cli.main import main
from gtpo.evaluation.engines.transformers import TransformersEngine
from gtpo.evaluation.engines.vllm import VLLMEngine
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.lab import lab_model_dir, lab_problems
from gtpo.problems import to_dataset
from trl import GRPOConfig, GRPOTrainer

pytest.importorskip("vllm", reason="run by `make test-vllm`")
pytestmark = pytest.mark.usefixtures("engine")
CONTEXT = 240


class Sampled:
    """A reward for completions with an even number of tokens, which keeps what was sampled."""

    def __init__(self) -> None:
        self.__name__ = "even"
        self.ids: list[list[int]] = []

    def __call__(self, completion_ids: list[list[int]], **_: Any) -> list[float]:
        self.ids += completion_ids
        return [float(len(ids) % 2 == 0) for ids in completion_ids]


class Seeds(TrainerCallback):
    """The same random numbers in every step, however many the start of the engine took."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        torch.manual_seed(state.global_step)


def train(trainer_class: type, tmp_path: Any, *, lora: bool = False, **options: Any) -> tuple[Any, Sampled]:
    settings: dict[str, Any] = {
        "output_dir": str(tmp_path), "max_steps": 3, "learning_rate": 1e-3, "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2, "num_generations": 4, "max_completion_length": 48, "logging_steps": 1,
        "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "bf16": False, "use_vllm": True,
        "vllm_mode": "colocate", "vllm_max_model_length": CONTEXT, **options,
    }  # fmt: skip
    config_class = GTPOConfig if trainer_class is GTPOTrainer else GRPOConfig
    reward = Sampled()
    adapter = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]) if lora else None
    data = to_dataset(lab_problems("train", 64))
    trainer = trainer_class(
        str(lab_model_dir()), reward, config_class(**settings), data, peft_config=adapter, callbacks=[Seeds()]
    )
    trainer.train()
    return trainer, reward


def logged(trainer: Any, name: str) -> list[float]:
    return [row[name] for row in trainer.state.log_history if name in row]


@pytest.mark.parametrize("lora", [False, True], ids=["full", "LoRA"])
@pytest.mark.parametrize(
    ("trainer_class", "options"),
    [(FastGRPOTrainer, {}), (GTPOTrainer, {}), (GTPOTrainer, {"initial_entropy": 0.5})],
    ids=["FastGRPO", "GTPO", "GTPO shaped in the update"],
)
def test_vllm_samples_from_the_weights_of_every_step(trainer_class, options, lora, tmp_path):
    trainer, _ = train(trainer_class, tmp_path, lora=lora, **options)
    differences = logged(trainer, "sampling/sampling_logp_difference/max")
    assert len(differences) == 3
    assert max(differences) < 1e-4
    assert max(logged(trainer, "grad_norm")) > 0


@pytest.mark.parametrize("correction", [True, False], ids=["corrected", "not corrected"])
def test_a_fast_trainer_samples_and_learns_what_trls_does(correction, tmp_path):
    options = {"vllm_importance_sampling_correction": correction, "optim": "sgd", "learning_rate": 0.1}
    runs = [train(each, tmp_path, **options) for each in (GRPOTrainer, FastGRPOTrainer)]
    (stock, of_stock), (fast, of_fast) = runs
    assert of_stock.ids == of_fast.ids
    assert len({len(ids) for ids in of_stock.ids}) > 2
    start = AutoModelForCausalLM.from_pretrained(lab_model_dir())
    for learned, expected, before in zip(
        *(each.parameters() for each in (fast.model, stock.model, start)), strict=True
    ):
        torch.testing.assert_close(learned - before, expected - before, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("source", ["trainer", "folder"])
def test_greedy_answers_of_vllm_are_those_of_transformers(engine, source, tmp_path):
    trainer, _ = train(FastGRPOTrainer, tmp_path)
    if source == "trainer":
        trainer.vllm_generation.sync_weights()
    else:
        trainer.save_model(str(tmp_path / "model"))
        load_weights(engine[0], str(tmp_path / "model"))
    tokenizer = AutoTokenizer.from_pretrained(lab_model_dir())
    prompts = [
        tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        for row in to_dataset(lab_problems("test", 16))
    ]
    settings = SamplingSettings(1, 0.0, max_new_tokens=96)
    engines = [VLLMEngine(engine[0], tokenizer, "x"), TransformersEngine(trainer.model.eval(), tokenizer, "x")]
    answers = [each.sample(prompts, range(len(prompts)), settings) for each in engines]
    assert [answer.text for answer in answers[0]] == [answer.text for answer in answers[1]]
    assert [answer.num_tokens for answer in answers[0]] == [answer.num_tokens for answer in answers[1]]


def test_gtpo_train_validates_and_resumes(tmp_path):
    run = tmp_path / "run"
    options = (
        f"--use_vllm true --vllm_max_model_length {CONTEXT} --per_device_train_batch_size 8 --max_problems 64 "
        "--gradient_accumulation_steps 1 --num_generations 4 --save_steps 1 --held_out_problems 4 --held_out_every 1"
    )
    assert main(["train", "--output_dir", str(run), "--max_steps", "1", *options.split()]) == 0
    assert main(["train", "--resume", str(run), "--max_steps", "2"]) == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2]
    assert [row["step"] for row in rows if "held_out/pass@1" in row] == [1, 2]
