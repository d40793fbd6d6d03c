"""The figure of docs/results.md: how GTPO differs from GRPO in the lab and on the real model."""

from collections.abc import Mapping
from pathlib import Path

from experiments.lab.settings import SETTINGS
from experiments.present.claims import Question, Records, answer
from experiments.present.lab_figures import VERDICT_COLORS, draw_difference, figure_of, name_rows
from experiments.present.qwen_data import Measured
from experiments.present.verdicts import QWEN, on_gsm8k
from gtpo.compare import Comparison

QUANTITIES = {
    "Accuracy": ("accuracy", "pass@1"),
    "Format": ("format", "format_rate"),
    "pass@8": ("pass@8", "pass@8"),
    "pass@32": ("pass@32", "pass@32"),
}
"""A panel each: the quantity in the lab, and the metric on GSM8K's test set."""
LIMIT = 30
"""Points to either side of 0; an interval that goes further ends in an arrow."""


def draw_overview(records: Records, measured: Measured, path: Path) -> bool:
    """Differences with their intervals, one panel per quantity and one row per setting."""
    panels = {title: _differences(records, measured, *names) for title, names in QUANTITIES.items()}
    places = list(next(iter(panels.values())))
    if not places:
        return False
    figure, axes = figure_of(2, 2, (7.2, 0.84 * len(places) + 1.9), sharex=True, sharey=True)
    for axis, (title, differences) in zip(axes.flat, panels.items(), strict=True):
        for place, comparison in differences.items():
            color = VERDICT_COLORS[comparison.verdict]
            low, high = comparison.low, comparison.high
            interval = None if low is None or high is None else (low, high)
            draw_difference(axis, places.index(place), comparison.difference, interval, color, LIMIT)
        axis.set_title(title)
        axis.set_xlim(-LIMIT, LIMIT)
        axis.set_xticks((-20, 0, 20))
    name_rows(axes, places)
    figure.supxlabel("GTPO − GRPO in points, mean over seeds with its 95 % interval", fontsize=9.5, color="#30343c")
    labels = {"better": "GTPO better", "worse": "GTPO worse", "not shown": "not shown (the interval includes 0)"}
    for verdict, label in labels.items():
        axes[0][0].plot([], [], "o-", color=VERDICT_COLORS[verdict], linewidth=2.2, label=label)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(labels))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    return True


def _differences(records: Records, measured: Measured, quantity: str, metric: str) -> Mapping[str, Comparison]:
    """GTPO against GRPO in every place that has both."""
    found = {f"lab, {name}": answer(Question(1, "gtpo", "grpo", quantity), records, name) for name in SETTINGS}
    found[QWEN] = on_gsm8k(measured, metric)
    return {place: comparison for place, comparison in found.items() if comparison is not None}
