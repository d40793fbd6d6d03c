"""`trainer.v1.trainer_mode=gtpo_sync`: verl's synchronous trainer with one advantage per token, of any credit scheme.

verl samples, scores, balances, computes old log-probs and updates. To compute advantages, this class reads the
completions and the entropies of the old-log-prob pass from TransferQueue and shapes. The parent does KL, rollout
correction and writing back. The step runs in one process on the complete batch, so groups are never split. Their rows
come in any order and are matched by uid.
"""

import dataclasses
import functools
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue as tq  # pyright: ignore[reportMissingImports]
from omegaconf import OmegaConf  # pyright: ignore[reportMissingImports]
from torch import Tensor
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer  # pyright: ignore[reportMissingImports]

from gtpo.core.entropy import completion_entropy
from gtpo.core.groups import group_sum
from gtpo.core.initial_entropy import InitialEntropy, entropy_totals
from gtpo.core.metrics import logged_metrics, metric_totals
from gtpo.core.shaping import shape_advantages
from gtpo.credit import CreditInput
from gtpo.credit.metrics import credit_metrics, credit_totals
from gtpo.errors import ConfigError, DataError, naming_the_step
from gtpo.verl.config import read_settings
from gtpo.verl.estimator import SHAPE

STATE_FILE = "gtpo.json"


@register_trainer("gtpo_sync")  # pyright: ignore[reportUntypedClassDecorator]
class GTPOTrainerSync(PPOTrainerSync):  # pyright: ignore[reportUntypedBaseClass]
    """Trainer for GTPO, Group-relative Trajectory-based Policy Optimization (arXiv:2508.03772)."""

    config: Any
    global_steps: int

    def __init__(self, config: Any) -> None:
        if not version("verl").startswith("0.9."):
            raise ConfigError(f"GTPO's trainer needs verl 0.9, got {version('verl')}: pip install 'verl==0.9.1'.")
        self.settings = read_settings(OmegaConf.to_container(config, resolve=True))
        self.credit = self.settings.choose_credit()
        self.initial_entropy = InitialEntropy(
            num_prompts_needed=self.settings.initial_entropy_prompts, given=self.settings.initial_entropy
        )
        config.trainer.v1.trainer_mode = "sync"  # the parent compares its mode with this name
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        token = SHAPE.set(functools.partial(self._shape, batch, metrics))
        try:
            with naming_the_step(self.global_steps):
                return super()._compute_advantage(batch, metrics)
        finally:
            SHAPE.reset(token)

    def _shape(self, batch: Any, logged: dict[str, Any], rewards: Tensor, loss_mask: Tensor, uid: Any) -> Tensor:
        """Ã for the rows of `batch`; `loss_mask` is the response mask after verl has rejected rows and tokens."""
        needs = self.credit.needs
        completions = _read_completions(batch, has_logps="token_logps" in needs)
        is_scored = ~rewards.isnan()
        trained = loss_mask.bool() & completions.mask
        group_ids = torch.as_tensor(np.unique(np.asarray(uid, dtype=str), return_inverse=True)[1])
        valid = is_scored & trained.any(1)  # padding rows of verl have no tokens to train
        totals = entropy_totals(completion_entropy(completions.token_entropy, trained), valid, group_ids).sum(0)
        if not self.initial_entropy.is_frozen:
            self.initial_entropy.add(totals)
        initial_entropy = self.initial_entropy.value or 0.0  # None: no completion was counted, so none is filtered
        optional: dict[str, Any] = {
            "rewards": rewards.float(),
            "token_entropy": completions.token_entropy,
            "token_logps": completions.token_logps,
            "initial_entropy": initial_entropy,
            "batch_entropy": (totals[0] / totals[1].clamp(min=1)).item(),
        }
        advantages = group_relative(rewards, is_scored, group_ids)
        tokens = completions.ids, completions.mask
        masks = {"loss_mask": trained, "valid": valid}
        if self.settings.credit == "gtpo":
            shaped = shape_advantages(
                *tokens,
                advantages,
                completions.token_entropy,
                group_ids,
                initial_entropy=initial_entropy,
                config=self.settings,
                **masks,
            )
            credit = shaped.advantages
            logged.update(logged_metrics(metric_totals(shaped, *tokens, advantages, group_ids).unsqueeze(0)))
            logged["gtpo/initial_entropy"] = initial_entropy
        else:
            needed = {name: value for name, value in optional.items() if name in needs}
            credit = self.credit(CreditInput(*tokens, advantages, group_ids, **masks, **needed))
        trained = trained & valid.unsqueeze(1)
        logged.update(credit_metrics(credit_totals(credit, advantages, trained).unsqueeze(0)))
        return credit

    def _save_checkpoint(self) -> None:
        """Save the measured entropy, then the checkpoint: the parent marks it complete at the end."""
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STATE_FILE).write_text(json.dumps(dataclasses.asdict(self.initial_entropy)))
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps == 0 or self.initial_entropy.given is not None:
            return
        trainer = self.config.trainer
        folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
        saved = (Path(trainer.resume_from_path) if trainer.resume_mode == "resume_path" else folder) / STATE_FILE
        if saved.is_file():
            self.initial_entropy = InitialEntropy(**json.loads(saved.read_text()))
        elif "initial_entropy" in self.credit.needs:
            is_gtpo = self.settings.credit == "gtpo"
            setting = "entropy_filter='auto'" if is_gtpo else f"credit={self.settings.credit!r}"
            remedy = ", or set algorithm.gtpo.entropy_filter to 'all', 'negative' or 'off'" if is_gtpo else ""
            raise ConfigError(
                f"{setting} needs the entropy of the initial policy, and the checkpoint does not have it: {saved} "
                "does not exist. It cannot be measured now, because the policy has been trained. Set "
                f"algorithm.gtpo.initial_entropy{remedy}."
            )


