"""A tiny model whose words are complete answers; each of them ends the completion. Sampled, some are correct."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, EOS = 0, 1
ANSWERS = [f"<reasoning>so</reasoning><answer>{number}</answer>" for number in ("0", "1", "1.0", "2", "3")]
WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(8)), *ANSWERS]


def save_answering_model(folder: Path, *, seed: int = 0, chat_template: str | None = None, context: int = 128) -> str:
    """A one-layer Llama over 16 words, five of which are complete answers; returns the folder."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        chat_template=chat_template,
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=context,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=None,
        tie_word_embeddings=False,
        initializer_range=0.3,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = [EOS, *(WORDS.index(answer) for answer in ANSWERS)]
    # Real models ship such settings; they must not leak into an evaluation.
    model.generation_config.repetition_penalty = 3.0
    model.generation_config.do_sample = True
    model.generation_config.top_k = 2
    model.save_pretrained(folder)
    return str(folder)
