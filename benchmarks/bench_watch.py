"""What gtpo.watch costs: CPU seconds of its parts in every step of a stock GRPOTrainer, next to those of the step.

usage: python benchmarks/bench_watch.py [--steps 24] [--prompts 8]
"""

import argparse
import statistics
import sys
import tempfile
import time
from typing import Any

import torch


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--prompts", type=int, default=8)
    args = parser.parse_args(arguments)

    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    import gtpo
    import trl
    from gtpo.lab import lab_model_dir, lab_problems
    from gtpo.problems import to_dataset
    from gtpo.rewards import paper_reward

    torch.set_num_threads(1)
    spent: dict[str, list[float]] = {"record": [], "log": [], "step": []}

    def timed(owner: Any, method: str, part: str) -> None:
        original = getattr(owner, method)

        def measure(*positional: Any, **named: Any) -> Any:
            start = time.process_time()
            result = original(*positional, **named)
            spent[part].append(time.process_time() - start)
            return result

        setattr(owner, method, measure)

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            folder, per_device_train_batch_size=8 * args.prompts, num_generations=8, max_completion_length=96,
            max_steps=args.steps, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False,
            disable_tqdm=True, gradient_checkpointing=False,
        )  # fmt: skip
        problems = to_dataset(lab_problems("train", args.prompts * args.steps))
        trainer: Any = GRPOTrainer(str(lab_model_dir()), paper_reward, config, problems)
        gtpo.watch(trainer, record_every=2)
        timed(trainer.gtpo_recorder, "record", "record")
        timed(trainer.gtpo_recorder, "on_log", "log")
        timed(trainer.callback_handler.callbacks[0], "on_log", "log")
        timed(trainer, "training_step", "step")
        trainer.train()
    step = statistics.median(spent["step"][4:])
    recorded, other = spent["record"][4::2], spent["record"][5::2]
    logs = [sum(pair) for pair in zip(spent["log"][::2], spent["log"][1::2], strict=False)][4:]
    sys.stdout.write(
        f"gtpo {gtpo.__version__}, TRL {trl.__version__}, torch {torch.__version__}, one CPU thread; "
        f"{args.prompts} prompts × 8 completions, 2 groups per recorded step\n"
    )
    parts = {"step": spent["step"][4:], "recorded step": recorded, "other step": other, "log": logs}
    for name, values in parts.items():
        low, middle, high = (1000 * value for value in statistics.quantiles(values, n=4))
        share = middle / (1000 * step)
        sys.stdout.write(f"{name:>14}: {middle:9.3f} ms ({low:.3f} to {high:.3f}), {share:.2%}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
