"""Uploading the final model of a run: checked before any work, then the files of RUN/model and nothing else.

transformers would upload the run's entire folder at every save: checkpoints with optimizer states, recorded groups
and held-out samples. Its own push is therefore turned off (`gtpo.training.session.make_trainer`).
"""

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.utils import HFValidationError, validate_repo_id

from gtpo.errors import ConfigError, DataError, shortened
from gtpo.models import find_model
from gtpo.training.config.plan import Plan
from gtpo.training.prepare import Prepared

logger = logging.getLogger(__name__)

ALLOWED = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "README.md"]
"""Files of a model folder that are uploaded: weights, settings, tokenizer and card."""


@dataclass(frozen=True)
class HubTarget:
    """A repository of the hub that this user may write to."""

    repo: str
    is_private: bool | None
    revision: str | None

    def create(self) -> None:
        """Create the repository unless it exists. A token that may not write fails here, before any work."""
        api = HfApi()
        try:
            api.create_repo(self.repo, private=self.is_private, exist_ok=True)
            if self.revision is not None:
                api.create_branch(self.repo, branch=self.revision, exist_ok=True)
        except Exception as error:  # the hub's client raises OSError, ValueError and its HTTP library's own errors
            remedy = "Log in with a token that may write (`hf auth login`), or choose another hub_model_id"
            raise ConfigError(f"Cannot create {self.repo} on the hub: {_reason(error)}. {remedy}.") from error

    def upload(self, model: Path) -> str:
        """Upload the files of a model folder, and return the address of the repository."""
        try:
            HfApi().upload_folder(
                repo_id=self.repo,
                folder_path=model,
                revision=self.revision,
                commit_message="Upload the trained model",
                allow_patterns=ALLOWED,
                ignore_patterns=["*/*"],
            )
        except Exception as error:
            command = f"hf upload {shlex.quote(self.repo)} {shlex.quote(str(model))}"
            command += f" --revision {shlex.quote(self.revision)}" if self.revision else ""
            raise DataError(
                f"The run is finished, but its model was not uploaded: {_reason(error)}. Upload it with: {command}"
            ) from error
        return f"{constants.ENDPOINT}/{self.repo}"


def hub_target(plan: Plan) -> HubTarget | None:
    """Where the model is uploaded; None without push_to_hub. Checks the login and the name, and creates nothing."""
    config = plan.config
    if not config.push_to_hub:
        return None
    strategy = str(plan.settings.get("hub_strategy", "end"))
    if strategy != "end":
        reason = "gtpo uploads the final model, once. Checkpoints contain the optimizer state and completions."
        raise ConfigError(f"hub_strategy={shortened(strategy)} is not supported. {reason} Leave it out.")
    if constants.HF_HUB_OFFLINE:
        later = "upload RUN/model after training with `hf upload`"
        raise ConfigError(f"push_to_hub needs the hub, and HF_HUB_OFFLINE is set. Unset it, or {later}.")
    repo = config.hub_model_id or Path(config.output_dir).absolute().name
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        given = "hub_model_id" if config.hub_model_id else "The name of the run's folder"
        remedy = "Set hub_model_id to USER/NAME"
        raise ConfigError(f"{given} is not a valid name of a repository: {_reason(error)}. {remedy}.") from error
    if get_token() is None:
        raise ConfigError("push_to_hub needs a login to the hub: run `hf auth login`, or set HF_TOKEN.")
    try:
        user = HfApi().whoami()
    except Exception as error:
        remedy = "Check the network and the token (`hf auth whoami`), or train without push_to_hub"
        raise ConfigError(f"push_to_hub: the hub does not accept the login: {_reason(error)}. {remedy}.") from error
    names = [user["name"], *(organization["name"] for organization in user.get("orgs", []))]
    owner, _, name = repo.rpartition("/")
    if owner and owner.lower() not in map(str.lower, names):  # the hub ignores case
        raise ConfigError(f"hub_model_id={repo}: you can write to {', '.join(names)}, not to {owner}. Choose one.")
    return HubTarget(f"{owner or names[0]}/{name}", config.hub_private_repo, config.hub_revision)


def warn_of_local_base(prepared: Prepared) -> None:
    """Warn if the uploaded adapter would name a base that only this machine has."""
    source = find_model(prepared.model)
    base = source.base or source.location
    if prepared.is_adapter and Path(base).is_dir():
        logger.warning("The uploaded adapter names the folder %s as its base: others cannot load it.", base)


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")
