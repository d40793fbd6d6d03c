"""MATH-500 split by whether a bare whole number, the kind of answer that GSM8K has, can be right."""

import dataclasses

from experiments.lab.arms import ARMS
from experiments.present.lab_tables import NONE
from experiments.present.qwen_data import CONTESTS, Measured, arms_of, comparisons
from experiments.present.qwen_tables import difference_cells, estimate
from gtpo.compare import Comparison
from gtpo.evaluation.metrics import Measurement
from gtpo.evaluation.tables import markdown

KINDS = {"yes": True, "no": False}
"""Whether a bare whole number can be right."""


def by_answer(measured: Measured) -> dict[str, Measured]:
    """The measurements on MATH-500, split by the kind of its problems."""
    on_math500 = {
        key: measurement
        for key, measurement in measured.items()
        if key[2] == "math500" and "takes_whole" in measurement.values
    }
    return {
        kind: {key: _part(measurement, is_taken) for key, measurement in on_math500.items()}
        for kind, is_taken in KINDS.items()
    }


def _part(measurement: Measurement, is_taken: bool) -> Measurement:
    chosen = (measurement.values["takes_whole"] == 1) == is_taken
    return dataclasses.replace(
        measurement, values={name: values[chosen] for name, values in measurement.values.items()}
    )


def contests_by_answer(measured: Measured) -> list[tuple[str, str, str, Comparison]]:
    """Arm, other arm, kind of problem, and the comparison of their pass@1."""
    return [
        (*contest, kind, comparison)
        for contest in CONTESTS
        for kind, part in by_answer(measured).items()
        for comparison in comparisons(part, *contest)
        if comparison.name.endswith("pass@1")
    ]


def whole_runs(measured: Measured) -> str:
    """pass@1 of every run on both kinds of problems, and how often it answers with a whole number."""
    parts = by_answer(measured)
    runs = sorted(parts["yes"], key=lambda key: (arms_of(measured).index(key[0]), key[1]))
    if not runs:
        return NONE
    titles = [f"{kind} ({part[runs[0]].num_problems} problems): pass@1, %" for kind, part in parts.items()]
    rows = [["can a whole number be right?", "seed", *titles, "no: whole numbers among the answers, %"]]
    for key in runs:
        cells = [estimate(part[key], "pass@1") for part in parts.values()]
        rows.append([ARMS[key[0]].title, str(key[1]), *cells, _share(parts["no"][key])])
    return markdown(rows)


def whole_contests(measured: Measured) -> str:
    """Comparisons between arms on both kinds of problems."""
    contests = [
        ["pass@1 of", "against", "whole?", "runs", "first", "second", "difference", "95 % interval", "verdict"]
    ]
    for first, second, kind, comparison in contests_by_answer(measured):
        about = [ARMS[first].title, ARMS[second].title, kind]
        contests.append([*about, f"{comparison.num_first}, {comparison.num_second}", *difference_cells(comparison)])
    return markdown(contests) if len(contests) > 1 else NONE


def _share(measurement: Measurement) -> str:
    """The share of whole numbers among the answers that were given; the untrained model gives few."""
    return f"{100 * measurement.values['answered_whole'].mean() / measurement.values['answered'].mean():.0f}"
