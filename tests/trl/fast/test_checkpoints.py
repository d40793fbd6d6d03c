"""Damaged checkpoints are detected, skipped with a reason and kept; the newest survives rotation and power cuts."""

import hashlib
import json
import os
import shutil

import pytest

from gtpo.errors import ConfigError, DataError
from gtpo.trl.fast.checkpoints import (
    begin_checkpoint,
    complete_checkpoint,
    damage_of,
    resume_given,
    resume_newest,
    rotate_checkpoints,
)

STATE = {"global_step": 2, "epoch": 0.5, "max_steps": 8, "num_train_epochs": 2}


def write_checkpoint(run, step, *, is_complete=True):
    folder = run / f"checkpoint-{step}"
    begin_checkpoint(folder)
    (folder / "model.safetensors").write_bytes(os.urandom(1000))
    (folder / "optimizer.pt").write_bytes(os.urandom(2000))
    (folder / "shards").mkdir()
    (folder / "shards/0.distcp").write_bytes(os.urandom(100))
    (folder / "rollouts_0.pt").write_bytes(os.urandom(100))
    (folder / "trainer_state.json").write_text(json.dumps(STATE))
    if is_complete:
        complete_checkpoint(folder, 1)
    return folder


def write_stock_checkpoint(run, step):
    """A checkpoint as stock TRL writes it."""
    folder = write_checkpoint(run, step)
    for name in ("complete", "rollouts_0.pt"):
        (folder / name).unlink()
    return folder


@pytest.fixture
def run(tmp_path):
    """Three complete checkpoints."""
    for step in (2, 4, 10):
        write_checkpoint(tmp_path, step)
    return tmp_path


def names(run):
    return sorted(path.name for path in run.iterdir())


def flip(path):
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


def use_sizes_only(checkpoint):
    """Rewrite a marker as earlier versions wrote it."""
    marker = json.loads((checkpoint / "complete").read_text().splitlines()[0])
    (checkpoint / "complete").write_text(json.dumps({name: marker[name] for name in ("num_processes", "files")}))


DAMAGES = {
    "optimizer.pt is missing": lambda folder: (folder / "optimizer.pt").unlink(),
    "optimizer.pt has 7 bytes instead of 2000": lambda folder: (folder / "optimizer.pt").write_bytes(b"damaged"),
    "model.safetensors changed after the checkpoint was written": lambda folder: flip(folder / "model.safetensors"),
    "shards/0.distcp changed after the checkpoint was written": lambda folder: flip(folder / "shards/0.distcp"),
    "its file 'complete' is empty or cannot be parsed": lambda folder: (folder / "complete").write_bytes(b""),
    "its file 'complete' is missing": lambda folder: (folder / "complete").unlink(),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_with_its_reason_and_kept(reason, run, caplog):
    DAMAGES[reason](run / "checkpoint-10")
    before = {path.name for path in (run / "checkpoint-10").iterdir()}
    assert resume_newest(run, 1, or_start=False) == run / "checkpoint-4"
    expected = (
        f"Skipped checkpoint-10 ({reason}; renamed to damaged-1-checkpoint-10) in {run}. Resuming from checkpoint-4."
    )
    assert [record.message for record in caplog.records] == [expected]
    assert names(run) == ["checkpoint-2", "checkpoint-4", "damaged-1-checkpoint-10"]
    assert {path.name for path in (run / "damaged-1-checkpoint-10").iterdir()} == before


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_checkpoint_given_by_path_is_an_error_that_names_an_intact_one(reason, run):
    DAMAGES[reason](run / "checkpoint-10")
    (run / "checkpoint-4/optimizer.pt").unlink()
    with pytest.raises(DataError) as error:
        resume_given(run, run / "checkpoint-10", 1)
    expected = f"{run / 'checkpoint-10'} is damaged: {reason}. Resume from {run / 'checkpoint-2'}, which is intact."
    assert str(error.value) == expected
    assert names(run) == ["checkpoint-10", "checkpoint-2", "checkpoint-4"]


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"files": {}}', b"\x00" * 40, b"[" * 10**5, b'{"a":' * 10**5, b"\xff"], ids=range(7)
)
def test_a_marker_that_cannot_be_parsed_is_damage(content, run):
    (run / "checkpoint-4/complete").write_bytes(content)
    assert damage_of(run / "checkpoint-4") == "its file 'complete' is empty or cannot be parsed"


def test_changed_missing_and_truncated_bytes_of_a_marker_are_noticed(run):
    marker = run / "checkpoint-4/complete"
    content = marker.read_bytes()
    for place in [*range(24), *range(24, len(content), 13)]:
        start, byte, rest = content[:place], content[place], content[place + 1 :]
        for damaged in (start + bytes([byte ^ 3]) + rest, start + rest, start):
            marker.write_bytes(damaged)
            assert damage_of(run / "checkpoint-4") is not None


def test_a_marker_that_names_files_outside_the_checkpoint_opens_none_of_them(run):
    for name in ("/dev/zero", "../checkpoint-2/optimizer.pt"):
        line = json.dumps({"num_processes": 1, "files": {name: 0}, "sha256": {name: "0"}})
        checksum = hashlib.sha256(line.encode()).hexdigest()
        (run / "checkpoint-4/complete").write_text(f"{line}\n{checksum}")
        assert damage_of(run / "checkpoint-4") == f"{name} is missing"


def test_files_added_later_and_other_times_are_no_damage(run):
    (run / "checkpoint-4/notes.txt").write_text("my favourite")
    (run / "checkpoint-4/evaluation").mkdir()
    (run / "checkpoint-4/evaluation/results.json").write_text("{}")
    (run / "checkpoint-4/incomplete").touch()  # killed right after the marker was written
    os.utime(run / "checkpoint-4/model.safetensors", (0, 0))
    assert damage_of(run / "checkpoint-4") is None
    assert damage_of(shutil.copytree(run / "checkpoint-4", run / "copied")) is None


def test_a_marker_with_sizes_only_still_works(run):
    use_sizes_only(run / "checkpoint-10")
    assert resume_newest(run, 1, or_start=False) == run / "checkpoint-10"
    state = run / "checkpoint-10/trainer_state.json"
    for content in ("{", "[]", '{"unknown": 1}', '{"epoch": "x"}'):
        state.write_text(content.ljust(state.stat().st_size))
        assert "its trainer_state.json" in str(damage_of(run / "checkpoint-10"))
    (run / "checkpoint-4/optimizer.pt").write_bytes(b"")
    use_sizes_only(run / "checkpoint-4")
    assert resume_newest(run, 1, or_start=False) == run / "checkpoint-2"


def test_only_a_fragment_whose_writing_was_interrupted_is_deleted(run, caplog):
    (write_checkpoint(run, 12, is_complete=False) / "trainer_state.json").unlink()
    for name in ("checkpoint-keep", "checkpoint-4-backup"):
        (run / name).mkdir()
    (run / "checkpoint-99").write_text("a file")
    others = names(run)
    assert resume_newest(run, 1, or_start=False) == run / "checkpoint-10"
    assert "Skipped checkpoint-12 (its writing was interrupted; deleted)" in caplog.text
    assert names(run) == [name for name in others if name != "checkpoint-12"]


def test_a_checkpoint_that_another_trainer_completed_after_a_kill_is_kept(run, caplog):
    write_checkpoint(run, 12, is_complete=False)
    assert resume_newest(run, 1, or_start=False) == run / "checkpoint-10"
    assert "Skipped checkpoint-12 (its writing was interrupted; renamed to damaged-1-checkpoint-12)" in caplog.text


