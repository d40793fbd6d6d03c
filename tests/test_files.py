"""A lock is held by one process, and by none that was killed."""

import fcntl

import pytest

from gtpo.errors import ConfigError
from gtpo.files import locked


def test_the_second_is_refused_and_the_next_is_not(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock, "taken"), pytest.raises(ConfigError, match="taken"), locked(lock, "taken"):
        pass
    with locked(lock, "taken"):
        pass
    assert not lock.exists()


def test_a_lock_that_its_holder_has_just_removed_is_not_held(tmp_path, monkeypatch):
    lock = tmp_path / "lock"
    monkeypatch.setattr(fcntl, "flock", lambda file, how: lock.unlink())
    with pytest.raises(ConfigError, match="taken"), locked(lock, "taken"):
        pass


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch, caplog):
    def refuse(file, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "lock", "taken"):
        pass
    assert "has no locks" in caplog.text
