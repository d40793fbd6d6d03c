"""GTPOTrainer: TRL's GRPOTrainer with one advantage per token.

TRL generates, scores, shuffles, splits and computes the loss. In between, in the one place where the completions of a
prompt are together, this class turns TRL's (B,) advantages into GTPO's (B, T) ones. The loss is TRL's own.
"""

import time
from typing import Any, cast

import torch
from torch import Tensor
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.grpo_trainer import GRPOTrainer

from gtpo.core.entropy import completion_entropy
from gtpo.core.initial_entropy import InitialEntropy, entropy_totals
from gtpo.core.metrics import logged_metrics, metric_totals
from gtpo.core.shaping import ShapedAdvantages, shape_advantages
from gtpo.errors import ConfigError, DataError
from gtpo.trl.config import GTPOConfig
from gtpo.trl.gathering import Rows, whole_groups
from gtpo.trl.paper import PAPER
from gtpo.trl.recording import MetricsRecorder, record_groups
from gtpo.trl.resume import ExactResume
from gtpo.trl.state import InitialEntropyCallback
from gtpo.trl.trimming import TrimmedBatches

SCORED_ENTROPY = "entropy of all"
"""Kept among TRL's metrics, which checkpoints hold, until it takes the place of `entropy` in the log."""


class GTPOTrainer(TrimmedBatches, ExactResume, GRPOTrainer):
    """Trainer for GTPO, Group-relative Trajectory-based Policy Optimization (arXiv:2508.03772).

    Takes what GRPOTrainer takes, in the same order, with a GTPOConfig as `args`:

    ```python
    trainer = GTPOTrainer(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        reward_funcs=my_reward,
        args=GTPOConfig(output_dir="out"),
        train_dataset=my_prompts,
    )
    trainer.train()
    ```
    """

    _tag_names = ["trl", "gtpo"]  # noqa: RUF012 (as in the parent)
    _name = "GTPO"
    _paper = PAPER

    args: GTPOConfig
    accelerator: Any
    model: Any
    num_generations: int
    num_generations_eval: int
    _is_scoring = False
    _captured_entropy: Tensor | None = None
    _rewards_per_func: Tensor | None = None

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: GTPOConfig | None = None, *rest: Any, **kwargs: Any
    ) -> None:
        if args is None:
            name = model if isinstance(model, str) else model.config.name_or_path
            args = GTPOConfig(f"{name.rstrip('/').split('/')[-1]}-GTPO")
        if not isinstance(cast("Any", args), GTPOConfig):
            raise ConfigError(
                f"GTPOTrainer takes a GTPOConfig as args, got {type(args).__name__}: the method's knobs live there. "
                "Replace the name of the class; every option of GRPOConfig is an option of GTPOConfig."
            )
        super().__init__(model, reward_funcs, args, *rest, **kwargs)
        if self._is_vlm:
            raise ConfigError(
                "GTPOTrainer does not take vision-language models: no test shows that its own entropy pass sees their "
                "images. Pass a tokenizer as processing_class to train the text part, or use TRL's GRPOTrainer."
            )
        self.add_callback(MetricsRecorder())
        self.add_callback(
            InitialEntropyCallback(given=args.initial_entropy, num_prompts_needed=args.initial_entropy_prompts)
        )

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        self._is_scoring, self._captured_entropy = True, None
        start = time.perf_counter()
        try:
            batch = super()._generate_and_score_completions(inputs)
        finally:
            self._is_scoring = False
        assert self._rewards_per_func is not None
        sampled = time.perf_counter()
        group_size = self.num_generations if self.model.training else self.num_generations_eval
        is_scorable = ~self._rewards_per_func.isnan().all(dim=1)
        rows = whole_groups(self.accelerator, batch, self._token_entropy(batch), is_scorable, group_size)
        initial_entropy = self._initial_entropy(rows)
        shaped = shape_advantages(
            rows.completion_ids,
            rows.completion_mask,
            rows.advantages,
            rows.token_entropy,
            rows.group_ids,
            initial_entropy=initial_entropy,
            loss_mask=rows.loss_mask,
            valid=rows.valid,
            config=self.args.shaping,
        )
        record_groups(self, rows, shaped, batch, self._rewards_per_func, initial_entropy)
        mine = shaped.rows(rows.local)
        batch["advantages"] = mine.advantages[:, : batch["completion_ids"].shape[1]]
        seconds = {"gtpo/seconds_sampling": sampled - start, "gtpo/seconds_shaping": time.perf_counter() - sampled}
        self._log_shaping(mine, {"gtpo/initial_entropy": initial_entropy, **seconds})
        if self.model.training and self.args.trim_batches and self.args.is_on_policy:
            self._metrics["train"][SCORED_ENTROPY].append(self._mean_token_entropy(rows))
        return batch

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        """The parent's, gathered over processes; remembered, for NaN says that a function could not score a row."""
        rewards_per_func = super()._calculate_rewards(*args, **kwargs)
        if rewards_per_func.isinf().any():
            row, column = rewards_per_func.isinf().nonzero()[0].tolist()
            raise DataError(
                f"Reward {self.reward_func_names[column]} returned {rewards_per_func[row, column]}, or more than "
                f"float32 holds, for completion {row} of the batch (over all processes). Return a finite number, or "
                "None where it cannot score."
            )
        self._rewards_per_func = rewards_per_func
        return rewards_per_func

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """The parent's, keeping the entropies of the first pass that scoring makes over the policy's own module."""
        if not self._is_scoring or model is not self.model or self._captured_entropy is not None:
            return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        is_wanted = kwargs.pop("compute_entropy", False)
        logps, entropy, aux_loss = super()._get_per_token_logps_and_entropies(
            model, *args, compute_entropy=True, **kwargs
        )
        self._captured_entropy = entropy
        return logps, entropy if is_wanted else None, aux_loss

    def _token_entropy(self, batch: dict[str, Any]) -> Tensor:
        """Entropies of the policy: from TRL's own pass over old log-probs if it made one, else from a pass of ours."""
        if "old_per_token_logps" in batch:  # that pass comes first; a later one may be the reference's
            assert self._captured_entropy is not None
            return self._captured_entropy
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        args, device = self.args, self.accelerator.device
        batch_size = args.per_device_train_batch_size if self.model.training else args.per_device_eval_batch_size
        with (
            torch.no_grad(),
            disable_gradient_checkpointing(self.model, cast("Any", args.gradient_checkpointing_kwargs)),
            torch.random.fork_rng([] if device.type in ("cpu", "mps") else [device], device_type=device.type),
        ):
            return self._get_per_token_logps_and_entropies(
                self.model, ids, mask, batch["completion_ids"].shape[1], batch_size=batch_size, compute_entropy=True
            )[1]

    def _initial_entropy(self, rows: Rows) -> float:
        """⟨H⟩_ini, measured on the first training batches; an evaluation before them takes its own mean."""
        callback = next(c for c in self.callback_handler.callbacks if isinstance(c, InitialEntropyCallback))
        initial = callback.initial_entropy
        if not self.model.training and initial.value is None:
            initial = InitialEntropy()
        elif not self.model.training or initial.is_frozen:
            return initial.value or 0.0
        entropy = completion_entropy(rows.token_entropy, rows.loss_mask)
        totals = entropy_totals(entropy, rows.valid & rows.loss_mask.any(dim=1), rows.group_ids)[rows.local].sum(0)
        initial.add(self.accelerator.reduce(totals, reduction="sum"))
        return initial.value or 0.0  # None: no completion was counted yet, so none is there to be filtered

    def _log_shaping(self, shaped: ShapedAdvantages, more: dict[str, float]) -> None:
        totals = self.accelerator.gather(metric_totals(shaped).unsqueeze(0))
        logged = self._metrics["train" if self.model.training else "eval"]
        for name, value in {**logged_metrics(totals), **more}.items():
            logged[name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """The parent's. It takes `entropy` from the update, where completions may be left out: here it is of all."""
        if self.model.training and SCORED_ENTROPY in self._metrics["train"]:
            self._metrics["train"]["entropy"] = self._metrics["train"].pop(SCORED_ENTROPY)
        super().log(logs, start_time)

    def _mean_token_entropy(self, rows: Rows) -> float:
        """Mean entropy of the trained tokens of all processes."""
        mask = rows.loss_mask[rows.local]
        sums = torch.stack([(rows.token_entropy[rows.local] * mask).sum(), mask.sum()])
        total, count = self.accelerator.reduce(sums, reduction="sum").tolist()
        return total / max(count, 1)
