"""Text that a model wrote, made fit to be looked at.

Model output is hostile: it moves cursors, turns the reading direction round, hides characters and goes on for
megabytes. What comes out of here has a visible sign for each character and is safe in a terminal; a page needs no more
than `textContent`.
"""

import unicodedata

CUT_AT = 120
"""Characters of one token that are shown."""

_SIGNS = {"\n": "↵", "\t": "⇥", "\r": "␍"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, formats, surrogates, private, unassigned, separators
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # drawn as nothing, though Unicode calls them letters and symbols


def visible(piece: str, cut_at: int = CUT_AT) -> str:
    """One token with nothing hidden: whitespace as signs, controls as their codes, a long one cut with a note.

    >>> visible(" the"), visible("  "), visible("a\\n"), visible("\\u202eb\\x1b[2J"), visible("")
    (' the', '··', 'a↵', '⟦U+202E⟧b⟦U+001B⟧[2J', '∅')
    >>> visible("x" * 10, cut_at=4)
    'xxxx… (6 more characters)'
    """
    if not piece:
        return "∅"
    head = piece[:cut_at]
    shown = "".join(map(_sign, head))
    if not shown.strip(" "):
        shown = "·" * len(shown)
    if unicodedata.category(head[0]).startswith("M"):
        shown = "◌" + shown  # a mark that would sit on the token before
    rest = len(piece) - len(head)
    return f"{shown}… ({rest:,} more characters)" if rest else shown


def visible_lines(text: str, cut_at: int = 20_000) -> str:
    """A longer text: lines and tabs stay, everything else as in `visible`.

    >>> visible_lines("a\\r\\nb\\x07")
    'a⟦U+000D⟧\\nb⟦U+0007⟧'
    """
    head = text[:cut_at]
    shown = "".join(character if character in "\n\t" else _code(character) for character in head)
    rest = len(text) - len(head)
    return f"{shown}… ({rest:,} more characters)" if rest else shown


def _sign(character: str) -> str:
    return _SIGNS.get(character) or _code(character)


def _code(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs" and character != " ":
        return "·" if character == "\u00a0" else f"⟦U+{ord(character):04X}⟧"
    hidden = category in _HIDDEN or character in _BLANK_LETTERS or _is_variation_selector(character)
    return f"⟦U+{ord(character):04X}⟧" if hidden else character


def _is_variation_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef" or character == "\u034f"
