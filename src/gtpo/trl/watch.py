"""HealthCallback: checks the health of a run at every logging step, and stops a collapsing run if asked to."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from gtpo.errors import require_choice
from gtpo.health.verdict import NAMES, Health, Verdict
from gtpo.logged import is_training_row

HEALTHY_FOLDER = "last-healthy"
logger = logging.getLogger(__name__)


class HealthCallback(TrainerCallback):
    """Watches a run of GTPOTrainer or of TRL's own GRPOTrainer.

    ```python
    trainer = GRPOTrainer(...)
    watch_health(trainer, on_collapse="stop")
    trainer.train()
    ```

    Logs `health/level` (0 healthy, 1 warning, 2 collapsing), warns once about each kind of problem, and keeps the last
    healthy checkpoint as `last-healthy`, where `save_total_limit` does not delete it. Its files are hard links, which
    take no space while the original exists. With `on_collapse="stop"` a collapsing run ends.
    """

    def __init__(self, on_collapse: str = "warn", entropy_threshold: float | None = None) -> None:
        require_choice("on_collapse", on_collapse, ("warn", "stop"))
        self.on_collapse = on_collapse
        self.entropy_threshold = entropy_threshold
        self.kept: tuple[int, int] | None = None  # level and step of the checkpoint in `last-healthy`
        self._start()

    def _start(self) -> None:
        self.health = Health(entropy_threshold=self.entropy_threshold)
        self.verdict = Verdict(0, ())
        self.reported: set[tuple[str, int]] = set()

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """A resumed run takes in what it logged before its checkpoint, without repeating the warnings."""
        if self.entropy_threshold is None:
            self.entropy_threshold = getattr(args, "entropy_threshold", None)
        self._start()
        self.kept = _kept_in(Path(args.output_dir) / HEALTHY_FOLDER) if state.global_step else None
        for row in filter(is_training_row, state.log_history):
            self.verdict = self.health.add(row)
            self.reported |= {(finding.kind, finding.level) for finding in self.verdict.findings}

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        logs: dict[str, Any] = kwargs["logs"]
        if not is_training_row(logs):
            return
        self.verdict = self.health.add({"step": state.global_step, **logs})
        for row in (logs, state.log_history[-1]):
            row["health/level"] = float(self.verdict.level)
        for finding in self.verdict.findings:
            if (finding.kind, finding.level) not in self.reported:
                self.reported.add((finding.kind, finding.level))
                _warn(state, f"{NAMES[finding.level]}: {finding.reason}. What to try: {finding.remedy}.")
        if self.verdict.level == 2 and self.on_collapse == "stop" and not control.should_training_stop:
            control.should_training_stop = True
            _warn(state, f"stopped (on_collapse='stop'). {self._last_healthy(args)}")

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        level = int(self.verdict.level)
        if level == 2 or not state.is_world_process_zero or (self.kept is not None and level > self.kept[0]):
            return
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if checkpoint.is_dir():
            _link_tree(checkpoint, Path(args.output_dir) / HEALTHY_FOLDER)
            self.kept = (level, state.global_step)

    def _last_healthy(self, args: Any) -> str:
        if self.kept is None:
            return "No checkpoint was saved before. Set save_steps lower next time."
        state = "healthy" if self.kept[0] == 0 else "no worse than a warning"
        folder = Path(args.output_dir) / HEALTHY_FOLDER
        return f"{folder} is the checkpoint of step {self.kept[1]}, when the run was {state}."


def watch_health(trainer: Any, on_collapse: str = "warn") -> HealthCallback:
    """Add a `HealthCallback` before the trainer's other callbacks, so that trackers receive `health/level` too."""
    callback = HealthCallback(on_collapse)
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


def _warn(state: TrainerState, text: str) -> None:
    if state.is_world_process_zero:
        logger.warning("step %d, %s", state.global_step, text)


def _kept_in(folder: Path) -> tuple[int, int] | None:
    """Level and step of the healthy checkpoint that the run kept before it was resumed."""
    try:
        state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
    except (OSError, ValueError, TypeError):  # there is none, or it is damaged: the next healthy one replaces it
        return None
    levels = [row["health/level"] for row in state.log_history if "health/level" in row]
    return int(levels[-1]) if levels else 0, state.global_step


def _link_tree(source: Path, target: Path) -> None:
    """Replace `target` by hard links to the files of `source`, or by copies where links are not supported."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        shutil.copytree(source, partial, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.copytree(source, partial, dirs_exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
