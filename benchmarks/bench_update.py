"""The update of TRL's GRPO, FastGRPO and GTPO on the same stored rollouts, from completions to the optimizer step.

    python benchmarks/bench_update.py --append benchmarks/results.csv          # one GPU: Qwen2.5-1.5B's shape
    python benchmarks/bench_update.py --size tiny --steps 2                    # a CPU, seconds: the same code

The real trainers run; a `rollout_func` returns stored completions instead of sampling. The clock starts when the
completions are there and stops after the optimizer step. It includes rewards, log-prob, reference and entropy passes,
shaping, forward and backward. Each provider is measured with and without TRL's correction for the log-probs of the
sampler (on by default with vLLM; TRL then scores every completion anyway). The learning rate is 0, so every step does
the same work on the same weights.
"""

import argparse
import gc
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from results import TIMED_STEPS, Result, report, result, synchronize
from stored import Rollouts, make_rollouts, make_tokenizer, pretend_vllm, save_model, token_reward
from transformers import PrinterCallback, TrainerCallback
from transformers.utils.logging import disable_progress_bar

from gtpo import FastGRPOTrainer, GTPOConfig, GTPOTrainer
from trl import GRPOConfig, GRPOTrainer

FILTERED, UNTRIMMED = "GTPO, 30 % filtered", "GTPO, untrimmed"
GRPO = {"loss_type": "grpo", "scale_rewards": "none"}
PROVIDERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "TRL GRPO β=0": (GRPOTrainer, GRPOConfig, {**GRPO, "beta": 0.0}),
    "TRL GRPO β=0.04": (GRPOTrainer, GRPOConfig, {**GRPO, "beta": 0.04}),
    "FastGRPO β=0": (FastGRPOTrainer, GRPOConfig, {**GRPO, "beta": 0.0}),
    "FastGRPO β=0.04": (FastGRPOTrainer, GRPOConfig, {**GRPO, "beta": 0.04}),
    "GTPO": (GTPOTrainer, GTPOConfig, {}),
    FILTERED: (GTPOTrainer, GTPOConfig, {"entropy_filter": "all"}),
    UNTRIMMED: (GTPOTrainer, GTPOConfig, {"trim_batches": False}),
}
CORRECTION = {True: "correction on", False: "correction off"}


@dataclass(frozen=True)
class Size:
    shape: str
    num_prompts: int
    group_size: int
    limit: int
    prompt_tokens: tuple[int, int]
    micro_batch: int
    vocabulary: int

    @property
    def label(self) -> str:
        return f"{self.shape}, {self.num_prompts} × {self.group_size} × ≤ {self.limit}"


SIZES = {
    "full": Size("qwen2.5-1.5b", 32, 8, 1024, (60, 100), 16, 151936),
    "half": Size("qwen2.5-0.5b", 32, 8, 1024, (60, 100), 16, 151936),
    "tiny": Size("tiny", 4, 4, 24, (4, 8), 4, 512),
}


