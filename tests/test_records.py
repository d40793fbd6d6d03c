"""Records survive what a killed process leaves behind."""

import json
import math

import pytest

from gtpo import DataError
from gtpo.files import JsonLines, is_number, parse_json
from tests.reading import read_groups, read_metrics


def test_a_torn_last_line_is_skipped_with_a_note_and_not_glued_to_the_next(tmp_path):
    records = JsonLines(tmp_path / "metrics.jsonl")
    records.append({"step": 1})
    records.path.open("a").write('{"step": 2, "lo')
    skipped = []
    assert [row["step"] for row in records.rows(lambda *note: skipped.append(note))] == [1]
    assert skipped[0][0] == 2
    records.append({"step": 2})
    assert [row["step"] for row in records.rows()] == [1, 2]


def test_numbers_that_are_not_finite_become_null(tmp_path):
    records = JsonLines(tmp_path / "metrics.jsonl")
    records.append({"step": 1, "loss": math.nan, "nested": {"worst": [math.inf, 1.0]}})
    assert json.loads(records.path.read_text()) == {"step": 1, "loss": None, "nested": {"worst": [None, 1.0]}}


def test_any_text_is_one_line(tmp_path):
    records = JsonLines(tmp_path / "x.jsonl")
    text = "a\nb\u2028c\ud800</script>\x00"
    records.append({"step": 1, "text": text})
    assert records.path.read_bytes().count(b"\n") == 1
    assert next(iter(records.rows()))["text"] == text


def test_cutting_back_keeps_what_came_before(tmp_path):
    records = JsonLines(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        records.append({"step": step})
    records.truncate_after(2)
    assert [row["step"] for row in records.rows()] == [1, 2]
    JsonLines(tmp_path / "absent.jsonl").truncate_after(1)
    assert not (tmp_path / "absent.jsonl").exists()


def test_a_folder_that_is_no_run_and_another_schema_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"is not a run: it has no metrics\.jsonl"):
        read_metrics(tmp_path)
    (tmp_path / "groups.jsonl").write_text('{"schema": 99}\n')
    with pytest.raises(DataError, match="has schema 99"):
        read_groups(tmp_path)


def test_lines_that_json_itself_chokes_on_are_skipped_like_torn_ones(tmp_path):
    records = JsonLines(tmp_path / "metrics.jsonl")
    deep, long = "[" * 200_000, f'{{"step": {"1" * 5000}}}'
    records.path.write_text(f'{deep}\n{{"step": 1}}\n{long}\n')
    skipped = []
    assert [row["step"] for row in records.rows(lambda *note: skipped.append(note))] == [1]
    assert [number for number, _ in skipped] == [1, 3]
    with pytest.raises(ValueError, match="nest too deep"):
        parse_json(deep)
    with pytest.raises(ValueError, match="must be text, in quotes"):
        parse_json(long)


def test_what_does_not_fit_a_float_is_no_number():
    assert all(map(is_number, (0, -1.5, 10**30, 3e38, 5e-324)))
    assert not any(map(is_number, (10**400, -(10**400), 1e308, math.inf, math.nan, True, "1", None, [1])))


def test_cutting_back_drops_rows_whose_step_is_no_number_and_keeps_the_others_as_they_were(tmp_path):
    path = tmp_path / "metrics.jsonl"
    good = b'{"step": 1, "loss": NaN, "name": "\xc3\xa9"}\n'
    odd = b'{"step": null}\n{"step": "x"}\n{"step": true}\n{"loss": 1}\n[1]\n{"step": 1e999}\n'
    path.write_bytes(odd + good + b'{"step": 3}\n{"step": 2, "seconds": null}')
    JsonLines(path).truncate_after(2)
    assert path.read_bytes() == good + b'{"step": 2, "seconds": null}\n'


def test_a_group_of_the_wrong_types_is_refused_where_it_is_read(tmp_path):
    (tmp_path / "groups.jsonl").write_text('{"schema": 1, "step": "x", "prompt": "p", "completions": [1]}\n')
    with pytest.raises(DataError, match="missing or do not fit together"):
        read_groups(tmp_path)
