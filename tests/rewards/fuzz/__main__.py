"""Print the error rates of the grader on random pairs, and the pairs that got the wrong verdict."""

import argparse
import sys
from collections.abc import Sequence

from gtpo.rewards import Grader
from tests.rewards.fuzz import CATEGORIES, Pair, draw, draw_category
from tests.rewards.fuzz.rates import failures, grade, table


def grade_with_gtpo(pairs: Sequence[Pair]) -> list[str]:
    """All pairs in one batch, in worker processes. Too many failures do not end the batch: the table shows them."""
    grader = Grader(max_failure_fraction=1.0)
    try:
        answers, golds = [pair.answer for pair in pairs], [pair.gold for pair in pairs]
        return list(grader.grade(answers, golds, [pair.question for pair in pairs]))
    finally:
        grader.pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rewards.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="pairs depend on nothing else (default: 0)")
    parser.add_argument("--pairs", type=int, default=10_000, help="about how many pairs (default: 10,000)")
    parser.add_argument("--category", choices=CATEGORIES, help="draw all pairs from this category")
    options = parser.parse_args()
    if options.category:
        pairs = draw_category(options.category, options.seed, options.pairs)
    else:
        pairs = draw(options.seed, options.pairs)
    graded = grade(pairs, grade_with_gtpo)
    sys.stdout.write(f"{failures(graded)}\n\n{table(graded)}\n")


if __name__ == "__main__":
    main()
