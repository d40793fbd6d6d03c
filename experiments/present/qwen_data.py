"""What the runs of the real model left: result files in experiments/data/real, and what can be said of them.

<spec>_<arm>_seed<n>.json                a run: where it ran, and its curve
<spec>_<arm>_seed<n>_on_<problems>.json  an evaluation: every metric of every problem (<problems>-greedy: one answer;
                                         <problems>-at-<t>: at another temperature)
<spec>_<arm>_seed<n>_groups.jsonl        a recorded group, for the token view in docs/results.md
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lab.arms import ARMS
from experiments.lab.collect import DATA, rows_of
from experiments.present.tables import NONE, interval, number
from gtpo.compare import Comparison, compare_evaluations, compare_runs, compare_values, has_collapsed
from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.metrics import Measurement
from gtpo.evaluation.tables import MISSING, markdown, paper_rows
from gtpo.runs.measures import final
from gtpo.runs.run import Run

REAL = DATA / "real"
ORDER = ("gsm8k", "gsm8k-greedy", "gsm8k-at-1.2", "math500", "amc23", "aime24", "aime25")
CONTESTS = (
    ("gtpo", "grpo"), ("gtpo", "grpo-kl"), ("gtpo", "sft"), ("protect", "grpo"), ("protect", "grpo-kl"),
    ("protect", "gtpo"), ("grpo-kl", "grpo"),
)  # fmt: skip
"""The last one is next to a repetition: β = 1e-6 adds next to nothing, so it says how far two runs lie apart."""
METRICS = ("pass@1", "pass@4", "pass@8", "pass@32", "maj@4", "maj@8", "maj@32", "format_rate")

Measured = dict[tuple[str, int, str], Measurement]


def read_runs(folder: Path = REAL, spec: str = "qwen") -> list[Run]:
    """Every trained run, as `gtpo compare` and the figures see one."""
    found: list[Run] = []
    for path in sorted(folder.glob(f"{spec}_*_seed*.json")):
        if "_on_" not in path.stem:
            content = json.loads(path.read_text())
            rows = rows_of(content["curve"])
            notes = [name for name in (content.get("device"), *_versions(content)) if name]
            after = {"minutes": content.get("seconds", 0.0) / 60}
            found.append(Run(folder, path.stem, content["arm"], content["seed"], rows, after, notes))
    return found


def _versions(content: Mapping[str, Any]) -> list[str]:
    versions = [f"{name} {version}" for name, version in content.get("versions", {}).items()]
    return [f"commit {content['commit']}", *versions] if "commit" in content else versions


def read_measurements(folder: Path = REAL, spec: str = "qwen") -> Measured:
    """Every evaluation by arm, seed and problem set."""
    found: Measured = {}
    for path in sorted(folder.glob(f"{spec}_*_on_*.json")):
        content = json.loads(path.read_text())
        header, values = content["header"], {name: np.array(one) for name, one in content["values"].items()}
        key = content["arm"], content["seed"], path.stem.partition("_on_")[2]
        found[key] = Measurement(ARMS[key[0]].title, key[2], header, values)
    return found


def over_seeds(measured: Mapping[Any, Measurement], arm: str, problems: str) -> Measurement | None:
    """The mean over an arm's seeds of every value of every problem."""
    ones = _by_seed(measured, arm, problems)
    if not ones:
        return None
    names = [name for name in ones[0].values if all(name in one.values for one in ones)]
    values = {name: np.mean([one.values[name] for one in ones], axis=0) for name in names}
    return Measurement(ARMS[arm].title, problems, ones[0].header, values)


def _by_seed(measured: Mapping[Any, Measurement], arm: str, problems: str) -> list[Measurement]:
    return [one for (name, _, where), one in measured.items() if (name, where) == (arm, problems)]


def _means(measured: Measured, problems: str) -> dict[str, Measurement]:
    """By the name of an arm, with the number of its seeds: the mean over them."""
    found = {arm: over_seeds(measured, arm, problems) for arm in arms_of(measured)}
    return {
        f"{one.model} ({len(_by_seed(measured, arm, problems))})": one
        for arm, one in found.items() if one is not None
    }  # fmt: skip


def real_tables(runs: Sequence[Run], measured: Measured) -> dict[str, str]:
    """Every generated part about the real model."""
    return {
        "real-runs": _runs_table(runs) if runs else NONE,
        "real-table-1": _table_1(measured) if measured else NONE,
        "real-evaluations": _evaluations(measured) if measured else NONE,
        "real-differences": _differences(measured) or NONE,
        "real-pairs": _pairs(runs, measured) or NONE,
        "real-seeds": _seeds(runs) or NONE,
        "real-tests": _tests(measured) or NONE,
        "real-alike": _alike(measured) or NONE,
    }


