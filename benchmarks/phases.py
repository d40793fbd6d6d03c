"""Where the time of a training step goes: methods of TRL, accelerate and GTPOTrainer, wrapped from outside.

Times are exclusive: a phase that another one calls is not counted in the caller, so the phases of a step add up to the
step. Every change of phase waits for the device.
"""

import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from results import Result, result, synchronize
from transformers.trainer_callback import CallbackHandler
from trl.generation.vllm_generation import VLLMGeneration

from gtpo import GTPOTrainer
from gtpo.trl.fast.generation import LeanGeneration
from trl import GRPOTrainer

GENERATION, SYNC, LOG_PROBS, REWARDS = "generation", "weight sync", "log-probs", "rewards"
SHAPING, UPDATE, TRL, REST = "shaping", "update", "TRL's bookkeeping", "rest"
PHASES = (GENERATION, SYNC, LOG_PROBS, REWARDS, SHAPING, UPDATE, TRL, REST)


class StepClock:
    """Seconds by phase and passes over the policy (scoring: TRL's and ours; update), for every optimizer step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self._stack: list[str] = []
        self._is_ours = False
        self._begin()

    def _begin(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._passes = {who: {"calls": 0, "rows": 0, "tokens": 0} for who in ("TRL", "ours", "update")}
        self._last = time.perf_counter()

    def _account(self) -> None:
        synchronize()
        now = time.perf_counter()
        self._seconds[self._stack[-1] if self._stack else REST] += now - self._last
        self._last = now

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._account()
        self._stack.append(name)
        try:
            yield
        finally:
            self._account()
            self._stack.pop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside belongs to no step."""
        self._account()
        seconds = dict(self._seconds)
        try:
            yield
        finally:
            self._account()
            self._seconds = defaultdict(float, seconds)

    def install(self) -> None:
        """Wrap everything. For the life of the process."""
        for owner, name, phase in (
            (VLLMGeneration, "generate", GENERATION),
            (VLLMGeneration, "sync_weights", SYNC),
            (LeanGeneration, "sync_weights", SYNC),
            (GRPOTrainer, "_generate_single_turn", GENERATION),
            (GRPOTrainer, "_calculate_rewards", REWARDS),
            (GRPOTrainer, "_generate_and_score_completions", TRL),
            (GRPOTrainer, "_prepare_inputs", TRL),
            (GTPOTrainer, "_generate_and_score_completions", SHAPING),
            (GTPOTrainer, "_shape_in_update", SHAPING),
            (GRPOTrainer, "training_step", UPDATE),
            (Accelerator, "clip_grad_norm_", UPDATE),
            (AcceleratedOptimizer, "step", UPDATE),
        ):
            _wrap(owner, name, functools.partial(self._timed, phase))
        _wrap(GRPOTrainer, "_get_per_token_logps_and_entropies", self._scored)
        _wrap(GTPOTrainer, "_token_entropy", self._for_us)
        _wrap(CallbackHandler, "on_train_begin", self._train_begins)
        _wrap(CallbackHandler, "on_step_end", self._step_ends)

    def _timed(self, phase: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self.phase(phase):
            return method(*args, **kwargs)

    def _scored(
        self, method: Callable[..., Any], trainer: Any, model: Any, ids: Any, *args: Any, **kwargs: Any
    ) -> Any:
        is_update = torch.is_grad_enabled()
        if is_update or model is trainer.model:
            passes = self._passes["update" if is_update else "ours" if self._is_ours else "TRL"]
            passes["calls"] += 1
            passes["rows"] += ids.shape[0]
            passes["tokens"] += ids.numel()
        with contextlib.nullcontext() if is_update else self.phase(LOG_PROBS):
            return method(trainer, model, ids, *args, **kwargs)

    def _for_us(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._is_ours = True
        try:
            return method(*args, **kwargs)
        finally:
            self._is_ours = False

    def _train_begins(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._begin()
        return method(*args, **kwargs)

    def _step_ends(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        control = method(*args, **kwargs)
        self._account()
        seconds = {phase: self._seconds.get(phase, 0.0) for phase in PHASES}
        self.steps.append({"seconds": seconds, "passes": self._passes})
        self._begin()
        return control


def phase_rows(provider: str, size: str, steps: Sequence[dict[str, Any]]) -> list[Result]:
    """Rows of results.csv: seconds of each phase, and the passes over the policy in completions and tokens."""
    rows = [result("step", provider, size, phase, [step["seconds"][phase] for step in steps], "s") for phase in PHASES]
    for who, pass_name in (("TRL", "scoring by TRL"), ("ours", "scoring by us"), ("update", "update")):
        for what in ("rows", "tokens"):
            counts = [step["passes"][who][what] for step in steps]
            rows.append(result("step", provider, size, f"{pass_name}: {what}", counts, ""))
    return rows


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(method, *args, **kwargs)

    setattr(owner, name, wrapped)
