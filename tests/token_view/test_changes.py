"""The counts of a group that is small enough to count by hand."""

import dataclasses

import pytest

from gtpo.token_view.changes import count_changes, tag_tokens
from tests.token_view.example_group import example_group


def test_the_counts_equal_those_by_hand():
    group = example_group()
    changes = count_changes([group, group])
    assert (changes.groups, changes.completions, changes.filtered) == (2, 10, 2)
    assert changes.tokens == 2 * (33 + 27 + 27 + 25 + 19)
    assert changes.amplified == 2 * (12 + 13)
    assert changes.protected == 2 * (9 + 11)
    assert changes.conflicts == changes.amplified + changes.protected
    # <reasoning>, </reasoning>, <answer>, </answer> twice; <reasoning> and </answer>; <reasoning>, <answer>, </answer>
    assert changes.conflict_tags == 2 * (4 + 4 + 2 + 3)
    push = [c.push for c in group.completions]
    assert changes.share_removed == pytest.approx(
        (push[2] * 9 / 27 + push[3] * 11 / 25) / (push[2] + push[3] + push[4])
    )
    assert changes.share_added == pytest.approx((push[0] * 12 / 33 + push[1] * 13 / 27) / (push[0] + push[1]))
    assert changes.share_tags == 13 / 45


def test_a_reduced_penalty_counts_by_the_push_that_it_removes():
    group = example_group()
    weights = [0.25 if weight == 0 else weight for weight in group.completions[2].token_weight]
    soft = dataclasses.replace(group.completions[2], token_weight=weights)
    changes = count_changes([dataclasses.replace(group, completions=[soft])])
    assert changes.protected == 9
    assert changes.share_removed == pytest.approx(0.75 * 9 / 27)


def test_an_excluded_completion_has_no_tokens_in_the_counts():
    excluded = dataclasses.replace(example_group().completions[0], valid=False, kept=False)
    changes = count_changes([dataclasses.replace(example_group(), completions=[excluded])])
    assert (changes.completions, changes.tokens, changes.conflicts) == (1, 0, 0)
    assert changes.share_removed is changes.share_added is changes.share_tags is None


@pytest.mark.parametrize(
    ("pieces", "flags"),
    [
        (["<reason", "ing", ">", " so"], [1, 1, 1, 0]),
        (["x<", "answer>4"], [1, 1]),
        (["a", " <", " b", ">"], [0, 0, 0, 0]),
        (["</s>", "<|im_end|>", "<eos>", "<think>"], [0, 0, 0, 1]),
        ([], []),
        (["<a>", "", "<b>"], [1, 0, 1]),
    ],
)
def test_tags_are_found_across_tokens(pieces, flags):
    assert tag_tokens(pieces) == {position for position, flag in enumerate(flags) if flag}
