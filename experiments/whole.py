"""What is lost on MATH-500 where GSM8K's kind of answer, a bare whole number, is right, and where it is not."""

import dataclasses

from experiments.arms import ARMS
from experiments.real_data import CONTESTS, Measured, arms_of, comparisons, difference_cells, estimate
from experiments.tables import NONE
from gtpo.evaluation.layout import markdown
from gtpo.evaluation.metrics import Measurement
from gtpo.reports.compare import Comparison

KINDS = {"whole": True, "other": False}
"""Problems by their right answer: a whole number, or anything else."""


def by_answer(measured: Measured) -> dict[str, Measured]:
    """What was measured on MATH-500's problems whose right answer is a whole number, and on the others."""
    asked = {key: one for key, one in measured.items() if key[2] == "math500" and "whole_gold" in one.values}
    return {kind: {key: _part(one, is_whole) for key, one in asked.items()} for kind, is_whole in KINDS.items()}


def _part(one: Measurement, is_whole: bool) -> Measurement:
    chosen = (one.values["whole_gold"] == 1) == is_whole
    return dataclasses.replace(one, values={name: values[chosen] for name, values in one.values.items()})


def contests_by_answer(measured: Measured) -> list[tuple[str, str, str, Comparison]]:
    """Arm, other arm, kind of the right answer, and the two at pass@1."""
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
    runs = sorted(parts["whole"], key=lambda key: (arms_of(measured).index(key[0]), key[1]))
    if not runs:
        return {"real-whole": NONE}
    num_problems = {kind: part[runs[0]].num_problems for kind, part in parts.items()}
    titles = [f"right answer {kind} ({count}): pass@1, %" for kind, count in num_problems.items()]
    rows = [["math500", "seed", *titles, "right answer other: answered with a whole number, %"]]
    for key in runs:
        cells = [estimate(part[key], "pass@1") for part in parts.values()]
        rows.append([ARMS[key[0]].title, str(key[1]), *cells, estimate(parts["other"][key], "whole")])
    contests = [["pass@1 of", "against", "right answer", "runs", "first", "second", "difference", "95 %", "verdict"]]
    for first, second, kind, one in contests_by_answer(measured):
        about = [ARMS[first].title, ARMS[second].title, kind]
        contests.append([*about, f"{one.num_first}, {one.num_second}", *difference_cells(one)])
    return {"real-whole": f"{markdown(rows)}\n\n{markdown(contests)}"}
