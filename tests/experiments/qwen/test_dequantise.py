"""A GGUF file becomes an ordinary model folder that computes the same logits."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from experiments.qwen.dequantise import dequantise, main
from gtpo.errors import ConfigError

gguf = pytest.importorskip("gguf")

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS = 32, 64, 2, 4, 2
THETA = 24.0**4  # its four wavelengths are on both sides of Llama 3's band, and one inside it
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MERGES = ["t h", "th e", "Ġ the", "i n", "a n", "an d", "Ġ and", "o n"]
TOKENS = ["<s>", "</s>", *LETTERS, "Ġ", *(merge.replace(" ", "") for merge in MERGES)]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
NAMES = {  # llama.cpp's name, ours, rows, columns, whether the file packs it as Q8_0
    "attn_q": ("self_attn.q_proj", HIDDEN, HIDDEN, True),
    "attn_k": ("self_attn.k_proj", HIDDEN // 2, HIDDEN, True),
    "attn_v": ("self_attn.v_proj", HIDDEN // 2, HIDDEN, False),
    "attn_output": ("self_attn.o_proj", HIDDEN, HIDDEN, True),
    "ffn_gate": ("mlp.gate_proj", INNER, HIDDEN, True),
    "ffn_up": ("mlp.up_proj", INNER, HIDDEN, False),
    "ffn_down": ("mlp.down_proj", HIDDEN, INNER, True),
    "attn_norm": ("input_layernorm", HIDDEN, None, False),
    "ffn_norm": ("post_attention_layernorm", HIDDEN, None, False),
}


def interleaved(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """llama.cpp pairs a head's rotary dimensions side by side, Hugging Face half a head apart."""
    halves = weight.reshape(num_heads, 2, -1, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_metadata(writer: Any) -> None:
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(THETA)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3] + [1] * (len(TOKENS) - 2))  # control, then normal
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)


def llama3_divisors(factor: float) -> np.ndarray:
    """What llama.cpp's converter writes as rope_freqs.weight."""
    divisors: list[float] = []
    for pair in range(HIDDEN // HEADS // 2):
        wavelength = 2 * math.pi * THETA ** (2 * pair / (HIDDEN // HEADS))
        if wavelength < 8192 / 4:
            divisors.append(1.0)
        elif wavelength > 8192:
            divisors.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / 3
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def write_gguf(file: Path, divisors: np.ndarray | None = None, scaling: str = "") -> dict[str, torch.Tensor]:
    """Write a tiny Llama; return its weights under Hugging Face's names, rounded as in the file."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(file, "llama")
    write_metadata(writer)
    if divisors is not None:
        writer.add_tensor("rope_freqs.weight", divisors)
    if scaling:
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling))
    weights: dict[str, torch.Tensor] = {}

    def add(theirs: str, ours: str, rows: int, columns: int | None, packed: bool) -> None:
        shape = (rows,) if columns is None else (rows, columns)
        weight = rng.normal(1.0 if columns is None else 0.0, 0.3, shape).astype(np.float32)
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(theirs.split(".")[-1])
        stored = weight if heads is None else interleaved(weight, heads)
        if packed:
            q8 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{theirs}.weight", gguf.quants.quantize(stored, q8), raw_dtype=q8)
            weight = gguf.quants.dequantize(gguf.quants.quantize(weight, q8), q8)
        else:
            writer.add_tensor(f"{theirs}.weight", stored)
        weights[f"{ours}.weight"] = torch.tensor(weight)

    add("token_embd", "model.embed_tokens", len(TOKENS), HIDDEN, True)
    for layer in range(LAYERS):
        for theirs, (ours, rows, columns, packed) in NAMES.items():
            add(f"blk.{layer}.{theirs}", f"model.layers.{layer}.{ours}", rows, columns, packed)
    add("output_norm", "model.norm", HIDDEN, None, False)
    add("output", "lm_head", len(TOKENS), HIDDEN, True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def expected_model(weights: dict[str, torch.Tensor], **rope: Any) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": THETA, **rope},
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights, strict=True)
    return model.eval()


def logits(model: Any) -> torch.Tensor:
    """Logits at positions far apart, where every rotary frequency matters."""
    ids = torch.randint(len(TOKENS), (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return model(ids, position_ids=torch.arange(12).mul(1000).expand(2, 12)).logits


def test_a_gguf_file_becomes_a_model_folder_with_the_same_weights(tmp_path: Path):
    weights = write_gguf(tmp_path / "tiny.gguf")
    assert main([str(tmp_path / "tiny.gguf"), str(tmp_path / "base")]) == 0

    model, expected = AutoModelForCausalLM.from_pretrained(tmp_path / "base"), expected_model(weights)
    assert getattr(model.config, "quantization_config", None) is None
    assert [type(module) for module in model.modules()] == [type(module) for module in expected.modules()]
    assert {name: weight.dtype for name, weight in model.named_parameters()} == dict.fromkeys(weights, torch.float32)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, weights[name]), name
    torch.testing.assert_close(logits(model), logits(expected))


def test_llama_3_rotary_scaling_survives(tmp_path: Path):
    weights = write_gguf(tmp_path / "tiny.gguf", llama3_divisors(8.0))
    dequantise(tmp_path / "tiny.gguf", tmp_path / "base")
    scaled = expected_model(
        weights,
        rope_type="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )
    torch.testing.assert_close(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "base")), logits(scaled))
    assert (logits(scaled) - logits(expected_model(weights))).abs().max() > 0.01


@pytest.mark.parametrize(
    ("divisors", "scaling"), [(None, "yarn"), (None, "linear"), (np.array([1, 2, 3, 4], dtype=np.float32), "")]
)
def test_other_rotary_scalings_are_refused_and_leave_no_folder(
    tmp_path: Path, divisors: np.ndarray | None, scaling: str
):
    write_gguf(tmp_path / "tiny.gguf", divisors, scaling)
    with pytest.raises(ConfigError, match="rotary positions"):
        dequantise(tmp_path / "tiny.gguf", tmp_path / "base")
    assert not (tmp_path / "base").exists()


def test_the_folder_has_the_tokenizer_of_the_file(tmp_path: Path):
    write_gguf(tmp_path / "tiny.gguf")
    dequantise(tmp_path / "tiny.gguf", tmp_path / "base")
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "base")
    ids = tokenizer("in the land and on", add_special_tokens=False).input_ids
    pieces = ["in", "Ġthe", "Ġ", "l", "and", "Ġand", "Ġ", "on"]
    assert ids == [TOKENS.index(piece) for piece in pieces]
    assert tokenizer.decode(ids) == "in the land and on"
    assert tokenizer.convert_tokens_to_ids(TOKENS) == list(range(len(TOKENS)))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.chat_template == TEMPLATE


def test_a_missing_file_and_an_existing_folder_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="There is no file"):
        dequantise(tmp_path / "tiny.gguf", tmp_path / "base")
    (tmp_path / "tiny.gguf").touch()
    with pytest.raises(ConfigError, match=r"exists\. Choose another output folder"):
        dequantise(tmp_path / "tiny.gguf", tmp_path)


def test_an_interruption_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, folder = tmp_path / "tiny.gguf", tmp_path / "base"
    write_gguf(file)
    with monkeypatch.context() as patch:
        patch.setattr(AutoTokenizer, "from_pretrained", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dequantise(file, folder)
    assert not folder.exists()
    dequantise(file, folder)
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.gguf", "base"}


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt
