"""Write the pages of docs/gallery.md from their records: `python scripts/gallery.py OUT_DIR`.

`--pictures` also takes the pictures in docs/gallery (with scripts/screenshot.py, so it needs Chromium). `--from RUNS`
first renews the records in docs/gallery/data from the runs RUNS/truncated, RUNS/reward_hack and RUNS/collapse. It
keeps the groups of the steps below, and rounds numbers.
"""

import argparse
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from gtpo.records import GROUPS_FILE, METRICS_FILE, TOKEN_PAGE
from gtpo.report.page import report_page
from gtpo.runs.run import load_runs
from gtpo.runs.variants import name_variants
from gtpo.token_view.groups import load_groups
from gtpo.token_view.page import render_page

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
DATA = GALLERY / "data"
REPORT = "report.html"
REPORT_WINDOW = (1280, 1270)
"""The size of the picture of a report: its table and its first curves."""
DIGITS = 4


class Case(NamedTuple):
    """A run of the gallery: its records, the group that its page opens with, and the steps that are kept."""

    groups: Path
    shown: tuple[int, int] = (1, 1)  # step, and number of the group in the step
    steps: tuple[int, ...] = ()

    @property
    def metrics(self) -> Path:
        return self.groups.with_name(METRICS_FILE)


CASES = {
    "format_conflict": Case(ROOT / "experiments/data/real/qwen_gtpo_seed2_groups.jsonl", shown=(91, 1)),
    "truncated": Case(DATA / "truncated" / GROUPS_FILE, shown=(21, 1), steps=(2, 11, 21)),
    "reward_hack": Case(DATA / "reward_hack" / GROUPS_FILE, shown=(11, 1), steps=(1, 11, 15)),
    "collapse": Case(DATA / "collapse" / GROUPS_FILE, shown=(31, 2), steps=(2, 11, 31)),
}


def build(out: Path) -> list[Path]:
    """Write a folder per case, with a token view, a report if there are metrics, and the records; return the pages."""
    pages: list[Path] = []
    for name, case in CASES.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(case.groups, folder / GROUPS_FILE)
        groups = load_groups(folder)
        places = [(place.step, place.number) for place in groups.places]
        page = render_page(groups, title=name, opened=places.index(case.shown))
        pages.append(_write(folder / TOKEN_PAGE, page))
        if case.metrics.is_file():
            shutil.copyfile(case.metrics, folder / METRICS_FILE)
            runs = name_variants(load_runs([folder]))
            pages.append(_write(folder / REPORT, report_page(runs, folder)))
    return pages


def _write(path: Path, page: str) -> Path:
    path.write_text(page, encoding="utf-8")
    return path


def renew_records(runs: Path) -> None:
    """Copy the metrics and the kept groups of these runs, with rounded numbers."""
    for name, case in CASES.items():
        if not case.steps:
            continue
        case.groups.parent.mkdir(parents=True, exist_ok=True)
        rows = _rows(runs / name / GROUPS_FILE)
        _write_rows(case.groups, [row for row in rows if row["step"] in case.steps])
        _write_rows(case.metrics, _rows(runs / name / METRICS_FILE))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(_rounded(row), ensure_ascii=False, separators=(",", ":")) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return {key: _rounded(item) for key, item in value.items()} if isinstance(value, dict) else value


def take_pictures(out: Path) -> None:
    """The group that each token view opens with, and the first curves of two reports."""
    spec = importlib.util.spec_from_file_location("screenshot", ROOT / "scripts" / "screenshot.py")
    assert spec is not None
    assert spec.loader is not None
    screenshot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshot)
    for name in CASES:
        screenshot.take_picture(out / name / TOKEN_PAGE, GALLERY / f"{name}_tokens.png", scale=1)
    for name in ("reward_hack", "collapse"):
        report = screenshot.render(out / name / REPORT, REPORT_WINDOW, scale=1)
        screenshot.save(report, GALLERY / f"{name}_report.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the pages of docs/gallery.md from their records.")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="a folder per case is written here")
    parser.add_argument("--pictures", action="store_true", help="also take the pictures in docs/gallery")
    parser.add_argument(
        "--from", dest="runs", type=Path, metavar="RUNS", help="first renew the records from these runs"
    )
    args = parser.parse_args()
    if args.runs:
        renew_records(args.runs)
    build(args.out)
    if args.pictures:
        take_pictures(args.out)


if __name__ == "__main__":
    main()
