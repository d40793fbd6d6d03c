"""What `gtpo train` prints: a summary at the start, one live line, and a table at the end."""

import logging
import shlex
from typing import Any

from transformers import TrainerCallback

from gtpo.cli.console import ProgressLine
from gtpo.errors import DataError
from gtpo.evaluation.graders import ANSWER, BOXED
from gtpo.files import is_number
from gtpo.logged import LN2, series
from gtpo.problems import SYSTEM_PROMPT
from gtpo.runs.run import load_run
from gtpo.text import printable
from gtpo.training.config.options import RunOptions
from gtpo.training.held_out import interval
from gtpo.training.run_folder import RunFolder

logger = logging.getLogger(__name__)

MOST_ALIGNED = 70
"""Longer commands do not push the explanations of the others to the right."""


class TrainingView(TrainerCallback):
    """One live line: reward, accuracy, format, entropy compared with ln 2, kept, conflict, and the time left."""

    def __init__(self) -> None:
        self._line: ProgressLine | None = None

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            line_format = "{n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}"  # tqdm adds a comma before postfix
            self._line = ProgressLine(state.max_steps, state.global_step, line_format)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self._line is not None and logs and "train_runtime" not in logs:
            logger.info("step %d  %s", state.global_step, line(logs))
            self._line.update(state.global_step, line(logs))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.close()


def line(logs: dict[str, Any]) -> str:
    """The most important metrics of a logging step.

    >>> line({"reward": 12.5, "accuracy": 0.4, "gtpo/entropy_mean": 0.41, "gtpo/frac_kept": 0.9})
    'reward 12.5  accuracy 40%  entropy 0.41 < ln 2  kept 90%'
    >>> line({"reward": 0.4375, "rewards/accuracy_reward/mean": 0.4375})
    'reward 0.438  accuracy 44%'
    """
    entropy = logs.get("gtpo/entropy_mean", logs.get("entropy"))  # ⟨H⟩: what the filter compares with ln 2
    parts = [
        ("reward {:.3g}", logs.get("reward")),
        ("loss {:.3f}", logs.get("loss") if logs.get("reward") is None else None),
        ("accuracy {:.0%}", _fraction(logs, "accuracy")),
        ("format {:.0%}", _fraction(logs, "format")),
        (f"entropy {{:.2f}} {'<' if entropy is None or entropy < LN2 else '>'} ln 2", entropy),
        ("kept {:.0%}", logs.get("gtpo/frac_kept")),
        ("conflict {:.0%}", logs.get("gtpo/frac_conflict")),
        ("held out {:.0%}", logs.get("held_out/pass@1")),
    ]
    return "  ".join(text.format(value) for text, value in parts if value is not None)


def _fraction(logs: dict[str, Any], meaning: str) -> float | None:
    """An accuracy or a format rate, also one that a reward function of that name logs."""
    return next(iter(series([{"step": 0, **logs}], meaning).values), None)


def closing_table(run: RunFolder, options: RunOptions) -> str:
    """The evaluations before and after, and what to do next."""
    summary = run.summary()
    before, after = summary.get("before"), summary.get("after")
    steps, most = summary["steps"], summary["max_steps"]
    lines = [f"\n{steps} steps in {summary['seconds']:.0f} s"]
    if steps < most:
        lines += [f"stopped before step {most} because it was collapsing: `gtpo health {run.path}` explains why"]
    if options.method != "sft":
        lines += _health_lines(run)
    if isinstance(before, dict) and isinstance(after, dict):
        lines += _held_out_lines(before, after)
    if best := summary.get("best"):
        lines += [f"\nbest checkpoint: {run.path / best['folder']}, step {best['step']}, pass@1 {best['pass@1']:.1%}"]
    folder = shlex.quote(str(run.path))
    problems = options.held_out or options.problems
    selection = {
        "problems": problems,
        "data-dir": options.data_dir,
        "columns": options.columns,
        "grader": None if options.grader == "answer" else options.grader,
        "system-prompt": None if options.system_prompt == SYSTEM_PROMPT else options.system_prompt,
    }
    arguments = [f" --{name} {shlex.quote(value)}" for name, value in selection.items() if value not in (None, "lab")]
    rates = "pass@k and maj@k" if options.grader in (ANSWER, BOXED) else "pass@k"
    other = "gtpo" if options.method == "grpo" else "grpo"
    hints = {f"gtpo health {folder}": "is it working, and what to try"} if options.method != "sft" else {}
    hints |= {
        f"gtpo report {folder}": "curves",
        f"gtpo eval {folder}{''.join(arguments)}": rates,
        f"gtpo eval {folder}{''.join(arguments)} --all-checkpoints": "pass@k over steps",
        f"gtpo compare {folder} --vs RUN": f"compare with another run, for example of --method {other}",
    }
    if (run.path / "groups.jsonl").is_file():
        hints = {f"gtpo inspect {folder}": "what the update did to every token", **hints}
    width = max((len(command) for command in hints if len(command) <= MOST_ALIGNED), default=0)
    lines += ["\nNext:", *(f"  {command:<{width}}   {what}" for command, what in hints.items())]
    return "\n".join(lines) + "\n"


def _held_out_lines(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The rates before and after with their intervals, and the entropy."""
    rows = [(name, interval(before, name), interval(after, name)) for name in ("accuracy", "format")]
    if is_number(before.get("entropy")) and is_number(after.get("entropy")):
        rows += [("entropy", f"{before['entropy']:.2f} nats", f"{after['entropy']:.2f} nats")]
    width = max(len(text) for _, *texts in rows for text in texts)
    lines = [
        f"{name:>10}  {first:<{width}}   {second}".rstrip() for name, first, second in (("", "before", "after"), *rows)
    ]
    sampled = f"{after['num_problems']} held-out problems × {after['num_samples']}"
    return ["", *lines, f"{'':>10}  ({sampled}, temperature {after['temperature']:g}, 95 % intervals; ln 2 = 0.69)"]


def _health_lines(run: RunFolder) -> list[str]:
    """Whether the run ended in trouble, why, and which checkpoint is from before; nothing after a healthy run."""
    try:
        verdict = load_run(run.path).verdict
    except DataError:  # nothing was logged
        return []
    if not verdict.findings:
        return []
    lines = [f"ended {verdict.name}: {printable(verdict.reason)}", f"  what to try: {verdict.findings[0].remedy}"]
    if verdict.level == 2:
        healthy = run.path / "last-healthy"
        before = f"{healthy} is from before" if healthy.is_dir() else "there is no last-healthy checkpoint"
        lines += [f"  model/ is the model after the last step; {before}"]
    return lines
