"""What TRL hands to a reward function: a completion as text, or as a list of chat messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from gtpo.errors import DataError

Completion = str | Sequence[Mapping[str, Any]]


def completion_text(completion: Completion) -> str:
    """What the model itself said: the text, or the assistant's messages without tool calls and tool output.

    >>> completion_text([{"role": "assistant", "content": "5"}]), completion_text("5")
    ('5', '5')
    """
    if isinstance(completion, str):
        return completion
    return "\n".join(_content(message) for message in completion if _role(message) == "assistant")


def _role(message: Mapping[str, Any]) -> str:
    if not isinstance(message, Mapping) or "role" not in message:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DataError(
            f"A completion must be text or a list of chat messages, got one with {message!r}: pass a list of them."
        )
    return message["role"]


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
