"""The table that comes first, in the README and in docs/results.md: a row a claim, a column wherever it was tested."""

from collections.abc import Mapping, Sequence

from experiments.lab.settings import SETTINGS
from experiments.present.claims import COLLAPSED, QUESTIONS, VERDICTS, Records, answer, compare_collapses, of_arm
from experiments.present.qwen_data import CONTESTS, Measured, comparisons, over_runs, over_tests, pairs, real_collapses
from experiments.present.tables import interval, number, unit_of
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
"""What is claimed of GTPO against GRPO; of each claim the primary question. Claim 4 is about GTPO's parts."""
PRIMARY = {claim: next(one for one in QUESTIONS if one.claim == claim) for claim in CLAIMS}
ON_GSM8K = {1: "gsm8k pass@1", 2: "gsm8k format_rate", 5: "gsm8k pass@8"}
"""What answers a claim for the real model, on GSM8K's test problems."""


def headline(records: Records, runs: Sequence[Run], measured: Measured) -> dict[str, str]:
    """The generated parts about everything, by their names."""
    return {"headline": _table(records, runs, measured), "looks": _looks(records, runs, measured)}


def _looks(records: Records, runs: Sequence[Run], measured: Measured) -> str:
    """Comparisons that could have come out either way, each counted once."""
    asked = {(setting, one.first, one.second, one.quantity): one for one in QUESTIONS for setting in SETTINGS}
    answers = [answer(question, records, key[0]) for key, question in asked.items()]
    over_problems = [one for contest in CONTESTS for one in comparisons(measured, *contest) if one.low is not None]
    over_problems += [one for found in pairs(measured).values() for one in found if one.low is not None]
    over_problems += [one for *_, one in contests_by_answer(measured)]
    answers += over_problems
    answers += [one for found in over_runs(runs).values() for one in found]
    answers += [one for one, _ in over_tests(measured)]
    verdicts = [one.verdict for one in answers if one is not None and one.low is not None]
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
    seeds = [{one.job.seed for one in of_arm(records, setting, arm)} for arm in ("gtpo", "grpo")]
    num_seeds = len(seeds[0] & seeds[1])
    return f"lab, {setting}: {num_seeds} seeds"


def _real_title(first: Sequence[Run], second: Sequence[Run]) -> str:
    num_seeds = len({run.seed for run in first} & {run.seed for run in second})
    steps = " and ".join(str(count) for count in sorted({run.num_steps for run in (*first, *second)}))
    return f"Qwen2.5-Coder-1.5B on GSM8K: {num_seeds} seed{'s' * (num_seeds > 1)}, {steps} steps"


def _lab_cell(records: Records, setting: str, claim: int) -> str:
    question = PRIMARY[claim]
    found = answer(question, records, setting)
    if found is not None and question.quantity == COLLAPSED:
        return _count_cell(found)
    return _cell(found, unit_of(question))


def _cell(found: Comparison | None, unit: str) -> str:
    if found is None:
        return MISSING
    return f"{_sides(found, unit)}: **{VERDICTS[found.verdict]}** ({interval(found, unit)})"


def _real_cell(measured: Measured, claim: int) -> str:
    if PRIMARY[claim].quantity == COLLAPSED:
        fallen = compare_collapses(*(real_collapses(measured, arm) for arm in ("gtpo", "grpo")))
        return MISSING if fallen is None else _count_cell(fallen)
    return _cell(next((one for one, _ in over_tests(measured) if one.name == ON_GSM8K[claim]), None), "%")


def _sides(found: Comparison, unit: str) -> str:
    return f"{number(found.first, unit)} against {number(found.second, unit)}"


def _count_cell(found: Comparison) -> str:
    pairs = ((found.first, found.num_first), (found.second, found.num_second))
    first, second = (f"{share * count:.0f} of {count}" for share, count in pairs)
    return f"{first} collapse against {second}: **{VERDICTS[found.verdict]}**"
