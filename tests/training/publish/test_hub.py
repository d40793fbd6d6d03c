"""`push_to_hub` is checked before any work and uploads the files of RUN/model, against a stand-in for the hub."""

import os

import huggingface_hub
import pytest

from gtpo import ConfigError
from gtpo.cli.main import main
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.publish.hub import HubTarget, hub_target
from tests.cli.launching import SMALL

PUSH = ["--push_to_hub", "true"]
LORA = ["--use_peft", "true", "--lora_r", "4", "--lora_target_modules", "all-linear"]
TOKENIZER = ["chat_template.jinja", "tokenizer.json", "tokenizer_config.json"]
FILES = {
    "all weights": ([], ["README.md", "config.json", "generation_config.json", "model.safetensors", *TOKENIZER]),
    "an adapter": (LORA, ["README.md", "adapter_config.json", "adapter_model.safetensors", *TOKENIZER]),
}


class StandIn:
    """What would be sent to the hub, and what the hub answers."""

    def __init__(self):
        self.sent = []
        self.user = {"name": "me", "orgs": [{"name": "us"}]}

    def answer(self, what):
        self.sent.append(what)
        if isinstance(self.user, Exception):
            raise self.user
        return self.user


def files_below(folder):
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def hub(monkeypatch):
    stand_in = StandIn()
    api = huggingface_hub.HfApi
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(api, "whoami", lambda self: stand_in.answer("whoami"))
    monkeypatch.setattr(
        api, "create_repo", lambda self, repo, private, exist_ok: stand_in.answer(("create", repo, private))
    )
    monkeypatch.setattr(api, "create_branch", lambda self, repo, branch, exist_ok: stand_in.answer((repo, branch)))
    monkeypatch.setattr(
        api,
        "upload_folder",
        lambda self, repo_id, folder_path, revision, commit_message, **patterns: stand_in.answer(
            (repo_id, sorted(huggingface_hub.utils.filter_repo_objects(files_below(folder_path), **patterns)))
        ),
    )
    return stand_in


def target(*options):
    return hub_target(make_plan(None, parse_overrides([*PUSH, *options])))


@pytest.mark.parametrize(("options", "files"), FILES.values(), ids=FILES.keys())
def test_the_model_and_its_card_are_uploaded_and_nothing_else(options, files, hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    common = ["--max_steps", "2", "--save_steps", "1", "--log_completions", "true", "--hub_model_id", "us/sums"]
    assert main(["train", "--output_dir", "run", *SMALL, *PUSH, *common, *options]) == 0
    assert hub.sent == ["whoami", ("create", "us/sums", None), ("us/sums", sorted(files))]
    out, err = capsys.readouterr()
    assert out.endswith("Uploaded to https://huggingface.co/us/sums\n")
    assert ("others cannot load it" in err) == bool(options)
    for path in (tmp_path / "run/model").iterdir():
        assert b"hf_secret" not in path.read_bytes()
        assert str(tmp_path).encode() not in path.read_bytes()
    assert os.listdir("run/held_out")  # it exists, and stays here


def test_a_dry_run_checks_the_login_and_creates_nothing(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--dry-run", "--max_problems", "64", *PUSH]) == 0
    assert hub.sent == ["whoami"]


def test_the_name_is_that_of_the_run_in_the_users_own_space_by_default(hub):
    assert target("--output_dir", "runs/sums") == HubTarget("me/sums", None, None)
    options = ("--hub_model_id", "us/other", "--hub_private_repo", "true", "--hub_revision", "v2")
    private = target(*options, "--hub_strategy", "end")
    assert private == HubTarget("us/other", True, "v2")
    private.create()
    assert hub.sent[-2:] == [("create", "us/other", True), ("us/other", "v2")]
    assert target("--hub_model_id", "Me/sums").repo == "Me/sums"  # the hub ignores case


WRONG = {
    "checkpoints": (["--hub_strategy", "checkpoint"], "hub_strategy='checkpoint' is not supported. gtpo uploads the"),
    "a name": (["--hub_model_id", "a/b/c"], "hub_model_id is not a valid name of a repository: .*Set hub_model_id"),
    "a folder": (["--output_dir", "a--b"], "The name of the run's folder is not a valid name of a repository"),
    "somebody else": (["--hub_model_id", "them/sums"], "you can write to me, us, not to them"),
    "a token": (["--hub_token", "hf_secret"], "hub_token is not supported. Every option is written to config.yaml"),
    "a hasty push": (["--hub_always_push", "true"], "hub_always_push is not supported"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_uploaded_is_refused_before_any_work(options, message, hub):
    with pytest.raises(ConfigError, match=message):
        target(*options)
    assert not [entry for entry in hub.sent if entry != "whoami"]


def test_a_name_without_push_to_hub_has_no_effect_and_is_refused():
    with pytest.raises(ConfigError, match="hub_model_id has no effect without push_to_hub: true"):
        make_plan(None, parse_overrides(["--hub_model_id", "us/sums"]))


def test_a_hub_that_is_off_or_refuses_is_reported_before_any_work(hub, monkeypatch, tmp_path, capsys):
    hub.user = OSError("401 Unauthorized\nmore")
    with pytest.raises(ConfigError, match=r"the hub does not accept the login: 401 Unauthorized\. Check the network"):
        target()
    with pytest.raises(ConfigError, match=r"Cannot create us/sums on the hub: 401 Unauthorized\. Log in with a token"):
        HubTarget("us/sums", None, None).create()
    monkeypatch.setattr("gtpo.training.publish.hub.get_token", lambda: None)
    with pytest.raises(ConfigError, match="needs a login to the hub: run `hf auth login`, or set HF_TOKEN"):
        target()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert main(["train", "--output_dir", str(tmp_path / "run"), *PUSH]) == 2
    assert "HF_HUB_OFFLINE is set. Unset it, or upload RUN/model after training" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_failed_upload_keeps_the_run_and_prints_the_command(hub, tmp_path, capsys, monkeypatch):
    def fails(self, **_):
        raise OSError("connection lost")

    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", fails)
    run = tmp_path / "my run"
    options = ["--hub_model_id", "us/sums", "--max_steps", "1", "--held_out_problems", "0"]
    assert main(["train", "--output_dir", str(run), *SMALL, *PUSH, *options]) == 2
    out, err = capsys.readouterr()
    assert "1 steps in" in out
    assert f"was not uploaded: connection lost. Upload it with: hf upload us/sums '{run}/model'" in err
    assert (run / "model/README.md").is_file()
