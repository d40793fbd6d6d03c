"""load_problems: files with any columns, the lab, and names that do not exist."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gtpo.errors import ConfigError, DataError
from gtpo.problems import Problem, load_problems, to_dataset
from gtpo.problems.lab import lab_problems
from gtpo.problems.loading import parse_columns
from gtpo.problems.sets import PROBLEM_SETS
from tests.problems.jsonl import write_jsonl


def test_a_file_may_name_its_columns_differently(tmp_path: Path):
    rows = [{"task": "Q", "truth": 12, "kind": "Algebra"}, {"task": "R", "truth": "1/2", "kind": None}]
    columns = {"question": "task", "answer": "truth", "subject": "kind"}
    expected = [
        Problem("Q", "12", "own", subject="Algebra", others=rows[0]),
        Problem("R", "1/2", "own", others=rows[1]),
    ]
    path = write_jsonl(tmp_path / "own.jsonl", rows[0], "", rows[1])
    assert load_problems(str(path), columns=columns) == expected
    rows[0]["truth"] = "12"  # a Parquet column has one type
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "own.parquet")
    assert load_problems(tmp_path / "own.parquet", columns=columns, limit=1) == expected[:1]


def write_rows(path: Path, *others: dict[str, Any]) -> Path:
    rows = [{"task": f"{number} + {number} = ?", "answer": 2 * number} for number in range(len(others))]
    return write_jsonl(path, *(row | other for row, other in zip(rows, others, strict=True)))


def test_other_columns_of_a_file_are_kept_for_rewards(tmp_path: Path):
    path = write_rows(tmp_path / "a.jsonl", {"bonus": 0.5, "tags": ["x"], "images": 1}, {"bonus": 2.0, "prompt": "no"})
    problems = load_problems(str(path), columns={"question": "task"})
    assert [{**problem.others, "task": 0} for problem in problems] == [
        {"task": 0, "bonus": 0.5, "tags": ["x"]},
        {"task": 0, "bonus": 2.0},
    ]
    assert hash(problems[0]) != hash(problems[1])
    dataset = to_dataset(problems)
    assert dataset["bonus"][:] == [0.5, 2.0]
    assert dataset["tags"][:] == [["x"], None]
    assert dataset["task"][0] == "0 + 0 = ?"
    assert not {"images", "others"} & set(dataset.column_names)
    assert dataset["prompt"][0][1] == {"role": "user", "content": "0 + 0 = ?"}


UNFIT = {
    "numbers and words": ({"bonus": 1}, {"bonus": "much"}),
    "a number of more than 64 bits": ({"bonus": 10**30},),
    "lists and objects": ({"bonus": [1]}, {"bonus": {"a": 1}}),
}


@pytest.mark.parametrize("others", UNFIT.values(), ids=UNFIT.keys())
def test_a_column_that_does_not_fit_a_data_set_is_dropped_with_a_warning(
    others: tuple[dict[str, Any], ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    problems = load_problems(str(write_rows(tmp_path / "a.jsonl", *others)), columns={"question": "task"})
    assert "bonus" not in to_dataset(problems).column_names
    assert "The column 'bonus' does not reach rewards" in caplog.text


def test_values_that_no_field_can_hold_reach_rewards_as_they_are(tmp_path: Path):
    own = {"solution": ["x", "y"], "level": "hard", "subject": {"name": "sums"}}
    problems = load_problems(str(write_rows(tmp_path / "a.jsonl", own, {})), columns={"question": "task"})
    assert [{**problem.others, "task": 0} for problem in problems] == [{**own, "task": 0}, {"task": 0}]
    assert (problems[0].solution, problems[0].level, problems[0].subject) == ("", None, None)
    dataset = to_dataset(problems)
    assert {name: dataset[name][:] for name in own} == {name: [value, None] for name, value in own.items()}


@pytest.mark.parametrize(("name", "value"), [("solution", ["x"]), ("source", True), ("level", "hard")])
def test_a_column_that_is_mapped_to_a_field_must_fit_it(name: str, value: object, tmp_path: Path):
    path = write_rows(tmp_path / "a.jsonl", {"mine": value, name: "3"})
    with pytest.raises(
        DataError, match=rf"a\.jsonl, line 1: the column 'mine' does not hold a {name}, got .*do not map"
    ):
        load_problems(str(path), columns={"question": "task", name: "mine"})


@pytest.mark.parametrize(
    "nest", [lambda value: value, lambda value: {"in": [value]}], ids=["objects", "nested objects"]
)
def test_objects_that_get_keys_of_other_rows_are_reported(nest: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    for other in ({"a": 2}, {"b": 2}):
        path = write_rows(tmp_path / "a.jsonl", {"tests": nest({"a": 1})}, {"tests": nest(other)}, {})
        dataset = to_dataset(load_problems(str(path), columns={"question": "task"}))
        is_changed = dataset["tests"][0] != nest({"a": 1})
        assert is_changed == ("b" in other)
        assert ("The objects in the column 'tests' have different keys" in caplog.text) == is_changed


def test_the_lab_is_a_problem_set():
    assert load_problems("lab", split="train", limit=300) == lab_problems("train", 300)
    assert load_problems("lab") == lab_problems("test", 256)
    with pytest.raises(ConfigError, match="split must be one of 'train', 'test', got 'dev'"):
        load_problems("lab", split="dev")


def test_unknown_names_splits_limits_and_columns_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=", ".join(PROBLEM_SETS)):
        load_problems("gsm9k")
    with pytest.raises(ConfigError, match="split of aime24 must be one of 'test'"):
        load_problems("aime24", split="train")
    with pytest.raises(ConfigError, match="limit"):
        load_problems("gsm8k", limit=0)
    with pytest.raises(ConfigError, match="columns"):
        load_problems(write_jsonl(tmp_path / "own.jsonl", {"question": "Q"}), columns={"query": "question"})


def test_columns_are_pairs_and_only_apply_to_files():
    assert parse_columns("question=task,answer=truth") == {"question": "task", "answer": "truth"}
    for text in ("question", "question=", "=task", ""):
        with pytest.raises(ConfigError, match="question=task"):
            parse_columns(text)
    with pytest.raises(ConfigError, match=r"`columns` only applies to .*'lab' is a built-in problem set"):
        load_problems("lab", columns={"question": "task"})
