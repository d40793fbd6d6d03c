"""Reading JSON Lines and Parquet: what is accepted, and errors that name the file, the line and the remedy."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gtpo.errors import DataError
from gtpo.problems import Problem, load_problems
from tests.problems.jsonl import write_jsonl


def test_a_byte_order_mark_is_not_part_of_the_first_row(tmp_path: Path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"question": "2 + 3?", "answer": 5}\r\n')
    assert load_problems(path) == [Problem("2 + 3?", "5", "mine")]


def test_blank_lines_are_skipped_and_nan_in_an_optional_column_means_missing(tmp_path: Path):
    row = '{"question": "?", "answer": 5, "solution": NaN, "subject": NaN}'
    assert load_problems(write_jsonl(tmp_path / "mine.jsonl", "", row, " ")) == [Problem("?", "5", "mine")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"question": "?", "answer": "5"}\n{"question": "caf\xe9?", "answer": "5"}\n', "mine.json is not UTF-8"),
        (b'[{"question": "?", "answer": "5"}]', "each line must be a JSON object"),
        (b'[\n  {"question": "?", "answer": "5"}\n]', "Write one object per line"),
    ],
)
def test_files_that_are_not_json_lines_are_refused(content: bytes, complaint: str, tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        load_problems(path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{not json", "cannot parse this as JSON"),
        ('["a list"]', "each line must be a JSON object"),
        ('{"question": "Q"}', "this row has no 'answer', only question"),
        ('{"question": "\\ud800", "answer": "1"}', "the column 'question' is not valid Unicode"),
        ('{"question": "Q", "answer": ""}', "the column 'answer' must hold text, got ''"),
        ('{"question": "Q", "answer": null}', "the column 'answer' must hold text, got None"),
        ('{"question": "Q", "answer": ["1"]}', "the column 'answer' must hold text, got ['1']"),
        ('{"question": "Q", "answer": true}', "the column 'answer' must hold text, got True"),
        ('{"question": "Q", "answer": NaN}', "the column 'answer' must hold text, got None"),
    ],
)
def test_the_error_for_a_broken_row_names_file_line_and_remedy(line: str, complaint: str, tmp_path: Path):
    path = write_jsonl(tmp_path / "gsm8k_test.jsonl", {"question": "Q", "answer": "1"}, line)
    for load in (lambda: load_problems(path), lambda: load_problems("gsm8k", data_dir=tmp_path)):
        with pytest.raises(DataError) as error:
            load()
        assert f"{path}, line 2: {complaint}" in str(error.value)
        assert any(remedy in str(error.value) for remedy in ("Fix", "Write one object per line", "--columns"))


def test_a_complete_solution_is_not_a_gold_answer(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"question": "?", "answer": "3 + 4 = 7\n#### 7"})
    with pytest.raises(DataError, match="line 1: the answer contains '####'"):
        load_problems(path)


def test_missing_and_damaged_files_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"absent\.jsonl does not exist"):
        load_problems(tmp_path / "absent.jsonl")
    path = tmp_path / "problems.parquet"
    pq.write_table(pa.table({"question": ["1 + 1?"] * 8, "answer": ["2"] * 8}), path)
    good = path.read_bytes()
    for damaged in (b"not parquet", good[:8] + b"\xff" * 200 + good[208:], good[:-20] + b"\xff" * 12 + good[-8:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"problems\.parquet is not a Parquet file, or is damaged"):
            load_problems(path)


def test_the_error_for_a_row_of_a_parquet_file_names_the_row(tmp_path: Path):
    pq.write_table(pa.table({"question": ["1 + 1?", "1 + 2?"], "answer": ["2", None]}), tmp_path / "mine.parquet")
    with pytest.raises(DataError, match=r"mine\.parquet, row 2: the column 'answer' must hold text, got None"):
        load_problems(tmp_path / "mine.parquet")