def test_files_that_exist_only_while_a_checkpoint_is_written_are_not_listed(run):
    checkpoint = run / "checkpoint-10"
    begin_checkpoint(checkpoint)
    temporary = [checkpoint / "checkpoint-is-incomplete.txt", checkpoint / "complete.partial"]
    for path in temporary:
        path.touch()
    complete_checkpoint(checkpoint, 1)
    for path in temporary:
        path.unlink(missing_ok=True)
    assert damage_of(checkpoint) is None


def test_without_an_intact_checkpoint_a_run_starts_or_is_refused(run, caplog):
    for folder in run.iterdir():
        (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no complete checkpoint .*checkpoint-4: model.safetensors is missing\..*"):
        resume_newest(run, 1, or_start=False)
    assert len(names(run)) == 3
    assert resume_newest(run, 1, or_start=True) is None
    assert "No intact checkpoint is left: training from the start." in caplog.text
    assert names(run) == ["damaged-1-checkpoint-10", "damaged-1-checkpoint-2", "damaged-1-checkpoint-4"]


def test_damaged_checkpoints_of_the_same_step_are_all_kept(run):
    for number in (1, 2):
        (run / "checkpoint-10/optimizer.pt").unlink()
        resume_newest(run, 1, or_start=False)
        assert (run / f"damaged-{number}-checkpoint-10").is_dir()
        write_checkpoint(run, 10)


def test_resuming_from_an_older_checkpoint_keeps_the_later_ones_under_another_name(run, caplog):
    assert resume_given(run, run / "checkpoint-4", 1) == run / "checkpoint-4"
    assert names(run) == ["checkpoint-2", "checkpoint-4", "earlier-1-checkpoint-10"]
    assert "checkpoint-10 (renamed to earlier-1-checkpoint-10)" in caplog.text
    resume_given(run, run / "earlier-1-checkpoint-10", 1)  # another run's: everything here is in the way
    assert names(run) == ["earlier-1-checkpoint-10", "earlier-2-checkpoint-2", "earlier-2-checkpoint-4"]


def test_a_checkpoint_of_stock_trl_is_used_with_a_warning(tmp_path, caplog):
    write_stock_checkpoint(tmp_path, 4)
    newest = write_stock_checkpoint(tmp_path, 10)
    assert resume_given(tmp_path, newest, 3) == newest
    assert f"{newest} has no file 'complete': whether it is damaged cannot be checked" in caplog.text
    (newest / "trainer_state.json").write_text("{")
    with pytest.raises(DataError, match=r"cannot be parsed. Resume from .*checkpoint-4, which cannot be verified"):
        resume_given(tmp_path, newest, 1)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: os.truncate(folder / "trainer_state.json", 9), "its trainer_state.json is missing or cannot"),
        (lambda folder: (folder / "trainer_state.json").unlink(), "its trainer_state.json is missing or cannot"),
        (lambda folder: (folder / "checkpoint-is-incomplete.txt").touch(), "its writing was interrupted"),
        (lambda folder: (folder / "rollouts_0.pt").touch(), "its file 'complete' is missing"),  # one of ours
    ],
)
def test_a_run_of_stock_trl_is_resumed_from_its_newest_readable_checkpoint(damage, reason, tmp_path, caplog):
    write_stock_checkpoint(tmp_path, 2)
    write_stock_checkpoint(tmp_path, 4)
    newest = write_stock_checkpoint(tmp_path, 10)
    damage(newest)
    with pytest.raises(DataError, match=reason):
        resume_given(tmp_path, newest, 1)
    assert resume_newest(tmp_path, 1, or_start=False) == tmp_path / "checkpoint-4"
    assert "checkpoint-4 has no file 'complete': whether it is damaged cannot be checked" in caplog.text
    assert f"Skipped checkpoint-10 ({reason}" in caplog.text
    assert names(tmp_path) == ["checkpoint-2", "checkpoint-4", "damaged-1-checkpoint-10"]