def arms_of(measured: Measured) -> list[str]:
    return [arm for arm in ARMS if any(key[0] == arm for key in measured)]


def sets_of(measured: Measured) -> list[str]:
    return [name for name in ORDER if any(key[2] == name for key in measured)]


def _runs_table(runs: Sequence[Run]) -> str:
    ends = ("accuracy at the end, %", "format at the end, %", "entropy at the end", "tokens at the end")
    rows = [["arm", "seed", "steps", "minutes", *ends, "collapsed", "commit"]]
    for run in runs:
        shown = {"accuracy": (100, 1), "format": (100, 1), "entropy": (1, 3), "length": (1, 0)}
        ended = {name: final(run.series(name)) for name in shown}
        cells = [
            MISSING if (end := ended[name]) is None else f"{scale * end:.{digits}f}"
            for name, (scale, digits) in shown.items()
        ]
        said = MISSING if ended["accuracy"] is None else "yes" if has_collapsed(run) else "no"
        about = [ARMS[run.method].title, str(run.seed), str(run.num_steps), f"{run.after['minutes']:.1f}"]
        commits = [note.removeprefix("commit ") for note in run.notes if note.startswith("commit ")]
        rows.append([*about, *cells, said, *(commits or [MISSING])])
    what = (
        "Training accuracy, complete format, entropy and length over steps, smoothed over a twentieth of them: every "
        "run thin, their mean thick as far as all of them went"
    )
    notes = [note for run in runs for note in run.notes if not note.startswith("commit ")]
    with_what = ", ".join(dict.fromkeys(notes))
    return f"![{what}](figures/real_curves.svg)\n\n{markdown(rows)}\n\n{with_what}"


def _table_1(measured: Measured) -> str:
    means = [over_seeds(measured, arm, name) for arm in arms_of(measured) for name in ("aime24", "aime25", "amc23")]
    known = [one for one in means if one is not None]
    return markdown(paper_rows(Evaluation(known, []))) if known else NONE


def _evaluations(measured: Measured) -> str:
    parts: list[str] = []
    for name in sets_of(measured):
        means = _means(measured, name)
        first = next(iter(means.values()))
        metrics = [metric for metric in METRICS if any(metric in one.values for one in means.values())]
        rows = [[name, *(f"{metric}, %" for metric in metrics)]]
        rows += [[title, *(estimate(one, metric) for metric in metrics)] for title, one in means.items()]
        parts.append(f"{first.num_problems} problems, {_how(first)}\n\n{markdown(rows)}")
    shown = "pass@k and maj@k over k on each problem set: mean over seeds; band: bootstrap 95 % interval over problems"
    return "\n\n".join([f"![{shown}](figures/real_pass.svg)", *parts])


def comparisons(measured: Measured, first: str, second: str) -> list[Comparison]:
    """One arm against another, metric by metric, on the problem sets that both were asked.

    Two arms of RL saw the same prompts in each seed and went equally far: they are compared over the seeds that both
    have on a problem set. Against SFT every seed counts.
    """
    asked = [{key[1:]: one for key, one in measured.items() if key[0] == name} for name in (first, second)]
    if ARMS[second].method != "sft":
        shared = asked[0].keys() & asked[1].keys()
        asked = [{key: one for key, one in side.items() if key in shared} for side in asked]
    sets = [problems for problems in ORDER if all(any(key[1] == problems for key in side) for side in asked)]
    if not sets:
        return []
    sides = ([one for name in sets for key, one in side.items() if key[1] == name] for side in asked)
    return [one for one in compare_evaluations(*sides) if one.name.split()[-1] in METRICS]


def pairs(measured: Measured) -> dict[int, list[Comparison]]:
    """GTPO against GRPO on GSM8K, every pair of runs by itself; nothing where there is but one."""
    by_seed = {
        seed: comparisons({key: one for key, one in measured.items() if key[1:] == (seed, "gsm8k")}, "gtpo", "grpo")
        for seed in sorted({key[1] for key in measured})
    }
    found = {seed: answers for seed, answers in by_seed.items() if answers}
    return found if len(found) > 1 else {}


def _pairs(runs: Sequence[Run], measured: Measured) -> str:
    rows = [["seed", "steps", "", "GTPO", "GRPO", "difference", "95 % interval over problems", "verdict"]]
    for seed, answers in pairs(measured).items():
        steps = {run.num_steps for run in runs if run.seed == seed and run.method in ("gtpo", "grpo")}
        about = [str(seed), " and ".join(map(str, sorted(steps)))]
        rows += [[*about, one.name, *difference_cells(one)] for one in answers]
    return markdown(rows) if len(rows) > 1 else ""


