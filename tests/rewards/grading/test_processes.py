"""Grading from fresh, killed, forked and spawned processes: what they load, and that no worker outlives them."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import gtpo

SOURCE = str(Path(gtpo.__file__).parents[1])


def run_script(script: str) -> Any:
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for_end(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 30)[0])
    finally:
        os.close(handle)


def test_the_caller_loads_no_parser_the_worker_no_torch_and_both_end_together():
    loaded, pids, has_torch = run_script(
        """
import json, os, sys
from pathlib import Path
from gtpo.rewards import is_correct
from gtpo.rewards.grading import default_grader
assert is_correct("2\\\\sqrt{3}", "\\\\sqrt{12}")
pids = default_grader().pool.process_ids()
maps = Path(f"/proc/{pids[0]}/maps").read_text()
print(json.dumps([sorted(sys.modules), pids, "libtorch" in maps]))
"""
    )
    assert {"math_verify", "latex2sympy2_extended", "sympy", "gtpo.rewards.equivalence", "torch"}.isdisjoint(loaded)
    assert not has_torch
    assert len(pids) == 1
    assert wait_for_end(pids[0])


def test_importing_rewards_starts_no_thread_and_leaves_the_start_method_open():
    script = "import gtpo.rewards, json, multiprocessing, threading; multiprocessing.set_start_method('spawn'); "
    assert run_script(script + "print(json.dumps(threading.active_count()))") == 1


def test_a_worker_ends_when_its_parent_is_killed():
    script = """
import os, signal
from gtpo.rewards import is_correct
from gtpo.rewards.grading import default_grader
is_correct("1", "1")
print(*default_grader().pool.process_ids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == -9
    assert wait_for_end(int(done.stdout))


def test_a_forked_child_grades_with_workers_of_its_own():
    parents_workers, childs_workers, answers = run_script(
        """
import json, os
from gtpo.rewards import is_correct
from gtpo.rewards.grading import default_grader
answers = [is_correct("1.0", "1")]
parents = default_grader().pool.process_ids()
read, write = os.pipe()
if os.fork() == 0:
    graded = [is_correct("2.0", "2"), is_correct("3", "2")]
    os.write(write, json.dumps([default_grader().pool.process_ids(), graded]).encode())
    default_grader().pool.close()
    os._exit(0)
os.wait()
childs, graded = json.loads(os.read(read, 65536))
print(json.dumps([parents, childs, answers + graded + [is_correct("4/2", "2")]]))
"""
    )
    assert answers == [True, True, False, True]
    assert set(parents_workers).isdisjoint(childs_workers)
    assert childs_workers


def test_spawned_processes_grade_side_by_side(tmp_path: Path):
    script = tmp_path / "ranks.py"
    script.write_text(
        """
import json, multiprocessing
from gtpo.rewards import paper_reward

def rewards(rank):
    texts = [f"<reasoning>r</reasoning><answer>{rank + number}.0</answer>" for number in range(4)]
    return paper_reward(completions=texts, answer=["2"] * 4)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as ranks:
        print(json.dumps(ranks.map(rewards, [0, 1], chunksize=1)))
"""
    )
    rewards = run_script(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert rewards == [[10.0, 10.0, 20.0, 10.0], [10.0, 20.0, 10.0, 10.0]]
