"""Tables as rows of strings: what was measured on one problem set, and the table of the paper."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError
from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.metrics import Difference, Estimate, Measurement
from gtpo.statistics import PairedDifference
from gtpo.text import MISSING, printable

PAPER_COLUMNS = (
    *(("AIME24", "aime24", f"pass@{k}") for k in (1, 8, 16, 32, 64)),
    *(("AIME25", "aime25", f"pass@{k}") for k in (1, 8, 16, 32, 64)),
    *(("AMC23", "amc23", f"pass@{k}") for k in (1, 8, 16, 32, 64)),
    *(("AMC23", "amc23", f"maj@{k}") for k in (4, 8, 16, 32, 64)),
)

_LABELS = {
    "distinct_answers": "different answers",
    "distinct_completions": "different completions",
    "format_rate": "format %",
    "mean_length": "length, tokens",
    "truncation_rate": "truncated %",
    "mean_entropy": "entropy, nats",
}


def summary_rows(evaluation: Evaluation, problems: str) -> list[list[str]]:
    """The metrics of one problem set with their intervals: a column a model, then one a difference; header first."""
    columns = {
        measured.model: measured.estimates for measured in evaluation.measurements if measured.problems == problems
    }
    differences = [difference for difference in evaluation.differences if difference.problems == problems]
    names = sorted(dict.fromkeys(name for column in columns.values() for name in column), key=_place)
    header = ["", *map(printable, columns)]
    header += [
        f"{printable(one.first)} − {printable(one.second)}{_fewer_problems_note(one, evaluation)}"
        for one in differences
    ]
    rows = [
        [
            _label(name),
            *(_cell(name, column.get(name)) for column in columns.values()),
            *(_cell(name, one.metrics.get(name)) for one in differences),
        ]
        for name in names
    ]
    return [header, *rows]


def _fewer_problems_note(difference: Difference, evaluation: Evaluation) -> str:
    """The problems that a difference is over, where the columns beside it are over more."""
    sizes = {one.num_problems for one in evaluation.measurements if one.problems == difference.problems}
    return "" if sizes == {difference.num_problems} else f" (first {difference.num_problems} problems)"


def sampling_lines(measurements: Sequence[Measurement]) -> list[str]:
    """How the samples were made, a line for each way; where there are several, with the models that it is of."""
    ways: dict[str, list[str]] = {}
    for one in measurements:
        settings = one.header["settings"]
        drawn = (
            "greedy"
            if settings["temperature"] == 0
            else f"temperature {settings['temperature']:g}, top-p {settings['top_p']:g}"
        )
        samples = f"{settings['num_samples']} sample{'s' * (settings['num_samples'] != 1)}"
        way = f"{one.num_problems} problems × {samples}, {drawn}, at most {settings['max_new_tokens']} tokens"
        ways.setdefault(f"{way}, seed {settings['seed']}", []).append(printable(one.model))
    if len(ways) == 1:
        return list(ways)
    return [f"{', '.join(dict.fromkeys(models))}: {way}" for way, models in ways.items()]


def sampling_difference(first: Sequence[Measurement], second: Sequence[Measurement]) -> str:
    """In what the sampling of a problem set differs, as in "temperature 0.9 against 0.2"; empty if in nothing."""
    found: list[str] = []
    for problems in dict.fromkeys(one.problems for one in first):
        sides = [[one.header["settings"] for one in side if one.problems == problems] for side in (first, second)]
        for name in ("num_samples", "temperature", "top_p", "max_new_tokens"):
            values = [sorted({settings[name] for settings in side}) for side in sides]
            if sides[1] and (values[0] != values[1] or len(values[0]) > 1):
                shown = [", ".join(f"{value:g}" for value in side) for side in values]
                found.append(f"{name.replace('_', ' ')} {shown[0]} against {shown[1]}")
    return "; ".join(dict.fromkeys(found))


def paper_rows(evaluation: Evaluation) -> list[list[str]]:
    """Table 1 of arXiv:2508.03772 laid out from an evaluation, in percent, a row a model; header first."""
    values = {(one.model, one.problems): one.values for one in evaluation.measurements}
    rows = [
        [
            printable(model),
            *(_percent(values.get((model, problems), {}).get(metric)) for _, problems, metric in PAPER_COLUMNS),
        ]
        for model in evaluation.models
    ]
    if all(cell == MISSING for row in rows for cell in row[1:]):
        raise DataError("The paper's table is about aime24, aime25 and amc23, and none of them was evaluated.")
    return [["model", *(f"{title} {metric}" for title, _, metric in PAPER_COLUMNS)], *rows]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the first of them the header, as a Markdown table.

    >>> print(markdown([["model", "pass@1"], ["lab", "50.0"]]))
    | model | pass@1 |
    | --- | ---: |
    | lab | 50.0 |
    """
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [rows[0], rule, *rows[1:]]
    )


def _place(name: str) -> tuple[int, int]:
    """pass@k by k, then maj@k by k, then the others as they come."""
    kind, _, k = name.partition("@")
    return (("pass", "maj").index(kind), int(k)) if k else (2, 0)


def _label(name: str) -> str:
    return _LABELS.get(name, f"{name} %")


def _cell(name: str, shown: Estimate | PairedDifference | None) -> str:
    if shown is None:
        return MISSING
    is_difference = isinstance(shown, PairedDifference)
    value = shown.difference if is_difference else shown.value
    scale = 100 if re.match(r"pass@|maj@|format_rate|truncation_rate", name) else 1
    digits = 3 if name == "mean_entropy" else 1
    # "z" writes a zero that rounding leaves without its sign
    first = f"{scale * value:{'+' if is_difference else ''}z.{digits}f}"
    return f"{first} [{scale * shown.low:z.{digits}f}, {scale * shown.high:z.{digits}f}]".replace("-", "−")


def _percent(values: NDArray[np.float64] | None) -> str:
    return MISSING if values is None else f"{100 * values.mean():.1f}"
