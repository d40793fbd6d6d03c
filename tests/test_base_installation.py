"""Without the extras, the viewers work and everything else names the extra that is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gtpo.errors import EXTRAS
from tests.hiding import hide

GOLDEN = Path(__file__).parent / "golden" / "health"
RUNS = [str(GOLDEN / f"sound_{name}.csv") for name in ("gtpo_1e-4", "gtpo_5e-5", "grpo_1e-4", "grpo_5e-5")]
BLOCKED = [package for packages in EXTRAS.values() for package in packages.split()]
SCRIPT = f"""
{hide(BLOCKED)}
import contextlib, io, json, sys

commands = json.loads(sys.argv[1])

import gtpo
from gtpo.cli.main import main

results = []
for command in commands:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as stderr:
        code = main(command)
    results.append([code, stderr.getvalue()])
for name in ("GTPOTrainer", "shape_advantages"):
    try:
        getattr(gtpo, name)
    except gtpo.MissingExtraError as error:
        results.append([name, str(error)])
json.dump(results, sys.stdout)
"""


def python(code: str, *arguments: str, cwd: Path | None = None) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def results(lab_run, tmp_path_factory):
    """Exit code and error of every command below, by its first words; of every Python name its error."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "rollouts.jsonl").write_text('{"prompt": "2 + 2?", "completion": "4", "reward": 1}\n')
    commands = {
        "health": ["health", str(lab_run)],
        "report": ["report", str(lab_run), "--out", "report.html"],
        "compare": ["compare", *RUNS[:2], "--vs", *RUNS[2:]],
        "inspect": ["inspect", str(lab_run), "--out", "inspect.html"],
        "inspect --terminal": ["inspect", str(lab_run), "--terminal"],
        "inspect --completions": ["inspect", "--completions", "rollouts.jsonl"],
        "report --png": ["report", str(lab_run), "--out", "report.html", "--png", "figures"],
        "train": ["train"],
        "eval": ["eval", "lab", "--problems", "lab"],
    }
    output = python(SCRIPT, json.dumps(list(commands.values())), cwd=folder)
    return dict(zip([*commands, "GTPOTrainer", "shape_advantages"], json.loads(output), strict=True))


@pytest.mark.parametrize("command", ["health", "report", "compare", "inspect", "inspect --terminal"])
def test_viewers_need_no_extra(command, results):
    assert results[command] == [0, ""]


@pytest.mark.parametrize(
    ("command", "extra"),
    [("train", "trl"), ("eval", "trl"), ("inspect --completions", "trl"), ("report --png", "figures")],
)
def test_a_command_names_the_extra_that_it_needs(command, extra, results):
    code, error = results[command]
    assert code == 2
    assert error.startswith("error: This needs ")
    assert error.endswith(f"Install it with: pip install 'gtpo[{extra}]'\n")


@pytest.mark.parametrize("name", ["GTPOTrainer", "shape_advantages"])
def test_a_python_name_names_the_extra_that_it_needs(name, results):
    assert results[name][0] == name
    assert "pip install 'gtpo[trl]'" in results[name][1]


def test_help_loads_no_numerical_library():
    code = (
        "import contextlib, sys\n"
        "from gtpo.cli.main import main\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
        "sys.stdout.write('\\n' + ' '.join(set(sys.argv[1:]) & set(sys.modules)))\n"
    )
    assert python(code, *BLOCKED, "numpy", "scipy", "jinja2", "rich").splitlines()[-1] == ""
