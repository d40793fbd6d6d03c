"""Check the rules of grading on MATH: what must be right, what must be wrong, and what is copied from the question.

    GTPO_DATA=folder python benchmarks/gold_answers.py [--pairs 100000] [--split test] [--copied 900]

Every gold answer must equal itself, with and without its question. Pairs are drawn at random from problems of one
subject whose answers are different strings. Copied answers are the formulas of the question itself. Every match is
printed, to be judged by hand: two notations of one number are not an error.
"""

import argparse
import random
import re
import sys
from collections import defaultdict
from collections.abc import Sequence

from gtpo.problems import Problem, load_problems
from gtpo.rewards import GradingPool
from gtpo.rewards.grading import Pair

FORMULA = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\$([^$]+)\$", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--split", default="test")
    parser.add_argument("--copied", type=int, default=900, help="problems of the train split to copy from")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problems = load_problems("math", split=options.split)
    pool = GradingPool()
    check_golds(pool, problems)
    check_different_problems(pool, problems, options.pairs, options.seed)
    copied_from = random.Random(options.seed).sample(load_problems("math", split="train"), options.copied)
    for with_question in (False, True):
        check_copies(pool, copied_from, with_question=with_question)
    pool.close()


def check_golds(pool: GradingPool, problems: Sequence[Problem]) -> None:
    pairs: list[Pair] = []
    for problem in problems:
        answer = f"$ {problem.answer} $."
        pairs += [(answer, problem.answer), (answer, problem.answer, problem.question)]
    verdicts = pool.grade(pairs)
    unequal = [pair[:2] for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != "right"]
    sys.stdout.write(
        f"{len(pairs) - len(unequal)} of {len(pairs)} gold answers, without and with the question, equal themselves; "
        f"others: {unequal}\n"
    )


def check_different_problems(pool: GradingPool, problems: Sequence[Problem], num_pairs: int, seed: int) -> None:
    by_subject: dict[str | None, list[str]] = defaultdict(list)
    for problem in problems:
        by_subject[problem.subject].append(problem.answer)
    rng = random.Random(seed)
    pairs: list[Pair] = []
    while len(pairs) < num_pairs:
        answer, gold = rng.sample(by_subject[rng.choice(problems).subject], 2)
        if answer != gold:
            pairs.append((answer, gold))
    verdicts = pool.grade(pairs)
    matches = sorted({pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict == "right"})
    failures = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict in ("timeout", "crash")]
    rate = verdicts.count("right") / len(pairs)
    sys.stdout.write(f"{verdicts.count('right')} of {len(pairs)} pairs of different problems match ({rate:.4%}):\n")
    sys.stdout.writelines(f"    {pair[0]!r} for {pair[1]!r}\n" for pair in matches)
    sys.stdout.write(f"{len(failures)} could not be graded: {failures[:20]}\n")


def check_copies(pool: GradingPool, problems: Sequence[Problem], *, with_question: bool) -> None:
    pairs: list[Pair] = []
    rows: list[int] = []
    for row, problem in enumerate(problems):
        for match in FORMULA.finditer(problem.question):
            formula = next(group for group in match.groups() if group).strip()
            pairs.append((formula, problem.answer, problem.question) if with_question else (formula, problem.answer))
            rows.append(row)
    verdicts = pool.grade(pairs)
    rewarded = {
        row: pair[:2]
        for row, pair, verdict in zip(rows, pairs, verdicts, strict=True)
        if verdict == "right" and _literal(pair[0]) != _literal(pair[1])
    }
    sys.stdout.write(
        f"{len(rewarded)} of {len(problems)} problems reward a formula of the question that is not literally the gold "
        f"answer, {'with' if with_question else 'without'} the question at hand:\n"
    )
    sys.stdout.writelines(f"    {answer!r} for {gold!r}\n" for answer, gold in rewarded.values())


def _literal(formula: str) -> str:
    return re.sub(r"\s+|\$", "", formula.replace("dfrac", "frac"))


if __name__ == "__main__":
    main()