def test_a_damaged_checkpoint_after_one_of_stock_trl_is_skipped_with_its_reason(tmp_path, caplog):
    write_stock_checkpoint(tmp_path, 2)
    flip(write_checkpoint(tmp_path, 4) / "model.safetensors")
    assert resume_newest(tmp_path, 1, or_start=False) == tmp_path / "checkpoint-2"
    assert "Skipped checkpoint-4 (model.safetensors changed after" in caplog.text
    assert names(tmp_path) == ["checkpoint-2", "damaged-1-checkpoint-4"]


def test_an_intact_checkpoint_or_a_start_is_preferred_to_a_checkpoint_of_stock_trl(tmp_path, caplog):
    write_stock_checkpoint(tmp_path, 8)
    assert resume_newest(tmp_path, 1, or_start=True) is None
    skipped = "Skipped checkpoint-8 (it has no file 'complete' with checksums; renamed to damaged-{}-checkpoint-8)"
    assert skipped.format(1) in caplog.text
    assert "training from the start" in caplog.text
    write_checkpoint(tmp_path, 2)
    write_stock_checkpoint(tmp_path, 8)
    assert resume_newest(tmp_path, 1, or_start=False) == tmp_path / "checkpoint-2"
    assert skipped.format(2) in caplog.text


def test_a_marker_can_be_written_again(run):
    (run / "checkpoint-10/complete").write_bytes(b"")
    complete_checkpoint(run / "checkpoint-10", 1)
    assert resume_newest(run, 1, or_start=False) == run / "checkpoint-10"


def test_a_folder_that_does_not_exist_is_an_error_that_names_an_intact_one(run):
    with pytest.raises(DataError, match=r"There is no checkpoint .*checkpoint-11\. Resume from .*checkpoint-10"):
        resume_given(run, run / "checkpoint-11", 1)


@pytest.mark.parametrize("seconds", [-1e6, 1e6])
def test_rotation_keeps_the_highest_steps_whatever_the_clock_says(seconds, run):
    for step in (2, 4):
        moment = (run / "checkpoint-10").stat().st_mtime + seconds
        os.utime(run / f"checkpoint-{step}", (moment, moment))
    (run / "checkpoint-1-backup").mkdir()
    rotate_checkpoints(run / "checkpoint-10", None, None)
    rotate_checkpoints(run / "checkpoint-10", 2, None)
    assert names(run) == ["checkpoint-1-backup", "checkpoint-10", "checkpoint-4"]
    rotate_checkpoints(run / "checkpoint-10", 1, None)
    assert names(run) == ["checkpoint-1-backup", "checkpoint-10"]


def test_rotation_keeps_the_best_and_the_one_just_written(run):
    rotate_checkpoints(run / "checkpoint-4", 1, str(run / "checkpoint-2"))
    assert names(run) == ["checkpoint-2", "checkpoint-4"]


@pytest.mark.parametrize("deleted", [[], ["complete", "incomplete", "rollouts_0.pt"]], ids=["nothing", "the signs"])
def test_what_an_interrupted_rotation_leaves_is_not_resumed_from(deleted, run, monkeypatch):
    def interrupted(folder, **options):
        for name in deleted:
            (folder / name).unlink(missing_ok=True)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        rotate_checkpoints(run / "checkpoint-10", 1, None)
    flip(run / "checkpoint-10/model.safetensors")
    with pytest.raises(ConfigError, match="There is no complete checkpoint"):
        resume_newest(run, 1, or_start=False)


def test_files_are_on_disk_before_the_marker_and_the_marker_before_the_checkpoint_counts(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path, 2, is_complete=False)
    (tmp_path / "metrics.jsonl").write_text('{"step": 2}')
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (events.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("rename"), replace(*paths)))
    complete_checkpoint(folder, 1)
    rename = events.index("rename")
    content = {
        "model.safetensors",
        "optimizer.pt",
        "trainer_state.json",
        "shards",
        "shards/0.distcp",
        "complete.partial",
    }
    assert {str(tmp_path / "metrics.jsonl"), *(str(folder / name) for name in content)} <= set(events[:rename])
    assert events[rename + 1 :] == [str(folder), str(tmp_path)]
