"""Check that every gold answer of MATH equals itself, and how often answers of different problems match.

    GTPO_DATA=folder python benchmarks/gold_answers.py [--pairs 100000] [--split test]

Pairs are drawn at random from problems of one subject whose answers are different strings. Every match is printed, to
be judged by hand: two notations of one number are not an error.
"""

import argparse
import random
import sys
from collections import defaultdict

from gtpo.problems import load_problems
from gtpo.rewards import GradingPool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problems = load_problems("math", split=options.split)
    pool = GradingPool()
    itself = pool.grade([(f"$ {problem.answer} $.", problem.answer) for problem in problems])
    unequal = [problem.answer for problem, verdict in zip(problems, itself, strict=True) if verdict != "right"]
    sys.stdout.write(
        f"{len(problems) - len(unequal)} of {len(problems)} gold answers equal themselves; others: {unequal}\n"
    )

    by_subject: dict[str | None, list[str]] = defaultdict(list)
    for problem in problems:
        by_subject[problem.subject].append(problem.answer)
    rng = random.Random(options.seed)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < options.pairs:
        answer, gold = rng.sample(by_subject[rng.choice(problems).subject], 2)
        if answer != gold:
            pairs.append((answer, gold))
    verdicts = pool.grade(pairs)
    pool.close()
    matches = sorted({pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict == "right"})
    failures = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict in ("timeout", "crash")]
    rate = verdicts.count("right") / len(pairs)
    sys.stdout.write(f"{verdicts.count('right')} of {len(pairs)} pairs of different problems match ({rate:.4%}):\n")
    sys.stdout.writelines(f"    {answer!r} for {gold!r}\n" for answer, gold in matches)
    sys.stdout.write(f"{len(failures)} could not be graded: {failures[:20]}\n")


if __name__ == "__main__":
    main()
