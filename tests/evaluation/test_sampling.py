"""Settings choose for themselves what was not asked, and say so; engines that are missing name the command."""

import sys
import types

import pytest

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.evaluation.engines.vllm import VLLMEngine
from gtpo.evaluation.sampling import SamplingSettings, load_engine, row_seed


def test_one_sample_is_greedy_and_several_are_drawn_at_temperature_0_9_and_top_p_1():
    assert SamplingSettings(num_samples=1).temperature == 0.0
    assert SamplingSettings(num_samples=1).is_greedy
    several = SamplingSettings(num_samples=2)
    assert (several.temperature, several.top_p, several.is_greedy) == (0.9, 1.0, False)
    assert SamplingSettings(num_samples=1, temperature=0.5).temperature == 0.5
    assert SamplingSettings(num_samples=8, temperature=0.5).temperature == 0.5


def test_new_tokens_are_1500_or_what_the_context_leaves():
    assert SamplingSettings().fitted(100, None).max_new_tokens == 1500
    assert SamplingSettings().fitted(100, 32_768).max_new_tokens == 1500
    assert SamplingSettings().fitted(100, 256).max_new_tokens == 156
    assert SamplingSettings(max_new_tokens=4000).fitted(100, None).max_new_tokens == 4000
    with pytest.raises(ConfigError, match="at most 156"):
        SamplingSettings(max_new_tokens=157).fitted(100, 256)
    with pytest.raises(ConfigError, match="Leave such problems out"):
        SamplingSettings().fitted(256, 256)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_samples": 0}, "samples must be at least 1"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"num_samples": 4, "temperature": 0.0}, "all 4 samples of a problem are the same"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        SamplingSettings(**changes)


def test_every_sample_has_a_seed_of_its_own():
    seeds = {row_seed(seed, problem, sample) for seed in (0, 1, -5) for problem in range(40) for sample in range(40)}
    assert len(seeds) == 3 * 40 * 40
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_an_unknown_engine_and_a_missing_one_say_what_to_do(monkeypatch):
    with pytest.raises(ConfigError, match="'transformers', 'vllm'"):
        load_engine("llama.cpp", "any")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'trl\[vllm\]'"):
        load_engine("vllm", "any")


def test_weights_that_were_trained_on_in_the_same_folder_are_other_weights_to_vllm(monkeypatch, tmp_path):
    class LLM:
        def __init__(self, **options):
            config = types.SimpleNamespace(max_model_len=512, dtype="bfloat16", hf_config=None)
            self.llm_engine = types.SimpleNamespace(model_config=config)

        def get_tokenizer(self):
            return "tokenizer"

    monkeypatch.setitem(sys.modules, "vllm", types.SimpleNamespace(LLM=LLM))
    (tmp_path / "config.json").write_text("{}")
    names = []
    for values in (bytes(100_000), bytes(100_000), bytes(50_000) + b"trained" * 7_143, bytes(100_001)):
        (tmp_path / "model.safetensors").write_bytes(values)
        names.append(load_engine("vllm", str(tmp_path)).description["weights"])
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_vllm_gets_token_prompts_and_a_seed_for_each_sample(monkeypatch):
    """Against a double of the few names of vLLM that are used: what is handed over, and what is made of the answer."""
    seen = {}

    class LLM:
        def __init__(self, **options):
            seen["options"] = options
            config = types.SimpleNamespace(max_model_len=512, dtype="torch.bfloat16", hf_config=None)
            self.llm_engine = types.SimpleNamespace(model_config=config)

        def get_tokenizer(self):
            return "tokenizer"

        def generate(self, prompts, params, use_tqdm):
            seen["prompts"], seen["params"] = prompts, params
            ends = ["stop", "length"]
            return [
                types.SimpleNamespace(
                    outputs=[types.SimpleNamespace(text=f"t{i}", token_ids=[7] * (i + 1), finish_reason=ends[i])]
                )
                for i in range(len(prompts))
            ]

    fake = types.SimpleNamespace(LLM=LLM, SamplingParams=lambda **params: params)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    engine = load_engine("vllm", "some/model", gpu_memory=0.4)
    completions = engine.sample([[1, 2], [3]], [11, 12], SamplingSettings(max_new_tokens=9))
    assert seen["options"] == {"model": "some/model", "generation_config": "vllm", "gpu_memory_utilization": 0.4}
    assert seen["prompts"] == [{"prompt_token_ids": [1, 2]}, {"prompt_token_ids": [3]}]
    assert seen["params"] == [{"temperature": 0.9, "top_p": 1.0, "max_tokens": 9, "seed": seed} for seed in (11, 12)]
    assert [(c.text, c.num_tokens, c.truncated, c.entropy) for c in completions] == [
        ("t0", 1, False, None),
        ("t1", 2, True, None),
    ]
    assert (engine.context_length, engine.description["dtype"]) == (512, "bfloat16")
    VLLMEngine("some/model", seeds_samples=False).sample([[1, 2]], [11], SamplingSettings())
    assert [params["seed"] for params in seen["params"]] == [None]
