"""Figures from results.csv and accuracy/: benchmarks/figures/*.svg. The newest row of each kind is drawn.

python benchmarks/plot.py [--results benchmarks/results.csv] [--hardware H200]
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from bench_time_to_accuracy import LEVELS, finished_runs
from bench_whole_step import PROVIDERS
from cost_model import limits
from phases import PHASES
from results import RESULTS, TIMED_STEPS, Result, latest, load

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.patches import Patch

FIGURES = Path(__file__).with_name("figures")
ACCURACY = Path(__file__).with_name("accuracy")
"""The runs of bench_time_to_accuracy.py."""
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#dddddd")  # safe for all eyes
PALE = {"alpha": 0.45, "hatch": "///", "edgecolor": "white", "linewidth": 0}
SHARED = ", card shared"
MODELS = {"6m": "6 M parameters", "150m": "150 M parameters"}
PROVIDER_COLOURS = {"TRL GRPO": COLOURS[6], "FastGRPO": COLOURS[0], "GTPO": COLOURS[4]}
FEWEST_STEPS = 10
"""Whole steps with fewer timed steps are of a sweep, and not drawn."""
EARLY_STEPS = {"a7e51d7": 2}
"""Timed steps of rows that were written before results.csv had them."""


def update(history: Sequence[Result]) -> Any:
    """Seconds of the update, one bar per provider, with and without TRL's correction."""
    rows = latest(history, "update")
    times = [row for row in rows if row.metric == "time"]
    providers = list(dict.fromkeys(row.provider for row in times))
    sizes = list(dict.fromkeys(row.size for row in times))
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(4.5 * len(sizes), 2.8), sharex=True, sharey=True, squeeze=False
    )
    for axis, size in zip(axes[0], sizes, strict=True):
        found = {row.provider: row for row in times if row.size == size}
        for place, provider in enumerate(providers):
            if provider not in found:
                continue
            row = found[provider]
            colour = COLOURS[6] if provider.startswith("TRL") else COLOURS[0]
            axis.barh(place, row.median, color=colour, xerr=_spread([row]), error_kw={"lw": 1})
            axis.text(max(row.median, row.q80), place, f"  {row.median:.3g} s", va="center", fontsize=8)
        axis.set_yticks(range(len(providers)), providers)
        axis.set_title(size, fontsize=9)
        axis.set_xlabel(f"seconds of an update, median of {_num_steps(rows, size)} timed steps", fontsize=9)
        axis.margins(x=0.2)
    axes[0][0].invert_yaxis()
    return figure


def _num_steps(rows: Sequence[Result], size: str) -> str:
    commits = {row.commit for row in rows if row.size == size and row.metric == "time"}
    numbers = {int(row.median) for row in rows if row.size == size and row.metric == TIMED_STEPS}
    numbers |= {EARLY_STEPS[commit] for commit in commits if commit in EARLY_STEPS}
    return " or ".join(map(str, sorted(numbers)))


