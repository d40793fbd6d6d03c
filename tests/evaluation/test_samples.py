"""A sample file takes any text, survives a cut at any byte, and refuses what does not fit."""

import dataclasses
import json
import re

import pytest

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.samples import Sample, append_samples, read_samples, start_or_resume

HEADER = {
    "gtpo_samples": 1,
    "model": "m",
    "engine": {"engine": "transformers"},
    "problems": {"name": "toy", "count": 3, "sha256": "0"},
    "settings": {"num_samples": 2, "temperature": 0.9, "top_p": 1.0, "max_new_tokens": 9, "seed": 0},
}
HOSTILE = [
    "plain",
    "\x00\x1b[2J\r\n\n\x7f\x85",
    "line\u2028separators\u2029and \ud800 a lone surrogate",
    '"}{\\n\\',
    "9" * 1_000_000,
    "",
]


def samples(texts=HOSTILE):
    return [Sample(i // 2, i % 2, "1", text, i + 1, False, 0.25) for i, text in enumerate(texts)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m" / "toy.jsonl"


def test_hostile_texts_round_trip_on_one_line_each(path):
    assert start_or_resume(path, HEADER, 2) == 0
    append_samples(path, samples())
    file = read_samples(path)
    assert file.samples == samples()
    assert file.header == HEADER
    assert path.read_bytes().isascii()
    assert path.read_bytes().count(b"\n") == 1 + len(HOSTILE)


def test_a_file_cut_at_any_byte_keeps_its_complete_batches(path, caplog):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples(["a", "b", "c", "d", "e"]))
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    sizes = {*range(0, len(content), 13), *(end + shift for end in ends for shift in (-1, 0, 1))}
    for size in sorted(sizes):
        path.write_bytes(content[:size])
        num_complete = sum(end <= size for end in ends) - 1
        num_kept = max(0, num_complete - num_complete % 2)
        assert start_or_resume(path, HEADER, 2) == num_kept
        assert path.read_bytes() == content[: ends[num_kept]]
    assert "dropped an unfinished last line" in caplog.text


def test_a_finished_file_keeps_a_small_last_batch(path):
    start_or_resume(path, HEADER, 4)
    append_samples(path, samples(["a", "b", "c", "d", "e", "f"]))
    assert start_or_resume(path, HEADER, 4) == 6


def test_other_settings_are_refused_by_name_and_the_file_is_unchanged(path):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples())
    before = path.read_bytes()
    other = HEADER | {"settings": HEADER["settings"] | {"temperature": 0.5}}
    with pytest.raises(ConfigError, match=r"settings\.temperature was 0\.9, is 0\.5.*--out"):
        start_or_resume(path, other, 2)
    assert path.read_bytes() == before


def test_a_file_with_the_first_problems_is_extended(path):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples())
    before = path.read_bytes().split(b"\n", 1)[1]
    more = HEADER | {"problems": {"name": "toy", "count": 5, "sha256": "1"}}
    with pytest.raises(ConfigError, match=r"\(--limit: the file is for 3 problems, not for 5\)"):
        start_or_resume(path, more, 2, lambda count: "others")
    assert start_or_resume(path, more, 4, lambda count: {3: "0"}[count]) == 4
    assert read_samples(path).header == more
    assert before.startswith(path.read_bytes().split(b"\n", 1)[1])
    assert len(read_samples(path).samples) == 4
    with pytest.raises(ConfigError, match="the file is for 5 problems, not for 3"):
        start_or_resume(path, HEADER, 2, lambda count: "0")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no header line"),
        (b"hello\n", "does not start with the header"),
        (b"[1]\n", "does not start with the header"),
        (b"\xff\xfe\n", "does not start with the header"),
        (json.dumps(HEADER | {"gtpo_samples": 2}).encode() + b"\n", "does not start with the header"),
        (json.dumps(HEADER).encode() + b'\n{"problem": 0}\n', "line 2 is damaged"),
        (json.dumps(HEADER).encode() + b"\n\x00\x00\x00\n", "line 2 is damaged"),
        (
            json.dumps(HEADER).encode() + b"\n" + b"[" * 200_000 + b"\n",
            r"line 2 is damaged \(too many nested brackets",
        ),
        (json.dumps(HEADER).encode() + b"\n[1]\n", r"line 2 is damaged \(Expected `object`, got `array`"),
        (b"[" * 200_000 + b"\n", "does not start with the header"),
    ],
)
def test_a_file_that_is_not_a_sample_file_is_refused(tmp_path, content, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_samples(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("problem", True),
        ("num_tokens", -5),
        ("truncated", "x"),
        ("entropy", "x"),
        ("gold", None),
    ],
)
def test_a_sample_with_a_wrong_type_is_a_damaged_line(path, field, value):
    start_or_resume(path, HEADER, 2)
    append_samples(path, [dataclasses.replace(samples()[0], **{field: value})])
    with pytest.raises(DataError, match=rf"toy.jsonl, line 2 is damaged .* at `\$\.{field}`"):
        read_samples(path)


@pytest.mark.parametrize(
    ("part", "field", "value", "reason"),
    [
        ("problems", "count", None, "Object missing required field `count` - at `$.problems`"),
        ("problems", "count", 0, "Expected `int` >= 1 - at `$.problems.count`"),
        ("problems", "sha256", 5, "Expected `str`, got `int` - at `$.problems.sha256`"),
        ("settings", "temperature", None, "Object missing required field `temperature` - at `$.settings`"),
        ("settings", "temperature", "hot", "Expected `float`, got `str` - at `$.settings.temperature`"),
        ("settings", "num_samples", "1", "Expected `int`, got `str` - at `$.settings.num_samples`"),
    ],
)
def test_a_damaged_header_is_refused_with_its_field(tmp_path, part, field, value, reason):
    header = HEADER | {part: HEADER[part] | {field: value}}
    if value is None:
        del header[part][field]
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(DataError, match=re.escape(f"{path} has a damaged header: {reason}")):
        read_samples(path)


def test_a_missing_line_is_refused(path):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples(["a", "b", "c", "d"]))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:2] + lines[3:]))
    with pytest.raises(DataError, match="line 3: expected sample 1 of problem 0, got sample 0 of problem 1"):
        read_samples(path)


def test_paths_that_cannot_be_read_or_written_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"Cannot read .*: No such file"):
        read_samples(tmp_path / "none.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"Cannot write .*--out"):
        start_or_resume(tmp_path / "file" / "m" / "toy.jsonl", HEADER, 2)
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match=r"Cannot write .*--out"):
        start_or_resume(tmp_path / "folder.jsonl", HEADER, 2)
