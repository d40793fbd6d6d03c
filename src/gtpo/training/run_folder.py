"""A run is a folder: what was asked, what happened, what came out.

run.json        method, model, problems, seed, the folder it was started in, versions
config.yaml     every option that was set, as `gtpo train` reads it back
metrics.jsonl   one line per logging step            (gtpo.records)
groups.jsonl    sampled groups with their tokens     (gtpo.records)
checkpoint-N/   complete ones hold a file `complete`
held_out/       samples of the evaluations before and after
model/          the final model
train.log       what was said
lock            only while a process trains here
summary.json    before, after, seconds, steps, max_steps, a digest of the problems
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from gtpo.errors import ConfigError, DataError
from gtpo.files import locked
from gtpo.records import GROUPS_FILE, METRICS_FILE

PACKAGES = ("gtpo", "trl", "transformers", "torch", "accelerate", "datasets", "peft", "vllm")


class RunFolder:
    """The paths of a run, and the few files that are written by hand."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.model = self.path / "model"
        self.held_out = self.path / "held_out"
        self.log = self.path / "train.log"
        self.groups = self.path / GROUPS_FILE

    @classmethod
    def create(cls, path: Path | str, config: dict[str, Any], description: dict[str, Any]) -> "RunFolder":
        """Claim a folder for a new run; one that holds anything is left alone."""
        run = cls(path)
        if run.path.is_dir() and any(run.path.iterdir()):
            how = "Empty it yourself, or choose"
            if run._config.exists():
                is_finished = "after" in run.summary()
                how = f"Continue it with `gtpo train --resume {shlex.quote(str(path))}`, or choose"
                how = "It is a finished run: choose" if is_finished else how
            raise ConfigError(f"{path} is not empty. {how} another --output_dir.")
        require_writable(run.path)
        run.path.mkdir(parents=True, exist_ok=True)
        about = {**description, "started_in": str(Path.cwd()), "versions": versions()}
        write_json(run.path / "run.json", about)
        _write(run._config, yaml.safe_dump(config, sort_keys=False))
        return run

    @classmethod
    def open(cls, path: Path | str) -> "RunFolder":
        run = cls(path)
        if not run._config.is_file():
            raise DataError(f"{path} is not a run: it has no config.yaml. Give a folder that `gtpo train` wrote.")
        return run

    def only_trainer(self) -> contextlib.AbstractContextManager[None]:
        """Refuse a second process that would train in the same folder."""
        return locked(
            self.path / "lock", f"Another process is training in {self.path}. Wait for it, or end it, and try again."
        )

    def has_begun(self) -> bool:
        """Has it left anything of a step?"""
        return any(any(self.path.glob(name)) for name in ("checkpoint-*", METRICS_FILE, GROUPS_FILE))

    def discard_if_nothing_was_trained(self) -> None:
        """Remove a run that failed before its first step, so that the mended command finds its folder free."""
        if not self.has_begun():
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def _config(self) -> Path:
        return self.path / "config.yaml"

    def config(self) -> dict[str, Any]:
        return _mapping(self._config, yaml.safe_load, "Mend it: without it the run cannot go on.")

    def started_elsewhere(self) -> str | None:
        """The folder that the run was started in, which its relative paths are relative to, if this is another one."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            folder = json.loads((self.path / "run.json").read_text()).get("started_in")
            return None if folder == str(Path.cwd()) else folder
        return None

    def summary(self) -> dict[str, Any]:
        path = self.path / "summary.json"
        return (
            _mapping(path, json.loads, "Mend it, or delete it to have the numbers taken again.")
            if path.is_file()
            else {}
        )

    def write_summary(self, **parts: Any) -> None:
        """Add to the summary; what it held stays."""
        write_json(self.path / "summary.json", {**self.summary(), **parts})


def require_writable(path: Path) -> None:
    """Can this folder be made and written to? Makes nothing."""
    nearest = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    if not nearest.is_dir():
        raise ConfigError(f"{path} cannot be made: {nearest} is a file. Choose another --output_dir.")
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"{path} cannot be made: {nearest} is not writable. Choose another --output_dir.")


def versions() -> dict[str, str]:
    """Of everything that a number may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the whole file or none of it."""
    _write(path, json.dumps(content, indent=2) + "\n")


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    os.replace(partial, path)


def _mapping(path: Path, parse: Callable[[str], Any], remedy: str) -> dict[str, Any]:
    try:
        content = parse(path.read_text())
    except (ValueError, yaml.YAMLError) as error:
        raise DataError(f"{path} is damaged: {error}. {remedy}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is damaged: it is empty, or no mapping. {remedy}")
    return content
