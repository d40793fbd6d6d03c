"""What a category yields, and how pairs are drawn from a seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

NEUTRAL_QUESTION = "Find the answer."
MAX_FRUITLESS_DRAWS = 200


@dataclass(frozen=True)
class Pair:
    """An answer, a gold answer, and whether the answer deserves credit. `why` is the rule that decides."""

    answer: str
    gold: str
    is_right: bool
    why: str
    question: str | None = None
    category: str = ""


Category = Callable[[Random], Iterator[Pair]]
CATEGORIES: dict[str, Category] = {}


def category(generate: Category) -> Category:
    """Register a generator of pairs under its own name."""
    CATEGORIES[generate.__name__] = generate
    return generate


def right(answer: str, gold: str, why: str, question: str | None = None) -> Pair:
    return Pair(answer, gold, True, why, question)


def wrong(answer: str, gold: str, why: str, question: str | None = None) -> Pair:
    return Pair(answer, gold, False, why, question)


def draw_category(name: str, seed: int, num_pairs: int) -> list[Pair]:
    """Distinct pairs of one category. Its random numbers depend on the seed and on its own name only.

    Half of the pairs without a question get one that mentions nothing: it must not change a verdict.
    """
    rng = Random(f"{name} {seed}")
    pairs: dict[tuple[str, str, str | None], Pair] = {}
    fruitless = 0
    while len(pairs) < num_pairs and fruitless < MAX_FRUITLESS_DRAWS:
        before = len(pairs)
        for pair in CATEGORIES[name](rng):
            question = pair.question or rng.choice((None, NEUTRAL_QUESTION))
            pairs.setdefault((pair.answer, pair.gold, pair.question), replace(pair, category=name, question=question))
        fruitless = fruitless + 1 if len(pairs) == before else 0
    return list(pairs.values())[:num_pairs]


def draw(seed: int, num_pairs: int) -> list[Pair]:
    """About `num_pairs` pairs: an equal number from each category, or all that it has."""
    per_category = -(-num_pairs // len(CATEGORIES))
    return [pair for name in CATEGORIES for pair in draw_category(name, seed, per_category)]
