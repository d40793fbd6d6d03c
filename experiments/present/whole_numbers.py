"""What is lost on MATH-500 where a bare whole number, GSM8K's kind of answer, can be right, and where it cannot."""

import dataclasses

from experiments.lab.arms import ARMS
from experiments.present.qwen_data import CONTESTS, Measured, arms_of, comparisons, difference_cells, estimate
from experiments.present.tables import NONE
from gtpo.compare import Comparison
from gtpo.evaluation.metrics import Measurement
from gtpo.evaluation.tables import markdown

KINDS = {"yes": True, "no": False}
"""Can a bare whole number be right?"""


def by_answer(measured: Measured) -> dict[str, Measured]:
    """What was measured on MATH-500's problems to which a bare whole number can be the answer, and on the others."""
    asked = {key: one for key, one in measured.items() if key[2] == "math500" and "takes_whole" in one.values}
    return {kind: {key: _part(one, is_taken) for key, one in asked.items()} for kind, is_taken in KINDS.items()}


def _part(one: Measurement, is_taken: bool) -> Measurement:
    chosen = (one.values["takes_whole"] == 1) == is_taken
    return dataclasses.replace(one, values={name: values[chosen] for name, values in one.values.items()})


def contests_by_answer(measured: Measured) -> list[tuple[str, str, str, Comparison]]:
    """Arm, other arm, kind of problem, and the two at pass@1."""
    return [
        (*contest, kind, one)
        for contest in CONTESTS
        for kind, part in by_answer(measured).items()
        for one in comparisons(part, *contest)
        if one.name.endswith("pass@1")
    ]


def whole_table(measured: Measured) -> dict[str, str]:
    """Run by run, then arm against arm."""
    parts = by_answer(measured)
    runs = sorted(parts["yes"], key=lambda key: (arms_of(measured).index(key[0]), key[1]))
    if not runs:
        return {"real-whole": NONE}
    titles = [f"{kind} ({part[runs[0]].num_problems} problems): pass@1, %" for kind, part in parts.items()]
    rows = [["can a whole number be right?", "seed", *titles, "no: whole numbers among the answers, %"]]
    for key in runs:
        cells = [estimate(part[key], "pass@1") for part in parts.values()]
        rows.append([ARMS[key[0]].title, str(key[1]), *cells, _share(parts["no"][key])])
    contests = [["pass@1 of", "against", "whole?", "runs", "first", "second", "difference", "95 %", "verdict"]]
    for first, second, kind, one in contests_by_answer(measured):
        about = [ARMS[first].title, ARMS[second].title, kind]
        contests.append([*about, f"{one.num_first}, {one.num_second}", *difference_cells(one)])
    return {"real-whole": f"{markdown(rows)}\n\n{markdown(contests)}"}


def _share(one: Measurement) -> str:
    """Of the answers that were given: the untrained model gives few."""
    return f"{100 * one.values['answered_whole'].mean() / one.values['answered'].mean():.0f}"
