"""The lab's model: a Llama of about a million parameters, shipped with its weights."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def lab_model_dir() -> Path:
    """The folder of the shipped base model, for `from_pretrained`: weights, config and tokenizer."""
    return Path(__file__).parent / "base"


def new_model(
    tokenizer: "PreTrainedTokenizerFast", *, hidden_size: int = 128, num_layers: int = 4
) -> "LlamaForCausalLM":
    """An untrained model for this tokenizer, initialized with torch's global random generator."""
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary = tokenizer.get_vocab()
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=-(-len(vocabulary) // 8) * 8,
            hidden_size=hidden_size,
            intermediate_size=7 * hidden_size // 2,
            num_hidden_layers=num_layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            pad_token_id=vocabulary["<pad>"],
            eos_token_id=vocabulary["<eos>"],
            bos_token_id=vocabulary["<bos>"],
        )
    )
