"""Text that a model or a stranger wrote: made safe to print, shown with nothing hidden, searched for its answer.

Model output can be hostile: it moves cursors, reverses text, hides characters and runs to megabytes.
`printable` is for names and messages; `visible` shows a sign for every character. Both are safe in a terminal.
"""

import re
import unicodedata

MISSING = "–"
"""Printed in place of a value that is not known."""

CUT_AT = 120
"""How many characters of a token are shown."""

BOX = re.compile(r"\\(?:boxed|fbox)(?:\s*\{|\s+(?P<bare>[^\s${]+))")
_SIGNS = {"\n": "↵", "\t": "⇥", "\r": "␍"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, formats, surrogates, private, unassigned, separators
_BLANK = re.compile("[\u115f\u1160\u2800\u3164\uffa0\u034f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Letters that are drawn as nothing, and variation selectors."""


def printable(text: str) -> str:
    """Text without the characters that move a terminal's cursor.

    >>> printable("a\\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join(character if character.isprintable() else "�" for character in text)


def visible(piece: str, cut_at: int = CUT_AT) -> str:
    """One token with nothing hidden: whitespace as signs, control characters as codes, a long token truncated.

    >>> visible(" the"), visible("  "), visible("a\\n"), visible("\\u202eb\\x1b[2J"), visible("")
    (' the', '··', 'a↵', '⟦U+202E⟧b⟦U+001B⟧[2J', '∅')
    >>> visible("x" * 10, cut_at=4)
    'xxxx… (6 more characters)'
    """
    if not piece:
        return "∅"
    head = piece[:cut_at]
    signs = "".join(_SIGNS.get(character) or _code(character) for character in head)
    if not signs.strip(" "):
        signs = "·" * len(signs)
    if unicodedata.category(head[0]).startswith("M"):
        signs = "◌" + signs  # a mark that would sit on the token before
    rest = len(piece) - len(head)
    return f"{signs}… ({rest:,} more characters)" if rest else signs


def visible_lines(text: str, cut_at: int = 20_000) -> str:
    """A longer text: newlines and tabs stay, everything else is as in `visible`.

    >>> visible_lines("a\\r\\nb\\x07")
    'a⟦U+000D⟧\\nb⟦U+0007⟧'
    """
    head = text[:cut_at]
    signs = "".join(character if character in "\n\t" else _code(character) for character in head)
    rest = len(text) - len(head)
    return f"{signs}… ({rest:,} more characters)" if rest else signs


def _code(character: str) -> str:
    if character == "\u00a0":
        return "·"
    category = unicodedata.category(character)
    is_odd_space = category == "Zs" and character != " "
    is_hidden = is_odd_space or category in _HIDDEN or _BLANK.match(character)
    return f"⟦U+{ord(character):04X}⟧" if is_hidden else character


def is_blank(text: str) -> bool:
    """Whether nothing can be seen or read: whitespace, hidden and private characters, marks without a letter.

    >>> is_blank(" \\u200b\\u0301\\ue000"), is_blank("0")
    (True, False)
    """
    return all(
        character.isspace()
        or (category := unicodedata.category(character)) in _HIDDEN
        or category.startswith("M")
        or _BLANK.match(character) is not None
        for character in text
    )


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{…} or \fbox{…}, with nested braces; None if no box is closed.

    >>> boxed("so \\boxed{1} or rather $\\boxed{\\frac{1}{\\sqrt{2}}}$.")
    '\\frac{1}{\\sqrt{2}}'
    >>> boxed("so $\\boxed 2$.")
    '2'
    """
    for match in reversed(list(BOX.finditer(text))):
        if box := box_at(text, match):
            return box[0]
    return None


def box_at(text: str, match: re.Match[str]) -> tuple[str, int] | None:
    """The content of the box that opens at `match`, and where it ends; None if it is not closed."""
    if match["bare"]:
        return match["bare"], match.end()
    depth = 1
    for position in range(match.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[match.end() : position].strip(), position + 1
    return None
