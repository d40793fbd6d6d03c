"""Which padding can be removed for a model: the decision, and what the model computes without it."""

import pytest
import torch
import transformers
from peft import PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM

from gtpo.trl.fast.padding import Padding, lengths

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
    "initializer_range": 0.3,
    "max_position_embeddings": 64,
    "attention_dropout": 0.0,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": 8,
    "factor": 4.0,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}

BOTH, COMPLETIONS, NOTHING = (True, True), (True, False), (False, False)
MODELS = {
    "llama": ("LlamaConfig", {}, BOTH),
    "llama with llama3's frequencies": ("LlamaConfig", {"rope_parameters": LLAMA3}, BOTH),
    "llama with yarn": ("LlamaConfig", {"rope_parameters": YARN}, BOTH),
    "qwen2": ("Qwen2Config", {}, BOTH),
    "qwen3": ("Qwen3Config", {}, BOTH),
    "qwen3 mixture": ("Qwen3MoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}, BOTH),
    "gemma2, sliding windows": ("Gemma2Config", {"sliding_window": 4}, BOTH),
    "gemma3, frequencies by layer": ("Gemma3TextConfig", {"sliding_window": 4}, BOTH),
    "smollm3, some layers without positions": ("SmolLM3Config", {"no_rope_layer_interval": 2}, BOTH),
    "gpt-neox, partly rotary": ("GPTNeoXConfig", {}, BOTH),
    "llama with dynamic ntk": ("LlamaConfig", {"rope_parameters": DYNAMIC, "max_position_embeddings": 8}, NOTHING),
    "phi3 with longrope": (
        "Phi3Config",
        {
            "rope_parameters": LONGROPE,
            "original_max_position_embeddings": 8,
        },
        NOTHING,
    ),
    "gpt2, learned positions": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4}, COMPLETIONS),
    "bloom, alibi": ("BloomConfig", {"n_layer": 2, "n_head": 4}, COMPLETIONS),
    "falcon with alibi": ("FalconConfig", {"alibi": True}, COMPLETIONS),
    "qwen3-next, linear attention": (
        "Qwen3NextConfig",
        {
            "layer_types": ["linear_attention", "full_attention"],
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
        COMPLETIONS,
    ),
    "llama4, chunks": (
        "Llama4TextConfig",
        {
            "intermediate_size_mlp": 32,
            "num_local_experts": 2,
            "attention_chunk_size": 4,
        },
        COMPLETIONS,
    ),
    "glm-5, the index's ties": (
        "GlmMoeDsaConfig",
        {
            "num_key_value_heads": 4,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "n_group": 1,
            "topk_group": 1,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "index_topk": 4,
            "index_n_heads": 2,
            "index_head_dim": 16,
        },
        NOTHING,
    ),
    "beam, scaled by position where not rotary": (
        "BeamConfig",
        {
            "num_hidden_layers": 4,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "n_group": 1,
            "topk_group": 1,
        },
        COMPLETIONS,
    ),
    "hunyuan, norms after the rotation": ("HunYuanDenseV1Config", {}, COMPLETIONS),
    "ministral3, scaled by position": (
        "Ministral3Config",
        {
            "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8},
        },
        COMPLETIONS,
    ),
}


def build(config_name, overrides):
    if not hasattr(transformers, config_name):
        pytest.skip(f"transformers {transformers.__version__} has no {config_name}")
    torch.manual_seed(0)
    settings = {**SMALL, **overrides}
    if config_name == "FalconConfig":  # has a property of that name
        del settings["head_dim"]
    config = getattr(transformers, config_name)(**settings)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize(("config_name", "overrides", "expected"), MODELS.values(), ids=MODELS.keys())
def test_removing_padding_changes_nothing_where_it_is_allowed(config_name, overrides, expected):
    model = build(config_name, overrides)
    padding = Padding.of(model)
    assert (padding.completions, padding.prompts) == expected
    torch.manual_seed(1)
    ids = torch.randint(3, 60, (2, 14))
    mask = torch.ones_like(ids)
    mask[:, :3], mask[:, 10:] = 0, 0
    with torch.no_grad():
        full = model(input_ids=ids, attention_mask=mask).logits[:, 3:10]
        without_right = model(input_ids=ids[:, :10], attention_mask=mask[:, :10]).logits[:, 3:]
        without_left = model(input_ids=ids[:, 3:], attention_mask=mask[:, 3:]).logits[:, :7]
    if padding.completions:
        torch.testing.assert_close(without_right, full, atol=2e-5, rtol=2e-5)
    if padding.prompts:
        torch.testing.assert_close(without_left, full, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("name", ["gpt2, learned positions", "ministral3, scaled by position"])
def test_removing_padding_before_prompts_changes_models_with_absolute_positions(name):
    config_name, overrides, _ = MODELS[name]
    model = build(config_name, overrides)
    torch.manual_seed(1)
    ids = torch.randint(3, 60, (2, 14))
    mask = torch.ones_like(ids)
    mask[:, :3] = 0
    with torch.no_grad():
        full = model(input_ids=ids, attention_mask=mask).logits[:, 3:]
        assert not torch.allclose(model(input_ids=ids[:, 3:], attention_mask=mask[:, 3:]).logits, full, atol=1e-3)


@pytest.mark.parametrize("name", ["phi3 with longrope", "glm-5, the index's ties"])
def test_removing_padding_after_completions_changes_models_that_depend_on_the_width(name):
    config_name, overrides, _ = MODELS[name]
    model = build(config_name, overrides)
    ids = torch.arange(3, 17).expand(2, 14)
    mask = (torch.arange(14) < 7).long().expand(2, 14)
    with torch.no_grad():
        full = model(input_ids=ids, attention_mask=mask).logits[:, :7]
        assert not torch.allclose(model(input_ids=ids[:, :7], attention_mask=mask[:, :7]).logits, full, atol=1e-3)


def test_prompts_keep_their_padding_after_virtual_tokens():
    model = build("LlamaConfig", {})
    config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    assert Padding.of(get_peft_model(model, config)) == Padding(completions=True, prompts=False)


@pytest.mark.parametrize(
    ("multiple", "prompt", "completion"), [(None, 2, 3), (2, 2, 4), (4, 4, 4)], ids=["exact", "even", "fours"]
)
def test_widths_are_multiples_that_fit_the_longest_row(multiple, prompt, completion):
    padding = Padding.of(build("LlamaConfig", {}), multiple)
    prompt_mask = torch.tensor([[0, 0, 0, 1], [0, 0, 1, 1]])
    completion_mask = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]])
    assert padding.widths(prompt_mask, completion_mask) == (prompt, completion)
    assert padding.widths(prompt_mask, torch.zeros(2, 4))[1] == (multiple or 1)


@pytest.mark.parametrize(
    ("cuts_completions", "multiple", "columns"), [(True, 1, [5, 3]), (True, 2, [6, 4]), (False, 1, [6, 6])]
)
def test_the_columns_of_a_row_depend_on_whether_its_padding_goes(cuts_completions, multiple, columns):
    prompt_mask = torch.tensor([[0, 0, 0, 1], [0, 0, 1, 1]])
    completion_mask = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]])
    padding = Padding(completions=cuts_completions, prompts=True, multiple=multiple)
    assert padding.columns(prompt_mask, completion_mask).tolist() == columns


def test_a_length_is_the_position_of_the_last_1():
    mask = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    assert lengths(mask).tolist() == [3, 0, 4]
