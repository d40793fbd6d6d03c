"""What a run causes besides training is known before anything is imported, and runs that started here are known."""

import logging
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gtpo import ConfigError
from gtpo.training.config.recipe import Setting
from gtpo.training.config.settings import settings_of_run
from gtpo.training.run_folder import RunFolder
from gtpo.training.trust import effects, notices, remember, require_trusted

TRUSTING = {"push_to_hub": True}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A state folder of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def make_run(folder: Path, *, is_started_here: bool, **config):
    RunFolder.create(folder, config, {})
    if is_started_here:
        remember(folder, settings_of_run(folder))
    return folder


def check(folder, *, trusts_run=False):
    require_trusted(folder, settings_of_run(folder), trusts_run=trusts_run)


def resumes(folder):
    """Whether the run resumes without the flag."""
    try:
        check(folder)
    except ConfigError:
        return False
    return True


WITH_EFFECT = {
    "trust_remote_code": ("yes", "runs Python code that comes with the model lab"),
    "attn_implementation": ("nobody/kernel", "downloads a kernel"),
    "model_init_kwargs": ({"use_kernels": True}, "can load code"),
    "generation_kwargs": ("{}", "can load code"),
    "deepspeed": ("zero3.json", "DeepSpeed"),
    "report_to": (["wandb"], "sends metrics"),
    "push_to_hub": ("true", "uploads the model"),
    "log_completions_hub_repo": ("nobody/logs", "uploads completions"),
    "credit": ("json.tool:main", "the credit scheme json.tool:main is imported from "),
    "rewards": (["format", "json.tool:main"], f"json.tool:main is imported from {Path(os.__file__).parent / 'json'}"),
}


@pytest.mark.parametrize(("name", "value", "text"), [(name, *rest) for name, rest in WITH_EFFECT.items()])
def test_an_option_that_runs_code_or_sends_data_needs_trust(name, value, text, tmp_path):
    run = make_run(tmp_path / "run", is_started_here=False, **{name: value})
    with pytest.raises(ConfigError, match=r"run was not started here, .*add --trust-run") as error:
        check(run)
    assert text in str(error.value)


@pytest.mark.parametrize("name", ["log_completions_hub_repo", "deepspeed", "report_to"])
@pytest.mark.parametrize("value", ["n", "f", "no", "0", "false"])
def test_a_name_that_looks_like_false_needs_trust_too(name, value, tmp_path):
    with pytest.raises(ConfigError, match=f"{name}='{value}'"):
        check(make_run(tmp_path / "run", is_started_here=False, **{name: value}))


def test_an_attention_that_transformers_may_replace_with_a_kernel_needs_trust(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", is_started_here=False, attn_implementation="flash_attention_2")
    with pytest.raises(ConfigError, match="downloads a kernel"):
        check(run)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())  # flash_attn is installed
    check(run)


def test_the_config_of_a_run_cannot_extend_another_file(tmp_path):
    run = make_run(tmp_path / "run", is_started_here=True, seed=1)
    (run / "other.yaml").write_text("rewards: os:system")
    with (run / "config.yaml").open("a") as file:
        file.write("base: other.yaml\n")
    with pytest.raises(ConfigError, match="has an option base"):
        check(run)


def test_a_vllm_server_needs_trust(tmp_path):
    for name in ("vllm_server_base_url", "vllm_server_host"):
        run = make_run(tmp_path / name, is_started_here=False, use_vllm=True, **{name: "there"})
        with pytest.raises(ConfigError, match=f"{name}='there' sends prompts and weights"):
            check(run)


HARMLESS = {
    "trust_remote_code": "false",
    "attn_implementation": "sdpa",
    "report_to": "none",
    "push_to_hub": False,
    "rewards": "paper,format",
    "credit": "balanced",
    "model": "nobody/model",
    "seed": 5,
}


def test_other_runs_resume_without_trust(tmp_path):
    assert resumes(make_run(tmp_path / "run", is_started_here=False, **HARMLESS))
    assert resumes(make_run(tmp_path / "sft", is_started_here=False, method="sft", rewards="never:imported"))


def test_a_run_that_was_started_here_is_trusted_until_its_config_is_edited(tmp_path):
    run = make_run(tmp_path / "run", is_started_here=True, **TRUSTING)
    check(run)
    moved = Path(shutil.move(run, tmp_path / "moved"))
    check(moved)
    with (moved / "config.yaml").open("a") as file:
        file.write("hub_model_id: nobody/theirs\n")
    with pytest.raises(ConfigError, match=r"its config\.yaml was edited"):
        check(moved)


@pytest.mark.parametrize("option", ["rewards", "credit"])
def test_a_function_of_the_same_name_in_another_folder_is_refused(option, tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "their_scores.py").touch()
    monkeypatch.chdir(tmp_path / "first")
    run = make_run(tmp_path / "run", is_started_here=True, **{option: "their_scores:f"})
    check(run)
    monkeypatch.chdir(tmp_path / "second")
    with pytest.raises(ConfigError, match=r"imported from .*first/their_scores\.py when .* now from .*second/"):
        check(run)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="and now from nowhere"):
        check(run)
    check(run, trusts_run=True)


