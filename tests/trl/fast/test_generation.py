"""A colocated vLLM gets the weights and returns the completions and log-probs that it does with TRL's own code."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

from gtpo.trl.fast.generation import LeanGeneration


@dataclasses.dataclass
class Logprob:
    logprob: float
    rank: int


class Flat:
    """vLLM's flat log-probs: lists over all positions, and a dict per position for those who iterate."""

    def __init__(self, positions: list[dict[int, Logprob]]) -> None:
        self.token_ids = [token for position in positions for token in position]
        self.logprobs = [item.logprob for position in positions for item in position.values()]
        self.start_indices = [sum(map(len, positions[:place])) for place in range(len(positions))]
        self.positions = positions

    def __iter__(self) -> Any:
        return iter(self.positions)


def positions(seed: int, num_each: int) -> list[dict[int, Logprob]]:
    return [
        {10 * place + rank + seed: Logprob(math.nan if place == 2 else -place - rank / 8, rank) for rank in order}
        for place, order in enumerate([[*range(num_each)], [*range(num_each)][::-1], [*range(num_each)]])
    ]


class Engine:
    """What TRL uses of vLLM's LLM. Keeps the weights that it is given."""

    def __init__(self, logprobs: list[Any]) -> None:
        self.logprobs, self.calls, self.weights, self.num_resets = logprobs, 0, {}, 0
        runner = SimpleNamespace(model=self)
        self.llm_engine = SimpleNamespace(
            model_executor=SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        )

    def load_weights(self, weights: Any) -> None:
        self.calls += 1
        self.weights |= {name: value.detach().clone() for name, value in weights}

    def reset_prefix_cache(self) -> None:
        self.num_resets += 1

    def generate(self, prompts: Any, **_: Any) -> list[Any]:
        return [
            SimpleNamespace(
                prompt_token_ids=prompt["prompt_token_ids"],
                outputs=[SimpleNamespace(token_ids=[4, 5, 6], logprobs=logprobs)],
            )
            for prompt, logprobs in zip(prompts, self.logprobs, strict=True)
        ]


@pytest.fixture
def make(tiny_model, monkeypatch):
    def make(*, adopted, logprobs=(), lora=False, **options):
        engine = Engine(list(logprobs))
        monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: setattr(self, "llm", engine))
        monkeypatch.setattr(vllm_generation, "SamplingParams", dict, raising=False)
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_pretrained(tiny_model)
        if lora:
            model = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
        generation = VLLMGeneration(model, Accelerator(cpu=True), None, **options)
        if adopted:
            LeanGeneration.adopt(generation)
        return generation

    return make


@pytest.mark.parametrize("lora", [False, True])
def test_vllm_gets_the_same_weights_in_one_call(lora, make):
    stock, lean = make(adopted=False, lora=lora), make(adopted=True, lora=lora)
    if not hasattr(stock, "_iter_named_params"):
        pytest.skip("this version of TRL loads weights in another way")
    before = [value.clone() for value in lean.model.parameters()]
    stock.sync_weights()
    lean.sync_weights()
    assert stock.llm.calls > lean.llm.calls == 1
    assert stock.llm.num_resets == lean.llm.num_resets == 1
    assert stock.llm.weights.keys() == lean.llm.weights.keys()
    assert all(value.equal(lean.llm.weights[name]) for name, value in stock.llm.weights.items())
    for value, old in zip(lean.model.parameters(), before, strict=True):  # adapters are separate again
        torch.testing.assert_close(value, old)


@pytest.mark.parametrize(
    "logprobs",
    [
        [Flat(positions(0, 1)), Flat(positions(5, 1))],
        [Flat(positions(0, 3)), Flat(positions(5, 3))],
        [positions(0, 1), positions(5, 2)],
        [None, None],
    ],
    ids=["flat", "flat, several a token", "dicts", "none"],
)
def test_generation_returns_what_trls_does(logprobs, make):
    prompts = [[1, 2], [3]]
    stock, lean = (make(adopted=adopted, logprobs=logprobs) for adopted in (False, True))
    returned = [generation.generate(prompts, None, 1) for generation in (stock, lean)]
    assert returned[0] == returned[1]


def test_a_server_is_left_to_trl(make):
    assert type(make(adopted=True, mode="server")) is VLLMGeneration
    assert type(make(adopted=True)) is LeanGeneration
