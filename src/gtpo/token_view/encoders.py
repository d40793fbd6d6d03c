"""Encoders: from text to tokens, with or without a model's tokenizer."""

import itertools
import re
from collections.abc import Callable
from typing import Any

from gtpo.errors import ConfigError

Encoder = Callable[[str], tuple[list[int], list[str]]]
"""From text to token ids and the text of each token."""

_WORD = re.compile(r"</?[A-Za-z][\w-]*>| ?\w+|\n+| ?[^\w\s]|\s+")


def load_encoder(name: str) -> Encoder:
    """The encoder of a tokenizer from a folder or the hub."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise ConfigError(
            f"Cannot load the tokenizer {name!r} ({type(error).__name__}: {reason[:200]}). Pass the folder or hub id "
            "of the model that wrote the completions, or omit --tokenizer to compare words instead."
        ) from error

    def encode(text: str) -> tuple[list[int], list[str]]:
        if not tokenizer.is_fast:
            ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
            return ids, [tokenizer.decode([token]) for token in ids]
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, spans = list(encoded["input_ids"]), encoded["offset_mapping"]
        # Tokens that are bytes of one character have the same span. Each is decoded on its own.
        shared = {span for span, after in itertools.pairwise(spans) if span == after}
        return ids, [
            tokenizer.decode([token]) if span in shared else text[span[0] : span[1]]
            for token, span in zip(ids, spans, strict=True)
        ]

    return encode


def word_encoder() -> Encoder:
    """Words, tags, punctuation and whitespace as tokens: an approximation for when there is no tokenizer.

    >>> word_encoder()("<answer>4 km</answer>")
    ([0, 1, 2, 3], ['<answer>', '4', ' km', '</answer>'])
    """
    vocabulary: dict[str, int] = {}

    def encode(text: str) -> tuple[list[int], list[str]]:
        pieces = _WORD.findall(text)
        return [vocabulary.setdefault(piece, len(vocabulary)) for piece in pieces], pieces

    return encode
