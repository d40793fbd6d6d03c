"""The figure: pass@k and maj@k over k, a column a problem set, a line a model, its interval shaded."""

from pathlib import Path
from typing import Any

from gtpo.evaluation.evaluate import Evaluation
from gtpo.evaluation.metrics import Measurement
from gtpo.files import writing
from gtpo.text import printable

KINDS = ("pass", "maj")


def draw_curves(evaluation: Evaluation, paths: list[Path]) -> None:
    """Write the figure to each of `paths`; the ending (.png, .svg) says in which form. Needs no display."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    sets = evaluation.problem_sets
    figure: Any = Figure(figsize=(1.2 + 3.6 * len(sets), 6.4), layout="constrained")
    axes = figure.subplots(len(KINDS), len(sets), squeeze=False, sharex="col")
    lines: dict[str, Any] = {}
    names = {name for measured in evaluation.measurements for name in measured.values}
    ks = sorted(int(name.removeprefix("pass@")) for name in names if name.startswith("pass@"))
    for column, problems in enumerate(sets):
        for row, kind in enumerate(KINDS):
            axis = axes[row, column]
            for measured in evaluation.measurements:
                if measured.problems == problems:
                    color = f"C{evaluation.models.index(measured.model) % 10}"
                    lines[measured.model] = _draw_line(axis, measured, kind, color)
            axis.set_ylim(-2, 102)
            axis.set_xscale("log", base=2)
            axis.set_xticks(ks, [str(k) for k in ks])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        axes[0, column].set_title(printable(problems), parse_math=False)
        axes[-1, column].set_xlabel("k")
    for row, kind in enumerate(KINDS):
        axes[row, 0].set_ylabel(f"{kind}@k, %")
    legend = figure.legend(list(lines.values()), [""] * len(lines), loc="outside lower center", ncols=2, frameon=False)
    for text, model in zip(legend.get_texts(), lines, strict=True):
        text.set_parse_math(False)
        text.set_text(printable(model))
    with mpl.rc_context({"svg.hashsalt": "gtpo", "svg.fonttype": "none"}):
        for path in paths:
            _save(figure, path)


def _draw_line(axis: Any, measured: Measurement, kind: str, color: str) -> Any:
    points = {
        int(name.removeprefix(f"{kind}@")): estimate
        for name, estimate in measured.estimates.items()
        if name.startswith(f"{kind}@")
    }
    ks = sorted(points)
    (line,) = axis.plot(ks, [100 * points[k].value for k in ks], color=color, marker="o", markersize=4)
    low, high = [100 * points[k].low for k in ks], [100 * points[k].high for k in ks]
    axis.fill_between(ks, low, high, color=color, alpha=0.15, linewidth=0)
    axis.vlines(ks, low, high, color=color, alpha=0.3, linewidth=1)
    return line


def _save(figure: Any, path: Path) -> None:
    with writing(path):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
