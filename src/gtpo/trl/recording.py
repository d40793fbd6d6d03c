"""The records of a run on TRL (gtpo.records): metrics at every log, and complete groups of completions."""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from gtpo.core.shaping import ShapedAdvantages
from gtpo.files import JsonLines, is_number
from gtpo.logged import without_summary
from gtpo.records import GROUPS_FILE, METRICS_FILE, CompletionRecord, completion_record
from gtpo.trl.gathering import Rows


class MetricsRecorder(TrainerCallback):
    """Appends what the trainer logs to `metrics.jsonl`. A resumed run first drops the steps after its checkpoint."""

    def __init__(self) -> None:
        self.earlier_seconds, self.start = 0.0, time.monotonic()

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
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

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        metrics = without_summary(kwargs["logs"])
        if not metrics or not state.is_world_process_zero:
            return
        seconds = round(self.earlier_seconds + time.monotonic() - self.start, 3)
        row = {"step": state.global_step, "seconds": seconds, **metrics}
        JsonLines(Path(args.output_dir) / METRICS_FILE).append(row)


def recorded(
    rows: Rows, shaped: ShapedAdvantages, row: int, rewards: Mapping[str, float], decode: Callable[[list[int]], str]
) -> CompletionRecord:
    """The record of one completion; `rewards` are its own, NaN where a reward function could not score it."""
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
