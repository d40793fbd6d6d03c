"""The records of a run on TRL (gtpo.records): metrics at every log, and the most telling groups of some steps.

Recording never breaks a run: the first error turns it off with a warning. With several processes, each of them joins
every exchange of a recorded step even if its own part has failed, so none of them waits for another.
"""

import dataclasses
import functools
import itertools
import pickle
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from accelerate.utils import gather_object
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState

from gtpo.files import JsonLines, is_number, write_atomic
from gtpo.logged import without_summary
from gtpo.records import GROUPS_FILE, METRICS_FILE, CompletionRecord, GroupRecord, step_of
from gtpo.trl.watching.choosing import RowSummary, choose_groups
from gtpo.trl.watching.generated import Generated, with_conflicts
from gtpo.trl.watching.guard import Guard
from gtpo.trl.watching.scoring import can_score, token_scores

P = ParamSpec("P")
T = TypeVar("T")
_Scores = Tensor | list[Tensor | None]
_Chosen = list[tuple[int, str]]
"""Groups, counted over all processes, each with the reason why it is recorded."""

ATTRIBUTE = "gtpo_recorder"
"""The attribute of a trainer that holds its Recorder."""

_numbers = itertools.count()

MAX_BYTES = 64 * 2**20
"""When groups.jsonl grows beyond this, every second recorded step is dropped, and half as many are recorded."""


@dataclasses.dataclass(frozen=True)
class _Row:
    """A completion on its way to the main process. `number` counts the rows of all processes."""

    number: int
    prompt_ids: list[int]
    completion: CompletionRecord


