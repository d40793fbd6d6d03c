"""Tables as rows of strings: what was measured on one problem set, and the table of the paper."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError
from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.metrics import Estimate
from gtpo.statistics import PairedDifference

MISSING = "–"
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
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    header = ["", *map(printable, columns)]
    header += [f"{printable(one.first)} − {printable(one.second)}" for one in differences]
    rows = [
        [
            _label(name),
            *(_cell(name, column.get(name)) for column in columns.values()),
            *(_cell(name, one.metrics.get(name)) for one in differences),
        ]
        for name in names
    ]
    return [header, *rows]


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


def printable(name: str) -> str:
    """A name without the characters that move a terminal's cursor.

    >>> printable("a\\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join(character if character.isprintable() else "�" for character in name)


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
