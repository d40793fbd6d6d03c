"""The vLLM engine, against a double of vLLM."""

import sys
import types

import pytest

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.evaluation.engines import load_engine
from gtpo.evaluation.engines.vllm import VLLMEngine
from gtpo.evaluation.sampling import SamplingSettings


def test_an_unknown_engine_and_a_missing_vllm_are_refused_with_a_remedy(monkeypatch):
    with pytest.raises(ConfigError, match="'transformers', 'vllm'"):
        load_engine("llama.cpp", "any")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'trl\[vllm\]'"):
        load_engine("vllm", "any")


def test_changed_weights_in_the_same_folder_have_another_digest(monkeypatch, tmp_path):
    class LLM:
        def __init__(self, **options):
            config = types.SimpleNamespace(max_model_len=512, dtype="bfloat16", hf_config=None)
            self.llm_engine = types.SimpleNamespace(model_config=config)

        def get_tokenizer(self):
            return "tokenizer"

    monkeypatch.setitem(sys.modules, "vllm", types.SimpleNamespace(LLM=LLM))
    (tmp_path / "config.json").write_text("{}")
    digests = []
    for values in (bytes(100_000), bytes(100_000), bytes(50_000) + b"trained" * 7_143, bytes(100_001)):
        (tmp_path / "model.safetensors").write_bytes(values)
        digests.append(load_engine("vllm", str(tmp_path)).description["weights"])
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_vllm_gets_token_prompts_and_a_seed_per_sample_and_returns_only_ids(monkeypatch):
    """Uses a double with the few names of vLLM that the engine calls."""
    received = {}

    class Tokenizer:
        def decode(self, ids, skip_special_tokens):
            return f"{ids} {skip_special_tokens}"

    class LLM:
        def __init__(self, **options):
            received["options"] = options
            config = types.SimpleNamespace(max_model_len=512, dtype="torch.bfloat16", hf_config=None)
            self.llm_engine = types.SimpleNamespace(model_config=config)

        def get_tokenizer(self):
            return Tokenizer()

        def generate(self, prompts, params, use_tqdm):
            received["prompts"], received["params"] = prompts, params
            ends = ["stop", "length"]
            return [
                types.SimpleNamespace(
                    outputs=[types.SimpleNamespace(text="", token_ids=[7, 8, 9][: i + 2], finish_reason=ends[i])]
                )
                for i in range(len(prompts))
            ]

    fake = types.SimpleNamespace(LLM=LLM, SamplingParams=lambda **params: params)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    engine = load_engine("vllm", "some/model", gpu_memory=0.4)
    texts = engine.sample([[1, 2], [3]], [11, 12], SamplingSettings(max_new_tokens=9))
    assert received["options"] == {
        "model": "some/model",
        "generation_config": "vllm",
        "gpu_memory_utilization": 0.4,
        "trust_remote_code": False,
    }
    assert received["prompts"] == [{"prompt_token_ids": [1, 2]}, {"prompt_token_ids": [3]}]
    assert received["params"] == [
        {"temperature": 0.9, "top_p": 1.0, "max_tokens": 9, "seed": seed, "detokenize": False} for seed in (11, 12)
    ]
    assert [(text.text, text.num_tokens, text.truncated, text.entropy) for text in texts] == [
        ("[7] True", 2, False, None),  # without the token that ended it
        ("[7, 8, 9] True", 3, True, None),
    ]
    assert (engine.context_length, engine.description["dtype"]) == (512, "bfloat16")
    VLLMEngine.load("some/model", seeds_samples=False).sample([[1, 2]], [11], SamplingSettings())
    assert [params["seed"] for params in received["params"]] == [None]
