"""The code in the README and the docs runs as written, commands have their options, and links lead to files."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from gtpo.cli.main import build_parser, main
from gtpo.training.config.options import METHODS, NAMES
from gtpo.training.config.settings import option_names

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
    ("page", "runs"),
    [
        ("README.md", ["runs/plain", "runs/first"]),
        ("docs/training.md", ["runs/mine"]),
        pytest.param("docs/index.md", ["runs/plain", "runs/first"], marks=pytest.mark.slow),
        pytest.param("docs/quickstart.md", ["runs/quickstart"], marks=pytest.mark.slow),
        pytest.param("docs/migrate.md", ["runs/migrated"], marks=pytest.mark.slow),
    ],
)
def test_its_code_trains_and_every_viewer_reads_the_runs(page, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(page)
    for run in runs:
        for command in ("health", "report", "inspect"):
            assert main([command, run]) == 0
        printed = capsys.readouterr().out
        assert f"{Path(run).name}, step" in printed
        assert run != "runs/plain" or "unknown" not in printed  # the first example ends with a verdict


def test_the_watch_page_has_the_code_of_the_readme():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/watch.md").read_text(), re.S)
    assert blocks[0] in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_page_about_your_own_task_trains_and_evaluates(tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("mine", None)  # other tests have a module of this name
    request.addfinalizer(lambda: sys.modules.pop("mine", None))
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


@pytest.mark.parametrize(
    "page", [f"docs/{name}.md" for name in ("api", "credit", "evaluation", "faq", "lab", "method")]
)
def test_its_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_it_links_to_exists(page):
    links = re.findall(r"\]\((?!http|#)([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert [link for link in missing if not link.endswith(".html")] == []  # tests/test_gallery.py looks at pages


def test_commands_have_the_options_that_the_pages_name():
    (commands,) = (action.choices for action in build_parser()._actions if isinstance(action.choices, dict))
    known = {name: {*parser._option_string_actions} for name, parser in commands.items()}
    known["train"] |= {f"--{name}" for method in METHODS for name in (*NAMES, *option_names(method), "option")}
    unknown = set()
    for page in PAGES:
        text = page.read_text().replace("\\\n", "")
        for name, rest in re.findall(r"(?:^ *|`|main )(?:gtpo )?(\w+) ([^`#\n]*--[^`#\n]*)", text, re.MULTILINE):
            options = set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", rest)) if name in known else set()
            unknown |= {(page.name, name, option) for option in options - known.get(name, set())}
    assert unknown == set()
