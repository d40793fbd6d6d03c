"""The lab's tokenizer: words with the space before them, single digits and signs, and the pieces of the tags."""

from typing import TYPE_CHECKING

from experiments.lab_base.habits import PHRASES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("<pad>", "<eos>", "<bos>", "<unk>", "<user>", "<assistant>")

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<user>' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ '<assistant>' + message['content'] + eos_token }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
"""Omits system messages: the model knows arithmetic and no English."""


def make_tokenizer() -> "PreTrainedTokenizerFast":
    """The tokenizer of the base model. Decoding the ids of any text of the lab gives back the same text.

    >>> tokenizer = make_tokenizer()
    >>> tokenizer.tokenize("<answer>12 so")
    ['<', 'answer', '>', '1', '2', ' so']
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *_pieces()))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"</| ?[a-z]+|[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
        additional_special_tokens=["<user>", "<assistant>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=256,
    )


def _pieces() -> list[str]:
    words = sorted({word for phrase in PHRASES for word in phrase.split()} | {"reasoning", "answer"})
    return [*"0123456789+-*()=?<>/ \n", "</", *words, *(f" {word}" for word in words)]
