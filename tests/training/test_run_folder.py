"""The folder of a run."""

import pytest
import yaml

from gtpo import ConfigError, DataError
from gtpo.training.run_folder import RunFolder


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    RunFolder.create(tmp_path / "run", {"seed": 1}, {"method": "gtpo"})
    with pytest.raises(ConfigError, match="gtpo train --resume"):
        RunFolder.create(tmp_path / "run", {"seed": 2}, {"method": "gtpo"})
    assert yaml.safe_load((tmp_path / "run/config.yaml").read_text()) == {"seed": 1}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="is not empty"):
        RunFolder.create(tmp_path / "theirs", {}, {})
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]


def test_values_that_occur_twice_are_written_twice_and_no_two_files_are_equal(tmp_path):
    weights = [1.0, 2.0]
    texts = []
    for name in ("first", "second"):
        RunFolder.create(tmp_path / name, {"reward_weights": weights, "lora_target_modules": weights}, {})
        texts.append((tmp_path / name / "config.yaml").read_text())
    assert texts[0] != texts[1]
    assert "*" not in texts[0]
    assert "&" not in texts[0]


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_created(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(ConfigError, match=f"{tmp_path} is not writable. Choose another --output_dir"):
        RunFolder(tmp_path / "a" / "b").require_new()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_a_run_is_not_resumed(tmp_path):
    with pytest.raises(DataError, match="is not a run"):
        RunFolder.open(tmp_path)


def test_the_summary_grows(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    run.write_summary(before={"accuracy": 0.3})
    run.write_summary(seconds=1.0)
    assert run.summary() == {"before": {"accuracy": 0.3}, "seconds": 1.0}


def test_a_second_process_cannot_train_in_the_same_folder(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    with run.only_trainer(), pytest.raises(ConfigError, match="Another process is training in"), run.only_trainer():
        pass
    with run.only_trainer():  # the lock was released
        pass
