"""The table that comes first, in the README and in docs/results.md: a row a claim, a column wherever it was tested."""

from collections.abc import Mapping, Sequence

from experiments.claims import COLLAPSED, QUESTIONS, VERDICTS, Question, Records, answer, of_arm
from experiments.real_data import Measured, comparisons
from experiments.settings import SETTINGS
from experiments.tables import interval, number, unit_of
from gtpo.evaluation.layout import MISSING, markdown
from gtpo.reports.compare import Comparison, compare_runs
from gtpo.reports.runs import Run

CLAIMS: Mapping[int, str] = {
    1: "final accuracy at least GRPO's",
    2: "keeps the format better",
    3: "does not collapse where GRPO does",
    5: "better pass@32",
}
"""What is claimed of GTPO against GRPO. Claim 4 is about its parts."""
PRIMARY = {
    **{claim: next(one for one in QUESTIONS if one.claim == claim) for claim in (1, 2, 3)},
    5: Question(5, "gtpo", "grpo", "pass@32"),
}
ON_GSM8K = {1: "gsm8k pass@1", 2: "gsm8k format_rate", 5: "gsm8k pass@32"}
"""What answers a claim for the real model, on GSM8K's test problems."""


def headline(records: Records, runs: Sequence[Run], measured: Measured) -> dict[str, str]:
    """The generated part, by its name."""
    settings = [name for name in SETTINGS if of_arm(records, name, "gtpo") and of_arm(records, name, "grpo")]
    titles = [_lab_title(records, name) for name in settings]
    rows = {claim: [_lab_cell(records, name, claim) for name in settings] for claim in CLAIMS}
    first, second = ([run for run in runs if run.method == arm] for arm in ("gtpo", "grpo"))
    if first and second:
        titles.append(_real_title(first, second))
        asked = {one.name: one for one in comparisons(measured, "grpo")}
        collapsed = compare_runs(first, second)[-1]
        for claim, cells in rows.items():
            cells.append(_count_cell(collapsed) if claim == 3 else _cell(asked.get(ON_GSM8K[claim]), "%"))
    return {"headline": markdown([["GTPO", *titles], *([CLAIMS[claim], *cells] for claim, cells in rows.items())])}


def _lab_title(records: Records, setting: str) -> str:
    num_seeds = min(len(of_arm(records, setting, arm)) for arm in ("gtpo", "grpo"))
    return f"lab, {setting}: {num_seeds} seeds"


def _real_title(first: Sequence[Run], second: Sequence[Run]) -> str:
    num_seeds = min(len({run.seed for run in side}) for side in (first, second))
    steps = "-".join(str(count) for count in sorted({run.num_steps for run in (*first, *second)}))
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
    sides = f"{number(found.first, unit)} against {number(found.second, unit)}"
    return f"{sides}: **{VERDICTS[found.verdict]}** ({interval(found, unit)})"


def _count_cell(found: Comparison) -> str:
    pairs = ((found.first, found.num_first), (found.second, found.num_second))
    first, second = (f"{share * count:.0f} of {count}" for share, count in pairs)
    return f"{first} collapse against {second}: **{VERDICTS[found.verdict]}**"
