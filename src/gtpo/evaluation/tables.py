"""Tables as rows of strings: the metrics of one problem set, and the table of the paper."""

from collections.abc import Mapping, Sequence

from gtpo.errors import DataError
from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.graders import ANSWER
from gtpo.evaluation.metrics import Estimate, Measurement
from gtpo.statistics import PairedDifference
from gtpo.text import MISSING, printable

PAPER_COLUMNS = (
    *((problems, f"pass@{k}") for problems in ("aime24", "aime25", "amc23") for k in (1, 8, 16, 32, 64)),
    *(("amc23", f"maj@{k}") for k in (4, 8, 16, 32, 64)),
)

_LABELS = {
    "distinct_answers": "distinct answers",
    "distinct_completions": "distinct completions",
    "format_rate": "format %",
    "mean_length": "length, tokens",
    "truncation_rate": "truncated %",
    "mean_entropy": "entropy, nats",
}


def summary_rows(evaluation: Evaluation, problems: str) -> list[list[str]]:
    """The metrics of one problem set with intervals, header first: a column per model, then one per difference.

    maj@1 is left out, because it equals pass@1.
    """
    measurements = [measured for measured in evaluation.measurements if measured.problems == problems]
    differences = [difference for difference in evaluation.differences if difference.problems == problems]
    header = ["", *(printable(measured.model) for measured in measurements)]
    sizes = {measured.num_problems for measured in measurements}
    for difference in differences:
        note = "" if sizes == {difference.num_problems} else f" (first {difference.num_problems} problems)"
        header.append(f"{printable(difference.first)} − {printable(difference.second)}{note}")
    names = dict.fromkeys(name for measured in measurements for name in measured.estimates if name != "maj@1")
    rows = [header]
    for name in sorted(names, key=_order):
        row = [_label(name)]
        row += [_cell(name, measured.estimates.get(name)) for measured in measurements]
        row += [_cell(name, difference.metrics.get(name)) for difference in differences]
        rows.append(row)
    return rows


def step_rows(evaluation: Evaluation, problems: str, steps: Mapping[str, int]) -> list[list[str]]:
    """pass@k of one problem set over the steps of a run, header first. `steps` maps each model to its step."""
    measurements = [measured for measured in evaluation.measurements if measured.problems == problems]
    names = [name for name in measurements[0].estimates if name.startswith("pass@")]
    rows = [["step", *map(_label, names), "model"]]
    for measured in sorted(measurements, key=lambda measured: steps[measured.model]):
        cells = [_cell(name, measured.estimates.get(name)) for name in names]
        rows.append([str(steps[measured.model]), *cells, printable(measured.model)])
    return rows


def sampling_lines(measurements: Sequence[Measurement]) -> list[str]:
    """How the samples were drawn, one line per distinct description; with the models, if there are several lines."""
    models: dict[str, list[str]] = {}
    for measured in measurements:
        models.setdefault(_sampling_line(measured), []).append(printable(measured.model))
    if len(models) == 1:
        return list(models)
    return [f"{', '.join(dict.fromkeys(names))}: {line}" for line, names in models.items()]


def _sampling_line(measured: Measurement) -> str:
    settings = measured.header["settings"]
    plural = "" if settings["num_samples"] == 1 else "s"
    sampling = f"temperature {settings['temperature']:g}, top-p {settings['top_p']:g}"
    if settings["temperature"] == 0:
        sampling = "greedy"
    return (
        f"{measured.num_problems} problems × {settings['num_samples']} sample{plural}, {sampling}, "
        f"at most {settings['max_new_tokens']} tokens, seed {settings['seed']}"
        f"{'' if measured.grader == ANSWER else f', graded by {printable(measured.grader)}'}"
    )


def sampling_difference(first: Sequence[Measurement], second: Sequence[Measurement]) -> str:
    """How the sampling of a problem set differs, as in "temperature 0.9 against 0.2"; empty if it does not."""
    differences: dict[str, None] = {}
    for problems in dict.fromkeys(measured.problems for measured in first):
        for name in ("num_samples", "temperature", "top_p", "max_new_tokens"):
            before, after = (
                {measured.header["settings"][name] for measured in side if measured.problems == problems}
                for side in (first, second)
            )
            if after and len(before | after) > 1:
                sides = [", ".join(f"{value:g}" for value in sorted(values)) for values in (before, after)]
                differences[f"{name.replace('_', ' ')} {' against '.join(sides)}"] = None
    return "; ".join(differences)


def paper_rows(evaluation: Evaluation) -> list[list[str]]:
    """Table 1 of arXiv:2508.03772 from an evaluation, in percent, header first, then one row per model."""
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for measured in evaluation.measurements:
        row = cells.setdefault(measured.model, {})
        for metric, values in measured.values.items():
            row[measured.problems, metric] = f"{100 * values.mean():.1f}"
    rows = [["model", *(f"{problems.upper()} {metric}" for problems, metric in PAPER_COLUMNS)]]
    for model, row in cells.items():
        rows.append([printable(model), *(row.get(column, MISSING) for column in PAPER_COLUMNS)])
    if all(cell == MISSING for row in rows[1:] for cell in row[1:]):
        raise DataError("The paper's table needs results on aime24, aime25 or amc23. Evaluate at least one of them.")
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table from rows, the first of which is the header.

    >>> print(markdown([["model", "pass@1"], ["lab", "50.0"]]))
    | model | pass@1 |
    | --- | ---: |
    | lab | 50.0 |
    """
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    lines: list[str] = []
    for row in (rows[0], rule, *rows[1:]):
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _order(name: str) -> tuple[int, int]:
    """A sort key: pass@k by k, then maj@k by k, then the others in their order."""
    kind, _, k = name.partition("@")
    return (("pass", "maj").index(kind), int(k)) if k else (2, 0)


def _label(name: str) -> str:
    return _LABELS.get(name, f"{name} %")


def _cell(name: str, result: Estimate | PairedDifference | None) -> str:
    if result is None:
        return MISSING
    is_difference = isinstance(result, PairedDifference)
    value = result.difference if is_difference else result.value
    scale = 100 if _label(name).endswith("%") else 1
    digits = 3 if name == "mean_entropy" else 1
    # "z" removes the minus sign of a value that rounds to zero
    center = f"{scale * value:{'+' if is_difference else ''}z.{digits}f}"
    interval = f"[{scale * result.low:z.{digits}f}, {scale * result.high:z.{digits}f}]"
    return f"{center} {interval}".replace("-", "−")
