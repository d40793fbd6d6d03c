"""What is usable of a run's records is used, and the rest is named."""

import dataclasses
import json

import pytest

from gtpo import DataError
from gtpo.files import JsonLines
from gtpo.token_view.groups import read_recorded
from tests.token_view.example_group import example_group

SIZE = len(example_group().completions[0].token_ids)
WRONG = [
    {"advantage": "x"},
    {"advantage": 10**400},
    {"push": [1]},
    {"entropy": "x"},
    {"kept": "no"},
    {"rewards": {"format": 10**400}},
    {"rewards": {"format": "x"}},
    {"token_weight": ["a"] * SIZE},
    {"token_advantage": [1e308] * SIZE},
    {"token_entropy": ["x"] * SIZE},
    {"trained": [None] * SIZE},
    {"token_ids": ["a"] * SIZE},
]
"""Fields of a completion that nothing can be shown of."""


@pytest.fixture
def run(tmp_path):
    records = JsonLines(tmp_path / "runs" / "one" / "groups.jsonl")
    for step in (11, 1, 21):
        records.append(example_group(step))
    return records.path.parent


def test_groups_come_in_the_order_of_their_steps(run):
    recorded = read_recorded(run)
    assert recorded.steps == [1, 11, 21] == [group.step for group in recorded.groups]
    assert recorded.notes == []
    assert read_recorded(run / "groups.jsonl").groups == recorded.groups


def test_torn_lines_other_schemas_and_broken_rows_are_skipped_with_a_note(run):
    good = json.loads((run / "groups.jsonl").read_text().splitlines()[0])
    with (run / "groups.jsonl").open("a") as file:
        for broken in (
            {**good, "schema": 2},
            {key: value for key, value in good.items() if key != "prompt"},
            {**good, "completions": [{**good["completions"][0], "pieces": ["too", "short"]}]},
            {**good, "completions": [{**good["completions"][0], "rewards": [1]}]},
            {**good, "completions": [{**good["completions"][0], "prefix": None}]},
            {**good, "completions": ["no"]},
            {**good, "completions": []},
            {**good, "step": "7"},
            {**good, "surprise": 1},
            {**good, "step": True},
            {**good, "prompt": 5},
            {**good, "initial_entropy": 10**400},
            {**good, "entropy_threshold": "x"},
            *({**good, "completions": [{**good["completions"][0], **wrong}]} for wrong in WRONG),
        ):
            file.write(json.dumps(broken) + "\n")
        file.write('{"a":' * 200_000 + "\n")
        file.write('{"schema": 1, "st')
    recorded = read_recorded(run)
    assert recorded.steps == [1, 11, 21]
    notes = " ".join(recorded.notes)
    assert "1 of the records in groups.jsonl skipped: schema 2 where this version of gtpo reads 1" in notes
    assert f"{12 + len(WRONG)} of the records in groups.jsonl skipped: fields are missing or do not fit" in notes
    assert "2 of the records in groups.jsonl skipped: not a whole JSON line" in notes


def test_numbers_that_were_not_finite_are_no_obstacle(tmp_path):
    group = example_group()
    broken = dataclasses.replace(
        group.completions[0], advantage=float("nan"), push=float("nan"), token_advantage=[float("nan")] * 33
    )
    JsonLines(tmp_path / "groups.jsonl").append(dataclasses.replace(group, completions=[broken]))
    assert read_recorded(tmp_path).groups[0].completions[0].advantage is None


def test_a_step_that_was_not_recorded_is_refused_with_those_that_were(run):
    assert [group.step for group in read_recorded(run).at_step(11).groups] == [11]
    with pytest.raises(DataError, match=r"Step 7 was not recorded\. Recorded steps: 1, 11, 21\."):
        read_recorded(run).at_step(7)


def test_what_is_no_run_is_refused_with_what_to_give_instead(run, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DataError, match=r"is not a run with recorded groups: it has no groups\.jsonl"):
        read_recorded(empty)
    with pytest.raises(DataError, match="does not exist"):
        read_recorded(empty / "nowhere")
    with pytest.raises(DataError, match=r"Below it there are runs: .*runs/one"):
        read_recorded(run.parent)
    (empty / "groups.jsonl").touch()
    with pytest.raises(DataError, match=r"has no group to show\. The run has recorded none so far"):
        read_recorded(empty)
    (empty / "groups.jsonl").write_text('{"schema": 9}\n')
    with pytest.raises(DataError, match=r"has no group to show\. 1 of the records .* schema 9"):
        read_recorded(empty)
    (empty / "groups.jsonl").unlink()
    (empty / "completions").mkdir()
    (empty / "completions" / "completions_00001.parquet").touch()
    with pytest.raises(DataError, match="Try: gtpo inspect --completions"):
        read_recorded(empty)
