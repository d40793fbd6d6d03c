"""Figures for papers as PNG or SVG: training curves over steps, and pass@k and maj@k over k."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.report.curves import Panel, methods, sections
from gtpo.report.evaluations import KINDS, Curve
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
    panels = [panel for section in sections(runs) for panel in section.panels if panel.key in PAPER_KEYS]
    if not panels:
        return False
    colors = _colors(methods(runs))
    figure, axes = _figure(1, len(panels))
    for axis, panel in zip(axes[0], panels, strict=True):
        _draw_panel(axis, panel, colors)
    _save(figure, colors, paths)
    return True


def draw_evaluations(curves: Sequence[Curve], paths: Sequence[Path]) -> bool:
    """Draw pass@k (%) and maj@k (%) over k: a row per kind, a column per problem set; False if there is no curve."""
    sets = list(dict.fromkeys(curve.problems for curve in curves))
    kinds = [kind for kind in KINDS if any(curve.kind == kind for curve in curves)]
    if not kinds:
        return False
    colors = _colors([curve.label for curve in curves])
    figure, axes = _figure(len(kinds), len(sets))
    for row, kind in zip(axes, kinds, strict=True):
        for axis, problems in zip(row, sets, strict=True):
            shown = [curve for curve in curves if (curve.problems, curve.kind) == (problems, kind)]
            if shown:
                _draw_curves(axis, shown, colors)
                axis.set_title(_name(problems), parse_math=False)
                axis.set_ylabel(f"{kind}@k (%)")
            else:
                axis.remove()
    _save(figure, colors, paths)
    return True


def _colors(names: Sequence[str]) -> dict[str, str]:
    return {name: f"C{number % 10}" for number, name in enumerate(dict.fromkeys(names))}


def _figure(num_rows: int, num_columns: int) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(4.8, 3.6 * num_columns), 2.9 * num_rows + 0.3), layout="constrained")
    axes = figure.subplots(num_rows, num_columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw_panel(axis: "Axes", panel: Panel, colors: dict[str, str]) -> None:
    for line in panel.lines:
        color = colors[line.method]
        axis.plot(line.steps, line.mean, color=color, linewidth=1.8)
        if len(line.runs) > 1:
            axis.fill_between(line.steps, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    for name, value in panel.marks.items():
        axis.axhline(value, color="0.5", linestyle="--", linewidth=1)
        axis.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="0.4")
    axis.set_xlabel("step")
    axis.set_ylabel(f"{panel.title} ({panel.unit})" if panel.unit else panel.title)


def _draw_curves(axis: "Axes", curves: Sequence[Curve], colors: dict[str, str]) -> None:
    for curve in curves:
        color = colors[curve.label]
        ks = [point.k for point in curve.points]
        axis.plot(ks, [point.value for point in curve.points], color=color, marker="o", markersize=4)
        low, high = [point.low for point in curve.points], [point.high for point in curve.points]
        axis.fill_between(ks, low, high, color=color, alpha=0.15, linewidth=0)
        axis.vlines(ks, low, high, color=color, alpha=0.3, linewidth=1)
    all_ks = sorted({point.k for curve in curves for point in curve.points})
    axis.set_xscale("log", base=2)
    axis.set_xticks(all_ks, [str(k) for k in all_ks])
    axis.minorticks_off()
    axis.set_xlabel("k")


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
    with mpl.rc_context({"svg.hashsalt": "gtpo", "svg.fonttype": "none"}):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)


def _name(text: str) -> str:
    return printable(text[:80])
