"""`gtpo.watch` needs no extra of gtpo, and loads nothing of TRL when it is imported."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gtpo.cli.main import main
from tests.hiding import hide
from tests.reading import read_groups, read_metrics

ROOT = Path(__file__).parents[3]
HIDE = hide(["peft", "math_verify", "latex2sympy2_extended", "matplotlib"])


def run_python(code: str, folder: Path) -> str:
    """Run the code in another process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_importing_it_loads_nothing_of_trl(tmp_path):
    names = "[name for name in sys.modules if name.split('.')[0] in ('trl', 'peft') or name.startswith('gtpo.trl.')]"
    code = f"{HIDE}\nimport gtpo, json\ngtpo.watch\nprint(json.dumps({names}))"
    loaded = json.loads(run_python(code, tmp_path).splitlines()[-1])
    assert "gtpo.trl.watching.watch" in loaded
    assert not {name for name in loaded if name.split(".")[0] in ("trl", "peft")}
    assert not {"gtpo.trl.trainer", "gtpo.trl.config"} & set(loaded)


@pytest.mark.slow
def test_the_script_of_the_docs_runs_without_extras(tmp_path, capsys):
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "watch.md").read_text(), re.S)
    run_python(f"{HIDE}\n{script}", tmp_path)
    run = tmp_path / "runs" / "plain"
    assert [row["step"] for row in read_metrics(run)] == list(range(1, 13))
    groups = read_groups(run)
    assert {group.step for group in groups} == {1, 2, 11}
    for completion in [completion for group in groups for completion in group.completions]:
        assert len(completion.token_entropy) == len(completion.token_logp) == len(completion.pieces) > 0
        assert set(completion.rewards) == {"accuracy_reward"}
    for command in ("health", "report", "inspect"):
        assert main([command, str(run)]) == 0
    assert "plain, step 12" in capsys.readouterr().out
