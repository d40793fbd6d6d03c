"""Text to tokens, with a model's tokenizer or without one."""

import itertools
import re
from typing import Any

from gtpo.errors import ConfigError
from gtpo.token_view.rollouts import Encoder

_WORD = re.compile(r"</?[A-Za-z][\w-]*>| ?\w+|\n+| ?[^\w\s]|\s+")


def load_encoder(name: str) -> Encoder:
    """The encoder of a tokenizer: a folder or a hub id."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise ConfigError(
            f"The tokenizer {name!r} could not be loaded ({type(error).__name__}: {reason[:200]}). Give the folder or "
            "hub id of the model that wrote the completions, or leave --tokenizer out to compare words instead."
        ) from error

    def encode(text: str) -> tuple[list[int], list[str]]:
        if not tokenizer.is_fast:
            ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
            return ids, [tokenizer.decode([token]) for token in ids]
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, spans = list(encoded["input_ids"]), encoded["offset_mapping"]
        # Tokens that are parts of one character have the same span: those show as the bytes they are.
        shared = {span for span, after in itertools.pairwise(spans) if span == after}
        return ids, [
            tokenizer.decode([token]) if span in shared else text[span[0] : span[1]]
            for token, span in zip(ids, spans, strict=True)
        ]

    return encode


def word_encoder() -> Encoder:
    """Words, tags, punctuation and whitespace as tokens: an approximation where no tokenizer is at hand.

    >>> word_encoder()("<answer>4 km</answer>")
    ([0, 1, 2, 3], ['<answer>', '4', ' km', '</answer>'])
    """
    vocabulary: dict[str, int] = {}

    def encode(text: str) -> tuple[list[int], list[str]]:
        pieces = _WORD.findall(text)
        return [vocabulary.setdefault(piece, len(vocabulary)) for piece in pieces], pieces

    return encode