@dataclasses.dataclass(frozen=True)
class _Completions:
    ids: Tensor
    mask: Tensor
    token_entropy: Tensor
    token_logps: Tensor | None


def _read_completions(batch: Any, *, has_logps: bool) -> _Completions:
    """Tokens, and what verl's old-log-prob pass computed for them, padded on the right."""
    fields = ["responses", "response_mask", "entropy", *(["old_log_probs"] if has_logps else [])]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    if "entropy" not in data.keys():  # noqa: SIM118 (a TensorDict)
        raise DataError(
            "verl's pass over old log-probs left no entropies in TransferQueue, and GTPO does not compute them. Is "
            "algorithm.rollout_correction.bypass_mode set, or _compute_old_log_prob overridden?"
        )
    lengths = data["responses"].offsets().diff()
    written = data["response_mask"].to_padded_tensor(0).bool()
    mask = torch.arange(written.shape[1]) < lengths.unsqueeze(1)
    is_broken = written.any(1) & (mask & ~written).any(1)
    continued = [key for key in batch.keys if not key.endswith("_0")]
    if continued or bool(is_broken.any()):
        reason = f"row {continued[0]} continues a session" if continued else "some tokens are not the policy's"
        raise DataError(
            f"These rollouts have several turns: {reason}. GTPO on verl does not support that yet. Use "
            "single_turn_agent as the agent loop."
        )
    return _Completions(
        ids=data["responses"].to_padded_tensor(0),
        mask=mask,
        token_entropy=data["entropy"].to_padded_tensor(0).float(),
        token_logps=data["old_log_probs"].to_padded_tensor(0).float() if has_logps else None,
    )


def group_relative(rewards: Tensor, is_scored: Tensor, group_ids: Tensor) -> Tensor:
    """A_i = R_i − mean R over the scored rows of the group; 0 for rows that were not scored."""
    scored = torch.where(is_scored, rewards, torch.zeros_like(rewards)).float()
    mean = group_sum(scored, group_ids) / group_sum(is_scored.float(), group_ids).clamp(min=1)
    return torch.where(is_scored, scored - mean, torch.zeros_like(scored))
