"""Figures of the lab: curves over steps, pass@k and maj@k, and differences between arms."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments.lab.arms import ARMS, GROUPS
from experiments.lab.collect import Record
from experiments.lab.run_job import KS
from experiments.lab.settings import SETTINGS
from experiments.present.claims import ABLATIONS, QUANTITIES, Question, Records, answer, of_arm
from experiments.present.lab_tables import number, plain_verdict
from gtpo.runs.measures import centred_mean

COLORS = {
    "gtpo": "#1f5fd6",
    "grpo": "#e07020",
    "grpo-entropy": "#2a9d62",
    "grpo-conflicts": "#9250c8",
    "grpo-kl": "#b08a00",
    "protect": "#c2327a",
    "sft": "#58606e",
    "base": "#9aa0aa",
}
VERDICT_COLORS = {
    "better": "#1d8a50",
    "worse": "#c0392b",
    "lower": "#1f5fd6",
    "higher": "#1f5fd6",
    "not shown": "#7a828e",
}
CURVE_ARMS = tuple(arm for arm in GROUPS["main"] if arm != "base")
PASS_ARMS = ("gtpo", "grpo", "grpo-entropy", "grpo-conflicts", "sft")
PANELS = (
    ("accuracy", "Training accuracy, %", 100),
    ("format", "Complete format, %", 100),
    ("entropy", "Entropy, nats", 1),
)
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa0aa",
    "axes.labelcolor": "#30343c",
    "xtick.color": "#4a505a",
    "ytick.color": "#4a505a",
    "axes.grid": True,
    "grid.color": "#e6e8ec",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "gtpo",
    "svg.fonttype": "none",
}


def draw_curves(records: Records, setting: str, path: Path) -> bool:
    """Training accuracy, format and entropy over steps. Returns whether there was anything to draw."""
    arms = [arm for arm in CURVE_ARMS if of_arm(records, setting, arm)]
    if not arms:
        return False
    figure, axes = figure_of(1, 3, (10.2, 3.3))
    for axis, (name, title, scale) in zip(axes[0], PANELS, strict=True):
        for arm in arms:
            _draw_band(axis, of_arm(records, setting, arm), name, scale, arm)
        axis.set_title(title)
        axis.set_xlabel("step")
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, 0), min(high, 101) if scale == 100 else high)  # a band can exceed the possible values
    mark_ln2(axes[0][2])
    finish(figure, axes[0][0], path, SETTINGS[setting].title)
    return True


def draw_pass(records: Records, setting: str, path: Path) -> bool:
    """pass@k and maj@k on the held-out problems; the untrained policy as numbers below the axis."""
    arms = [arm for arm in PASS_ARMS if of_arm(records, setting, arm)]
    if not arms:
        return False
    figure, axes = figure_of(1, 2, (8.2, 3.5))
    for axis, kind in zip(axes[0], ("pass", "maj"), strict=True):
        for arm in arms:
            rows = [[100 * record.after[f"{kind}@{k}"] for k in KS] for record in of_arm(records, setting, arm)]
            draw_mean(axis, list(KS), np.array(rows), arm, marker="o")
        untrained = [record.after for record in of_arm(records, setting, "base")[:1]]
        below = [f"\n({100 * after[f'{kind}@{k}']:.0f})" for after in untrained for k in KS] or [""] * len(KS)
        axis.set_xscale("log", base=2)
        axis.set_xticks(KS, [f"{k}{text}" for k, text in zip(KS, below, strict=True)])
        axis.minorticks_off()
        axis.set_ylim(0, min(axis.get_ylim()[1], 101))
        axis.set_title(f"{kind}@k, %")
        axis.set_xlabel("k (in brackets: untrained)" if untrained else "k")
    finish(figure, axes[0][0], path, SETTINGS[setting].title)
    return True


def draw_effects(records: Records, setting: str, path: Path) -> bool:
    """Paired differences of arms to GRPO, and of variants to GTPO, with 95 % intervals."""
    pairs = [("gtpo", "grpo"), ("grpo-entropy", "grpo"), ("grpo-conflicts", "grpo"), ("gtpo", "grpo-kl")]
    pairs += [("gtpo", "sft"), *((arm, "gtpo") for arm in ABLATIONS)]
    pairs = [pair for pair in pairs if answer(Question(4, *pair, "accuracy"), records, setting) is not None]
    if not pairs:
        return False
    names = ("accuracy", "format", "entropy", "pass@32")
    figure, axes = figure_of(1, len(names), (11.5, max(2.0, 0.9 + 0.3 * len(pairs))), sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        quantity = QUANTITIES[name]
        scale = 100 if quantity.unit == "%" else 1
        axis.axvline(0, color="#30343c", linewidth=1)
        for row, (first, second) in enumerate(pairs):
            comparison = answer(Question(4, first, second, name), records, setting)
            if comparison is None:
                continue
            color = VERDICT_COLORS[plain_verdict(name, comparison)]
            if comparison.low is not None and comparison.high is not None:
                axis.plot([scale * comparison.low, scale * comparison.high], [row, row], color=color, linewidth=2.2)
            axis.plot(scale * comparison.difference, row, "o", color=color, markersize=5)
        axis.set_title(f"{quantity.title}, {'points' if scale == 100 else quantity.unit}", fontsize=9)
    axes[0][0].set_yticks(range(len(pairs)), [f"{ARMS[a].title} − {ARMS[b].title}" for a, b in pairs])
    axes[0][0].set_ylim(len(pairs) - 0.4, -0.6)
    for label in ("better", "worse", "lower or higher", "not shown"):
        axes[0][0].plot([], [], "o-", color=VERDICT_COLORS[label.partition(" or")[0]], label=label)
    finish(figure, axes[0][0], path, SETTINGS[setting].title)
    return True


def _draw_band(axis: Any, records: Sequence[Record], name: str, scale: float, arm: str) -> None:
    """The mean over seeds of the smoothed curves, over the steps that all seeds have."""
    curves = [record.to_run().series(name) for record in records]
    steps = curves[0].steps[: min(len(curve.steps) for curve in curves)]
    if steps:
        rows = np.array([centred_mean(curve.values)[: len(steps)] for curve in curves])
        draw_mean(axis, steps, scale * rows, arm)


def draw_mean(axis: Any, xs: Sequence[float], rows: np.ndarray, arm: str, **style: Any) -> None:
    """A line, and with at least two seeds a band: Student's 95 % interval of the mean over seeds."""
    color = COLORS[arm]
    label = f"{ARMS[arm].title} ({len(rows)})"
    axis.plot(xs, rows.mean(0), color=color, linewidth=1.9, markersize=4, label=label, **style)
    if len(rows) > 1:
        half = student_half_width(rows)
        low = (rows.mean(0) - half).clip(min=0)  # no quantity is negative
        axis.fill_between(xs, low, rows.mean(0) + half, color=color, alpha=0.15, linewidth=0)


