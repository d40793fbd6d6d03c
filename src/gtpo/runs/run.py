"""A training run as reports and comparisons see it: its rows of metrics, its method and seed, and how it ended."""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.files import LARGEST_NUMBER, is_integer, is_number
from gtpo.health.held_out import HeldOut, held_out_in
from gtpo.health.verdict import Verdict, health_of, last_verdict
from gtpo.logged import Row, Series, names_in, reward_function, series
from gtpo.records import GROUPS_FILE, METRICS_FILE, TOKEN_PAGE
from gtpo.runs.reading import (
    STATE_FILE,
    first_record,
    metrics_file,
    planned_steps_in,
    read_json_object,
    read_metrics,
    read_settings,
)

_HELD_OUT = ("problems", "num_problems", "num_samples", "temperature", "max_new_tokens", "grader")
"""Entries of summary.json that describe how held-out problems were sampled and graded."""
LONGEST_TEXT = 200
"""Characters that are kept of a text in run.json or summary.json."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run. `path` is its folder, `rows` are its training rows in the order of steps."""

    path: Path
    name: str
    method: str
    seed: int | None
    rows: Sequence[Row]
    after: dict[str, float]
    """What was measured on held-out problems after training."""
    notes: list[str]
    """What could not be used of the run's files."""
    entropy_threshold: float | None = None
    """In nats; None if the run recorded none."""
    held_out: str | None = None
    """On what and how the numbers of `after` were measured. Two runs are comparable if it is equal."""
    measured: HeldOut = dataclasses.field(default_factory=HeldOut)
    """Held-out accuracy and format before and after training, which the verdict takes into account."""
    evaluations: Sequence[Row] = ()
    """Rows of evaluations during training; their names start with "eval_"."""
    last_step: float = 0
    """Of any row. The last training row may be earlier, because trainers log every few steps."""
    planned_steps: int | None = None
    """How many steps the run was to take; None if it is not known."""

    @property
    def num_steps(self) -> int:
        return int(max(self.last_step, self.rows[-1]["step"]))

    @property
    def steps_text(self) -> str:
        """The number of steps; of how many if the run has not reached its end."""
        is_short = self.planned_steps is not None and self.num_steps < self.planned_steps
        return f"{self.num_steps} of {self.planned_steps}" if is_short else str(self.num_steps)

    @property
    def token_page(self) -> Path:
        """Where `gtpo inspect` writes the token view of this run."""
        return self.path / TOKEN_PAGE

    @property
    def has_groups(self) -> bool:
        return (self.path / GROUPS_FILE).is_file()

    @property
    def reward_functions(self) -> list[str]:
        """The functions whose mean rewards were logged."""
        return [function for name in names_in(self.rows) if (function := reward_function(name))]

    def series(self, meaning: str) -> Series:
        return series(self.rows, meaning)

    @functools.cached_property
    def verdict(self) -> Verdict:
        """The verdict on the run's last step."""
        return last_verdict(self.rows, entropy_threshold=self.entropy_threshold, held_out=self.measured)

    def health(self, entropy_threshold: float | None = None) -> list[Verdict]:
        """A verdict after each row, by the run's own entropy threshold unless another one is passed."""
        threshold = self.entropy_threshold if entropy_threshold is None else entropy_threshold
        return health_of(self.rows, entropy_threshold=threshold, held_out=self.measured)


def load_runs(paths: Sequence[Path], on_skip: Callable[[str], None] | None = None) -> list[Run]:
    """Load every run of `paths`. A path that is not a run, or that was passed twice, is an error.

    With `on_skip`, folders that are not runs, such as `runs/*` brings in, are left out unless all of them are, and
    `on_skip` is called with each reason. Several checkpoints of one run are separate runs, and their names end in the
    checkpoint's.
    """
    sources: dict[Path, Path] = {}
    refusals: list[DataError] = []
    for path in paths:
        try:
            source = metrics_file(path).resolve()
        except DataError as error:
            if on_skip is None or not path.is_dir():
                raise
            refusals.append(error)
            continue
        if source in sources:
            raise DataError(f"{path} was passed twice. Leave one out.")
        sources[source] = path
    if not sources:
        raise refusals[0]
    if on_skip is not None:
        for refusal in refusals:
            on_skip(str(refusal))
    folders = [_run_folder(source) for source in sources]
    runs: list[Run] = []
    for (source, path), folder in zip(sources.items(), folders, strict=True):
        run = load_run(path)
        if source.parent != folder and folders.count(folder) > 1:
            run = dataclasses.replace(run, name=f"{run.name}/{source.parent.name}")
        runs.append(run)
    return runs