class Recorder(TrainerCallback):
    """Writes the metrics of a run and, if `record` is called after every generation, groups of its completions.

    A resumed run first drops the steps after its checkpoint.
    """

    def __init__(self, record_groups: int = 2, record_every: int = 10, texts: bool = True) -> None:
        self.record_groups, self.record_every, self.texts = record_groups, record_every, texts
        self.scored: tuple[Tensor | None, Any] = None, None  # rewards and token ids of the batch in the making
        self.key: str | None = None  # counts the processes that have this recorder, if only some may have it
        self._start()

    def _start(self) -> None:
        self.metrics = Guard("Recording of metrics")
        self.groups = Guard("Recording of groups")
        self.scoring = Guard("Recording of entropies and log-probabilities")
        self.earlier_seconds, self.start = 0.0, time.monotonic()
        self.thinning = 1  # of the steps that are due, every how many-th is recorded
        self.num_due = 0
        self.is_wanted = False  # the next batch is recorded in any case
        self.is_agreed_off = False  # all processes know that recording has failed on one of them

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._start()
        self.metrics.run(self._begin, args, state)

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not isinstance(self.groups.error, OSError):  # a full disk is reported once
            self.metrics.run(self._append_metrics, args, state, kwargs["logs"])

    def _begin(self, args: Any, state: TrainerState) -> None:
        self.earlier_seconds, self.start = 0.0, time.monotonic()
        if not state.is_world_process_zero:
            return
        metrics, groups = (JsonLines(Path(args.output_dir) / name) for name in (METRICS_FILE, GROUPS_FILE))
        for records in (metrics, groups):
            if state.global_step == 0:
                records.back_up()
            else:
                records.truncate_after(state.global_step)
        if metrics.path.exists():
            seconds = [row["seconds"] for row in metrics.rows() if is_number(row.get("seconds"))]
            self.earlier_seconds = max(seconds, default=0.0)

    def _append_metrics(self, args: Any, state: TrainerState, logs: dict[str, Any]) -> None:
        metrics = without_summary(logs)
        if not metrics or not state.is_world_process_zero:
            return
        seconds = round(self.earlier_seconds + time.monotonic() - self.start, 3)
        row = {"step": state.global_step, "seconds": seconds, **metrics}
        JsonLines(Path(args.output_dir) / METRICS_FILE).append(row)

    def record(self, trainer: Any, generated: Generated, *, is_due: bool | None = None) -> None:
        """Record groups if this step is due. Every process calls this after every generation batch.

        A trainer that calls it later passes what `is_due` was after the generation.
        """
        if not (self.is_due(trainer) if is_due is None else is_due):
            return
        try:
            self.is_agreed_off = not self._record(trainer, generated)
        except Exception as error:  # in what all processes do in the same way, such as the exchange itself
            self.groups.fail(error)
            self.is_agreed_off = True

    def _record(self, trainer: Any, generated: Generated) -> bool:
        """Record groups of this batch. False on all processes if one of them has failed, now or in an earlier step."""
        self.num_due += 1
        self.is_wanted = False
        if not _is_on_all_processes(self.key):
            raise RuntimeError("gtpo.watch was not called on every process")
        summaries = _exchange(self.groups, self._summarise, trainer, generated)
        if summaries is None:
            return False
        if not summaries[0]:  # the main process leaves this step out
            return True
        parts = _exchange(self.groups, self._choose, trainer, generated, summaries)
        if parts is None:
            return False
        if trainer.is_world_process_zero() and not isinstance(self.metrics.error, OSError):
            chosen, rows = parts[0][0], [row for _, local in parts for row in local]
            self.groups.run(self._write, trainer, generated, chosen, rows)
        return True

    def is_due(self, trainer: Any) -> bool:
        """Whether groups of the batch that was just generated are to be recorded."""
        if self.is_agreed_off or not self.record_groups:
            return False
        try:
            return self._is_due(trainer)
        except Exception as error:
            self.groups.fail(error)
            self.is_agreed_off = True
            return False

    def _is_due(self, trainer: Any) -> bool:
        """Whether this batch begins one of the first two steps, or covers a step that `record_every` selects."""
        args, step = trainer.args, trainer.state.global_step
        accumulation = args.gradient_accumulation_steps
        steps_covered = max(1, args.steps_per_generation * trainer.num_iterations // accumulation)
        begins_a_step = trainer._step % accumulation == 0
        is_selected = step < 2 or self.is_wanted or -step % self.record_every < steps_covered
        return trainer.model.training and begins_a_step and is_selected

    def _summarise(self, trainer: Any, generated: Generated) -> list[RowSummary]:
        is_left_out = trainer.is_world_process_zero() and (self.num_due - 1) % self.thinning != 0
        return [] if is_left_out else generated.summaries(trainer)

    def _choose(
        self, trainer: Any, generated: Generated, summaries: list[list[RowSummary]]
    ) -> tuple[_Chosen, list[_Row]]:
        """The groups to record, the same on every process, and the rows of them that this process owns."""
        first, size = generated.first_row(trainer), trainer.num_generations
        chosen = choose_groups([row for part in summaries for row in part], size, self.record_groups)
        groups = [group for group, _ in chosen]
        rows = [row for row in range(len(generated.sizes)) if (first + row) // size in groups]
        logps, entropies = self._scores(trainer, generated, rows)
        return chosen, [
            _Row(first + row, generated.prompt_ids(row), generated.completion(trainer, row, logp, entropy))
            for row, logp, entropy in zip(rows, logps, entropies, strict=True)
        ]

    def _scores(self, trainer: Any, generated: Generated, rows: list[int]) -> tuple[_Scores, _Scores]:
        """Log-probabilities and entropies of the tokens of each row, None where they are not known.

        They come from what the trainer has computed already, otherwise from a pass over these rows.
        """
        unknown: list[Tensor | None] = [None] * len(rows)
        if not rows:
            return unknown, unknown
        batch, shaping = generated.batch, generated.shaping
        if shaping is not None and shaping.token_entropy is not None and shaping.token_logps is not None:
            logps, entropy = shaping.token_logps[rows], shaping.token_entropy[shaping.first :][rows]
            known = logps[:, 0].isfinite().tolist()  # an update leaves out completions that could not be scored

            def of_known(scores: Tensor) -> list[Tensor | None]:
                return [row if is_known else None for row, is_known in zip(scores, known, strict=True)]

            return of_known(logps), of_known(entropy)
        scores = None
        if can_score(trainer, batch):
            sizes = [generated.sizes[row] for row in rows]
            scores = self.scoring.run(token_scores, trainer, batch, rows, sizes)
        if scores is not None:
            return scores
        return batch["old_per_token_logps"][rows] if "old_per_token_logps" in batch else unknown, unknown

    def _write(self, trainer: Any, generated: Generated, chosen: _Chosen, rows: Sequence[_Row]) -> None:
        """Append the chosen groups to groups.jsonl, on the main process."""
        by_number = {row.number: row for row in rows}
        decode, size = trainer.processing_class.decode, trainer.num_generations
        file = JsonLines(Path(str(trainer.args.output_dir)) / GROUPS_FILE)
        for group, reason in chosen:
            members = [by_number[number] for number in range(group * size, (group + 1) * size)]
            completions = [member.completion for member in members]
            shaping = generated.shaping
            is_gtpo = shaping is not None and shaping.shaped is not None
            if not is_gtpo:
                completions = with_conflicts(completions)
            record = GroupRecord(
                step=trainer.state.global_step + 1,
                prompt=decode(members[0].prompt_ids) if self.texts else None,
                completions=_with_texts(completions, decode) if self.texts else _without_texts(completions),
                entropy_threshold=trainer.args.entropy_threshold if is_gtpo else None,
                initial_entropy=None if shaping is None else shaping.initial_entropy,
                batch_entropy=None if shaping is None else shaping.batch_entropy,
                method="grpo" if shaping is None else shaping.method,
                parameters={} if shaping is None else shaping.parameters,
                reason=reason,
            )
            file.append(dataclasses.asdict(record))
        if file.path.stat().st_size > MAX_BYTES:
            drop_every_second_step(file.path)
            self.thinning *= 2


def attach_recorder(trainer: Any) -> Recorder:
    """Add a Recorder to a GRPO trainer that has none: it sees every batch that this trainer generates and scores."""
    recorder = Recorder()
    recorder.key = f"gtpo/recorder/{next(_numbers)}"
    if torch.distributed.is_initialized():
        _store().add(recorder.key, 1)
    calculate = _function(trainer._calculate_rewards)
    generate = _function(trainer._generate_and_score_completions)

    # As methods, so that a deep copy of the trainer has its own.
    @functools.wraps(calculate)
    def calculate_rewards(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        rewards: Tensor = calculate(self, *args, **kwargs)
        completion_ids = kwargs.get("completion_ids_list", args[3] if len(args) > 3 else None)
        getattr(self, ATTRIBUTE).scored = rewards, completion_ids
        return rewards

    @functools.wraps(generate)
    def generate_and_score(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        batch: dict[str, Any] = generate(self, *args, **kwargs)
        recorder: Recorder = getattr(self, ATTRIBUTE)
        recorder.record(self, Generated(batch, *recorder.scored))
        recorder.scored = None, None
        return batch

    trainer._calculate_rewards = types.MethodType(calculate_rewards, trainer)
    trainer._generate_and_score_completions = types.MethodType(generate_and_score, trainer)
    trainer.add_callback(recorder)
    setattr(trainer, ATTRIBUTE, recorder)
    return recorder


def _function(method: Any) -> Callable[..., Any]:
    """The function behind a method, which takes the object first."""

    def without_object(_: Any, *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return getattr(method, "__func__", without_object)


def _store() -> Any:
    """The key-value store of the processes. Unlike a collective, it does not wait for the others."""
    return torch.distributed.distributed_c10d._get_default_store()


def _is_on_all_processes(key: str | None) -> bool:
    """Whether every process attached the recorder that is counted under this key."""
    if key is None or not torch.distributed.is_initialized():
        return True
    return _store().add(key, 0) == torch.distributed.get_world_size()


def drop_every_second_step(path: Path) -> None:
    """Remove the records of every second step from groups.jsonl, and incomplete lines."""
    lines = [(line, step_of(line)) for line in path.read_bytes().splitlines(keepends=True)]
    kept = sorted({step for _, step in lines if step is not None})[::2]
    write_atomic(path, b"".join(line for line, step in lines if step in kept))


def _exchange(guard: Guard, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> list[T] | None:
    """What `action` returns on each process; None on all of them if it failed on one, now or before."""
    pickled = guard.run(lambda: pickle.dumps(action(*args, **kwargs)))  # what cannot be pickled fails here
    parts: list[bytes | None] = gather_object([pickled])
    complete = [part for part in parts if part is not None]
    return [pickle.loads(part) for part in complete] if len(complete) == len(parts) else None


def _with_texts(completions: list[CompletionRecord], decode: Callable[[list[int]], str]) -> list[CompletionRecord]:
    tokens = {token for completion in completions for token in completion.token_ids or ()}
    texts = {token: decode([token]) for token in tokens}
    return [
        dataclasses.replace(completion, pieces=[texts[token] for token in completion.token_ids or ()])
        for completion in completions
    ]


def _without_texts(completions: list[CompletionRecord]) -> list[CompletionRecord]:
    return [dataclasses.replace(completion, token_ids=None) for completion in completions]
