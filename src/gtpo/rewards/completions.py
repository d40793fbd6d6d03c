"""What TRL passes to a reward function: completions as text or as chat messages, and a function that logs metrics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gtpo.errors import DataError

TextOrMessages = str | Sequence[Mapping[str, Any]]
LogMetric = Callable[[str, float], None]


def completion_text(completion: TextOrMessages) -> str:
    """What the model wrote: the text, or the assistant's messages without tool calls and tool output.

    >>> completion_text([{"role": "assistant", "content": "5"}]), completion_text("5")
    ('5', '5')
    """
    if isinstance(completion, str):
        return completion
    texts: list[str] = []
    for message in completion:
        if not isinstance(message, Mapping) or "role" not in message:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DataError(
                f"A completion must be text or a list of chat messages, got a list with {message!r}. "
                "Pass completions as a list of texts, or of lists of messages."
            )
        if message["role"] == "assistant":
            content = message.get("content") or ""
            is_text = isinstance(content, str)
            texts.append(content if is_text else "".join(block.get("text", "") for block in content))
    return "\n".join(texts)
