"""The correction for the sampler's log-probs, without a scoring pass of its own.

vLLM and the training model give a token slightly different probabilities. TRL weights every token, or completion, by
the truncated ratio of the two, and scores the entire generation batch before the update to know it. While the weights
stay the same in between, the update computes the same log-probs: there the ratios are filled in here.
"""

import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from trl.trainer.grpo_trainer import GRPOTrainer

_Parent: Any = GRPOTrainer if TYPE_CHECKING else object

MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
METRICS = (
    "sampling/sampling_logp_difference/mean",
    "sampling/sampling_logp_difference/max",
    "sampling/importance_sampling_ratio/min",
    "sampling/importance_sampling_ratio/mean",
    "sampling/importance_sampling_ratio/max",
)
"""What TRL logs of the correction. Without the scoring pass it covers the completions that the update trains on."""
_RANDOM = re.compile("dropout|jitter")
"""Names of rates in modules that draw random numbers: of attention, and of the routers of mixtures of experts."""


class CorrectionInUpdate(_Parent):
    """Mixin for GRPO trainers. It acts only while the update sees the weights that sampled the batch.

    It comes before the mixin that removes padding, and `args.trim_batches=False` disables both.
    """

    accelerator: Any
    _may_skip = False  # TRL is about to score the generation batch, and needs nothing but the ratios
    _has_skipped = False
    _micro_batch: dict[str, Any] | None = None  # of the loss that is being computed

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._differences: list[Tensor] = []
        self._ratios: list[Tensor] = []

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        self._may_skip, self._has_skipped = self._update_has_the_log_probs(), False
        try:
            batch = super()._generate_and_score_completions(inputs)
        finally:
            self._may_skip = False
        if self._has_skipped:
            del batch["old_per_token_logps"]
            batch["importance_sampling_ratio"].fill_(torch.nan)  # until the update
            for name in METRICS:
                self._metrics["train"][name].pop()
        return batch

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> Any:
        if self._may_skip and not kwargs.get("compute_entropy"):  # TRL's first pass is the one of the policy
            self._may_skip, self._has_skipped = False, True
            return torch.zeros(len(input_ids), logits_to_keep, device=input_ids.device), None, None
        self._may_skip = False
        scored = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )
        inputs = self._micro_batch or {}
        if "importance_sampling_ratio" in inputs and "old_per_token_logps" not in inputs:
            self._correct(inputs, scored[0].detach())
        return scored

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self._micro_batch = inputs
        try:
            return super().compute_loss(model, inputs, *args, **kwargs)
        finally:
            self._micro_batch = None

    def _update_has_the_log_probs(self) -> bool:
        """Whether the update computes the log-probs of the scoring pass, and TRL needs them for the ratios alone."""
        return (
            self.use_vllm
            and self.vllm_importance_sampling_correction
            and self.vllm_importance_sampling_mode in MODES
            and not hasattr(self, "liger_loss")  # before TRL 1.14, a loss that reads the ratios elsewhere
            and update_is_a_scoring_pass(self)
        )

    @property
    def _is_per_completion(self) -> bool:
        return self.vllm_importance_sampling_mode.startswith("sequence")

    def _correct(self, inputs: dict[str, Any], logps: Tensor) -> None:
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        difference = (logps - inputs["sampling_per_token_logps"]) * mask
        is_known = mask.bool() & ~difference.isnan()  # vLLM may not know the log-prob of a token
        self._differences.append(difference[is_known].abs())
        inputs["importance_sampling_ratio"] = ratio = self._ratio(difference.nan_to_num(0.0))
        self._ratios.append(ratio.flatten() if self._is_per_completion else ratio[mask.bool()])
        if self.accelerator.sync_gradients:
            self._log_correction()

    def _ratio(self, difference: Tensor) -> Tensor:
        low, high = self.vllm_importance_sampling_clip_min, self.vllm_importance_sampling_clip_max
        ratio = (difference.sum(dim=1, keepdim=True) if self._is_per_completion else difference).exp()
        if self.vllm_importance_sampling_mode.endswith("truncate"):
            return ratio.clamp(low, high)
        is_outside = (ratio < (-torch.inf if low is None else low)) | (ratio > (torch.inf if high is None else high))
        return ratio.masked_fill(is_outside, 0.0)

    def _log_correction(self) -> None:
        """Log the five numbers of TRL over the micro-batches of an optimizer step."""
        difference, ratio = torch.cat(self._differences), torch.cat(self._ratios)
        self._differences, self._ratios = [], []
        difference, ratio = (values if values.numel() else values.new_zeros(1) for values in (difference, ratio))
        local = [difference.mean(), difference.max(), ratio.min(), ratio.mean(), ratio.max()]
        gathered = self.accelerator.gather(torch.stack(local).unsqueeze(0))
        means, lowest, highest = gathered.mean(dim=0), gathered.amin(dim=0), gathered.amax(dim=0)
        values = [means[0], highest[1], lowest[2], means[3], highest[4]]
        for name, value in zip(METRICS, torch.stack(values).tolist(), strict=True):
            self._metrics["train"][name].append(value)


def update_is_a_scoring_pass(trainer: Any) -> bool:
    """Whether the update computes what a pass before it would: the same weights, and nothing random."""
    args = trainer.args
    return (
        trainer.model.training
        and getattr(args, "trim_batches", True)
        and args.gradient_accumulation_steps % (args.steps_per_generation * trainer.num_iterations) == 0
        and not has_dropout(trainer.model)
    )


def has_dropout(model: nn.Module) -> bool:
    """Whether two passes in training mode may give different log-probs."""
    return any(
        (isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0)
        or any(isinstance(value, float) and value > 0 and _RANDOM.search(name) for name, value in vars(module).items())
        for module in model.modules()
    )
