r"""Splitting an answer at its outermost commas, brackets, unions and matrix cells."""

import re
from dataclasses import dataclass

RELATION = re.compile(r"<|>|\\(?:le|ge|lt|gt|ne)(?![a-zA-Z])")
_MATRIX = re.compile(r"\\begin\{(?P<kind>[pvV]?)matrix\}(?P<cells>.*)\\end\{(?P=kind)matrix\}", re.DOTALL)
_MEMBER_OF = re.compile(r"^[a-zA-Z]\s*(?:\\in(?![a-zA-Z])|=(?=\s*\\\{))\s*")
_AND = re.compile(r"\\text\s*\{\s*,?\s*(?:and|or)\s*\}|,?\s+(?:and|or)\s+")


@dataclass(frozen=True)
class Parts:
    """The members of a compound answer. Members are compared only if `kind` is the same."""

    kind: str
    members: tuple[str, ...]
    is_ordered: bool


def take_apart(text: str) -> Parts | None:
    r"""The members of a list, set, tuple, interval, union or matrix; None for anything else.

    >>> take_apart("(1, 2]")
    Parts(kind='(]', members=('1', '2'), is_ordered=True)
    >>> take_apart("\\{1,2\\}") == take_apart("1 and 2"), take_apart("(a+5)(b+2)"), take_apart("1 \\pm x").members
    (True, None, ('1 + x', '1 - x'))
    """
    text = _MEMBER_OF.sub("", text.strip())
    if match := _MATRIX.fullmatch(text):
        rows = [row.split("&") for row in re.split(r"\\\\", match["cells"]) if row.strip()]
        shape = "x".join(str(len(row)) for row in rows)
        return Parts(f"{match['kind']}matrix {shape}", tuple(cell.strip() for row in rows for cell in row), True)
    if len(pieces := split_top_level(text, r"\cup")) > 1:
        return Parts("union", tuple(pieces), False)
    if len(pieces := split_top_level(_AND.sub(",", text).replace(";", ","), ",")) > 1:
        return Parts("set", tuple(member for piece in pieces for member in _plus_minus(piece)), False)
    if r"\pm" in text and not has_relation(text) and _closes_at_end(text) is None:
        return Parts("set", tuple(_plus_minus(text)), False)
    return _bracketed(text)


def without_brackets(text: str) -> str:
    """The text without a pair of round or curly brackets around all of it.

    >>> without_brackets("(x+1)"), without_brackets("(x+1)(x-1)"), without_brackets("{5}")
    ('x+1', '(x+1)(x-1)', '5')
    """
    pair = _closes_at_end(text)
    return text[1:-1].strip() if pair in ("()", "{}") and text[1:-1].strip() else text


def split_top_level(text: str, separator: str) -> list[str]:
    """Split at the separators that are outside all brackets."""
    pieces, depth, start, position = list[str](), 0, 0, 0
    while position < len(text):
        depth += (text[position] in "([{") - (text[position] in ")]}")
        if depth == 0 and text.startswith(separator, position):
            pieces.append(text[start:position].strip())
            position += len(separator)
            start = position
        else:
            position += 1
    return [*pieces, text[start:].strip()]


def has_relation(text: str) -> bool:
    """Whether the text contains an inequality."""
    return RELATION.search(text) is not None


def _bracketed(text: str) -> Parts | None:
    if text.startswith(r"\{") and text.endswith(r"\}"):
        members = split_top_level(text[2:-2], ",")
        return Parts("set", tuple(member for piece in members for member in _plus_minus(piece)), False)
    pair = _closes_at_end(text)
    members = split_top_level(text[1:-1], ",")
    if pair is None or (len(members) == 1 and pair in ("()", "{}")):
        return None
    return Parts("set" if pair == "{}" else pair, tuple(members), pair != "{}")


def _closes_at_end(text: str) -> str | None:
    """The pair of brackets around the complete text, such as "(]"; None if the first one closes earlier."""
    if len(text) < 2 or text[0] not in "([{" or text[-1] not in ")]}":
        return None
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return text[0] + text[-1] if position == len(text) - 1 else None
    return None


def _plus_minus(text: str) -> list[str]:
    if r"\pm" not in text:
        return [text]
    return [
        re.sub(r"^\+ ?", "", text.replace(r"\pm", sign).replace(r"\mp", opposite).strip())
        for sign, opposite in (("+", "-"), ("-", "+"))
    ]
