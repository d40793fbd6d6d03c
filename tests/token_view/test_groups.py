"""Usable records of a run are loaded, and the others are reported."""

import dataclasses
import json

import pytest

from gtpo import DataError
from gtpo.token_view.groups import load_groups
from tests.token_view.example_group import example_group, save_groups


@pytest.fixture
def run(tmp_path):
    return save_groups(tmp_path / "runs" / "first", *(example_group(step) for step in (11, 1, 21)))


def test_groups_are_in_the_order_of_their_steps(run):
    loaded = load_groups(run)
    assert loaded.steps == [1, 11, 21] == [group.step for group in loaded]
    assert loaded.notes == []
    assert list(load_groups(run / "groups.jsonl")) == list(loaded) == [example_group(step) for step in (1, 11, 21)]


def test_torn_lines_other_schemas_and_damaged_records_are_skipped_with_a_note(run):
    good = json.loads((run / "groups.jsonl").read_text().splitlines()[0])
    completion = good["completions"][0]
    damaged = [
        {key: value for key, value in good.items() if key != "prompt"},
        {**good, "step": "7"},
        {**good, "completions": []},
        {**good, "completions": [{**completion, "pieces": ["too", "short"]}]},
        {**good, "completions": [{**completion, "advantage": "x"}]},
    ]
    with (run / "groups.jsonl").open("a") as file:
        for row in [{**good, "schema": 99}, *damaged]:
            file.write(json.dumps(row) + "\n")
        file.write('{"a":' * 200_000 + "\n")
        file.write('{"schema": 1, "st')
    loaded = load_groups(run)
    assert [group.step for group in loaded] == [1, 11, 21]
    notes = " ".join(loaded.notes)
    assert f"{1 + len(damaged)} of the records in groups.jsonl skipped: not schema 1 to" in notes
    assert "or fields are missing or inconsistent" in notes
    assert "2 of the records in groups.jsonl skipped: not a complete JSON line" in notes


def test_numbers_that_were_not_finite_are_loaded_as_none(tmp_path):
    group = example_group()
    nan = float("nan")
    completion = dataclasses.replace(group.completions[0], advantage=nan, push=nan, token_advantage=[nan] * 33)
    save_groups(tmp_path, dataclasses.replace(group, completions=[completion]))
    assert next(iter(load_groups(tmp_path))).completions[0].advantage is None


def test_a_step_that_was_not_recorded_is_refused_with_the_recorded_steps(run):
    assert [group.step for group in load_groups(run).at_step(11)] == [11]
    with pytest.raises(DataError, match=r"Step 7 was not recorded\. Recorded steps: 1, 11, 21\."):
        load_groups(run).at_step(7)


def test_a_folder_without_groups_is_refused_with_a_remedy(run, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DataError, match=r"groups\.jsonl does not exist\. Pass the folder of a run"):
        load_groups(empty)
    with pytest.raises(DataError, match="does not exist"):
        load_groups(empty / "nowhere")
    with pytest.raises(DataError, match=r"there are runs: .*runs/first"):
        load_groups(run.parent)
    (empty / "groups.jsonl").touch()
    with pytest.raises(DataError, match=r"has no groups to show\. The run has not recorded any yet"):
        load_groups(empty)
    (empty / "groups.jsonl").write_text('{"schema": 99}\n')
    with pytest.raises(DataError, match=r"has no groups to show\. 1 of the records .* not schema 1 to"):
        load_groups(empty)
    (empty / "groups.jsonl").unlink()
    (empty / "completions").mkdir()
    (empty / "completions" / "completions_00001.parquet").touch()
    with pytest.raises(DataError, match="Try: gtpo inspect --completions"):
        load_groups(empty)


def test_records_of_schema_1_are_loaded(tmp_path):
    row = dataclasses.asdict(example_group())
    for name in ("method", "reason"):
        del row[name]
    for completion in row["completions"]:
        del completion["token_logp"], completion["truncated"]
    (tmp_path / "groups.jsonl").write_text(json.dumps({**row, "schema": 1}) + "\n")
    loaded = load_groups(tmp_path)
    assert [dataclasses.replace(group, schema=example_group().schema) for group in loaded] == [example_group()]
    assert loaded.notes == []


def test_what_was_not_recorded_is_noted(tmp_path):
    group = example_group()
    without = {"token_ids": None, "pieces": None, "token_entropy": None, "entropy": None}
    completions = [dataclasses.replace(completion, **without) for completion in group.completions]
    save_groups(tmp_path, dataclasses.replace(group, prompt=None, completions=completions))
    loaded = load_groups(tmp_path)
    assert len(list(loaded)) == 1
    notes = loaded.notes
    assert [note.split(" (")[0].split(".")[0] for note in notes] == [
        "The texts were not recorded",
        "Entropies and log-probabilities were not recorded",
    ]


def test_what_only_python_parses_is_loaded_too(tmp_path):
    row = json.dumps(dataclasses.asdict(example_group())).replace("<reasoning>", "\\ud800")
    row = row.replace('"initial_entropy": 0.42', '"initial_entropy": NaN')
    (tmp_path / "groups.jsonl").write_text(row + "\n")
    (group,) = load_groups(tmp_path)
    assert group.completions[0].pieces[0] == "\ud800"
    assert group.initial_entropy is None


def test_groups_of_a_step_are_numbered_in_the_order_of_the_file(tmp_path):
    save_groups(tmp_path, *(example_group(step) for step in (11, 1, 11, 1)))
    assert [(place.step, place.number) for place in load_groups(tmp_path).places] == [(1, 1), (1, 2), (11, 1), (11, 2)]
