"""The figure of the leaderboard: a column of panels per place, a row of panels per outcome, and a line per method."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.lab.arms import ARMS as ALL_ARMS
from experiments.leaderboard.places import Place
from experiments.leaderboard.protocol import BASELINES, CONTROL, OUTCOME, OUTCOMES, baseline_of
from experiments.leaderboard.standings import Standing, standings
from experiments.present.lab_figures import VERDICT_COLORS, figure_of, name_rows

COLORS = {"better": VERDICT_COLORS["better"], "worse": VERDICT_COLORS["worse"], "not shown": "#a3aab4"}
MARK = " †"
"""Follows the name of a method that is compared with another baseline than GRPO."""


def draw(places: Sequence[Place], path: Path) -> None:
    """Differences to the baseline with their intervals. The control is left out, because it is far off."""
    arms = list(dict.fromkeys(arm for place in places for arm in drawn_arms(place)))
    size = (max(7.0, 1.7 + 2.05 * len(places)), 1.5 + len(OUTCOMES) * (0.35 + 0.2 * len(arms)))
    figure, axes = figure_of(len(OUTCOMES), len(places), size, sharey=True)
    name_rows(axes, [ALL_ARMS[arm].title + MARK * (arm in BASELINES) for arm in arms])
    for column, place in enumerate(places):
        axes[0][column].set_title(place.name)
        for axis, outcome in zip(axes[:, column], OUTCOMES, strict=True):
            axis.locator_params(axis="x", nbins=5)
            for arm, standing in standings(place, outcome).items():
                if arm in arms and standing.difference is not None:
                    _draw_standing(axis, arms.index(arm), standing)
            reach = max(map(abs, axis.get_xlim()))
            axis.set_xlim(-reach, reach)
    for axis, outcome in zip(axes[:, 0], OUTCOMES, strict=True):
        axis.set_ylabel(outcome, fontweight="bold")
    _explain(figure, axes[0][0], [arm for arm in arms if arm in BASELINES])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def drawn_arms(place: Place) -> list[str]:
    """The methods that have a difference to their baseline, the best first, without the control."""
    found = {arm: standing.difference for arm, standing in standings(place, OUTCOME).items() if arm != CONTROL}
    differences = {arm: difference for arm, difference in found.items() if difference is not None}
    return sorted(differences, key=lambda arm: -differences[arm])


def _draw_standing(axis: Any, row: int, standing: Standing) -> None:
    """A dot, and its interval if there are enough seeds: that of two is wider than everything else."""
    color = COLORS[standing.verdict or "not shown"]
    if standing.interval is not None and standing.p is not None:
        ends = [100 * end for end in standing.interval]
        axis.plot(ends, [row, row], color=color, linewidth=2.2, solid_capstyle="butt")
    look = {"color": color, "markerfacecolor": color if standing.verdict else "white"}
    axis.plot(100 * (standing.difference or 0), row, "D" if standing.is_primary else "o", markersize=5.5, **look)


def _explain(figure: Any, axis: Any, marked: Sequence[str]) -> None:
    """The legend, and what the axes are."""
    for verdict, color in COLORS.items():
        axis.plot([], [], "o-", color=color, linewidth=2.2, label=verdict)
    axis.plot([], [], "o", color=COLORS["not shown"], markerfacecolor="white", label="no verdict yet")
    axis.plot([], [], "D", color="#30343c", markersize=5.5, label="primary")
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    notes = ["difference to GRPO in points, mean over seeds with its 95 % interval; every panel has its own scale"]
    notes += [f"†: difference to {ALL_ARMS[baseline_of(arm)].title}" for arm in marked]
    figure.supxlabel("\n".join(notes), fontsize=9.5, color="#30343c")