def draw_difference(
    axis: Any,
    row: int,
    difference: float,
    interval: tuple[float, float] | None,
    color: str,
    limit: float,
) -> None:
    """A dot and its number in points; a line for the interval, which ends in an arrow where it exceeds `limit`."""
    if interval is not None:
        ends = [min(max(100 * end, -limit), limit) for end in interval]
        axis.plot(ends, [row, row], color=color, linewidth=2.2, solid_capstyle="butt")
        for end, exact in zip(ends, interval, strict=True):
            if abs(100 * exact) > limit:
                axis.plot(end, row, "<" if end < 0 else ">", color=color, markersize=6, clip_on=False)
    middle = min(max(100 * difference, -limit), limit)
    is_inside = middle == 100 * difference
    if is_inside:
        axis.plot(middle, row, "o", color=color, markersize=6)
    text, box = number(difference, "%", signed=True), {"facecolor": "white", "linewidth": 0, "pad": 0.4}
    look = {"ha": "center" if is_inside else "left" if middle < 0 else "right", "fontsize": 8, "color": color}
    axis.annotate(text, (middle, row), (0, 7), textcoords="offset points", bbox=box, **look)


def name_rows(axes: Any, names: Sequence[str]) -> None:
    """Panels of differences: a line at 0 and the names of the rows, from the top."""
    for axis in axes.flat:
        axis.axvline(0, color="#30343c", linewidth=1, zorder=1)
        axis.grid(visible=False, axis="y")
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="y", length=0, pad=8)
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].set_ylim(len(names) - 0.4, -0.7)


def student_half_width(rows: np.ndarray) -> np.ndarray:
    """Half the width of Student's 95 % interval of the mean over rows, column by column."""
    return stats.t.ppf(0.975, len(rows) - 1) * rows.std(0, ddof=1) / math.sqrt(len(rows))


def mark_ln2(axis: Any) -> None:
    axis.axhline(math.log(2), color="#30343c", linestyle=(0, (4, 3)), linewidth=1)
    axis.annotate("ln 2", (1, math.log(2)), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    axis.set_ylim(0, max(axis.get_ylim()[1], 1.15 * math.log(2)))


def figure_of(num_rows: int, num_columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(num_rows, num_columns, squeeze=False, **options)


def finish(figure: Any, first: Any, path: Path, title: str) -> None:
    handles, labels = first.get_legend_handles_labels()
    ncols = min(len(labels), int(figure.get_figwidth() // 2.5))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color="#4a505a")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
