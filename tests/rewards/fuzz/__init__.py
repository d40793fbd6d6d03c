"""Random pairs of answers and gold answers with known truth, for `gtpo.rewards.is_correct`.

The truth of a pair comes from how it is built: a value is drawn, and both texts are written from values that are equal
or not. Nothing is parsed, and nothing here is shared with the grader. Pairs that could be argued about are not drawn.

    python -m tests.rewards.fuzz --seed 7 --pairs 10000

To add a category, add a generator to one of the modules below. It draws values from `rng` and yields pairs:

    @category
    def dozens(rng: Random) -> Iterator[Pair]:
        n = rng.randrange(2, 900)
        yield right(f"{n} dozen", str(12 * n), "a dozen is twelve")
        yield wrong(f"{n} dozen", str(n), "a dozen is twelve")
"""

from tests.rewards.fuzz import algebra, copied, forms, language, notation, numbers, several, undone, written
from tests.rewards.fuzz.pairs import CATEGORIES, Pair, draw, draw_category

__all__ = [
    "CATEGORIES", "Pair", "algebra", "copied", "draw", "draw_category", "forms", "language", "notation", "numbers",
    "several", "undone", "written",
]  # fmt: skip
