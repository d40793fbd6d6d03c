"""Writes the records of a run (gtpo.records) from inside TRL: metrics at every log, whole groups now and then."""

import math
import time
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gtpo.core.shaping import ShapedAdvantages
from gtpo.files import JsonLines
from gtpo.logged import without_summary
from gtpo.records import GROUPS_FILE, METRICS_FILE, CompletionRecord, GroupRecord, completion_record, group_to_row
from gtpo.trl.gathering import Rows


class MetricsRecorder(TrainerCallback):
    """Appends what the trainer logs to `metrics.jsonl`; a resumed run first drops what came after its checkpoint."""

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
            seconds = (row.get("seconds") for row in metrics.rows())
            self.earlier_seconds = max((one for one in seconds if isinstance(one, int | float)), default=0.0)

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


def record_groups(
    trainer: Any,
    rows: Rows,
    shaped: ShapedAdvantages,
    batch: dict[str, Any],
    rewards_per_func: Tensor,
    initial_entropy: float,
) -> None:
    """Write the first groups of the main process's part of a generation batch, if this step is to be recorded."""
    args, step = trainer.args, trainer.state.global_step
    if not (trainer.model.training and trainer.is_world_process_zero() and _is_due(trainer)):
        return
    size = trainer.num_generations
    for group in range(min(args.record_groups, len(rows.group_ids) // size)):
        members = range(group * size, (group + 1) * size)
        prompt_ids = batch["prompt_ids"][members.start][batch["prompt_mask"][members.start].bool()]
        rewards = rewards_per_func[rows.first + members.start : rows.first + members.stop].tolist()
        record = GroupRecord(
            step=step + 1,
            prompt=trainer.processing_class.decode(prompt_ids, skip_special_tokens=False),
            completions=[
                _completion(trainer, row, dict(zip(trainer.reward_func_names, scores, strict=True)), rows, shaped)
                for row, scores in zip(members, rewards, strict=True)
            ],
            entropy_threshold=args.entropy_threshold,
            initial_entropy=initial_entropy,
        )
        JsonLines(Path(args.output_dir) / GROUPS_FILE).append(group_to_row(record))


def _is_due(trainer: Any) -> bool:
    """Is a multiple of `record_every` among the optimizer steps that this generation batch is for? Once a step."""
    args = trainer.args
    accumulation = args.gradient_accumulation_steps
    steps_covered = max(1, args.steps_per_generation * trainer.num_iterations // accumulation)
    begins_a_step = trainer._step % accumulation == 0
    return begins_a_step and -trainer.state.global_step % args.record_every < steps_covered


def _completion(
    trainer: Any, row: int, rewards: dict[str, float], rows: Rows, shaped: ShapedAdvantages
) -> CompletionRecord:
    size = int(rows.completion_mask[row].sum())
    token_ids = rows.completion_ids[row, :size].tolist()
    return completion_record(
        shaped,
        row,
        token_ids=token_ids,
        pieces=[trainer.processing_class.decode([token]) for token in token_ids],
        rewards={name: None if math.isnan(score) else score for name, score in rewards.items()},
        advantage=rows.advantages[row].item(),
        entropy=shaped.entropy[row].item(),
        token_entropy=[round(value, 4) for value in rows.token_entropy[row, :size].tolist()],
    )
