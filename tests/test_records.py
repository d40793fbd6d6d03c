"""A group record is read back as it was written, and a damaged one is refused with the field."""

import copy
import dataclasses
import json

import pytest

from gtpo import DataError
from gtpo.records import CompletionRecord, GroupRecord, group_from_row

COMPLETION = CompletionRecord(
    token_ids=[5, 6],
    pieces=["a", "\ud800"],
    rewards={"accuracy": 1.0, "format": None},
    advantage=0.5,
    push=0.5,
    entropy=None,
    kept=True,
    valid=True,
    prefix=1,
    suffix=0,
    token_weight=[2.0, 1.0],
    token_advantage=[1.0, None],
    token_entropy=None,
    trained=[True, True],
)
GROUP = GroupRecord(step=3, prompt="2 + 2?", completions=[COMPLETION], entropy_threshold=0.7, initial_entropy=None)


def damaged(**changes):
    row = copy.deepcopy(dataclasses.asdict(GROUP))
    row["completions"][0] |= changes
    return row


def test_a_group_survives_json():
    assert group_from_row(json.loads(json.dumps(dataclasses.asdict(GROUP)))) == GROUP


def test_a_group_of_schema_2_is_read():
    row = {**dataclasses.asdict(GROUP), "schema": 2}
    for name in ("parameters", "batch_entropy"):
        del row[name]
    for name in ("reward", "component_advantages", "token_component"):
        del row["completions"][0][name]
    assert group_from_row(row) == dataclasses.replace(GROUP, schema=2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"schema": 99}, "has schema 99, this version reads schema 1 to 3"),
        ({"schema": 1, "step": "x", "prompt": "p", "completions": [1]}, r"Expected `int`, got `str` - at `\$\.step`"),
        ({"schema": 1, "step": 1, "prompt": "p"}, "missing required field `completions`"),
        (dataclasses.asdict(GROUP) | {"completions": []}, "it has no completions"),
        (damaged(pieces=["a"]), "its lists differ in length"),
        (damaged(token_component=[0]), "its lists differ in length"),
        (damaged(prefix=3), "a conflict run is longer than the completion"),
        (damaged(kept=1), "Expected `bool`, got `int`"),
        (damaged(advantage=10**400), "out of range"),
    ],
)
def test_a_damaged_group_is_refused_with_the_reason(row, message):
    with pytest.raises(DataError, match=message):
        group_from_row(row)
