"""Files survive interruptions, second writers and damaged lines."""

import errno
import fcntl
import json
import math
import os

import pytest

from gtpo.errors import ConfigError
from gtpo.files import JsonLines, is_number, locked, parse_json, write_atomic, writing


@pytest.fixture
def metrics(tmp_path):
    return JsonLines(tmp_path / "metrics.jsonl")


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    write_atomic(path, "old")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_text() == "old"


def test_a_link_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("page.html", "page.html.partial"):
        (tmp_path / name).symlink_to(victim)
    write_atomic(tmp_path / "page.html", "page")
    assert victim.read_text() == "mine"
    assert (tmp_path / "page.html").read_text() == "page"


def test_the_new_content_is_on_disk_before_it_replaces_the_old_and_the_name_after(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (events.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("rename"), replace(*paths)))
    write_atomic(tmp_path / "state.json", "new")
    assert events == [str(tmp_path / "state.json.partial"), "rename", str(tmp_path)]


def test_a_file_system_that_cannot_sync_a_folder_is_accepted_and_a_failing_disk_is_not(tmp_path, monkeypatch):
    def fail(file):
        raise OSError(code, "refused")

    monkeypatch.setattr(os, "fsync", fail)
    code = errno.EINVAL
    write_atomic(tmp_path / "state.json", "new")
    code = errno.EIO
    with pytest.raises(OSError, match="refused"):
        write_atomic(tmp_path / "state.json", "newer")
    assert (tmp_path / "state.json").read_text() == "new"


def test_a_path_that_cannot_be_written_is_a_config_error_with_a_remedy(tmp_path):
    path = tmp_path / "missing" / "page.html"
    message = r"Cannot write .*page\.html: No such file or directory\. Use --out\."
    with pytest.raises(ConfigError, match=message), writing(path, "Use --out."):
        path.write_text("x")


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock, "taken"), pytest.raises(ConfigError, match="taken"), locked(lock, "taken"):
        pass
    with locked(lock, "taken"):
        pass


def test_a_file_system_without_locks_is_logged(tmp_path, monkeypatch, caplog):
    def refuse(file, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "lock", "taken"):
        pass
    assert "no locks here" in caplog.text


def test_a_torn_last_line_is_skipped_and_not_joined_to_the_next(metrics):
    metrics.append({"step": 1})
    metrics.path.open("a").write('{"step": 2, "lo')
    skipped = []
    assert [row["step"] for row in metrics.rows(skipped.append)] == [1]
    assert skipped == ["not a complete JSON line (was the run killed here?)"]
    metrics.append({"step": 2})
    assert [row["step"] for row in metrics.rows()] == [1, 2]


def test_numbers_that_are_not_finite_become_null(metrics):
    metrics.append({"step": 1, "loss": math.nan, "nested": {"worst": [math.inf, 1.0]}})
    assert json.loads(metrics.path.read_text()) == {"step": 1, "loss": None, "nested": {"worst": [None, 1.0]}}


def test_any_text_stays_on_one_line(metrics):
    text = "a\nb\u2028c\ud800</script>\x00"
    metrics.append({"step": 1, "text": text})
    assert metrics.path.read_bytes().count(b"\n") == 1
    assert next(metrics.rows())["text"] == text


def test_lines_that_json_cannot_parse_are_skipped_like_torn_ones(metrics):
    deep, long = "[" * 200_000, f'{{"step": {"1" * 5000}}}'
    metrics.path.write_text(f'{deep}\n{{"step": 1}}\n{long}\n[1]\n')
    skipped = []
    assert [row["step"] for row in metrics.rows(skipped.append)] == [1]
    assert len(skipped) == 3
    for text in (deep, long):
        with pytest.raises(ValueError):  # noqa: PT011 - what matters is that it is not a RecursionError
            parse_json(text)


def test_truncating_keeps_earlier_rows_byte_for_byte_and_drops_rows_without_a_step(metrics):
    good = b'{"step": 1, "loss": NaN, "name": "\xc3\xa9"}\n'
    odd = b'{"step": null}\n{"step": "x"}\n{"step": true}\n{"loss": 1}\n[1]\n{"step": 1e999}\n'
    metrics.path.write_bytes(odd + good + b'{"step": 3}\n{"step": 2, "seconds": null}')
    metrics.truncate_after(2)
    assert metrics.path.read_bytes() == good + b'{"step": 2, "seconds": null}\n'


def test_truncating_a_missing_file_creates_none(metrics):
    metrics.truncate_after(1)
    assert not metrics.path.exists()


def test_a_backup_gets_the_next_free_name_and_an_empty_file_needs_none(metrics):
    for step in (1, 2):
        metrics.append({"step": step})
        metrics.back_up()
    metrics.path.touch()
    metrics.back_up()
    names = {path.name: path.read_text() for path in metrics.path.parent.iterdir()}
    assert names == {
        "metrics.earlier-1.jsonl": '{"step": 1}\n',
        "metrics.earlier-2.jsonl": '{"step": 2}\n',
        "metrics.jsonl": "",
    }


def test_what_does_not_fit_a_float_is_not_a_number():
    assert all(map(is_number, (0, -1.5, 10**30, 3e38, 5e-324)))
    assert not any(map(is_number, (10**400, -(10**400), 1e308, math.inf, math.nan, True, "1", None, [1])))
