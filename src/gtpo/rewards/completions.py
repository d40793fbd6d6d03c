"""What TRL passes to a reward function: completions as text or as chat messages, and a function that logs metrics."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from gtpo.errors import DataError

TextOrMessages = str | Sequence[Mapping[str, Any]]
LogMetric = Callable[[str, float], None]

_USER = re.compile(
    r"<\|im_start\|>user|<\|start_header_id\|>user<\|end_header_id\|>|<start_of_turn>user|\[INST\]|<\|user\|>|<｜User｜>|"
    r"^(?:Question|Problem|User|Human|Q):",
    re.MULTILINE,
)
_END_OF_TURN = re.compile(
    r"<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|\[/INST\]|<\|end\|>|<\|assistant\|>|<｜Assistant｜>"
)


def question_text(prompt: TextOrMessages) -> str | None:
    """The question of a prompt: the user's last message, or the text from its last user marker on; None without one.

    >>> question_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3 = ?"}])
    '2 + 3 = ?'
    >>> question_text("Question: 1 + 1\\nAnswer: 2\\nQuestion: 2 + 3"), question_text("2 + 3 = ?")
    ('2 + 3', '2 + 3 = ?')
    """
    if isinstance(prompt, str):
        markers = list(_USER.finditer(prompt))
        return _END_OF_TURN.split(prompt[markers[-1].end() :])[0].strip() if markers else prompt
    questions = [_content(message) for message in _messages(prompt, "prompt") if message["role"] == "user"]
    return questions[-1] if questions else None


def completion_text(completion: TextOrMessages) -> str:
    """What the model wrote: the text, or the assistant's messages without tool calls and tool output.

    >>> completion_text([{"role": "assistant", "content": "5"}]), completion_text("5")
    ('5', '5')
    """
    if isinstance(completion, str):
        return completion
    messages = _messages(completion, "completion")
    return "\n".join(_content(message) for message in messages if message["role"] == "assistant")


def _messages(messages: Any, what: str) -> list[Mapping[str, Any]]:
    """The chat messages of a prompt or a completion, checked."""
    expected = f"Pass {what}s as a list of texts, or of lists of messages."
    if not isinstance(messages, Sequence):
        raise DataError(f"A {what} must be text or a list of chat messages, got {messages!r:.200}. {expected}")
    for message in cast("Sequence[object]", messages):
        if not isinstance(message, Mapping) or "role" not in message:
            raise DataError(
                f"A {what} must be text or a list of chat messages, got a list with {message!r:.200}. {expected}"
            )
    return list(cast("Sequence[Mapping[str, Any]]", messages))


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or not all(isinstance(block, Mapping) for block in content):
        raise DataError(
            f"The content of a message must be text or a list of blocks, got {content!r:.200}. "
            'Write a block as {"type": "text", "text": "…"}.'
        )
    return "".join(block.get("text") or "" for block in content)