def step(history: Sequence[Result]) -> Any:
    """The phases of a complete step, one bar per run; runs that shared the GPU are pale."""
    rows = [row for row in latest(history, "step") if "limit " not in row.size]  # those are drawn by `limit`
    sizes = list(dict.fromkeys((row.provider, row.size) for row in rows))
    figure, axis = plt.subplots(figsize=(9, 1.4 + 0.5 * len(sizes)))
    for place, (provider, size) in enumerate(sizes):
        found = {row.metric: row.median for row in rows if (row.provider, row.size) == (provider, size)}
        style: dict[str, Any] = PALE if size.endswith(SHARED) else {}
        left = 0.0
        for phase, colour in zip(PHASES, COLOURS, strict=True):
            seconds = found.get(phase, 0.0)
            axis.barh(place, seconds, left=left, color=colour, **style)
            left += seconds
    names = [f"{provider}: {size.removesuffix(SHARED)}" for provider, size in sizes]
    axis.set_yticks(range(len(sizes)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("seconds of a step (medians)")
    handles: list[Any] = [Patch(color=colour, label=phase) for phase, colour in zip(PHASES, COLOURS, strict=True)]
    if any(size.endswith(SHARED) for _, size in sizes):
        shared = "pale: next to other programs on the card"
        handles.append(Patch(facecolor=COLOURS[6], label=shared, **PALE))
    figure.legend(handles=handles, ncols=4, fontsize=7.5, frameon=False, loc="outside lower center")
    return figure


def limit(history: Sequence[Result]) -> Any:
    """The phases of a whole step next to what the hardware allows, one panel per limit of tokens."""
    runs = _whole_steps(history)
    figure, axes = plt.subplots(len(runs), 1, figsize=(9, 3.2 * len(runs)), squeeze=False)
    for axis, (tokens_limit, found) in zip(axes[:, 0], runs.items(), strict=True):
        tokens = min(step["update: tokens"] for step in found.values())
        bounds = limits(tokens, decoding_steps=tokens_limit)
        bars = {"hardware's limit": bounds, **found}
        width, phases = 0.8 / len(bars), (*bounds, "everything else", "whole step")
        for place, (name, seconds) in enumerate(bars.items()):
            values = [seconds.get(phase, 0.0) for phase in bounds]
            values.append(sum(seconds.get(phase, 0.0) for phase in PHASES if phase not in bounds))
            values.append(seconds.get("whole step", sum(bounds.values())))
            positions = [index + place * width for index in range(len(phases))]
            colour = PROVIDER_COLOURS.get(name, "#222222")
            drawn = axis.bar(positions, values, 0.9 * width, color=colour, label=name)
            axis.bar_label(drawn, [f"{value:.2f}" if value else "" for value in values], fontsize=7)
        axis.set_xticks([index + 0.4 - width / 2 for index in range(len(phases))], phases)
        axis.set_ylabel("seconds (medians over steps)", fontsize=9)
        axis.set_title(f"Qwen2.5-Coder-1.5B, 32 × 8 completions of at most {tokens_limit:,} tokens", fontsize=9)
        axis.legend(fontsize=7.5, frameon=False)
    return figure


def _whole_steps(history: Sequence[Result]) -> dict[int, dict[str, dict[str, float]]]:
    """The newest whole steps next to TRL by limit of tokens, provider and metric, of runs with enough timed steps."""
    runs: dict[tuple[int, str], dict[str, dict[str, float]]] = {}
    for row in history:
        if match := re.search(r"limit (\d+)", row.size):
            providers = runs.setdefault((int(match[1]), row.commit), {})
            providers.setdefault(f"{row.provider}|{row.size}", {})[row.metric] = row.median
    found: dict[int, dict[str, dict[str, float]]] = {}
    for (tokens_limit, _), providers in runs.items():
        long_enough = {
            name.partition("|")[0]: step
            for name, step in providers.items()
            if step.get(TIMED_STEPS, 0) >= FEWEST_STEPS and "update: tokens" in step
        }
        if "TRL GRPO" in long_enough:
            found[tokens_limit] = {name: long_enough[name] for name in PROVIDER_COLOURS if name in long_enough}
    return dict(sorted(found.items()))


def accuracy(_: Sequence[Result]) -> Any:
    """pass@1 on held-out problems over seconds of training, a line per finished run."""
    runs = finished_runs(ACCURACY)
    figure, axis = plt.subplots(figsize=(7, 3.6))
    for level in LEVELS:
        axis.axhline(100 * level, color="#cccccc", linewidth=0.8, zorder=0)
    for name, colour in PROVIDER_COLOURS.items():
        for number, run in enumerate(run for run in runs if PROVIDERS[run["provider"]] == name):
            seconds, solved = ([point[key] for point in run["points"]] for key in ("seconds", "pass_at_1"))
            label = name if not number else None
            axis.plot(seconds, [100 * share for share in solved], "o-", color=colour, markersize=3.5, label=label)
    axis.set_yticks([20, *(100 * level for level in LEVELS)])
    axis.set_xlabel("seconds of training", fontsize=9)
    axis.set_ylabel("pass@1 on 300 test problems, %", fontsize=9)
    axis.set_title("Qwen2.5-Coder-1.5B on GSM8K, a line per run", fontsize=9)
    axis.set_xlim(left=0)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def conflicts(history: Sequence[Result]) -> Any:
    """The search over groups, G and T, one row of panels per device. Their shapes differ: do not compare rows."""
    names, titles = ("groups", "G", "T"), {"cuda": "GPU", "cpu": "CPU"}
    sweeps = {device: found for device in titles if (found := _sweeps(history, device))}
    figure, axes = plt.subplots(len(sweeps), 3, figsize=(10, 0.6 + 2.5 * len(sweeps)), sharey="row", squeeze=False)
    for line, (device, found) in zip(axes, sweeps.items(), strict=True):
        for axis, name in zip(line, names, strict=True):
            base, points, slope = found[name]
            _line(axis, points, COLOURS[0])
            axis.set_xlabel(name)
            axis.set_title(f"{titles[device]}, around {base}: exponent {_signed(slope)}", fontsize=8.5)
        line[0].set_ylabel("ms, with 20 and 80 %", fontsize=9)
        line[0].set_ylim(bottom=0)  # of the whole row, once all of it is drawn
    return figure


def _sweeps(history: Sequence[Result], device: str) -> dict[str, tuple[str, dict[int, Result], float]]:
    """The newest sweep over each amount: base, rows and exponent. The rows of a sweep come before its exponent."""
    shape = re.compile(rf"^(\d+) × (\d+) × (\d+), {device}$")
    found: dict[str, tuple[str, dict[int, Result], float]] = {}
    times: list[tuple[tuple[int, ...], Result]] = []
    for row in history:
        if row.provider != "gtpo.conflict_mask" or not row.size.endswith(f", {device}"):
            continue
        if row.metric == "time" and (match := shape.match(row.size)):
            times.append((tuple(map(int, match.groups())), row))
        elif row.metric.startswith("exponent in "):
            name = row.metric.removeprefix("exponent in ")
            base = row.size.removeprefix("around ").removesuffix(f", {device}")
            index, at = ("groups", "G", "T").index(name), tuple(map(int, base.split(" × ")))
            others = [other for other in range(3) if other != index]
            points = {sizes[index]: one for sizes, one in times if all(sizes[n] == at[n] for n in others)}
            found[name] = (base, dict(sorted(points.items())), row.median)
            times = []
    return found


def scaling(history: Sequence[Result]) -> Any:
    """The time of the update over the amount of work, with the fitted exponent; one row of panels per model."""
    rows = latest(history, "scaling")
    shapes = list(dict.fromkeys(row.size.partition(",")[0] for row in rows))
    amounts = {name: name for name in ("completions", "G", "length", "vocabulary")}
    amounts["length"] = "limit of tokens of a completion"
    figure, axes = plt.subplots(len(shapes), 4, figsize=(12, 3 * len(shapes)), sharey="row", squeeze=False)
    for line, shape in zip(axes, shapes, strict=True):
        mine = [row for row in rows if row.size.startswith(f"{shape},")]
        for axis, (amount, label) in zip(line, amounts.items(), strict=True):
            slopes = [row.median for row in mine if row.metric == f"exponent in {amount}"]
            times = [row for row in mine if row.metric == "time" and row.size.endswith(f"over {amount}")]
            if not slopes:
                axis.set_axis_off()
                continue
            points = {_amount(row.size, amount): row for row in times}
            _line(axis, dict(sorted(points.items())), COLOURS[0])
            axis.set_yscale("log", base=2)
            axis.set_xlabel(label)
            axis.set_title(f"exponent {_signed(slopes[0])}", fontsize=9)
        low, high = line[0].get_ylim()
        ticks = [2.0**power for power in range(-6, 10) if low <= 2.0**power <= high]
        line[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        hardware = next(row.hardware for row in mine)
        line[0].set_ylabel(f"seconds of an update\n{MODELS.get(shape, shape)}\n{hardware}", fontsize=8)
    return figure


def _line(axis: Any, points: dict[int, Result], colour: str) -> None:
    """Medians with their quantiles, with a tick at every measured amount."""
    rows = list(points.values())
    axis.errorbar(list(points), [row.median for row in rows], yerr=_spread(rows), fmt="o-", color=colour, capsize=2)
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(points), [f"{place:,}" for place in points], fontsize=7)
    axis.minorticks_off()


def _signed(slope: float) -> str:
    return f"{slope:.2f}".replace("-", "−")


def _spread(rows: Sequence[Result]) -> list[list[float]]:
    return [[max(0, row.median - row.q20) for row in rows], [max(0, row.q80 - row.median) for row in rows]]


def _amount(size: str, amount: str) -> int:
    prompts, group, limit, vocabulary = map(int, re.findall(r"(\d+) × (\d+) × ≤ (\d+), V = (\d+)", size)[0])
    return {"completions": prompts * group, "G": group, "length": limit, "vocabulary": vocabulary}[amount]


DRAWN = {
    "update": ("update", update),
    "step": ("step", step),
    "limit": ("step", limit),
    "accuracy": ("time to accuracy", accuracy),
    "conflicts": ("conflicts", conflicts),
    "scaling": ("scaling", scaling),
}
"""The file name of each figure, the benchmark that it shows, and what draws it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--hardware", default="", help="draw only what was measured on this")
    parser.add_argument("--out", type=Path, default=FIGURES)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    mpl.rcParams.update({"svg.hashsalt": "gtpo", "axes.spines.top": False, "axes.spines.right": False})
    mpl.rcParams |= {"figure.constrained_layout.use": True, "figure.constrained_layout.h_pad": 0.08}
    everything = load(options.results)
    for name, (benchmark, draw) in DRAWN.items():
        rows = [row for row in everything if row.benchmark == benchmark and options.hardware in row.hardware]
        if not rows:
            continue
        figure = draw(rows)
        hardware = ", ".join(dict.fromkeys(row.hardware for row in rows))
        figure.suptitle(f"{benchmark}: {hardware}", fontsize=8, x=0.01, ha="left", va="top")
        path = options.out / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
