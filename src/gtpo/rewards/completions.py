"""What TRL passes to a reward function: completions as text or as chat messages, and a function that logs metrics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gtpo.errors import DataError

TextOrMessages = str | Sequence[Mapping[str, Any]]
LogMetric = Callable[[str, float], None]


def question_text(prompt: TextOrMessages) -> str | None:
    """The question of a prompt: the text, or the user's last message; None if there is none.

    >>> question_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3 = ?"}])
    '2 + 3 = ?'
    """
    if isinstance(prompt, str):
        return prompt
    questions = [_content(message) for message in prompt if message.get("role") == "user"]
    return questions[-1] if questions else None


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
            texts.append(_content(message))
    return "\n".join(texts)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
