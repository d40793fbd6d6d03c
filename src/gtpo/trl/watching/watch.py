"""`gtpo.watch(trainer)`: records, health checks and alerts for any GRPO run of TRL, in any version of it."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from gtpo.errors import ConfigError, require, require_choice
from gtpo.health.held_out import read_held_out
from gtpo.health.result import Finding
from gtpo.health.verdict import NAMES, Health, Verdict
from gtpo.logged import VOCAB_SIZE, is_training_row
from gtpo.trl.watching.alerts import Alerts
from gtpo.trl.watching.guard import Guard
from gtpo.trl.watching.recording import ATTRIBUTE, Recorder, attach_recorder

HEALTHY_FOLDER = "last-healthy"
CANDIDATE_FOLDER = "last-healthy.candidate"
"""The checkpoint that becomes `last-healthy` if the next logged row confirms that the run is healthy."""
logger = logging.getLogger(__name__)


def watch(
    trainer: Any, *, on_collapse: str = "warn", record_groups: int = 2, record_every: int = 10, texts: bool = True
) -> None:
    """Watch a run of any GRPO trainer of TRL. Call it once, before `trainer.train()`:

    ```python
    trainer = GRPOTrainer(...)
    gtpo.watch(trainer)
    trainer.train()
    ```

    The run writes metrics.jsonl and groups.jsonl into its `output_dir` for `gtpo inspect`, `report`, `health` and
    `compare`. Every log gets a verdict, and the last healthy checkpoint is kept as `last-healthy`. The training is the
    same, bit for bit. An instrument that fails is turned off with a warning.

    Args:
        trainer: a GRPOTrainer, a subclass of it, or gtpo's own trainers. Options here override those of GTPOConfig.
        on_collapse: "warn", or "stop" to end a collapsing run.
        record_groups: groups that a recorded step writes; 0 writes none.
        record_every: steps between two recorded steps. The first two steps are always recorded.
        texts: whether records contain prompts and tokens. Without them they contain numbers only.
    """
    require_choice("on_collapse", on_collapse, ("warn", "stop"))
    require(record_groups >= 0, "record_groups", record_groups, "at least 0")
    require(record_every >= 1, "record_every", record_every, "at least 1")
    if not (hasattr(trainer, "_generate_and_score_completions") and hasattr(trainer, "_calculate_rewards")):
        kind = type(trainer).__name__
        raise ConfigError(f"gtpo.watch takes a GRPOTrainer of TRL or a subclass of it, got {kind}. Pass the trainer.")
    recorder = getattr(trainer, ATTRIBUTE, None)
    if recorder is None:
        if hasattr(trainer.args, "conflict_edges"):
            logger.warning(
                "%s was given a GTPOConfig, and the options of GTPO have no effect on it. Use GTPOTrainer to train "
                "with GTPO, or GRPOConfig to train without.",
                type(trainer).__name__,
            )
        recorder = attach_recorder(trainer)
    recorder.record_groups, recorder.record_every, recorder.texts = record_groups, record_every, texts
    callbacks: list[TrainerCallback] = trainer.callback_handler.callbacks
    health = next((callback for callback in callbacks if isinstance(callback, HealthCallback)), None)
    if health is None:
        health = HealthCallback(on_collapse)
        callbacks.insert(0, health)  # first, so that trackers and records get health/level
    health.on_collapse, health.recorder = on_collapse, recorder


class HealthCallback(TrainerCallback):
    """Logs `health/level` (0 healthy, 1 warning, 2 collapsing) and reports each kind of problem once.

    Keeps the last healthy checkpoint as `last-healthy`, where `save_total_limit` does not delete it. Its files are
    hard links, which take no space while the original exists. A row describes completions that were sampled before its
    update, so a checkpoint is kept only when a later row, or the end of the run, finds the run healthy and its reward
    not below the start. With `on_collapse="stop"` a collapsing run ends.
    """

    def __init__(self, on_collapse: str = "warn") -> None:
        self.on_collapse = on_collapse
        self.kept: tuple[int, int] | None = None  # level and step of the checkpoint in `last-healthy`
        self.candidate: tuple[int, int] | None = None  # of the one that waits for a row to confirm it
        self.vocab_size: int | None = None
        self.recorder: Recorder | None = None
        self.alerts = Alerts()
        self._start()

    def _start(self) -> None:
        self.judging = Guard("The health check")
        self.keeping = Guard("Keeping the last healthy checkpoint")
        self.health = Health()
        self.verdict = Verdict(0, ())
        self.reported: set[tuple[str, int]] = set()

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._start()
        self.judging.run(self._begin, args, state, kwargs.get("model"))

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.judging.run(self._judge, args, state, control, kwargs["logs"])

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.keeping.run(self._propose, args, state)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.keeping.run(self._confirm, args, state)

    def _begin(self, args: Any, state: TrainerState, model: Any) -> None:
        """On resume, replay the rows logged up to the checkpoint, without repeating the warnings."""
        self.vocab_size = _vocab_size(model)
        threshold, held_out = getattr(args, "entropy_threshold", None), read_held_out(Path(args.output_dir))
        self.health = Health(entropy_threshold=threshold, held_out=held_out)
        if state.is_world_process_zero:
            restore_folder(Path(args.output_dir) / HEALTHY_FOLDER)
        self.kept = _kept_in(Path(args.output_dir) / HEALTHY_FOLDER) if state.global_step else None
        if self.kept is not None and self.kept[1] > state.global_step:
            self.kept = None  # the run continues from an earlier step, and may write that checkpoint again
            if state.is_world_process_zero:
                copy_links(Path(args.output_dir) / HEALTHY_FOLDER)
        self._drop_candidate(args, state)
        for row in filter(is_training_row, state.log_history):
            self.verdict = self.health.add(row)
            self.reported |= {(finding.kind, finding.level) for finding in self.verdict.findings}

    def _judge(self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any]) -> None:
        if not is_training_row(logs):
            return
        values: dict[str, float] = {}
        if self.vocab_size is not None and self.health.state.vocab_size is None:
            values[VOCAB_SIZE] = float(self.vocab_size)  # in the first row only
        self.verdict = self.health.add({"step": state.global_step, **logs, **values})
        values["health/level"] = float(self.verdict.level)
        for row in (logs, state.log_history[-1]):
            row.update(values)
        self.keeping.run(self._confirm, args, state)
        is_stopped = self.verdict.level == 2 and self.on_collapse == "stop" and not control.should_training_stop
        control.should_training_stop |= is_stopped
        for finding in self.verdict.findings:
            if (finding.kind, finding.level) not in self.reported:
                self.reported.add((finding.kind, finding.level))
                self._report(args, state, finding)
                if self.recorder is not None and args.world_size == 1:  # several processes could disagree
                    self.recorder.is_wanted = True
        if is_stopped:
            _warn(state, f"stopped (on_collapse='stop'). {self._last_healthy(args)}")

    def _report(self, args: Any, state: TrainerState, finding: Finding) -> None:
        text = f"{finding.reason}. What to try: {finding.remedy}."
        _warn(state, f"{NAMES[finding.level]}: {text}")
        if state.is_world_process_zero:
            title = f"{NAMES[finding.level]}: {finding.kind.replace('_', ' ')}"
            level = "ERROR" if finding.level == 2 else "WARN"
            self.alerts.send(args, title, f"Step {state.global_step}: {text}", level)

    def _propose(self, args: Any, state: TrainerState) -> None:
        """Keep a checkpoint until a row confirms it. The earliest one since the last row is the safest."""
        level = int(self.verdict.level)
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.candidate is None and level < 2 and state.is_world_process_zero and checkpoint.is_dir():
            link_tree(checkpoint, Path(args.output_dir) / CANDIDATE_FOLDER)
            self.candidate = (level, state.global_step)

    def _confirm(self, args: Any, state: TrainerState) -> None:
        """Keep the candidate if the run is healthy, or no worse than when the kept checkpoint was saved."""
        if self.candidate is None or not (self.verdict.is_judged or self.verdict.level):
            return  # too early to tell
        level, step = max(self.candidate[0], int(self.verdict.level)), self.candidate[1]
        if level == 2 or self.health.state.is_below_start() or (self.kept is not None and level > self.kept[0]):
            self._drop_candidate(args, state)
            return
        target = Path(args.output_dir) / HEALTHY_FOLDER
        replace_folder(target.with_name(CANDIDATE_FOLDER), target)
        self.kept, self.candidate = (level, step), None

    def _drop_candidate(self, args: Any, state: TrainerState) -> None:
        """Forget the candidate, also one that an interrupted run has left."""
        self.candidate = None
        if state.is_world_process_zero:
            shutil.rmtree(Path(args.output_dir) / CANDIDATE_FOLDER, ignore_errors=True)

    def _last_healthy(self, args: Any) -> str:
        if self.kept is None:
            return "No checkpoint was saved while the run was healthy. Set save_steps lower next time."
        state = "healthy" if self.kept[0] == 0 else "no worse than a warning"
        folder = Path(args.output_dir) / HEALTHY_FOLDER
        return f"{folder} is the checkpoint of step {self.kept[1]}, when the run was {state}."


def _warn(state: TrainerState, text: str) -> None:
    if state.is_world_process_zero:
        logger.warning("step %d, %s", state.global_step, text)


def _vocab_size(model: Any) -> int | None:
    """The number of tokens that the model chooses from; None if its config does not contain it."""
    config: Any = getattr(model, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    size = getattr(config, "vocab_size", None)
    return size if isinstance(size, int) else None


def _kept_in(folder: Path) -> tuple[int, int] | None:
    """Level and step of the healthy checkpoint that the run kept before it was resumed."""
    try:
        state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
    except (OSError, ValueError, TypeError):  # there is none, or it is damaged: the next healthy one replaces it
        return None
    levels = [row["health/level"] for row in state.log_history if "health/level" in row]
    return int(levels[-1]) if levels else 0, state.global_step


def discard_worse_model(run: Path, last_step: int) -> None:
    """Delete the kept checkpoint if it is the last model and that solves fewer held-out problems than before training.

    No logged row shows that.
    """
    folder = run / HEALTHY_FOLDER
    kept = _kept_in(folder)
    if kept is not None and kept[1] == last_step and "accuracy" in read_held_out(run).worse():
        reason = "it is the last model, which solves fewer held-out problems than the model before training"
        logger.warning("Removing %s: %s.", folder, reason)
        shutil.rmtree(folder, ignore_errors=True)


def copy_links(folder: Path) -> None:
    """Replace hard links in the folder with copies: transformers would overwrite their content in place."""
    for path in [path for path in folder.rglob("*") if path.is_file() and path.stat().st_nlink > 1]:
        partial = path.with_name(f"{path.name}.partial")
        shutil.copy2(path, partial)
        partial.replace(path)


def link_tree(source: Path, target: Path) -> None:
    """Replace `target` by hard links to the files of `source`, or by copies where links are not supported."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        shutil.copytree(source, partial, copy_function=os.link)
    except (OSError, shutil.Error):
        try:
            shutil.copytree(source, partial, dirs_exist_ok=True)
        except (OSError, shutil.Error):
            shutil.rmtree(partial, ignore_errors=True)  # a full disk needs the space for checkpoints
            raise
    replace_folder(partial, target)


def replace_folder(folder: Path, target: Path) -> None:
    """Rename `folder` to `target`. The former `target` is deleted last: `restore_folder` finds it after a kill."""
    former = _former(target)
    if target.exists():
        shutil.rmtree(former, ignore_errors=True)
        target.rename(former)
    folder.rename(target)
    shutil.rmtree(former, ignore_errors=True)


def restore_folder(target: Path) -> None:
    """Put back the former `target` if a kill came before its replacement."""
    if _former(target).is_dir() and not target.exists():
        _former(target).rename(target)


def _former(target: Path) -> Path:
    return target.with_name(f"{target.name}.former")
