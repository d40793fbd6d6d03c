"""Redraws every figure and table from the committed data: `python -m experiments.present`.

docs/figures/lab_curves_*    accuracy, format and entropy over steps: mean over seeds with a 95 % band
docs/figures/lab_pass_*      pass@k and maj@k over k
docs/figures/lab_effects_*   paired differences with their intervals
docs/figures/real_*          the same for the real model
docs/results.md, README.md   the tables between their markers
"""

import argparse
import sys
from pathlib import Path

import matplotlib as mpl

from experiments.lab.collect import DATA, read_data
from experiments.present.headline import headline, signs
from experiments.present.lab_figures import STYLE, draw_curves, draw_effects, draw_pass
from experiments.present.lab_tables import insert, lab_tables
from experiments.present.qwen_data import read_measurements, read_runs
from experiments.present.qwen_figures import draw_real_curves, draw_real_pass
from experiments.present.qwen_tables import real_tables
from experiments.present.shared_tokens import shared_table
from experiments.present.whole_numbers import whole_table

ROOT = Path(__file__).parents[2]


def tables(data: Path = DATA) -> dict[str, str]:
    """Every generated part of the documents, by name."""
    records, runs, measured = read_data(data), read_runs(data / "real"), read_measurements(data / "real")
    parts = {**lab_tables(records), **real_tables(runs, measured), **headline(records, runs, measured)}
    return {**parts, **shared_table(records, runs), **whole_table(measured)}


def draw_all(data: Path, folder: Path) -> list[Path]:
    """Draw every figure that the data has runs for. Returns the files."""
    records = read_data(data)
    runs, measured = read_runs(data / "real"), read_measurements(data / "real")
    drawn: list[Path] = []
    with mpl.rc_context(STYLE):
        for setting in dict.fromkeys(job.setting for job in records):
            for name, draw in (("curves", draw_curves), ("pass", draw_pass), ("effects", draw_effects)):
                path = folder / f"lab_{name}_{setting}.svg"
                if draw(records, setting, path):
                    drawn.append(path)
        if draw_real_curves(runs, folder / "real_curves.svg"):
            drawn.append(folder / "real_curves.svg")
        if draw_real_pass(measured, folder / "real_pass.svg"):
            drawn.append(folder / "real_pass.svg")
    return drawn


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.present", description="Redraw figures and tables from the committed data."
    )
    parser.add_argument("--data", type=Path, default=DATA, help="default: %(default)s")
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures", help="default: %(default)s")
    parser.add_argument("--document", type=Path, default=ROOT / "docs" / "results.md", help="default: %(default)s")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", help="default: %(default)s")
    options = parser.parse_args(arguments)
    written = draw_all(options.data, options.figures)
    parts = tables(options.data)
    for path, shown in ((options.document, parts), (options.readme, {"signs": signs(parts["headline"])})):
        path.write_text(insert(path.read_text(), shown))
        written.append(path)
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
