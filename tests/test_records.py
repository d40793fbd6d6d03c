"""Records survive what a killed process leaves behind."""

import json
import math

import pytest

from gtpo import DataError
from gtpo.records import RecordFile, read_groups, read_metrics


def test_a_torn_last_line_is_skipped_with_a_note_and_not_glued_to_the_next(tmp_path):
    records = RecordFile(tmp_path / "metrics.jsonl")
    records.append({"step": 1})
    records.path.open("a").write('{"step": 2, "lo')
    skipped = []
    assert [row["step"] for row in records.rows(lambda *note: skipped.append(note))] == [1]
    assert skipped[0][0] == 2
    records.append({"step": 2})
    assert [row["step"] for row in records.rows()] == [1, 2]


def test_numbers_that_are_not_finite_become_null(tmp_path):
    records = RecordFile(tmp_path / "metrics.jsonl")
    records.append({"step": 1, "loss": math.nan, "nested": {"worst": [math.inf, 1.0]}})
    assert json.loads(records.path.read_text()) == {"step": 1, "loss": None, "nested": {"worst": [None, 1.0]}}


def test_any_text_is_one_line(tmp_path):
    records = RecordFile(tmp_path / "x.jsonl")
    text = "a\nb\u2028c\ud800</script>\x00"
    records.append({"step": 1, "text": text})
    assert records.path.read_bytes().count(b"\n") == 1
    assert next(iter(records.rows()))["text"] == text


def test_cutting_back_keeps_what_came_before(tmp_path):
    records = RecordFile(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        records.append({"step": step})
    records.cut_back(2)
    assert [row["step"] for row in records.rows()] == [1, 2]
    RecordFile(tmp_path / "absent.jsonl").cut_back(1)
    assert not (tmp_path / "absent.jsonl").exists()


def test_a_folder_that_is_no_run_and_another_schema_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"is not a run: it has no metrics\.jsonl"):
        read_metrics(tmp_path)
    (tmp_path / "groups.jsonl").write_text('{"schema": 99}\n')
    with pytest.raises(DataError, match="has schema 99"):
        read_groups(tmp_path)
