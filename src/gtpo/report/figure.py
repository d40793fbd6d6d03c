"""Figures for papers as PNG or SVG: training curves over steps, and pass@k and maj@k over k."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo.report.curves import Panel, sections
from gtpo.report.evaluations import KINDS
from gtpo.runs.run import Run
from gtpo.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER_KEYS = ("accuracy", "format", "entropy")


def draw_training(runs: Sequence[Run], paths: Sequence[Path]) -> bool:
    """Draw training accuracy (%), format (%) and entropy over steps; False if no run logged any of them.

    The suffix of each path, .png or .svg, selects the format.
    """
    panels = [panel for section in sections(runs).values() for panel in section if panel.key in PAPER_KEYS]
    return _draw([panels], paths)


def draw_evaluations(panels: Sequence[Panel], paths: Sequence[Path]) -> bool:
    """Draw pass@k (%) and maj@k (%) over k: a row per kind, a column per problem set; False if there is no panel."""
    by_place = {(panel.key, panel.title): panel for panel in panels}
    kinds = [kind for kind in KINDS if any(panel.key == kind for panel in panels)]
    problem_sets = dict.fromkeys(panel.title for panel in panels)
    return _draw([[by_place.get((kind, problems)) for problems in problem_sets] for kind in kinds], paths)


def _draw(rows: Sequence[Sequence[Panel | None]], paths: Sequence[Path]) -> bool:
    """Draw rows of panels with a common legend, unless there is no panel."""
    from matplotlib.figure import Figure

    names = dict.fromkeys(line.name for row in rows for panel in row if panel for line in panel.lines)
    if not names:
        return False
    colors = {name: f"C{number % 10}" for number, name in enumerate(names)}
    size = (max(4.8, 3.6 * len(rows[0])), 2.9 * len(rows) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    all_axes = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    for axes, row in zip(all_axes, rows, strict=True):
        for axis, panel in zip(axes, row, strict=True):
            if panel is None:
                axis.remove()
            else:
                _draw_panel(axis, panel, colors)
    _save(figure, colors, paths)
    return True


def _draw_panel(axis: "Axes", panel: Panel, colors: dict[str, str]) -> None:
    is_over_k = panel.over == "k"
    is_measured = is_over_k or panel.has_dots
    for line in panel.lines:
        color = colors[line.name]
        axis.plot(line.x, line.y, color=color, linewidth=1.8, marker="o" if is_measured else "", markersize=4)
        if is_measured or line.has_band:
            axis.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
        if is_measured:
            axis.vlines(line.x, line.low, line.high, color=color, alpha=0.3, linewidth=1)
    for name, value in panel.marks.items():
        axis.axhline(value, color="0.5", linestyle="--", linewidth=1)
        axis.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="0.4")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel(panel.over)
    if is_over_k:
        ks = sorted({k for line in panel.lines for k in line.x})
        axis.set_xscale("log", base=2)
        axis.set_xticks(ks, [str(k) for k in ks])
        axis.minorticks_off()
        axis.set_title(_name(panel.title), parse_math=False)
        axis.set_ylabel(f"{panel.key}@k (%)")
    else:
        title = _name(panel.title)
        axis.set_ylabel(f"{title} ({panel.unit})" if panel.unit else title, parse_math=False)


def _save(figure: "Figure", colors: dict[str, str], paths: Sequence[Path]) -> None:
    """Add the legend and write the figure. Names are set as text, because matplotlib would parse formulas in them."""
    import matplotlib as mpl
    from matplotlib.lines import Line2D

    names = list(map(_name, colors))
    handles = [Line2D([], [], color=color) for color in colors.values()]
    inches = 0.8 + 0.09 * max(map(len, names))  # about what one entry of the legend takes
    columns = max(1, int(figure.get_figwidth() / inches))
    legend = figure.legend(handles, [""] * len(names), loc="outside lower center", ncols=columns, frameon=False)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
    with mpl.rc_context({"svg.hashsalt": "gtpo", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # no room next to huge tick labels
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)


def _name(text: str) -> str:
    return printable(text[:80])
