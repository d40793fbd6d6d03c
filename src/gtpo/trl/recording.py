"""The records of a run on TRL (gtpo.records): metrics at every log, and complete groups of completions."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gtpo.core.shaping import ShapedAdvantages
from gtpo.files import JsonLines, is_number
from gtpo.logged import without_summary
from gtpo.records import GROUPS_FILE, METRICS_FILE, CompletionRecord, GroupRecord, completion_record
from gtpo.trl.gathering import Rows

Decode = Callable[[list[int]], str]


class MetricsRecorder(TrainerCallback):
    """Appends what the trainer logs to `metrics.jsonl`. A resumed run first drops the steps after its checkpoint."""

    def __init__(self) -> None:
        self.earlier_seconds, self.start = 0.0, time.monotonic()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.earlier_seconds, self.start = 0.0, time.monotonic()
        if not state.is_world_process_zero:
            return
        folder = Path(str(args.output_dir))
        for name in (METRICS_FILE, GROUPS_FILE):
            records = JsonLines(folder / name)
            if state.global_step == 0:
                records.back_up()
            else:
                records.truncate_after(state.global_step)
        metrics = JsonLines(folder / METRICS_FILE)
        if metrics.path.exists():
            seconds = [row["seconds"] for row in metrics.rows() if is_number(row.get("seconds"))]
            self.earlier_seconds = max(seconds, default=0.0)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        metrics = without_summary(logs or {})
        if not metrics or not state.is_world_process_zero:
            return
        seconds = round(self.earlier_seconds + time.monotonic() - self.start, 3)
        row = {"step": state.global_step, "seconds": seconds, **metrics}
        JsonLines(Path(str(args.output_dir)) / METRICS_FILE).append(row)


def group_records(
    step: int,
    rows: Rows,
    shaped: ShapedAdvantages,
    *,
    prompts: Sequence[list[int]],
    rewards: Sequence[Mapping[str, float]],
    decode: Decode,
    entropy_threshold: float,
    initial_entropy: float,
) -> list[GroupRecord]:
    """The records of the first groups of `rows`, one for each of `prompts`; `rewards` are those of each row."""
    records: list[GroupRecord] = []
    for group, prompt in zip(rows.group_ids.unique(), prompts, strict=False):
        members = (rows.group_ids == group).nonzero().flatten().tolist()
        record = GroupRecord(
            step=step,
            prompt=decode(prompt),
            completions=[_completion_record(row, rewards[row], rows, shaped, decode) for row in members],
            entropy_threshold=entropy_threshold,
            initial_entropy=initial_entropy,
        )
        records.append(record)
    return records


def _completion_record(
    row: int, rewards: Mapping[str, float], rows: Rows, shaped: ShapedAdvantages, decode: Decode
) -> CompletionRecord:
    size = int(rows.completion_mask[row].sum())
    token_ids = rows.completion_ids[row, :size].tolist()
    return completion_record(
        shaped,
        row,
        token_ids=token_ids,
        pieces=[decode([token]) for token in token_ids],
        rewards={name: None if math.isnan(score) else score for name, score in rewards.items()},
        advantage=rows.advantages[row].item(),
        entropy=shaped.entropy[row].item(),
        token_entropy=[round(value, 4) for value in rows.token_entropy[row, :size].tolist()],
    )
