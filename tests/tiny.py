"""A tiny tokenizer and model, built from a seed."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = [f"w{i}" for i in range(50)] + ["say", "red", "blue", ":", "<a>", "</a>", "system", "user", "assistant"]
SPECIAL = ["<pad>", "<eos>", "<unk>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ' ' + m['content'] + ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: index for index, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
    )


def tiny_model(**overrides: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": None,
        "tie_word_embeddings": False,
        "initializer_range": 0.5,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**settings, **overrides}))
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = [1, *range(3, 15)]  # several words end a completion: lengths differ
    return model


def save_tiny_model(folder: Path | str, **overrides: Any) -> None:
    tiny_model(**overrides).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
