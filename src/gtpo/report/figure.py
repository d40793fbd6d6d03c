"""The paper's figures from runs, as PNG or SVG: accuracy, format and entropy over steps, and what else was logged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo.files import writing
from gtpo.report.curves import Panel, methods, sections
from gtpo.report.evaluations import Curve
from gtpo.runs.run import Run

PAPER_KEYS = ("accuracy", "format", "entropy")


def draw_training(runs: Sequence[Run], path: Path) -> bool:
    """Training accuracy (%), format (%) and entropy over steps, side by side. False where no run has any of them."""
    panels = [panel for section in sections(runs) for panel in section.panels if panel.key in PAPER_KEYS]
    if not panels:
        return False
    figure, axes = _figure(len(panels))
    colors = {name: f"C{number % 10}" for number, name in enumerate(methods(runs))}
    for axis, panel in zip(axes, panels, strict=True):
        _draw(axis, panel, colors)
    _save(figure, axes[0], path)
    return True


def draw_evaluations(curves: Sequence[Curve], path: Path) -> bool:
    """pass@k (%) and maj@k (%) over k, a panel a problem set and kind. False where there are none."""
    keys = list(dict.fromkeys((curve.problems, curve.kind) for curve in curves))
    if not keys:
        return False
    figure, axes = _figure(len(keys))
    runs = list(dict.fromkeys(curve.run for curve in curves))
    for axis, (problems, kind) in zip(axes, keys, strict=True):
        for curve in curves:
            if (curve.problems, curve.kind) == (problems, kind):
                ks = [k for k, *_ in curve.points]
                _, values, low, high = ([100 * v for v in column] for column in zip(*curve.points, strict=True))
                color = f"C{runs.index(curve.run) % 10}"
                (line,) = axis.plot(ks, values, color=color, marker="o", markersize=4)
                line.set_label(_label(curve.run))
                axis.fill_between(ks, low, high, color=color, alpha=0.15, linewidth=0)
                axis.set_xscale("log", base=2)
                axis.set_xticks(ks, [str(k) for k in ks])
        axis.set_xlabel("k")
        axis.set_ylabel(f"{kind}@k (%)")
        axis.set_title(_label(problems), parse_math=False)
    _save(figure, axes[0], path)
    return True


def _figure(num_panels: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(num_panels, 3)
    rows = -(-num_panels // columns)
    figure: Any = Figure(figsize=(3.6 * columns, 2.9 * rows + 0.3), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[num_panels:]:
        axis.remove()
    for axis in axes[:num_panels]:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[:num_panels]


def _draw(axis: Any, panel: Panel, colors: dict[str, str]) -> None:
    for line in panel.lines:
        color = colors[line.method]
        (drawn,) = axis.plot(line.steps, line.mean, color=color, linewidth=1.8)
        drawn.set_label(_label(line.method))
        if len(line.runs) > 1:
            axis.fill_between(line.steps, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    for name, value in panel.marks.items():
        axis.axhline(value, color="0.5", linestyle="--", linewidth=1)
        axis.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="0.4")
    axis.set_xlabel("step")
    axis.set_ylabel(f"{panel.title} ({panel.unit})" if panel.unit else panel.title)


def _save(figure: Any, first: Any, path: Path) -> None:
    import matplotlib as mpl

    handles, labels = first.get_legend_handles_labels()
    if len(handles) > 1:
        legend = figure.legend(handles, [""] * len(labels), loc="outside lower center", ncols=4, frameon=False)
        for text, label in zip(legend.get_texts(), labels, strict=True):
            text.set_parse_math(False)
            text.set_text(label)
    with (
        mpl.rc_context({"svg.hashsalt": "gtpo", "svg.fonttype": "none"}),
        writing(path, "Choose another folder with --png or --svg."),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)


def _label(text: str) -> str:
    """A name that matplotlib takes for a name: printable, and without the underscore that would hide it."""
    clean = "".join(character if character.isprintable() else "�" for character in text[:80])
    return clean.lstrip("_") or "run"