def _differences(measured: Measured) -> str:
    rows = [["", "against", "", "runs", "first", "second", "difference", "95 % interval over problems", "verdict"]]
    for first, second in CONTESTS:
        titles = [ARMS[first].title, ARMS[second].title]
        for one in comparisons(measured, first, second):
            rows.append([*titles, one.name, f"{one.num_first}, {one.num_second}", *difference_cells(one)])
    return markdown(rows) if len(rows) > 1 else ""


def difference_cells(one: Comparison) -> list[str]:
    values = number(one.first, "%"), number(one.second, "%"), number(one.difference, "%", signed=True)
    return [*values, interval(one, "%"), f"**{one.verdict}**"]


def real_collapses(measured: Measured, arm: str) -> list[bool] | None:
    """Which runs of an arm have collapsed, as in the lab: on GSM8K, below half of the untrained model."""
    start = over_seeds(measured, "base", "gsm8k")
    if start is None:
        return None
    least = start.values["pass@1"].mean() / 2
    return [bool(one.values["pass@1"].mean() < least) for one in _by_seed(measured, arm, "gsm8k")]


def over_runs(runs: Sequence[Run]) -> dict[str, list[Comparison]]:
    """GTPO against each arm of RL in what training logs, over the seeds that both have, where they are two or more."""
    found: dict[str, list[Comparison]] = {}
    for arm in ("grpo", "grpo-kl"):
        sides = [{run.seed: run for run in runs if run.method == method} for method in ("gtpo", arm)]
        shared = sides[0].keys() & sides[1].keys()
        if len(shared) > 1:
            first, second = ([run for seed, run in side.items() if seed in shared] for side in sides)
            found[arm] = compare_runs(first, second)
    return found


def _seeds(runs: Sequence[Run]) -> str:
    rows = [["GTPO against", "", "GTPO", "other", "difference", "95 % interval over seeds", "verdict", "more seeds"]]
    for arm, answers in over_runs(runs).items():
        for one in answers:
            more = "" if one.more_seeds is None else str(one.more_seeds)
            rows.append([ARMS[arm].title, one.name, *difference_cells(one), more])
    return markdown(rows) if len(rows) > 1 else ""


def over_tests(measured: Measured) -> list[tuple[Comparison, list[float]]]:
    """GTPO against GRPO on each problem set, over the seeds that both have, and what the difference is in each."""
    found: list[tuple[Comparison, list[float]]] = []
    for problems in sets_of(measured):
        for metric in METRICS:
            first, second = (_means_by_seed(measured, arm, problems, metric) for arm in ("gtpo", "grpo"))
            shared = sorted(first.keys() & second.keys())
            if len(shared) > 1:
                answer = compare_values(f"{problems} {metric}", first, second)
                found.append((answer, [first[seed] - second[seed] for seed in shared]))
    return found


def _means_by_seed(measured: Measured, arm: str, problems: str, metric: str) -> dict[int, float]:
    return {
        seed: float(one.values[metric].mean())
        for (name, seed, where), one in measured.items() if (name, where) == (arm, problems) and metric in one.values
    }  # fmt: skip


def _tests(measured: Measured) -> str:
    rows = [["", "GTPO", "GRPO", "seed by seed", "difference", "95 % interval over seeds", "verdict", "more seeds"]]
    for one, differences in over_tests(measured):
        first, second, *others = difference_cells(one)
        each = ", ".join(number(difference, "%", signed=True) for difference in differences)
        rows.append([one.name, first, second, each, *others, "" if one.more_seeds is None else str(one.more_seeds)])
    return markdown(rows) if len(rows) > 1 else ""


def _alike(measured: Measured) -> str:
    """Of GSM8K: how many of a problem's samples differ, how alike two begin, how much of it the question says."""
    columns = ("distinct_completions", "distinct_answers", "common_beginning")
    means = {title: one for title, one in _means(measured, "gsm8k").items() if all(n in one.values for n in columns)}
    titles = ("different completions", "different answers", "characters that two completions begin with in common")
    rows = [["gsm8k", *titles, "of their beginning in the question, %"]]
    for title, one in means.items():
        shown = [estimate(one, name, scale=1) for name in columns]
        rows.append([title, *shown, estimate(one, "copied")])
    return markdown(rows) if means else ""


def estimate(one: Measurement, metric: str, scale: int = 100) -> str:
    if metric not in one.values:
        return MISSING
    found = one.estimates[metric]
    return f"{scale * found.value:.1f} [{scale * found.low:.1f}, {scale * found.high:.1f}]"


def _how(one: Measurement) -> str:
    asked = one.header["settings"]
    samples = f"{asked['num_samples']} samples each at temperature {asked['temperature']:g}"
    return (
        f"{samples if asked['temperature'] else 'one greedy answer each'}, at most "
        f"{asked['max_new_tokens']} tokens; in brackets bootstrap 95 % intervals over problems; in parentheses seeds"
    )
