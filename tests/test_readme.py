"""The Python of the README and of the docs runs as it stands, and what they link to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gtpo.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("recipes/**/*.md")])


def error_of_block(name: str, folder: Path) -> str:
    """Run the one block of Python that a page has, alone in a folder; what it died of, if it did."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)
    assert len(blocks) == 1
    done = subprocess.run(
        [sys.executable, "-c", blocks[0]], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stderr[-3000:] if done.returncode else ""


@pytest.mark.parametrize(("page", "run"), [("README.md", "runs/first"), ("docs/training.md", "runs/mine")])
def test_its_lines_train_and_every_command_reads_the_run(page, run, tmp_path, monkeypatch, capsys):
    assert error_of_block(page, tmp_path) == ""
    monkeypatch.chdir(tmp_path)
    for command in ("health", "report", "inspect"):
        assert main([command, run]) == 0
    assert f"{Path(run).name}, step" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["docs/method.md", "docs/evaluation.md", "docs/lab.md"])
def test_its_lines_run(page, tmp_path):
    assert error_of_block(page, tmp_path) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_it_links_to_is_there(page):
    links = re.findall(r"\]\((?!http|#)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
