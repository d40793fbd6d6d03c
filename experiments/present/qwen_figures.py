"""The figures of the real model: the paper's figure 2, and pass@k and maj@k on each problem set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.lab.arms import ARMS
from experiments.present.lab_figures import COLORS, PANELS, figure_of, finish, mark_ln2
from experiments.present.qwen_data import Measured, arms_of, over_seeds, sets_of
from gtpo.runs.measures import centred_mean
from gtpo.runs.run import Run

TITLE = "Qwen2.5-Coder-1.5B-Instruct on GSM8K"
MATH_TITLE = "Qwen2.5-Coder-1.5B-Instruct on MATH"


def draw_real_curves(runs: Sequence[Run], path: Path, heading: str = TITLE) -> bool:
    """Accuracy, format, entropy and length over steps: runs thin, their mean thick over the steps that all have."""
    arms = [arm for arm in ARMS if any(run.method == arm and run.series("accuracy").values for run in runs)]
    if not arms:
        return False
    figure, axes = figure_of(1, 4, (12.8, 3.3))
    for axis, (name, title, scale) in zip(axes[0], (*PANELS, ("length", "Length, tokens", 1)), strict=True):
        for arm in arms:
            series = [run.series(name) for run in runs if run.method == arm]
            curves = [curve for curve in series if curve.values]
            if not curves:
                continue
            rows = [scale * np.array(centred_mean(curve.values)) for curve in curves]
            for curve, row in zip(curves, rows, strict=True) if len(rows) > 1 else []:
                axis.plot(curve.steps, row, color=COLORS[arm], linewidth=0.8, alpha=0.6)
            shared = min(map(len, rows))
            mean = np.mean([row[:shared] for row in rows], axis=0)
            label = f"{ARMS[arm].title} ({len(rows)})"
            axis.plot(curves[0].steps[:shared], mean, color=COLORS[arm], linewidth=2, label=label)
        axis.set_title(title)
        axis.set_xlabel("step")
    mark_ln2(axes[0][2])
    finish(figure, axes[0][0], path, heading)
    return True


def draw_real_pass(measured: Measured, path: Path) -> bool:
    """pass@k above, maj@k below, mean column per problem set with several arms; bands are intervals over problems."""
    arms = arms_of(measured)
    arms_on = {name: {key[0] for key in measured if key[2] == name} for name in sets_of(measured)}
    sets = [name for name, names in arms_on.items() if len(names) > 1 and not name.endswith("-greedy")]
    if not sets:
        return False
    figure, axes = figure_of(2, len(sets), (1.2 + 2.4 * len(sets), 5.2))
    for column, problems in enumerate(sets):
        for row, kind in enumerate(("pass", "maj")):
            axis = axes[row][column]
            for arm in arms:
                mean = over_seeds(measured, arm, problems)
                if mean is None:
                    continue
                ks = sorted(int(name.partition("@")[2]) for name in mean.values if name.startswith(f"{kind}@"))
                estimates = [mean.estimates[f"{kind}@{k}"] for k in ks]
                low, high = ([100 * getattr(estimate, end) for estimate in estimates] for end in ("low", "high"))
                values = [100 * estimate.value for estimate in estimates]
                axis.plot(ks, values, "o-", color=COLORS[arm], markersize=4, label=mean.model)
                axis.fill_between(ks, low, high, color=COLORS[arm], alpha=0.12, linewidth=0)
                axis.set_xscale("log", base=2)
                axis.set_xticks(ks, [str(k) for k in ks])
                axis.minorticks_off()
            axis.set_title(f"{problems}: {kind}@k, %")
        axes[1][column].set_xlabel("k")
    finish(figure, axes[0][0], path, TITLE)
    return True
