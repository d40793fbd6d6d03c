"""Milliseconds of every credit scheme per batch, next to GRPO, which gives all tokens of a completion the same.

    python benchmarks/bench_credit.py --append benchmarks/results.csv      # the GPU if there is one, and the CPU
    python benchmarks/bench_credit.py --size tiny                          # a CPU, a second

Groups of 8 share beginnings and endings as rollouts do; "identical" is the worst case, groups of equal completions.
On the CPU it is the processor time of one thread, which other programs on the machine hardly change.
"""

import argparse
import time
from pathlib import Path

import torch
from bench_conflicts import Shape, make_batch
from results import Result, report, result, synchronize

from gtpo.credit import SCHEMES, CreditInput, token_advantages

PARAMETERS = {"pass_at_k": {"right_at": 1.0}}


def make_input(shape: Shape, device: str) -> CreditInput:
    """A batch of bench_conflicts with rewards, entropies and two reward functions."""
    batch = make_batch(shape, device)
    return CreditInput(
        batch.ids,
        batch.mask,
        batch.advantages,
        batch.group_ids,
        rewards=(batch.advantages + 1) / 2,
        component_advantages=batch.advantages.unsqueeze(1).expand(-1, 2) / 2,
        token_component=batch.ids % 3 - 1,
        token_entropy=torch.full(batch.ids.shape, 0.5, device=device),
        initial_entropy=0.5,
        batch_entropy=0.5,
    )


def measure(shape: Shape, device: str, repeats: int) -> list[Result]:
    inputs = make_input(shape, device)
    clock = time.process_time if device == "cpu" else time.perf_counter
    rows: list[Result] = []
    for scheme in SCHEMES:
        times: list[float] = []
        for _ in range(repeats + 2):
            synchronize()
            start = clock()
            token_advantages(scheme, inputs, **PARAMETERS.get(scheme, {}))
            synchronize()
            times.append(1e3 * (clock() - start))
        rows.append(
            result("credit", f"gtpo.credit {scheme}", f"{shape.label}, {device}", "time", times[2:], "ms", device)
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shapes = [Shape(32, 8, 300), Shape(8, 8, 2000), Shape(8, 8, 2000, "identical")]
    if options.size == "tiny":
        shapes = [Shape(2, 4, 32)]
    devices = ["cuda", "cpu"] if torch.cuda.is_available() and options.size == "full" else ["cpu"]
    for device in devices:
        for shape in shapes:
            report(measure(shape, device, options.repeats), options.append)


if __name__ == "__main__":
    main()
