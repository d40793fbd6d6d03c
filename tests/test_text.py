"""Nothing that a model writes stays hidden, moves a cursor, or fills a screen."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtpo.text import is_blank, visible, visible_lines

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=40)


@given(ANY_TEXT)
def test_no_control_format_or_surrogate_character_is_left(text):
    for shown in (visible(text), visible_lines(text).replace("\n", "").replace("\t", "")):
        assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
        shown.encode()  # fails on a lone surrogate


@given(ANY_TEXT)
def test_a_token_is_never_invisible(text):
    assert visible(text).strip()


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("\n\n", "↵↵"),
        (" ", "·"),
        ("\t", "⇥"),
        ("\u202e", "⟦U+202E⟧"),  # turns the reading direction round
        ("\u200b", "⟦U+200B⟧"),  # zero-width space
        ("\ufeff", "⟦U+FEFF⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),  # a tag character: invisible instructions
        ("\x1b]0;title\x07", "⟦U+001B⟧]0;title⟦U+0007⟧"),
        ("\ud800", "⟦U+D800⟧"),
        ("\u3164", "⟦U+3164⟧"),  # a letter drawn as nothing
        ("\u0301x", "◌\u0301x"),
        ("\u2003", "⟦U+2003⟧"),
        ("naïve 漢字 😀", "naïve 漢字 😀"),
    ],
)
def test_whitespace_and_hidden_characters_become_signs(piece, shown):
    assert visible(piece) == shown


@pytest.mark.parametrize(
    "text", ["", " \t\n\u3000", "\u200b\ufeff", "\u3164\u2800", "\ufe0f", "\U000e0100", "\u0301", "\ue000"]
)
def test_a_text_without_anything_to_see_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize("text", ["0", "é", "e\u0301", "漢", "😀", "❤\ufe0f", "नि", " \u200b-"])
def test_a_text_with_something_to_see_is_not_blank(text):
    assert not is_blank(text)


def test_a_megabyte_is_cut_with_a_note():
    assert visible("y" * 2**20) == "y" * 120 + "… (1,048,456 more characters)"
    assert len(visible_lines("y" * 2**20)) < 20_100
