"""The generated tables about the lab, in Markdown."""

from collections.abc import Iterable, Sequence

from experiments.lab.arms import ARMS
from experiments.lab.settings import SETTINGS
from experiments.present.claims import (
    COUNTS,
    QUANTITIES,
    QUESTIONS,
    VERDICTS,
    Question,
    Records,
    answer,
    collapses,
    exact_p,
    of_arm,
)
from gtpo.compare import Comparison, has_collapsed
from gtpo.evaluation.tables import MISSING, markdown

NONE = "Not run yet."
FIGURES = {1: "curves", 4: "effects", 5: "pass"}
"""The figure above the table of a claim."""
SHOWN = {
    "curves": "Training accuracy, complete format and entropy over steps, one line per method: mean over seeds, "
    "smoothed over a twentieth of the steps; band: Student's 95 % interval",
    "effects": "Differences between methods, paired by seed, in held-out accuracy, format, entropy and pass@32: mean "
    "over seeds with its 95 % interval",
    "pass": "pass@k and maj@k on held-out problems over k, one line per method: mean over seeds; band: Student's 95 % "
    "interval; in brackets the untrained policy",
}
SUMMARY = ("accuracy", "greedy", "format", "greedy-format", "entropy", "entropy-peak", "pass@8", "pass@32", "maj@32")


def lab_tables(records: Records) -> dict[str, str]:
    """Every generated part about the lab, by name."""
    settings = [name for name in SETTINGS if any(job.setting == name for job in records)]
    parts = {"lab-runs": _join(_summary(records, setting) for setting in settings)}
    for claim in range(1, 6):
        asked = [question for question in QUESTIONS if question.claim == claim]
        parts[f"lab-claim-{claim}"] = _join(_answers(asked, records, setting) for setting in settings)
    return parts


def _summary(records: Records, setting: str) -> str:
    arms = [arm for arm in ARMS if of_arm(records, setting, arm)]
    header = ["method", "runs", *(_heading(name) for name in SUMMARY), "collapsed", "health: collapsing"]
    rows = [[ARMS[arm].title, *_summary_cells(records, setting, arm)] for arm in arms]
    return f"{_titled(setting, [header, *rows])}\n\n{_provenance(records, setting)}"


def _provenance(records: Records, setting: str) -> str:
    about = [record.about for job, record in records.items() if job.setting == setting]
    hours = sum(float(row["seconds"]) for row in about) / 3600
    known = {name: ", ".join(sorted({row[name] for row in about})) for name in ("commit", "device", "torch")}
    return (
        f"{len(about)} runs, {hours:.1f} hours of training in total, one thread each ({known['device']}); commits "
        f"{known['commit']}; torch {known['torch']}."
    )


def _summary_cells(records: Records, setting: str, arm: str) -> list[str]:
    runs = of_arm(records, setting, arm)
    cells = [str(len(runs))]
    for name in SUMMARY:
        values = [value for record in runs if (value := QUANTITIES[name].of(record)) is not None]
        cells.append(number(sum(values) / len(values), QUANTITIES[name].unit) if len(values) == len(runs) else "–")
    trained = [record for record in runs if len(record.curve["step"])]
    collapsed = collapses(trained, records, setting)
    cells.append(f"{sum(collapsed)}/{len(collapsed)}" if collapsed else "–")
    judged = [record.to_run() for record in trained if "accuracy" in record.curve]
    return [*cells, f"{sum(map(has_collapsed, judged))}/{len(judged)}" if judged else "–"]


def _answers(questions: Sequence[Question], records: Records, setting: str) -> str:
    """The figure and the table of a claim in a setting."""
    answers = [(question, answer(question, records, setting)) for question in questions]
    header = ["method", "against", "quantity", "first", "second", "difference", "95 % interval", "pairs"]
    rows = [
        _row(question, comparison, exact_p(question, records, setting))
        for question, comparison in answers
        if comparison is not None
    ]
    kind = FIGURES.get(questions[0].claim)
    figure = (
        f"![{SHOWN[kind]}. Setting: {SETTINGS[setting].title}](../../figures/lab_{kind}_{setting}.svg)\n\n"
        if kind
        else ""
    )
    return figure + _titled(setting, [[*header, "p", "verdict", "more seeds"], *rows]) if rows else ""


def _row(question: Question, comparison: Comparison, p: float | None) -> list[str]:
    unit = unit_of(question)
    pairs = str(comparison.num_first) if comparison.is_paired else f"{comparison.num_first} / {comparison.num_second}"
    verdict = plain_verdict(question.quantity, comparison) if question.claim == 4 else VERDICTS[comparison.verdict]
    return [
        ARMS[question.first].title,
        ARMS[question.second].title,
        comparison.name,
        number(comparison.first, unit),
        number(comparison.second, unit),
        number(comparison.difference, unit, signed=True),
        interval(comparison, unit),
        pairs,
        "" if p is None else f"{p:.4f}" if p >= 0.0001 else "< 0.0001",
        f"**{verdict}**",
        "" if comparison.more_seeds is None else str(comparison.more_seeds),
    ]


def plain_verdict(quantity: str, comparison: Comparison) -> str:
    """Better, worse or not shown; for entropy, which has no good direction, lower or higher."""
    if quantity != "entropy":
        return comparison.verdict
    return {"better": "lower", "worse": "higher"}.get(comparison.verdict, comparison.verdict)


def unit_of(question: Question) -> str:
    return "%" if question.quantity in COUNTS else QUANTITIES[question.quantity].unit


def interval(comparison: Comparison, unit: str) -> str:
    """The 95 % interval of a difference; a dash if it has none. An end just below 0 keeps its sign.

    >>> interval(Comparison("accuracy", 0.5, 0.4, 0.1, -0.01, 0.21, 8, 8, True, "not shown", None), "%")
    '−1.0 to +21.0'
    >>> interval(Comparison("accuracy", 0.5, 0.6, -0.1, -0.21, -0.0001, 8, 8, True, "worse", None), "%")
    '−21.0 to −0.0'
    """
    if comparison.low is None or comparison.high is None:
        return MISSING
    return " to ".join(_formatted(end, unit, "+") for end in (comparison.low, comparison.high))


def number(value: float, unit: str, signed: bool = False) -> str:
    return _formatted(value, unit, "+z" if signed else "z")


def _formatted(value: float, unit: str, flags: str) -> str:
    scale, digits = (100, 1) if unit == "%" else (1, 3)
    return f"{scale * value:{flags}.{digits}f}".replace("-", "−")


def _heading(name: str) -> str:
    return f"{QUANTITIES[name].title}, {QUANTITIES[name].unit}"


def _titled(setting: str, rows: Sequence[Sequence[str]]) -> str:
    return f"*{SETTINGS[setting].title}*\n\n{markdown(rows)}"


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) or NONE
