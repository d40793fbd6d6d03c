"""Figures from results.csv: benchmarks/figures/*.svg. The newest row of each kind is drawn.

python benchmarks/plot.py [--results benchmarks/results.csv] [--hardware H200]
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from phases import PHASES
from results import RESULTS, Result, latest, load

mpl.use("svg")
from matplotlib import pyplot as plt

FIGURES = Path(__file__).with_name("figures")
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#dddddd")  # safe for all eyes


def update(rows: Sequence[Result]) -> Any:
    """Seconds of the update, a bar a provider, with TRL's correction and without."""
    times = [row for row in rows if row.metric == "time"]
    providers = list(dict.fromkeys(row.provider for row in times))
    sizes = list(dict.fromkeys(row.size for row in times))
    figure, axes = plt.subplots(1, len(sizes), figsize=(4.5 * len(sizes), 2.8), sharey=True, squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        found = {row.provider: row for row in times if row.size == size}
        for place, provider in enumerate(providers):
            if provider not in found:
                continue
            row = found[provider]
            colour = COLOURS[6] if provider.startswith("TRL") else COLOURS[0]
            spread = [[max(0, row.median - row.q20)], [max(0, row.q80 - row.median)]]
            axis.barh(place, row.median, color=colour, xerr=spread, error_kw={"lw": 1})
            axis.text(max(row.median, row.q80), place, f"  {row.median:.3g} s", va="center", fontsize=8)
        axis.set_yticks(range(len(providers)), providers)
        axis.set_title(size, fontsize=9)
        axis.set_xlabel("seconds of an update")
        axis.margins(x=0.2)
    axes[0][0].invert_yaxis()
    return figure


def step(rows: Sequence[Result]) -> Any:
    """Where the time of a whole step goes, a bar a run."""
    sizes = list(dict.fromkeys((row.provider, row.size) for row in rows))
    figure, axis = plt.subplots(figsize=(9, 1.2 + 0.5 * len(sizes)))
    for place, (provider, size) in enumerate(sizes):
        found = {row.metric: row.median for row in rows if (row.provider, row.size) == (provider, size)}
        left = 0.0
        for phase, colour in zip(PHASES, COLOURS, strict=True):
            seconds = found.get(phase, 0.0)
            axis.barh(place, seconds, left=left, color=colour, label=phase if place == 0 else None)
            left += seconds
    axis.set_yticks(range(len(sizes)), [f"{provider}: {size}" for provider, size in sizes], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("seconds of a step (medians)")
    axis.legend(ncols=4, fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def conflicts(rows: Sequence[Result]) -> Any:
    """The search over groups, G and T, around the goal's shape."""
    shape = re.compile(r"^(\d+) × (\d+) × (\d+), (\w+)$")
    names = ("groups", "G", "T")
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
    points = [(tuple(map(int, m.groups()[:3])), m[4], row) for row in rows if (m := shape.match(row.size))]
    points = [point for point in points if point[2].metric == "time"]
    bases = {"cuda": (32, 16, 4096), "cpu": (8, 8, 1024)}
    for index, (axis, name) in enumerate(zip(axes, names, strict=True)):
        for device, base in bases.items():
            line = sorted(
                (sizes[index], row.median)
                for sizes, where, row in points
                if where == device
                and row.provider == "gtpo.conflict_mask"
                and all(sizes[other] == base[other] for other in range(3) if other != index)
            )
            if line:
                label = f"{device}, around {' × '.join(map(str, base))}"
                _line(axis, line, label=label, color=COLOURS[0 if device == "cuda" else 6])
        axis.set_xlabel(name)
    axes[0].set_ylabel("ms")
    axes[0].legend(fontsize=8, frameon=False)
    return figure


def scaling(rows: Sequence[Result]) -> Any:
    """The update's time against work, with the fitted exponent."""
    slopes = {row.metric.removeprefix("exponent in "): row.median for row in rows if row.metric.startswith("exponent")}
    size = max(1, len(slopes))
    figure, axes = plt.subplots(1, size, figsize=(3 * size, 3), sharey=True, squeeze=False)
    for axis, (amount, slope) in zip(axes[0], slopes.items(), strict=False):
        line = sorted(
            (_amount(row.size, amount), row.median)
            for row in rows
            if row.metric == "time" and row.size.endswith(f"over {amount}")
        )
        _line(axis, line, color=COLOURS[0])
        axis.set_xlabel(amount)
        axis.set_title(f"exponent {slope:.2f}", fontsize=9)
    axes[0][0].set_ylabel("seconds of an update")
    return figure


def _line(axis: Any, points: list[tuple[int, float]], **style: Any) -> None:
    """Points on logarithmic axes, the places along x marked as they are."""
    axis.loglog(*zip(*points, strict=True), "o-", **style)
    places = sorted({*(int(x) for line in axis.lines for x in line.get_xdata())})
    axis.set_xticks(places, [f"{place:,}" for place in places], fontsize=7)
    axis.minorticks_off()


def _amount(size: str, amount: str) -> int:
    prompts, group, limit, vocabulary = map(int, re.findall(r"(\d+) × (\d+) × ≤ (\d+), V = (\d+)", size)[0])
    return {"completions": prompts * group, "G": group, "length": limit, "vocabulary": vocabulary}[amount]


DRAWN = {"update": update, "step": step, "conflicts": conflicts, "scaling": scaling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--hardware", default="", help="draw only what was measured on this")
    parser.add_argument("--out", type=Path, default=FIGURES)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    mpl.rcParams.update({"svg.hashsalt": "gtpo", "axes.spines.top": False, "axes.spines.right": False})
    everything = load(options.results)
    for benchmark, draw in DRAWN.items():
        rows = [row for row in latest(everything, benchmark) if options.hardware in row.hardware]
        if not rows:
            continue
        figure = draw(rows)
        hardware = ", ".join(dict.fromkeys(row.hardware for row in rows))
        figure.suptitle(f"{benchmark}: {hardware}", fontsize=8, x=0.01, ha="left")
        figure.tight_layout()
        path = options.out / f"{benchmark}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
