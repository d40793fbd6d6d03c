"""Error rates of a grader on pairs with known truth, with upper confidence bounds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scipy.stats import beta

from tests.rewards.fuzz.pairs import Pair

Grade = Callable[[Sequence[Pair]], list[str]]
"""A verdict for each pair: right, wrong, timeout or crash."""


@dataclass(frozen=True)
class Graded:
    pair: Pair
    verdict: str

    @property
    def is_credited_wrong_answer(self) -> bool:
        return self.verdict == "right" and not self.pair.is_right

    @property
    def is_refused_right_answer(self) -> bool:
        return self.verdict != "right" and self.pair.is_right

    @property
    def has_failed(self) -> bool:
        return self.is_credited_wrong_answer or self.is_refused_right_answer or self.verdict in ("timeout", "crash")


@dataclass(frozen=True)
class Rate:
    errors: int
    pairs: int

    @property
    def upper(self) -> float:
        """One-sided 95 % Clopper-Pearson bound: 3 / n for no error in n pairs."""
        if self.errors == self.pairs:
            return 1.0
        return float(beta.ppf(0.95, self.errors + 1, self.pairs - self.errors))

    @property
    def value(self) -> float:
        return self.errors / self.pairs if self.pairs else 0.0


@dataclass(frozen=True)
class Rates:
    credited: Rate
    """Wrong answers that got credit, of all wrong answers."""
    refused: Rate
    """Right answers that got none, of all right answers."""
    timeouts: int
    crashes: int


def grade(pairs: Sequence[Pair], grade_all: Grade) -> list[Graded]:
    return [Graded(pair, verdict) for pair, verdict in zip(pairs, grade_all(pairs), strict=True)]


def rates(graded: Iterable[Graded]) -> Rates:
    graded = list(graded)
    num_right = sum(result.pair.is_right for result in graded)
    verdicts = [result.verdict for result in graded]
    return Rates(
        credited=Rate(sum(result.is_credited_wrong_answer for result in graded), len(graded) - num_right),
        refused=Rate(sum(result.is_refused_right_answer for result in graded), num_right),
        timeouts=verdicts.count("timeout"),
        crashes=verdicts.count("crash"),
    )


def table(graded: Sequence[Graded]) -> str:
    """Rates of each category and of all, in columns."""
    names = dict.fromkeys(result.pair.category for result in graded)
    groups = {name: [result for result in graded if result.pair.category == name] for name in names}
    lines = [f"{'':24}{'wrong answers':>14}{'credited':>10}{'95 % up to':>12}"]
    lines[0] += f"{'right answers':>15}{'refused':>9}{'95 % up to':>12}{'timeouts':>10}{'crashes':>9}"
    for name, group in (*groups.items(), ("all", graded)):
        measured = rates(group)
        lines.append(
            f"{name:24}{measured.credited.pairs:14}{measured.credited.errors:10}{measured.credited.upper:12.3%}"
            f"{measured.refused.pairs:15}{measured.refused.errors:9}{measured.refused.upper:12.3%}"
            f"{measured.timeouts:10}{measured.crashes:9}"
        )
    return "\n".join(lines)


def failures(graded: Iterable[Graded]) -> str:
    """One line for each pair that got the wrong verdict, or none in time."""
    lines = []
    for result in graded:
        if result.has_failed:
            pair, truth = result.pair, "right" if result.pair.is_right else "wrong"
            asked = f" asked {pair.question!r}" if pair.question else ""
            lines.append(f"{pair.category}: {pair.answer!r} for {pair.gold!r}{asked} is {truth} ({pair.why}): ")
            lines[-1] += f"graded {result.verdict}"
    return "\n".join(lines)
