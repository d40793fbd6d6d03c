"""Scaling: the time of GTPO's update over completions, G, length and vocabulary, with the exponents.

    python benchmarks/bench_scaling.py --append benchmarks/results.csv         # one GPU, a model of 150 M parameters
    python benchmarks/bench_scaling.py --amounts length vocabulary             # two of the four sweeps
    python benchmarks/bench_scaling.py --size small --append …                 # an idle CPU, minutes: 6 M parameters
    python benchmarks/bench_scaling.py --size tiny                             # a CPU, seconds

Trainer and clock are those of bench_update, with TRL's correction on. One amount is varied at a time; G at a constant
number of completions. An exponent of 1 means that twice the work takes twice the time.
"""

import argparse
import dataclasses
import tempfile
from pathlib import Path

from bench_update import Size, measure
from results import Result, exponent, report, result
from stored import save_model
from transformers.utils.logging import disable_progress_bar

SIZES = {
    "full": Size("150m", 16, 8, 512, (60, 100), 16, 32768),
    "small": Size("6m", 8, 4, 128, (12, 20), 8, 8192),
    "tiny": Size("tiny", 4, 4, 24, (4, 8), 4, 512),
}
AMOUNTS = ("completions", "G", "length", "vocabulary")


def sizes(base: Size, amount: str) -> dict[int, Size]:
    """The sizes of a sweep by their amount: half, once, twice and four times the base."""
    if amount == "completions":
        numbers = [base.num_prompts * n // 2 for n in (1, 2, 4, 8)]
        return {n * base.group_size: dataclasses.replace(base, num_prompts=n) for n in numbers}
    if amount == "G":
        completions = base.num_prompts * base.group_size
        numbers = [base.group_size * n // 2 for n in (1, 2, 4)]
        return {n: dataclasses.replace(base, group_size=n, num_prompts=completions // n) for n in numbers}
    if amount == "length":
        return {n: dataclasses.replace(base, limit=n) for n in (base.limit * k // 2 for k in (1, 2, 4, 8))}
    return {n: dataclasses.replace(base, vocabulary=n) for n in (base.vocabulary * k // 2 for k in (1, 2, 4, 8))}


def sweep(base: Size, amount: str, steps: int) -> list[Result]:
    times: dict[int, float] = {}
    rows: list[Result] = []
    for number, size in sizes(base, amount).items():
        with tempfile.TemporaryDirectory() as folder:
            model = save_model(Path(folder), size.shape, size.vocabulary)
            found = measure(size, "GTPO", model, steps, corrections=(True,))
        times[number] = found[0].median
        label = f"{size.label}, V = {size.vocabulary}, over {amount}"
        rows += [dataclasses.replace(row, benchmark="scaling", size=label) for row in found]
    slope = exponent(list(times), list(times.values()))
    values = f"{min(times)} to {max(times)}"
    return [*rows, result("scaling", "GTPO", f"{base.shape}, {values}", f"exponent in {amount}", [slope], "")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--amounts", nargs="+", choices=AMOUNTS, default=AMOUNTS, help="what to vary; default: all")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    options = parser.parse_args()
    disable_progress_bar()
    for amount in options.amounts:
        report(sweep(SIZES[options.size], amount, options.steps), options.append)


if __name__ == "__main__":
    main()
