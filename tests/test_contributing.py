"""What CONTRIBUTING.md names is there: files, the lists to extend, and make targets."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
TASKS = PAGE.split("## First tasks")[1].split("\n## ")[0]
EXAMPLES = {"brevity", "test_brevity", "decayed"}
"""Files that a reader of the first tasks creates."""


def test_the_files_of_the_first_tasks_exist():
    paths = {Path(path) for path in re.findall(r"`((?:src|tests|docs|benchmarks|scripts)/[\w/.]+)`", TASKS)}
    assert len(paths) > 15
    assert [path for path in sorted(paths) if path.stem not in EXAMPLES and not (ROOT / path).exists()] == []


def test_the_lists_to_extend_are_in_the_files_that_are_named():
    lists = re.findall(r"`([A-Z_]+)` in `([\w/.]+)`", TASKS)
    assert {name for name, _ in lists} == {"NAMED", "_SETS", "MEANINGS", "CHECKS", "_ALL"}
    for name, path in lists:
        assert re.search(rf"^{name}\b.* = ", (ROOT / path).read_text(), re.MULTILINE), (name, path)


def test_every_make_target_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([\w-]+)`", PAGE)) <= targets