def load_run(path: Path) -> Run:
    """Load a run from its folder, or from one of the metrics files that a run leaves."""
    source = metrics_file(path)
    folder = _run_folder(source)
    notes: list[str] = []
    metrics = read_metrics(source, notes)
    rows = metrics.training
    if not rows:
        if metrics.evaluations:
            notes.append("Rows with eval_* names count as evaluations")
        reasons = "".join(f" {note.removesuffix('?')}{'?' if note.endswith('?') else '.'}" for note in notes)
        raise DataError(
            f"{source} has no training metrics with a step yet.{reasons} Wait for the run's next log, or pass another "
            "metrics file."
        )
    is_ours = source.name == METRICS_FILE
    about = read_json_object(folder / "run.json", notes) if is_ours else {}
    summary = read_json_object(folder / "summary.json", notes) if is_ours else {}
    name = folder.resolve().name if source.name in (METRICS_FILE, STATE_FILE) else source.stem
    named_seed = re.search(r"(?:^|[-_.])(?:seed|s)[-_]?(\d+)$", name)
    seed = about.get("seed", int(named_seed[1]) if named_seed else None)
    after = summary.get("after")
    after = after if isinstance(after, dict) else {}
    if not series(rows, "accuracy").values:
        notes.append("no accuracy was logged (`accuracy`, or a reward between 0 and 1 named after it)")
    return Run(
        path=folder,
        name=name,
        method=str(about.get("method") or _method_in(name))[:LONGEST_TEXT],
        seed=seed if is_integer(seed) else None,
        rows=rows,
        after={metric: float(value) for metric, value in after.items() if is_number(value)},
        notes=notes,
        entropy_threshold=_threshold_in(folder / GROUPS_FILE) if is_ours else None,
        held_out=", ".join(
            f"{name.replace('_', ' ')} {str(after[name])[:LONGEST_TEXT]}"
            for name in _HELD_OUT
            if name in after and (name, after[name]) != ("grader", "answer")  # the default, not in older summaries
        )
        or None,
        measured=held_out_in(summary),
        evaluations=metrics.evaluations,
        last_step=metrics.last_step,
        planned_steps=metrics.planned_steps or (_planned_steps(folder, summary) if is_ours else None),
    )


def _planned_steps(folder: Path, summary: dict[str, Any]) -> int | None:
    """From summary.json after a run of `gtpo train`, from config.yaml before, otherwise from the last checkpoint."""
    for value in (summary.get("max_steps"), read_settings(folder).get("max_steps")):
        if (steps := _integer(value)) is not None and 0 < steps <= LARGEST_NUMBER:
            return steps
    return planned_steps_in(folder)


def _integer(value: Any) -> int | None:
    """A number of a file. In config.yaml, numbers from the command line are text."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _run_folder(source: Path) -> Path:
    """The folder of the run that a metrics file belongs to. A TRL run keeps it in a checkpoint."""
    folder = source.parent
    return folder.resolve().parent if re.fullmatch(r"checkpoint-\d+", folder.resolve().name) else folder


def _threshold_in(groups: Path) -> float | None:
    """The entropy threshold that a run of GTPO recorded with its groups."""
    value: Any = first_record(groups).get("entropy_threshold")
    return float(value) if is_number(value) else None


def _method_in(name: str) -> str:
    """A folder's name without its seed: `gtpo-seed3` and `gtpo-seed4` are the same method.

    >>> _method_in("gtpo-seed3")
    'gtpo'
    """
    return re.sub(r"[-_.](?:seed|s)?[-_]?\d+$", "", name) or name
