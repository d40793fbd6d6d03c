"""GTPOTrainer: FastGRPOTrainer with one advantage per token.

TRL generates, scores, shuffles, splits and computes the loss. After scoring, the completions of a prompt are together
for the only time: there this class replaces TRL's (B,) advantages with the (B, T) advantages of GTPO, or of another
credit scheme. The loss is TRL's.
"""

import dataclasses
import textwrap
import time
from typing import Any, cast

from torch import Tensor

from gtpo.core.entropy import completion_entropy
from gtpo.core.groups import ZERO_ADVANTAGE
from gtpo.core.initial_entropy import InitialEntropy, entropy_totals
from gtpo.core.metrics import logged_metrics, metric_totals
from gtpo.core.shaping import ShapedAdvantages
from gtpo.credit.metrics import credit_metrics, credit_totals
from gtpo.errors import ConfigError, DataError, naming_the_step
from gtpo.trl.components import TokenJudges, component_advantages
from gtpo.trl.config import GTPOConfig
from gtpo.trl.fast.padding import COMPLETION_KEYS, PROMPT_KEYS, ROW_NUMBER
from gtpo.trl.fast.trainer import FastGRPOTrainer
from gtpo.trl.gathering import Rows, complete_groups
from gtpo.trl.one_pass import UnshapedBatch, update_can_shape
from gtpo.trl.penalty import PenaltyCheck
from gtpo.trl.state import InitialEntropyState
from gtpo.trl.watching.generated import Generated, Shaping, total_rewards
from gtpo.trl.watching.recording import Recorder
from gtpo.trl.watching.scoring import batch_scores


@dataclasses.dataclass
class Captured:
    """A generation batch while it is scored and shaped: what TRL computes and does not return, and what it takes."""

    needs_scores: bool  # otherwise nothing of TRL's is wanted but rewards
    rewards: Tensor | None = None  # one column per reward function, rows of all processes; NaN: could not be scored
    token_entropy: Tensor | None = None  # of the first scoring pass over the module of the policy
    token_logps: Tensor | None = None  # of the pass that the entropies come from
    is_recorded: bool = False
    seconds_sampling: float = 0.0
    seconds_shaping: float = 0.0