class Clock(TrainerCallback):
    """Seconds, peak memory and tokens through the policy of every step after the first, which is a warm-up."""

    def __init__(self, steps: int, corrections: Sequence[bool]) -> None:
        self.schedule = [corrections[0], *(is_on for is_on in corrections for _ in range(steps))]
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self.tokens: dict[bool, list[float]] = {True: [], False: []}
        self.peak: dict[bool, float] = {True: 0.0, False: 0.0}
        self.trainer: Any = None
        self.start = self.num_tokens = 0.0

    def completions_are_there(self) -> None:
        synchronize()
        self.start = time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.vllm_importance_sampling_correction = self.schedule[state.global_step]
        self.num_tokens = 0.0
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        synchronize()
        step, seconds = state.global_step - 1, time.perf_counter() - self.start
        if step == 0:
            return
        is_corrected = self.schedule[step]
        self.seconds[is_corrected].append(seconds)
        self.tokens[is_corrected].append(self.num_tokens)
        if torch.cuda.is_available():
            self.peak[is_corrected] = max(self.peak[is_corrected], torch.cuda.max_memory_allocated() / 1e9)

    def count(self, model: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.num_tokens += kwargs["input_ids"].numel()


def setup(size: Size, provider: str, model: str, out: str, clock: Clock) -> Any:
    """The provider's trainer, ready to train on stored rollouts by the clock."""
    trainer_class, config_class, options = PROVIDERS[provider]
    rollouts = make_rollouts(
        size.num_prompts, size.group_size, size.limit, size.vocabulary, prompt_tokens=size.prompt_tokens
    )
    on_gpu = torch.cuda.is_available()
    if provider == FILTERED:
        options = {**options, "entropy_threshold": math.log(size.vocabulary) + 1}  # only rows that are raised exceed
        options["entropy_filter"] = "all"  # otherwise entropies come from the update, and rows are not left out of it
    config = config_class(
        output_dir=out, max_steps=len(clock.schedule), learning_rate=0.0, num_generations=size.group_size,
        per_device_train_batch_size=size.micro_batch, max_completion_length=size.limit, shuffle_dataset=False,
        gradient_accumulation_steps=size.num_prompts * size.group_size // size.micro_batch, logging_steps=1,
        save_strategy="no", report_to="none", disable_tqdm=True, bf16=on_gpu, use_cpu=not on_gpu,
        model_init_kwargs={"dtype": "bfloat16" if on_gpu else "float32"}, **options,
    )  # fmt: skip

    def sampler(prompts: list[str], trainer: Any) -> dict[str, Any]:
        output = rollouts.sampler(prompts, trainer)
        clock.completions_are_there()
        return output

    trainer = trainer_class(
        model, token_reward, config, rollouts.dataset(), rollout_func=sampler, callbacks=[clock],
        processing_class=make_tokenizer(size.vocabulary),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    clock.trainer = trainer
    trainer.model.register_forward_pre_hook(clock.count, with_kwargs=True)
    pretend_vllm(trainer)
    if provider == FILTERED:
        raise_entropy(trainer, rollouts)
    return trainer


def raise_entropy(trainer: Any, rollouts: Rollouts, share: float = 0.3) -> None:
    """Lift the measured entropy of some completions, drawn without regard to their length, above the threshold."""
    num_rows = len(rollouts.lengths)
    chosen = torch.randperm(num_rows, generator=torch.Generator().manual_seed(1))[: round(share * num_rows)]
    lift = torch.zeros(num_rows, 1).index_fill_(0, chosen, 100.0)
    measured = trainer._token_entropy

    def raised(*scored: Any) -> Any:
        entropy = measured(*scored)
        return entropy + lift.to(entropy)

    trainer._token_entropy = raised


def measure(
    size: Size, provider: str, model: str, steps: int, corrections: Sequence[bool] = (True, False)
) -> list[Result]:
    """Time, memory and tokens of one provider, with and without TRL's correction."""
    clock = Clock(steps, corrections)
    with tempfile.TemporaryDirectory() as out:
        trainer = setup(size, provider, model, out, clock)
        trainer.train()
        logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    if provider == FILTERED:
        kept = logs[-1]["gtpo/frac_kept"]
        assert 0.6 < kept < 0.8, f"30 % were to be filtered, {kept:.0%} were kept"
    trainer.accelerator.free_memory()
    trainer.model = trainer.model_wrapped = trainer.ref_model = trainer.optimizer = None
    clock.trainer = trainer = None
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        left = torch.cuda.memory_allocated() / 1e9
        if left > 0.5:
            sys.stderr.write(f"{left:.1f} GB of {provider} are still there and count against the next provider\n")
    rows: list[Result] = []
    for is_corrected in corrections:
        label = f"{size.label}, {CORRECTION[is_corrected]}"
        rows.append(result("update", provider, label, "time", clock.seconds[is_corrected], "s"))
        rows.append(result("update", provider, label, TIMED_STEPS, [len(clock.seconds[is_corrected])], ""))
        rows.append(result("update", provider, label, "tokens through the policy", clock.tokens[is_corrected], ""))
        if torch.cuda.is_available():
            rows.append(result("update", provider, label, "peak memory", [clock.peak[is_corrected]], "GB"))
    return rows


def speed_ups(rows: list[Result]) -> list[Result]:
    """Ours over TRL's, by the medians of this very run."""
    times = {(row.provider, row.size): row.median for row in rows if row.metric == "time"}
    return [
        result("update", provider, label, f"speed-up over {peer}", [times[peer, label] / seconds], "×")
        for (provider, label), seconds in times.items()
        for peer in PROVIDERS
        if peer.startswith("TRL") and not provider.startswith("TRL") and (peer, label) in times
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="full" if torch.cuda.is_available() else "tiny")
    parser.add_argument("--steps", type=int, default=3, help="timed steps with the correction, and as many without")
    parser.add_argument(
        "--providers", nargs="+", choices=PROVIDERS, default=[name for name in PROVIDERS if name != UNTRIMMED]
    )
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    options = parser.parse_args()
    disable_progress_bar()
    size = SIZES[options.size]
    rows: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder), size.shape)
        for provider in options.providers:
            found = measure(size, provider, model, options.steps)
            report(found, options.append)
            rows += found
    report(speed_ups(rows), options.append)


if __name__ == "__main__":
    main()
