"""A run is a folder.

run.json        method, model, problems, seed, versions
config.yaml     every option that was set, as `gtpo train --resume` reads it
metrics.jsonl   one line per logging step            (gtpo.records)
groups.jsonl    sampled groups with their tokens     (gtpo.records)
checkpoint-N/   complete ones contain a file `complete`
held_out/       samples of the evaluations before and after training
model/          the final model and its card, ready for the hub
train.log       what was printed
lock            locked while a process trains here
summary.json    before, after, seconds, steps, max_steps, a digest of the problems; earlier, after an extension
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
import shlex
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from gtpo.errors import ConfigError, DataError
from gtpo.files import free_path, locked, write_atomic
from gtpo.records import GROUPS_FILE, METRICS_FILE

PACKAGES = ("gtpo", "trl", "transformers", "torch", "accelerate", "datasets", "peft", "vllm")


class _Dumper(yaml.SafeDumper):
    """Writes out every value, because a recipe may have only a few aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class RunFolder:
    """The paths of a run, and the few files that gtpo writes itself."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.model = self.path / "model"
        self.held_out = self.path / "held_out"
        self.log = self.path / "train.log"
        self._config = self.path / "config.yaml"
        self._summary = self.path / "summary.json"

    @classmethod
    def create(cls, path: Path | str, config: dict[str, Any], description: dict[str, Any]) -> "RunFolder":
        """Create the folder of a new run."""
        run = cls(path)
        run.require_new()
        run.path.mkdir(parents=True, exist_ok=True)
        write_atomic(run.path / "run.json", json.dumps({**description, "versions": versions()}, indent=2) + "\n")
        run._write_config(config)
        return run

    def _write_config(self, config: dict[str, Any]) -> None:
        text = yaml.dump(config, Dumper=_Dumper, sort_keys=False)
        write_atomic(self._config, f"# run {secrets.token_hex(16)}\n{text}")  # no other run has this number

    @classmethod
    def open(cls, path: Path | str) -> "RunFolder":
        run = cls(path)
        if not run._config.is_file() or not run._config.stat().st_size:
            raise DataError(f"{path} is not a run: it has no config.yaml. Give a folder that `gtpo train` wrote.")
        return run

    def is_taken(self) -> bool:
        """Whether the folder exists and is not empty."""
        return self.path.is_dir() and any(self.path.iterdir())

    def require_new(self, *, may_be_taken: bool = False) -> None:
        """Refuse a folder that is not empty, unless it may be, or cannot be written to. Creates nothing."""
        if self.is_taken() and not may_be_taken:
            resume = f"gtpo train --resume {shlex.quote(str(self.path))}"
            raise ConfigError(f"{self.path} is not empty. Choose another --output_dir, or continue a run: `{resume}`.")
        absolute = self.path.absolute()
        nearest = next(folder for folder in (absolute, *absolute.parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            reason = "not writable" if nearest.is_dir() else "a file"
            raise ConfigError(f"Cannot create {self.path}: {nearest} is {reason}. Choose another --output_dir.")

    def only_trainer(self) -> contextlib.AbstractContextManager[None]:
        """Refuse a second process that would train in the same folder."""
        refusal = f"Another process is training in {self.path}. Wait for it, or end it, and try again."
        return locked(self.path / "lock", refusal)

    def has_begun(self) -> bool:
        """Whether the run has recorded a step or saved a checkpoint."""
        return any(any(self.path.glob(name)) for name in ("checkpoint-*", METRICS_FILE, GROUPS_FILE))

    def checkpoints(self) -> dict[int, Path]:
        """The complete checkpoints by their steps, in this order. Whether they are intact is not verified."""
        folders = [marker.parent for marker in self.path.glob("checkpoint-*/complete")]
        names = [(re.fullmatch(r"checkpoint-(\d{1,12})", folder.name), folder) for folder in folders]
        return dict(sorted((int(name[1]), folder) for name, folder in names if name))

    def newest_checkpoint(self) -> Path | None:
        return next(reversed(self.checkpoints().values()), None)

    def steps_done(self) -> int:
        """The number of steps that a resumed run does not repeat."""
        return max(self.checkpoints(), default=0)

    def require_longer(self, max_steps: int) -> None:
        """Refuse to extend the run to `max_steps` if it has done them, or has no checkpoint to continue from."""
        done = self.steps_done()
        if done == 0:
            remedy = "Start a new run from its model instead: `gtpo train RECIPE --model RUN`"
            raise ConfigError(f"{self.path} has no complete checkpoint to continue from. {remedy}.")
        if max_steps <= done:
            remedy = f"Set --max_steps to the total number of steps, above {done}"
            raise ConfigError(f"--max_steps {max_steps}: {self.path} has done {done} steps already. {remedy}.")

    def extend(self, config: dict[str, Any]) -> None:
        """Let the run continue with a larger `max_steps`. What was measured after its last step is kept."""
        summary, done = self.summary(), self.steps_done()
        if "after" in summary:
            earlier = summary.get("earlier")
            earlier = cast("dict[str, Any]", earlier) if isinstance(earlier, dict) else {}
            summary["earlier"] = {**earlier, f"after-{done}": summary.pop("after")}
            for name in ("steps", "max_steps"):
                summary.pop(name, None)
            if (self.held_out / "after").is_dir():
                os.replace(self.held_out / "after", free_path(self.held_out / f"after-{done}"))
            write_atomic(self._summary, json.dumps(summary, indent=2) + "\n")
        self._write_config(config)

    def is_finished(self) -> bool:
        return "after" in self.summary()

    def summary(self) -> dict[str, Any]:
        content = self._summary.read_bytes() if self._summary.is_file() else b"{}"
        try:
            return msgspec.json.decode(content, type=dict[str, Any])
        except ValueError as error:
            remedy = "Fix it, or delete it to evaluate again."
            raise DataError(f"Cannot parse {self._summary}: {error}. {remedy}") from error

    def write_summary(self, **parts: Any) -> None:
        """Add to the summary, keeping its other entries."""
        write_atomic(self._summary, json.dumps({**self.summary(), **parts}, indent=2) + "\n")


def versions() -> dict[str, str]:
    """The versions of everything that a result may depend on."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed
