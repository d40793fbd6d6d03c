"""The generated tables about the real model, in Markdown."""

from collections.abc import Mapping, Sequence

from experiments.lab.arms import ARMS
from experiments.present.lab_tables import NONE, interval, number
from experiments.present.qwen_data import (
    CONTESTS,
    METRICS,
    Measured,
    arms_of,
    comparisons,
    means_by_seed,
    means_over_seeds,
    over_runs,
    over_seeds,
    over_tests,
    pairs,
    sets_of,
)
from gtpo.compare import Comparison, has_collapsed
from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.metrics import Measurement
from gtpo.evaluation.tables import MISSING, markdown, paper_rows
from gtpo.runs.measures import final
from gtpo.runs.run import Run

IN_ACCURACY = {
    "GSM8K pass@1, %": ("gsm8k", "pass@1", 100),
    "GSM8K pass@8, %": ("gsm8k", "pass@8", 100),
    "GSM8K pass@32, %": ("gsm8k", "pass@32", 100),
    "MATH-500 pass@1, %": ("math500", "pass@1", 100),
}
IN_MATH = {
    "MATH-500 pass@1, %": ("math500", "pass@1", 100),
    "MATH-500 pass@4, %": ("math500", "pass@4", 100),
    "MATH-500 complete format, %": ("math500", "format_rate", 100),
    "AIME 2024 pass@1, %": ("aime24", "pass@1", 100),
    "AIME 2024 pass@32, %": ("aime24", "pass@32", 100),
}
IN_SIMILARITY = {
    "distinct completions of 32": ("gsm8k", "distinct_completions", 1),
    "distinct answers of 32": ("gsm8k", "distinct_answers", 1),
    "characters that two completions begin with in common": ("gsm8k", "common_beginning", 1),
    "of the beginning copied from the question, %": ("gsm8k", "copied", 100),
}
"""Rows of `each_run`: problem set, metric and scale."""


def real_tables(runs: Sequence[Run], measured: Measured) -> dict[str, str]:
    """Every generated part about the real model, by name."""
    return {
        "real-runs": _runs_table(runs, "real_curves.svg") if runs else NONE,
        "real-table-1": _table_1(measured) if measured else NONE,
        "real-evaluations": _evaluations(measured) if measured else NONE,
        "real-differences": _differences(measured) or NONE,
        "real-pairs": _pairs(runs, measured) or NONE,
        "real-seeds": _seeds(runs) or NONE,
        "real-tests": _tests(measured) or NONE,
        "real-alike": _alike(measured) or NONE,
    }


def math_tables(runs: Sequence[Run], measured: Measured) -> dict[str, str]:
    """The parts about the runs on MATH, by name; none before there are runs."""
    if not runs:
        return {}
    return {
        "math-runs": _runs_table(runs, "real_curves_math.svg"),
        "math-each": each_run(measured, IN_MATH),
        "math-tests": _tests(measured) or NONE,
    }


def _runs_table(runs: Sequence[Run], figure: str) -> str:
    ends = ("accuracy at the end, %", "format at the end, %", "entropy at the end", "tokens at the end")
    rows = [["method", "seed", "steps", "minutes", *ends, "collapsed", "commit"]]
    for run in runs:
        shown = {"accuracy": (100, 1), "format": (100, 1), "entropy": (1, 3), "length": (1, 0)}
        ended = {name: final(run.series(name)) for name in shown}
        cells = [
            MISSING if (end := ended[name]) is None else f"{scale * end:.{digits}f}"
            for name, (scale, digits) in shown.items()
        ]
        collapsed = MISSING if ended["accuracy"] is None else "yes" if has_collapsed(run) else "no"
        about = [ARMS[run.method].title, str(run.seed), str(run.num_steps), f"{run.after['minutes']:.1f}"]
        commits = [note.removeprefix("commit ") for note in run.notes if note.startswith("commit ")]
        rows.append([*about, *cells, collapsed, *(commits or [MISSING])])
    caption = (
        "Training accuracy, complete format, entropy and length over steps, smoothed over a twentieth of them: every "
        "run thin, their mean thick over the steps that all have"
    )
    notes = [note for run in runs for note in run.notes if not note.startswith("commit ")]
    set_up = ", ".join(dict.fromkeys(notes))
    return f"![{caption}](../../figures/{figure})\n\n{markdown(rows)}\n\n{set_up}"


def _table_1(measured: Measured) -> str:
    means = [over_seeds(measured, arm, name) for arm in arms_of(measured) for name in ("aime24", "aime25", "amc23")]
    known = [mean for mean in means if mean is not None]
    return markdown(paper_rows(Evaluation(known, []))) if known else NONE


def _evaluations(measured: Measured) -> str:
    parts: list[str] = []
    for name in sets_of(measured):
        means = means_over_seeds(measured, name)
        first = next(iter(means.values()))
        metrics = [metric for metric in METRICS if any(metric in mean.values for mean in means.values())]
        rows = [[name, *(f"{metric}, %" for metric in metrics)]]
        rows += [[title, *(estimate(mean, metric) for metric in metrics)] for title, mean in means.items()]
        parts.append(f"{first.num_problems} problems, {_how(first)}\n\n{markdown(rows)}")
    caption = (
        "pass@k and maj@k over k on each problem set: mean over seeds; band: bootstrap 95 % interval over problems"
    )
    return "\n\n".join([f"![{caption}](../../figures/real_pass.svg)", *parts])


def _pairs(runs: Sequence[Run], measured: Measured) -> str:
    rows = [["seed", "steps", "metric", "GTPO", "GRPO", "difference", "95 % interval over problems", "verdict"]]
    for seed, answers in pairs(measured).items():
        steps = {run.num_steps for run in runs if run.seed == seed and run.method in ("gtpo", "grpo")}
        about = [str(seed), " and ".join(map(str, sorted(steps)))]
        rows += [[*about, comparison.name, *difference_cells(comparison)] for comparison in answers]
    return markdown(rows) if len(rows) > 1 else ""


def _differences(measured: Measured) -> str:
    rows = [
        [
            "method",
            "against",
            "metric",
            "runs",
            "first",
            "second",
            "difference",
            "95 % interval over problems",
            "verdict",
        ]
    ]
    for first, second in CONTESTS:
        titles = [ARMS[first].title, ARMS[second].title]
        for comparison in comparisons(measured, first, second):
            rows.append(
                [
                    *titles,
                    comparison.name,
                    f"{comparison.num_first}, {comparison.num_second}",
                    *difference_cells(comparison),
                ]
            )
    return markdown(rows) if len(rows) > 1 else ""


def difference_cells(comparison: Comparison) -> list[str]:
    values = (
        number(comparison.first, "%"),
        number(comparison.second, "%"),
        number(comparison.difference, "%", signed=True),
    )
    return [*values, interval(comparison, "%"), f"**{comparison.verdict}**"]


def _seeds(runs: Sequence[Run]) -> str:
    rows = [
        [
            "GTPO against",
            "quantity",
            "GTPO",
            "other",
            "difference",
            "95 % interval over seeds",
            "verdict",
            "more seeds",
        ]
    ]
    for arm, answers in over_runs(runs).items():
        for comparison in answers:
            more = "" if comparison.more_seeds is None else str(comparison.more_seeds)
            rows.append([ARMS[arm].title, comparison.name, *difference_cells(comparison), more])
    return markdown(rows) if len(rows) > 1 else ""


def _tests(measured: Measured) -> str:
    rows = [
        ["metric", "GTPO", "GRPO", "seed by seed", "difference", "95 % interval over seeds", "verdict", "more seeds"]
    ]
    for comparison, differences in over_tests(measured):
        first, second, *others = difference_cells(comparison)
        each = ", ".join(number(difference, "%", signed=True) for difference in differences)
        rows.append(
            [
                comparison.name,
                first,
                second,
                each,
                *others,
                "" if comparison.more_seeds is None else str(comparison.more_seeds),
            ]
        )
    return markdown(rows) if len(rows) > 1 else ""


def _alike(measured: Measured) -> str:
    """On GSM8K: distinct samples of a problem, how similarly they begin, and how much they copy from the question."""
    columns = ("distinct_completions", "distinct_answers", "common_beginning")
    means = {
        title: mean
        for title, mean in means_over_seeds(measured, "gsm8k").items()
        if all(name in mean.values for name in columns)
    }
    titles = ("distinct completions", "distinct answers", "characters in common at the beginning of two")
    rows = [["gsm8k", *titles, "of the beginning copied from the question, %"]]
    for title, mean in means.items():
        cells = [estimate(mean, name, scale=1) for name in columns]
        rows.append([title, *cells, estimate(mean, "copied")])
    return markdown(rows) if means else ""


def each_run(measured: Measured, rows: Mapping[str, tuple[str, str, int]]) -> str:
    """The value of every run by seed, a row per metric (problem set, name and scale) and a column per trained arm."""
    arms = [arm for arm in ("grpo", "grpo-kl", "gtpo", "protect") if arm in arms_of(measured)]
    if not arms:
        return NONE
    table = [["", *(ARMS[arm].title for arm in arms)]]
    for title, (problems, metric, scale) in rows.items():
        values = [means_by_seed(measured, arm, problems, metric).values() for arm in arms]
        table.append([title, *(", ".join(f"{scale * value:.1f}" for value in column) or MISSING for column in values)])
    return markdown(table)


def estimate(measurement: Measurement, metric: str, scale: int = 100) -> str:
    if metric not in measurement.values:
        return MISSING
    mean = measurement.estimates[metric]
    return f"{scale * mean.value:.1f} [{scale * mean.low:.1f}, {scale * mean.high:.1f}]"


def _how(measurement: Measurement) -> str:
    settings = measurement.header["settings"]
    samples = f"{settings['num_samples']} samples each at temperature {settings['temperature']:g}"
    drawn = samples if settings["temperature"] else "one greedy answer each"
    return f"{drawn}, at most {settings['max_new_tokens']} tokens"
