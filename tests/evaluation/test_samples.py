"""The file of samples takes anything a model says, survives being cut anywhere, and refuses what does not fit."""

import dataclasses
import json

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


def test_hostile_texts_come_back_as_they_went_in_one_line_each(path):
    assert start_or_resume(path, HEADER, 2) == 0
    append_samples(path, samples())
    found = read_samples(path)
    assert found.samples == samples()
    assert found.header == HEADER
    assert path.read_bytes().isascii()
    assert path.read_bytes().count(b"\n") == 1 + len(HOSTILE)


def test_a_file_cut_at_any_byte_keeps_its_whole_batches(path, caplog):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples(["a", "b", "c", "d", "e"]))
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        num_whole = sum(end <= size for end in ends) - 1
        num_kept = max(0, num_whole - num_whole % 2)
        assert start_or_resume(path, HEADER, 2) == num_kept
        assert path.read_bytes() == content[: ends[num_kept]]
    assert "dropped an unfinished last line" in caplog.text


def test_a_finished_file_keeps_its_last_batch_however_small(path):
    start_or_resume(path, HEADER, 4)
    append_samples(path, samples(["a", "b", "c", "d", "e", "f"]))
    assert start_or_resume(path, HEADER, 4) == 6


def test_other_settings_are_refused_by_name_and_the_file_is_left_alone(path):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples())
    before = path.read_bytes()
    other = HEADER | {"settings": HEADER["settings"] | {"temperature": 0.5}}
    with pytest.raises(ConfigError, match=r"settings\.temperature was 0\.9, is 0\.5.*--out"):
        start_or_resume(path, other, 2)
    assert path.read_bytes() == before


def test_a_file_about_the_first_problems_goes_on_with_the_others(path):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples())
    before = path.read_bytes().split(b"\n", 1)[1]
    more = HEADER | {"problems": {"name": "toy", "count": 5, "sha256": "1"}}
    with pytest.raises(ConfigError, match=r"\(--limit: there were 3 problems, there are 5\)"):
        start_or_resume(path, more, 2, lambda count: "others")
    assert start_or_resume(path, more, 4, lambda count: {3: "0"}[count]) == 4
    assert read_samples(path).header == more
    assert before.startswith(path.read_bytes().split(b"\n", 1)[1])
    assert len(read_samples(path).samples) == 4
    with pytest.raises(ConfigError, match="there were 5 problems, there are 3"):
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
        (json.dumps(HEADER).encode() + b"\n" + b"[" * 200_000 + b"\n", r"line 2 is damaged \(its brackets nest"),
        (json.dumps(HEADER).encode() + b"\n[1]\n", r"line 2 is damaged \(it must have the fields problem"),
        (b"[" * 200_000 + b"\n", "does not start with the header"),
    ],
)
def test_a_file_that_is_no_file_of_samples_says_so(tmp_path, content, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_samples(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("problem", True),
        ("num_tokens", -5),
        ("num_tokens", 10**400),
        ("truncated", "x"),
        ("entropy", "x"),
        ("entropy", 10**400),
        ("gold", None),
    ],
)
def test_a_sample_of_the_wrong_types_is_a_damaged_line(path, field, value):
    start_or_resume(path, HEADER, 2)
    append_samples(path, [dataclasses.replace(samples()[0], **{field: value})])
    with pytest.raises(DataError, match=f"toy.jsonl, line 2 is damaged .{field} of the wrong type or range"):
        read_samples(path)


def test_a_lost_line_is_noticed(path):
    start_or_resume(path, HEADER, 2)
    append_samples(path, samples(["a", "b", "c", "d"]))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:2] + lines[3:]))
    with pytest.raises(DataError, match="line 3: expected sample 1 of problem 0, got 0 of 1"):
        read_samples(path)


def test_a_file_that_is_not_there_and_a_folder_that_cannot_be_made_say_so(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_samples(tmp_path / "none.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be made.*--out"):
        start_or_resume(tmp_path / "file" / "m" / "toy.jsonl", HEADER, 2)
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match=r"cannot be written.*--out"):
        start_or_resume(tmp_path / "folder.jsonl", HEADER, 2)
