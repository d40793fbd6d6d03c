"""The Python code in the README and the docs runs as written, and every link leads to a file."""

import json
import re
import shlex
from pathlib import Path

import pytest

from gtpo.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("recipes/**/*.md"),
    ]
)


def run_blocks(name: str) -> None:
    """Run the Python blocks of a page in order, as one script."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S))
    assert code
    exec(compile(code, name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    ("page", "runs"), [("README.md", ["runs/plain", "runs/first"]), ("docs/training.md", ["runs/mine"])]
)
def test_its_code_trains_and_every_viewer_reads_the_runs(page, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(page)
    for run in runs:
        for command in ("health", "report", "inspect"):
            assert main([command, run]) == 0
        assert f"{Path(run).name}, step" in capsys.readouterr().out


def test_the_watch_page_has_the_code_of_the_readme():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/watch.md").read_text(), re.S)
    assert blocks[0] in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_page_about_your_own_task_trains_and_evaluates(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = (ROOT / "docs/own_task.md").read_text()
    data, functions = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(data, "make_data.py", "exec"), {"__name__": "__main__"})
    Path("mine.py").write_text(functions)
    Path("task.yaml").write_text(re.findall(r"```yaml\n(.*?)```", page, re.S)[0])
    (commands,) = re.findall(r"```bash\n(.*?)```", page, re.S)
    for command in commands.splitlines():
        assert main(shlex.split(command)[1:]) == 0, command
    printed = capsys.readouterr().out
    metrics = [json.loads(line) for line in Path("runs/mine/metrics.jsonl").read_text().splitlines()]
    points = {row["step"]: row["held_out/pass@1"] for row in metrics if "held_out/pass@1" in row}
    assert points.keys() == {10, 20}
    best = max(points, key=lambda step: (points[step], -step))
    assert f"best checkpoint: runs/mine/best, step {best}, pass@1 {points[best]:.1%}" in printed
    assert Path("runs/mine/best/adapter_config.json").exists()
    results = [json.loads(path.read_text()) for path in sorted(Path("runs/eval").glob("*/results.json"))]
    assert len(results) == 2
    assert {result["grader"] for document in results for result in document["results"]} == {"mine:is_right"}
    assert {result.get("step") for document in results for result in document["results"]} == {None, 0, best, 20}


@pytest.mark.parametrize("page", ["docs/method.md", "docs/credit.md", "docs/evaluation.md", "docs/lab.md"])
def test_its_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_it_links_to_exists(page):
    links = re.findall(r"\]\((?!http|#)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert [link for link in missing if not link.endswith(".html")] == []  # tests/test_gallery.py looks at pages