def test_a_run_from_elsewhere_that_only_trains_resumes_with_a_note(tmp_path, caplog):
    check(make_run(tmp_path / "run", is_started_here=False, seed=3))
    assert "run was not started here, or its config.yaml was edited since" in caplog.text


def test_a_run_of_somebody_else_with_the_same_settings_is_not_trusted(tmp_path):
    check(make_run(tmp_path / "mine", is_started_here=True, **TRUSTING))
    with pytest.raises(ConfigError, match="theirs was not started here"):
        check(make_run(tmp_path / "theirs", is_started_here=False, **TRUSTING))


def test_trust_is_remembered(tmp_path):
    run = make_run(tmp_path / "run", is_started_here=False, **TRUSTING)
    assert not resumes(run)
    check(run, trusts_run=True)
    assert resumes(run)


def test_a_state_folder_that_cannot_be_written_is_reported_and_the_flag_still_works(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/state")
    run = make_run(tmp_path / "run", is_started_here=True, **TRUSTING)
    assert "--resume will need --trust-run" in caplog.text
    with pytest.raises(ConfigError, match="add --trust-run"):
        check(run)
    check(run, trusts_run=True)
    caplog.clear()
    check(make_run(tmp_path / "plain", is_started_here=True))
    assert "--trust-run" not in caplog.text


def test_without_a_home_folder_the_flag_still_works(tmp_path, monkeypatch, caplog):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")  # to be ignored, says the standard
    monkeypatch.setattr(Path, "home", no_home)
    run = make_run(tmp_path / "run", is_started_here=True, **TRUSTING)
    assert caplog.records[0].levelno == logging.WARNING
    with pytest.raises(ConfigError, match="add --trust-run"):
        check(run)
    check(run, trusts_run=True)


def test_the_default_place_is_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    make_run(tmp_path / "run", is_started_here=True)
    assert len(list((tmp_path / ".local/state/gtpo/runs").iterdir())) == 1


def test_runs_that_start_at_the_same_time_are_all_remembered(tmp_path):
    folders = [tmp_path / f"run-{n}" for n in range(32)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda folder: make_run(folder, is_started_here=True, **TRUSTING), folders))
    assert all(map(resumes, folders))


def test_only_the_main_process_decides(tmp_path, monkeypatch):
    """The others may be on another machine with another state folder. They wait for the main process."""
    run = make_run(tmp_path / "run", is_started_here=False, **TRUSTING)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ConfigError):  # WORLD_SIZE is not set: a single process
        check(run)
    monkeypatch.setenv("WORLD_SIZE", "2")
    check(run)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ConfigError):
        check(run)


@pytest.mark.parametrize("engine", ["DEEPSPEED", "FSDP"])
def test_checkpoints_that_are_pickles_need_trust(engine, tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", is_started_here=False)
    check(run)
    monkeypatch.setenv(f"ACCELERATE_USE_{engine}", "true")
    with pytest.raises(ConfigError, match="with pickle"):
        check(run)
    monkeypatch.delenv(f"ACCELERATE_USE_{engine}")
    with pytest.raises(ConfigError, match="with pickle"):
        check(make_run(tmp_path / "by_option", is_started_here=False, fsdp="full_shard"))


def test_links_out_of_the_folder_need_trust(tmp_path):
    run = make_run(tmp_path / "run", is_started_here=False)
    (run / "inside").symlink_to(run / "config.yaml")
    check(run)
    (run / "train.log").symlink_to(tmp_path / ".bashrc")
    (run / "loop").symlink_to(run / "loop")
    with pytest.raises(ConfigError, match=r"train\.log is a link to .*\.bashrc, where files would be written"):
        check(run)


def test_effects_are_printed_unless_they_were_asked_for(tmp_path, monkeypatch):
    (tmp_path / "unread.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    settings = {
        "rewards": Setting("unread:f", "command line"),
        "grader": Setting("unread:g", "command line"),
        "push_to_hub": Setting(True, "command line"),
        "report_to": Setting("wandb", "r.yaml"),
    }
    assert notices(settings) == [
        "r.yaml: report_to='wandb' sends metrics to a tracker.",
        f"command line: the reward unread:f is imported from {tmp_path / 'unread.py'}.",
        f"command line: the grader unread:g is imported from {tmp_path / 'unread.py'}.",
    ]
    assert list(effects({"grader": Setting("unread:g", "r.yaml"), "method": Setting("sft", "r.yaml")})) == ["grader"]
    assert "nowhere:f is imported from nowhere" in effects({"rewards": Setting("nowhere:f", "r.yaml")})["rewards"]
