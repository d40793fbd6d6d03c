"""The generated parts of docs/results.md about the lab, in Markdown.

The part NAME goes between <!-- NAME --> and <!-- /NAME --> in the document.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

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
    of_arm,
)
from gtpo.compare import Comparison, has_collapsed
from gtpo.errors import DataError
from gtpo.evaluation.tables import MISSING, markdown

NONE = "Not run yet."
FIGURES = {1: "curves", 4: "effects", 5: "pass"}
"""The figure above the table of a claim."""
SHOWN = {
    "curves": "Training accuracy, complete format and entropy over steps, a line an arm: mean over seeds, smoothed "
    "over a twentieth of the steps; band: Student's 95 % interval",
    "effects": "Differences between arms, seed by seed, in held-out accuracy, format, entropy and pass@32: mean over "
    "seeds with its 95 % interval",
    "pass": "pass@k and maj@k on held-out problems over k, a line an arm: mean over seeds; band: Student's 95 % "
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


def insert(text: str, parts: Mapping[str, str]) -> str:
    """The document with the generated parts between their markers. Every part must have markers.

    >>> insert("<!-- a -->old<!-- /a -->", {"a": "new"})
    '<!-- a -->\\nnew\\n<!-- /a -->'
    """
    for name, part in parts.items():
        markers = re.compile(rf"(<!-- {re.escape(name)} -->).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not markers.search(text):
            raise DataError(f"The document has no markers for {name}. Add <!-- {name} --><!-- /{name} --> to it.")
        text = markers.sub(lambda match, part=part: f"{match[1]}\n{part}\n{match[2]}", text)
    return text


def _summary(records: Records, setting: str) -> str:
    arms = [arm for arm in ARMS if of_arm(records, setting, arm)]
    header = ["arm", "runs", *(_heading(name) for name in SUMMARY), "collapsed", "health: collapsing"]
    rows = [[ARMS[arm].title, *_summary_cells(records, setting, arm)] for arm in arms]
    return f"{_titled(setting, [header, *rows])}\n\n{_provenance(records, setting)}"


def _provenance(records: Records, setting: str) -> str:
    about = [record.about for job, record in records.items() if job.setting == setting]
    hours = sum(float(row["seconds"]) for row in about) / 3600
    known = {name: ", ".join(sorted({row[name] for row in about})) for name in ("commit", "device", "torch")}
    return (
        f"{len(about)} runs, {hours:.1f} hours of training in all, a thread each ({known['device']}); commit "
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
    header = ["", "against", "", "first", "second", "difference", "95 % interval", "runs", "verdict", "more seeds"]
    rows = [_row(question, comparison) for question, comparison in answers if comparison is not None]
    kind = FIGURES.get(questions[0].claim)
    figure = (
        f"![{SHOWN[kind]}. Setting: {SETTINGS[setting].title}](figures/lab_{kind}_{setting}.svg)\n\n" if kind else ""
    )
    return figure + _titled(setting, [header, *rows]) if rows else ""


def _row(question: Question, comparison: Comparison) -> list[str]:
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
    """The 95 % interval of a difference; a dash if it has none.

    >>> interval(Comparison("accuracy", 0.5, 0.4, 0.1, -0.01, 0.21, 8, 8, True, "not shown", None), "%")
    '−1.0 to +21.0'
    """
    if comparison.low is None or comparison.high is None:
        return MISSING
    return f"{number(comparison.low, unit, signed=True)} to {number(comparison.high, unit, signed=True)}"


def number(value: float, unit: str, signed: bool = False) -> str:
    scale, digits = (100, 1) if unit == "%" else (1, 3)
    return f"{scale * value:{'+' if signed else ''}z.{digits}f}".replace("-", "−")


def _heading(name: str) -> str:
    return f"{QUANTITIES[name].title}, {QUANTITIES[name].unit}"


def _titled(setting: str, rows: Sequence[Sequence[str]]) -> str:
    return f"*{SETTINGS[setting].title}*\n\n{markdown(rows)}"


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) or NONE
