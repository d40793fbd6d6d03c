"""The summary table of docs/results.md, one row per claim and one column per setting, and its signs for the README."""

import re
from collections.abc import Mapping, Sequence

from experiments.lab.settings import SETTINGS
from experiments.present.claims import COLLAPSED, QUESTIONS, VERDICTS, Records, answer, compare_collapses, of_arm
from experiments.present.lab_tables import interval, number, unit_of
from experiments.present.qwen_data import CONTESTS, Measured, comparisons, over_runs, over_tests, pairs, real_collapses
from experiments.present.whole_numbers import contests_by_answer
from gtpo.compare import Comparison
from gtpo.evaluation.tables import MISSING, markdown
from gtpo.runs.run import Run

CLAIMS: Mapping[int, str] = {
    1: "final accuracy at least GRPO's",
    2: "keeps the format better",
    3: "does not collapse where GRPO does",
    5: "better pass@8",
}
"""The claims about GTPO against GRPO. Claim 4 is about the parts of GTPO."""
SIGNS = {"holds": "+", "does not hold": "−", "not shown": "·"}
PRIMARY = {claim: next(question for question in QUESTIONS if question.claim == claim) for claim in CLAIMS}
ON_GSM8K = {1: "gsm8k pass@1", 2: "gsm8k format_rate", 5: "gsm8k pass@8"}
"""The comparison that answers a claim for the real model, on GSM8K's test problems."""


def headline(records: Records, runs: Sequence[Run], measured: Measured) -> dict[str, str]:
    """The generated parts about the lab and the real model together, by name."""
    return {"headline": _table(records, runs, measured), "looks": _looks(records, runs, measured)}


def signs(table: str) -> str:
    """The table with a sign for each verdict instead of its numbers.

    >>> signs("| a | 1.0 against 2.0: **does not hold** (−2 to −1) | 3 of 8: **not shown** |")
    '| a | − | · |'
    """
    for verdict, sign in SIGNS.items():
        table = re.sub(rf"\| [^|\n]*\*\*{verdict}\*\*[^|\n]*(?= \|)", f"| {sign}", table)
    return table


def _looks(records: Records, runs: Sequence[Run], measured: Measured) -> str:
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
    verdicts = [comparison.verdict for comparison in answers if comparison is not None and comparison.low is not None]
    num_called = sum(verdict != "not shown" for verdict in verdicts)
    return (
        f"{len(verdicts)} comparisons with an interval are shown, and {num_called} of them are called one way or the "
        f"other. Nothing corrects for their number: if no arm differed from any other, about "
        f"{round(len(verdicts) / 20)} would be, by chance, and more than that: {len(over_problems)} of them are of "
        f"the real model with intervals over problems, which do not know how far two runs of one method lie apart."
    )


def _table(records: Records, runs: Sequence[Run], measured: Measured) -> str:
    settings = [name for name in SETTINGS if of_arm(records, name, "gtpo") and of_arm(records, name, "grpo")]
    titles = [_lab_title(records, name) for name in settings]
    rows = {claim: [_lab_cell(records, name, claim) for name in settings] for claim in CLAIMS}
    first, second = ([run for run in runs if run.method == arm] for arm in ("gtpo", "grpo"))
    if first and second:
        titles.append(_real_title(first, second))
        for claim, cells in rows.items():
            cells.append(_real_cell(measured, claim))
    return markdown([["GTPO", *titles], *([CLAIMS[claim], *cells] for claim, cells in rows.items())])


def _lab_title(records: Records, setting: str) -> str:
    seeds = [{record.job.seed for record in of_arm(records, setting, arm)} for arm in ("gtpo", "grpo")]
    num_seeds = len(seeds[0] & seeds[1])
    return f"lab, {setting}: {num_seeds} seeds"


def _real_title(first: Sequence[Run], second: Sequence[Run]) -> str:
    num_seeds = len({run.seed for run in first} & {run.seed for run in second})
    steps = " and ".join(str(count) for count in sorted({run.num_steps for run in (*first, *second)}))
    return f"Qwen2.5-Coder-1.5B on GSM8K: {num_seeds} seed{'s' * (num_seeds > 1)}, {steps} steps"


def _lab_cell(records: Records, setting: str, claim: int) -> str:
    question = PRIMARY[claim]
    comparison = answer(question, records, setting)
    if comparison is not None and question.quantity == COLLAPSED:
        return _count_cell(comparison)
    return _cell(comparison, unit_of(question))


def _cell(comparison: Comparison | None, unit: str) -> str:
    if comparison is None:
        return MISSING
    return f"{_sides(comparison, unit)}: **{VERDICTS[comparison.verdict]}** ({interval(comparison, unit)})"


def _real_cell(measured: Measured, claim: int) -> str:
    if PRIMARY[claim].quantity == COLLAPSED:
        collapsed = compare_collapses(*(real_collapses(measured, arm) for arm in ("gtpo", "grpo")))
        return MISSING if collapsed is None else _count_cell(collapsed)
    return _cell(
        next((comparison for comparison, _ in over_tests(measured) if comparison.name == ON_GSM8K[claim]), None), "%"
    )


def _sides(comparison: Comparison, unit: str) -> str:
    return f"{number(comparison.first, unit)} against {number(comparison.second, unit)}"


def _count_cell(comparison: Comparison) -> str:
    sides = ((comparison.first, comparison.num_first), (comparison.second, comparison.num_second))
    first, second = (f"{share * count:.0f} of {count}" for share, count in sides)
    return f"{first} collapse against {second}: **{VERDICTS[comparison.verdict]}**"