class GTPOTrainer(FastGRPOTrainer):
    """Trainer for GTPO, Group-relative Trajectory-based Policy Optimization (arXiv:2508.03772).

    Takes the arguments of GRPOTrainer in the same order, with a GTPOConfig as `args`:

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
    _paper = {  # noqa: RUF012 (as in the parent)
        "title": "GTPO: Stabilizing Group Relative Policy Optimization via Gradient and Entropy Control",
        "id": "2508.03772",
        "citation": textwrap.dedent("""\
            @article{simoni2025gtpo,
                title  = {{GTPO: Stabilizing Group Relative Policy Optimization via Gradient and Entropy Control}},
                author = {Marco Simoni and Aleksandar Fontana and Giulio Rossolini and Andrea Saracino and Paolo Mori},
                year   = 2025,
                eprint = {arXiv:2508.03772},
            }"""),
    }

    args: GTPOConfig
    accelerator: Any
    model: Any
    num_generations: int
    num_generations_eval: int
    _captured: Captured | None = None
    _unshaped: tuple[UnshapedBatch, dict[str, Any], Captured] | None = None

    def __init__(
        self, model: Any, reward_funcs: Any = None, args: GTPOConfig | None = None, *rest: Any, **kwargs: Any
    ) -> None:
        if args is None:
            name = model if isinstance(model, str) else model.config.name_or_path
            args = GTPOConfig(f"{name.rstrip('/').split('/')[-1]}-GTPO")
        if not isinstance(cast("Any", args), GTPOConfig):
            raise ConfigError(
                f"GTPOTrainer takes a GTPOConfig as args, got {type(args).__name__}. Rename the class: GTPOConfig has "
                "every option of GRPOConfig."
            )
        self.credit = args.choose_credit()
        super().__init__(model, reward_funcs, args, *rest, **kwargs)
        if hasattr(self, "liger_loss"):
            raise ConfigError(
                "GTPOTrainer does not support use_liger_kernel=True with this version of TRL: Liger's loss takes one "
                "advantage per completion. Set use_liger_kernel=False, or install trl>=1.14."
            )
        if args.credit != "gtpo":
            self._name, self._paper = f"GRPO with {args.credit} credit", FastGRPOTrainer._paper
        self._judges: TokenJudges | None = None
        if "token_component" in self.credit.needs:
            self._judges = TokenJudges(self.reward_funcs, self.reward_func_names, self.processing_class)
        self.initial_entropy = InitialEntropy(args.initial_entropy_prompts, given=args.initial_entropy)
        self._measures_initial_entropy = args.credit == "gtpo" or "initial_entropy" in self.credit.needs
        self._penalty_check = PenaltyCheck(args.shaping)
        self.gtpo_recorder = Recorder(args.record_groups, args.record_every)
        self.add_callback(self.gtpo_recorder)
        if self._measures_initial_entropy:
            is_needed = "initial_entropy" in self.credit.needs
            self.add_callback(InitialEntropyState(self.initial_entropy, is_needed=is_needed))

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        start = time.perf_counter()
        is_left_to_update = update_can_shape(self)
        self._captured = captured = Captured(needs_scores=self.credit.needs_scores and not is_left_to_update)
        try:
            batch = super()._generate_and_score_completions(inputs)
        finally:
            self._captured = None
        sampled = time.perf_counter()
        captured.seconds_sampling, captured.is_recorded = sampled - start, self.gtpo_recorder.is_due(self)
        rows = self._complete_groups(batch, captured)
        if is_left_to_update:
            self._require_shaping_loss()
            num_micro_batches = cast("int", self.args.steps_per_generation)
            unshaped = UnshapedBatch(rows, self.args.shaping, self.initial_entropy.value, num_micro_batches)
            known = {key: batch[key] for key in batch.keys() & (PROMPT_KEYS | COMPLETION_KEYS)}
            self._unshaped = unshaped, known, captured
            batch |= unshaped.for_update()
            captured.seconds_shaping = time.perf_counter() - sampled
        else:
            batch["advantages"] = self._credit(rows, batch, captured, sampled)
        return batch

    def _credit(self, rows: Rows, batch: dict[str, Any], captured: Captured, start: float) -> Tensor:
        """The advantages of the tokens of this process, recorded and logged."""
        initial_entropy = self._measure_initial_entropy(rows) if self._measures_initial_entropy else None
        batch_entropy = self._batch_entropy(rows) if "batch_entropy" in self.credit.needs else None
        shaped = None
        with naming_the_step(self.state.global_step + 1):
            if self.args.credit == "gtpo":
                shaped = self._shape(rows, initial_entropy)
                credit = shaped.advantages
            else:
                credit = self.credit(rows.credit_input(initial_entropy, batch_entropy))
        shaping = Shaping(
            method=self.args.credit,
            parameters=dict(self.credit.parameters),
            credit=credit,
            shaped=shaped,
            advantages=rows.advantages,
            valid=rows.valid,
            first=rows.local.start,
            token_entropy=rows.token_entropy,
            token_logps=captured.token_logps,
            component_advantages=rows.component_advantages,
            token_component=rows.token_component,
            initial_entropy=initial_entropy,
            batch_entropy=batch_entropy,
        )
        self.gtpo_recorder.record(
            self, Generated(batch, captured.rewards, shaping=shaping), is_due=captured.is_recorded
        )
        captured.seconds_shaping += time.perf_counter() - start
        seconds = {name: getattr(captured, name) for name in ("seconds_sampling", "seconds_shaping")}
        initial = {} if initial_entropy is None else {"initial_entropy": initial_entropy}
        self._log_credit(rows, credit, shaped, {f"gtpo/{name}": value for name, value in (initial | seconds).items()})
        return credit[rows.local, : batch["completion_ids"].shape[1]]

    def _complete_groups(self, batch: dict[str, Any], captured: Captured) -> Rows:
        """The inputs of the credit scheme, with those that it needs beyond tokens and advantages."""
        rewards, needs = captured.rewards, self.credit.needs
        assert rewards is not None
        group_size = self.num_generations if self.model.training else self.num_generations_eval
        if self.args.scale_rewards != "none":
            batch["advantages"] = self._without_noise(batch["advantages"], rewards, group_size)
        optional: dict[str, Tensor | None] = {}
        if captured.needs_scores:
            optional["token_entropy"] = self._token_entropy(batch, captured)
        if "token_logps" in needs:
            optional["token_logps"] = captured.token_logps
        weights = self.reward_weights.to(rewards.device)
        if "rewards" in needs:
            optional["rewards"] = total_rewards(rewards, weights)
        if "component_advantages" in needs:
            optional["component_advantages"] = component_advantages(
                rewards, weights, group_size, self.args.scale_rewards
            )
        if self._judges is not None:
            first = self.accelerator.process_index * len(batch["completion_ids"])
            with naming_the_step(self.state.global_step + 1):
                optional["token_component"] = self._judges.token_component(
                    batch["completion_ids"], batch["completion_mask"], first
                )
        is_scored = ~rewards.isnan().all(dim=1)
        return complete_groups(self.accelerator, batch, group_size, is_scored=is_scored, **optional)

    def _shape(self, rows: Rows, initial_entropy: float | None) -> ShapedAdvantages:
        assert rows.token_entropy is not None
        shaped = rows.shaped(rows.token_entropy, initial_entropy, self.args.shaping)
        if self.model.training and self.accelerator.is_main_process:
            self._penalty_check.check(rows.advantages, shaped, rows.group_ids)
        return shaped

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        rewards = super()._calculate_rewards(*args, **kwargs)
        if rewards.isinf().any():
            row, column = rewards.isinf().nonzero()[0].tolist()
            raise DataError(
                f"Reward {self.reward_func_names[column]} returned {rewards[row, column]}, or a number too large for "
                f"float32, for completion {row} of the batch (over all processes). Return a finite number, or None if "
                "the completion cannot be scored."
            )
        if self._captured is not None:
            self._captured.rewards = rewards
        return rewards

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        captured = self._captured
        is_wanted = captured is not None and captured.needs_scores and captured.token_entropy is None
        if captured is not None and is_wanted and model is self.model:
            is_requested = kwargs.pop("compute_entropy", False)
            logps, entropy, aux_loss = super()._get_per_token_logps_and_entropies(
                model, *args, compute_entropy=True, **kwargs
            )
            captured.token_entropy = entropy
            return logps, entropy if is_requested else None, aux_loss
        scores = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if self._micro_batch and ROW_NUMBER in self._micro_batch:
            self._shape_in_update(self._micro_batch, *scores[:2])
        return scores

    def _shape_in_update(self, inputs: dict[str, Any], logps: Tensor, entropy: Tensor) -> None:
        assert self._unshaped is not None
        unshaped, batch, captured = self._unshaped
        with naming_the_step(self.state.global_step + 1):
            unshaped.shape(inputs, logps, entropy)
        if unshaped.is_complete:
            captured.token_logps, self._unshaped = unshaped.token_logps, None
            self._credit(unshaped.rows_with_entropy(), batch, captured, time.perf_counter())

    def _load_progress(self, checkpoint: str) -> None:
        super()._load_progress(checkpoint)
        self._unshaped = None  # of a batch before an interruption

    def _require_shaping_loss(self) -> None:
        """Raise ConfigError if the loss of the last batch was computed from incomplete advantages."""
        if self._unshaped is not None and self._unshaped[0].num_shaped == 0:
            raise ConfigError(
                f"{type(self).__name__} computes its loss without _get_per_token_logps_and_entropies, where GTPO "
                "completes the advantages. Set args.trim_batches = False: they are then complete before the update."
            )

    def _without_noise(self, advantages: Tensor, rewards: Tensor, group_size: int) -> Tensor:
        """Advantages that TRL has scaled, 0 where the reward equals the mean of its group.

        Equal rewards differ from their mean by float noise, and TRL divides it by a standard deviation near 0. Before
        that division, noise can be told from a difference.
        """
        totals = total_rewards(rewards, self.reward_weights.to(rewards.device)).view(-1, group_size)
        is_mean = ((totals - totals.nanmean(dim=1, keepdim=True)).abs() <= ZERO_ADVANTAGE).flatten()
        first = self.accelerator.process_index * len(advantages)
        return advantages.masked_fill(is_mean[first : first + len(advantages)], 0.0)

    def _token_entropy(self, batch: dict[str, Any], captured: Captured) -> Tensor:
        """Entropies of the policy: from TRL's pass over old log-probs if it ran one, else from a pass of our own."""
        if "old_per_token_logps" in batch:  # that pass is the first; otherwise the first may be the reference's
            assert captured.token_entropy is not None
            captured.token_logps = batch["old_per_token_logps"]
            return captured.token_entropy
        captured.token_logps, entropy = batch_scores(self, batch)
        return entropy

    def _measure_initial_entropy(self, rows: Rows) -> float:
        """⟨H⟩_ini, measured on the first training batches. An evaluation before them uses its own mean."""
        initial = self.initial_entropy
        if not self.model.training and initial.value is None:
            initial = InitialEntropy()
        elif not self.model.training or initial.is_frozen:
            return initial.value or 0.0
        initial.add(self._entropy_totals(rows))
        return initial.value or 0.0  # None: no completion has counted yet, so there is nothing to filter

    def _batch_entropy(self, rows: Rows) -> float:
        """The mean ⟨H⟩ of this batch over all processes."""
        total_entropy, num_completions, _ = self._entropy_totals(rows).tolist()
        return total_entropy / max(1.0, num_completions)

    def _entropy_totals(self, rows: Rows) -> Tensor:
        """Sums over the completions of all processes: their entropies, their number, and that of their prompts."""
        assert rows.token_entropy is not None
        entropy = completion_entropy(rows.token_entropy, rows.loss_mask)
        totals = entropy_totals(entropy, rows.valid & rows.loss_mask.any(dim=1), rows.group_ids)[rows.local].sum(0)
        return self.accelerator.reduce(totals, reduction="sum")

    def _log_credit(self, rows: Rows, credit: Tensor, shaped: ShapedAdvantages | None, more: dict[str, float]) -> None:
        totals = credit_totals(credit, rows.advantages, rows.trained, rows.local)
        logged = credit_metrics(self.accelerator.gather(totals.unsqueeze(0)))
        if shaped is not None:
            totals = metric_totals(
                shaped, rows.completion_ids, rows.completion_mask, rows.advantages, rows.group_ids, rows.local
            )
            logged |= logged_metrics(self.accelerator.gather(totals.unsqueeze(0)))
        metrics = self._metrics["train" if self.model.training else "eval"]
        for name, value in {**logged, **more}.items():
            metrics[name].append(value)
