"""Answers graded per second: 1 and 2 workers, and plain math-verify in one process, on GSM8K and MATH gold answers.

    GTPO_DATA=folder python benchmarks/bench_rewards.py [--repeats 5] [--append benchmarks/results.csv]

Each gold answer is compared with itself in another notation, and with the answer of another problem of the set. No
pair occurs twice and every repeat has fresh workers, so no cache is involved. One row per provider: median and 20/80
quantiles over the repeats.
"""

import argparse
import statistics
import time
from pathlib import Path

from results import report, result

from gtpo.problems import load_problems
from gtpo.rewards import GradingPool
from gtpo.rewards.grading import Pair


def setup(size: int, name: str) -> list[Pair]:
    """`size` distinct pairs (answer, gold) of a problem set; half of them are equivalent."""
    golds = list(dict.fromkeys(problem.answer for problem in load_problems(name, split="train")))
    golds = (golds * (1 + size // len(golds)))[: size // 2]
    pairs: list[Pair] = []
    for number, gold in enumerate(golds):
        pairs.append((f"${gold}$" if number % 2 else f"{gold} ", gold))
        pairs.append((golds[number - 7], gold))
    return pairs


def plain_math_verify(pairs: list[Pair]) -> list[bool]:
    """math-verify as in its README, in this process, without its alarm."""
    from math_verify import parse, verify

    graded: list[bool] = []
    for answer, gold in pairs:
        parsed = (parse(f"${gold}$", parsing_timeout=None), parse(f"${answer}$", parsing_timeout=None))
        graded.append(verify(*parsed, timeout_seconds=None))
    return graded


def measure(num_workers: int, pairs: list[Pair], repeats: int) -> tuple[list[float], float]:
    """Answers per second of each repeat, with fresh workers each time, and the fraction of right answers."""
    rates: list[float] = []
    graded: list[bool] = []
    for _ in range(repeats):
        pool = GradingPool(num_workers=max(1, num_workers))
        if num_workers:
            pool.grade([("1", "1")] * num_workers)  # starts the workers
        start = time.perf_counter()
        graded = [verdict == "right" for verdict in pool.grade(pairs)] if num_workers else plain_math_verify(pairs)
        rates.append(len(pairs) / (time.perf_counter() - start))
        pool.close()
    return rates, statistics.mean(graded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--append", type=Path)
    options = parser.parse_args()
    for name in ("gsm8k", "math"):
        pairs = setup(options.size, name)
        for label, num_workers in (("math-verify, in process", 0), ("1 worker", 1), ("2 workers", 2)):
            rates, share = measure(num_workers, pairs, options.repeats)
            size = f"{name} {len(pairs)}"
            rows = [
                result("rewards", label, size, "answers graded", rates, "a second", "cpu"),
                result("rewards", label, size, "share found right", [share], "", "cpu"),
            ]
            report(rows, options.append)


if __name__ == "__main__":
    main()
