"""The verdict on each claim in each setting: the signs in README.md and docs/results.md, and a table per claim."""

import dataclasses
from collections.abc import Mapping, Sequence

from experiments.lab.arms import ARMS
from experiments.lab.settings import SETTINGS
from experiments.present.claims import (
    COLLAPSED,
    QUESTIONS,
    VERDICTS,
    Question,
    Records,
    answer,
    compare_collapses,
    of_arm,
)
from experiments.present.lab_tables import interval, number, unit_of
from experiments.present.qwen_data import CONTESTS, Measured, comparisons, over_runs, over_tests, pairs, real_collapses
from experiments.present.whole_numbers import contests_by_answer
from gtpo.compare import Comparison
from gtpo.evaluation.tables import MISSING, markdown
from gtpo.runs.run import Run

SIGNS = {"better": "+", "worse": "−", "not shown": "·"}
QWEN = "Qwen2.5-Coder-1.5B"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A row of the verdict table: the page about it, the question in the lab, and the metric on GSM8K's test set."""

    text: str
    page: str
    question: Question
    on_gsm8k: str | None = None


CLAIMS = (
    Claim("final accuracy at least GRPO's", "claim-1-accuracy.md", Question(1, "gtpo", "grpo", "accuracy"), "pass@1"),
    Claim("keeps the format better", "claim-2-format.md", Question(2, "gtpo", "grpo", "format"), "format_rate"),
    Claim("does not collapse where GRPO does", "claim-3-collapse.md", Question(3, "gtpo", "grpo", COLLAPSED)),
    Claim("filter and penalty raise accuracy", "claim-4-parts.md", Question(4, "grpo-entropy", "grpo", "accuracy")),
    Claim("conflict weights keep the format", "claim-4-parts.md", Question(4, "grpo-conflicts", "grpo", "format")),
    Claim("better pass@8", "claim-5-pass-at-k.md", Question(5, "gtpo", "grpo", "pass@8"), "pass@8"),
    Claim("better pass@32", "claim-5-pass-at-k.md", Question(5, "gtpo", "grpo", "pass@32"), "pass@32"),
)
"""Their questions are among those that were fixed before the runs."""

Verdicts = Mapping[Claim, Mapping[str, Comparison | None]]
"""For each claim the comparison in each setting of the lab and on Qwen; None if it was not run there."""


def verdicts(records: Records, runs: Sequence[Run], measured: Measured) -> Verdicts:
    """The answer to every claim in every place that has runs of GTPO and GRPO."""
    settings = [name for name in SETTINGS if of_arm(records, name, "gtpo") and of_arm(records, name, "grpo")]
    answers = {claim: {f"lab, {name}": answer(claim.question, records, name) for name in settings} for claim in CLAIMS}
    if {"gtpo", "grpo"} <= {run.method for run in runs}:
        for claim, by_place in answers.items():
            by_place[QWEN] = _on_qwen(claim, measured)
    return answers


def sign_table(found: Verdicts, folder: str) -> str:
    """A sign per claim and place; `folder` is where the pages of the claims are."""
    rows = [["the paper's claim about GTPO", *next(iter(found.values()))]]
    for claim, by_place in found.items():
        signs = ["not run" if comparison is None else _sign(comparison) for comparison in by_place.values()]
        rows.append([f"[{claim.text}]({folder}/{claim.page})", *signs])
    return markdown(rows).replace("---:", ":---:")


def _sign(comparison: Comparison) -> str:
    """The sign of a verdict, in bold if there is one."""
    sign = SIGNS[comparison.verdict]
    return sign if comparison.verdict == "not shown" else f"**{sign}**"


def claim_tables(found: Verdicts, page: str) -> str:
    """The numbers behind the signs of the claims on a page, in Markdown."""
    return "\n\n".join(_claim_table(claim, found[claim]) for claim in CLAIMS if claim.page == page)


def _claim_table(claim: Claim, by_place: Mapping[str, Comparison | None]) -> str:
    arms = [ARMS[arm].title for arm in (claim.question.first, claim.question.second)]
    quantity = "collapsed runs" if claim.question.quantity == COLLAPSED else _quantity(by_place)
    rows = [[quantity, "seeds", *arms, "difference", "95 % interval", "verdict"]]
    for place, comparison in by_place.items():
        if comparison is not None:
            rows.append([place, str(comparison.num_first), *_cells(comparison, unit_of(claim.question))])
    return markdown(rows)


def _quantity(by_place: Mapping[str, Comparison | None]) -> str:
    """What was compared, as the lab names it."""
    return next((f"{comparison.name}, %" for comparison in by_place.values() if comparison is not None), "")


def _cells(comparison: Comparison, unit: str) -> list[str]:
    if comparison.name == COLLAPSED:
        sides = ((comparison.first, comparison.num_first), (comparison.second, comparison.num_second))
        cells = [*(f"{share * count:.0f} of {count}" for share, count in sides), MISSING, MISSING]
    else:
        means = number(comparison.first, unit), number(comparison.second, unit)
        cells = [*means, number(comparison.difference, unit, signed=True), interval(comparison, unit)]
    return [*cells, f"{_sign(comparison)} {VERDICTS[comparison.verdict]}"]


def _on_qwen(claim: Claim, measured: Measured) -> Comparison | None:
    if claim.question.quantity == COLLAPSED:
        return compare_collapses(*(real_collapses(measured, arm) for arm in ("gtpo", "grpo")))
    return on_gsm8k(measured, claim.on_gsm8k) if claim.on_gsm8k else None


def on_gsm8k(measured: Measured, metric: str) -> Comparison | None:
    """GTPO against GRPO over seeds in a metric on GSM8K's test set."""
    name = f"gsm8k {metric}"
    return next((comparison for comparison, _ in over_tests(measured) if comparison.name == name), None)


def looks(records: Records, runs: Sequence[Run], measured: Measured) -> str:
    """How many comparisons are shown, each counted once, and how many are significant."""
    asked = {
        (setting, question.first, question.second, question.quantity): question
        for question in QUESTIONS
        for setting in SETTINGS
    }
    answers = [answer(question, records, key[0]) for key, question in asked.items()]
    over_problems = [comparison for contest in CONTESTS for comparison in comparisons(measured, *contest)]
    over_problems += [comparison for of_seed in pairs(measured).values() for comparison in of_seed]
    over_problems = [comparison for comparison in over_problems if comparison.low is not None]
    over_problems += [comparison for *_, comparison in contests_by_answer(measured)]
    answers += over_problems
    answers += [comparison for against_arm in over_runs(runs).values() for comparison in against_arm]
    answers += [comparison for comparison, _ in over_tests(measured)]
    shown = [comparison.verdict for comparison in answers if comparison is not None and comparison.low is not None]
    num_significant = sum(verdict != "not shown" for verdict in shown)
    return (
        f"{len(shown)} comparisons with an interval are shown, and {num_significant} of them are significant. Nothing "
        f"corrects for their number: if no method differed from any other, about {round(len(shown) / 20)} would be "
        f"significant by chance. Expect more than that, because {len(over_problems)} of them have intervals over "
        f"problems, which do not include how much two runs of one method differ."
    )
