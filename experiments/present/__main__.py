"""Redraws every figure and table from the committed data: `python -m experiments.present`.

docs/figures/overview.svg    differences between GTPO and GRPO in every setting
docs/figures/lab_curves_*    accuracy, format and entropy over steps: mean over seeds with a 95 % band
docs/figures/lab_pass_*      pass@k and maj@k over k
docs/figures/lab_effects_*   paired differences with their intervals
docs/figures/real_*          the same for the real model
docs/results/tables/         every table, in files of their own
README.md, docs/results.md and the pages of the claims: the small tables between their markers
"""

import argparse
import sys
from pathlib import Path

import matplotlib as mpl

from experiments.lab.collect import DATA, read_data
from experiments.present.documents import insert, table_files
from experiments.present.lab_figures import STYLE, draw_curves, draw_effects, draw_pass
from experiments.present.lab_tables import lab_tables
from experiments.present.overview import draw_overview
from experiments.present.qwen_data import read_measurements, read_runs
from experiments.present.qwen_figures import MATH_TITLE, draw_real_curves, draw_real_pass
from experiments.present.qwen_tables import IN_ACCURACY, IN_SIMILARITY, each_run, math_tables, real_tables
from experiments.present.shared_tokens import shared_table
from experiments.present.verdicts import CLAIMS, claim_tables, looks, sign_table, verdicts
from experiments.present.whole_numbers import whole_contests, whole_runs

ROOT = Path(__file__).parents[2]
MATH = "qwen-math"
"""The spec of the runs on MATH, whose results are in the same folder."""


def generated_files(data: Path = DATA) -> dict[str, str]:
    """The text of every generated file, by its path from the root."""
    records, runs, measured = read_data(data), read_runs(data / "real"), read_measurements(data / "real")
    parts = {**lab_tables(records), **real_tables(runs, measured)}
    parts |= math_tables(read_runs(data / "real", MATH), read_measurements(data / "real", MATH))
    parts |= {"shared": shared_table(records, runs), "whole": whole_contests(measured)}
    files = table_files(parts, looks(records, runs, measured))
    return {f"docs/results/tables/{name}": text for name, text in files.items()}


def marked_parts(data: Path = DATA) -> dict[str, dict[str, str]]:
    """The generated parts of each written page, by its path from the root."""
    measured = read_measurements(data / "real")
    found = verdicts(read_data(data), read_runs(data / "real"), measured)
    parts = {page: {"verdicts": claim_tables(found, page)} for page in dict.fromkeys(claim.page for claim in CLAIMS)}
    parts["claim-1-accuracy.md"]["runs"] = each_run(measured, IN_ACCURACY)
    parts["mechanism.md"] = {"runs": each_run(measured, IN_SIMILARITY)}
    parts["math-500.md"] = {"runs": whole_runs(measured)}
    signs = {"README.md": "docs/results", "docs/results.md": "results"}
    pages = {path: {"signs": sign_table(found, folder)} for path, folder in signs.items()}
    return {**pages, **{f"docs/results/{page}": of_page for page, of_page in parts.items()}}


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
        if draw_real_curves(read_runs(data / "real", MATH), folder / "real_curves_math.svg", MATH_TITLE):
            drawn.append(folder / "real_curves_math.svg")
        if draw_real_pass(measured, folder / "real_pass.svg"):
            drawn.append(folder / "real_pass.svg")
        if draw_overview(records, measured, folder / "overview.svg"):
            drawn.append(folder / "overview.svg")
    return drawn


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.present", description="Redraw figures and tables from the committed data."
    )
    parser.add_argument("--data", type=Path, default=DATA, help="default: %(default)s")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with README.md and docs; default: %(default)s")
    options = parser.parse_args(arguments)
    written = draw_all(options.data, options.root / "docs/figures")
    files = {options.root / path: text for path, text in generated_files(options.data).items()}
    for path, parts in marked_parts(options.data).items():
        files[options.root / path] = insert((options.root / path).read_text(), parts)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.stdout.writelines(f"{path}\n" for path in (*written, *files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
