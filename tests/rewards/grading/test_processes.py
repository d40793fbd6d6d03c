"""Grading in other people's processes: what it loads, forks, spawns, ranks, and what is left when they end."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import gtpo

SOURCE = str(Path(gtpo.__file__).parents[1])


def run_script(script: str, *arguments: str) -> Any:
    environment = os.environ | {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
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


def test_the_caller_never_loads_what_grades_and_workers_end_with_it():
    loaded, pids, has_torch = run_script(
        """
import json, os, sys
from pathlib import Path
from gtpo.rewards import is_correct
from gtpo.rewards.grading.grader import default_grader
assert is_correct("2\\\\sqrt{3}", "\\\\sqrt{12}")
pids = default_grader().pool.process_ids()
maps = Path(f"/proc/{pids[0]}/maps").read_text()
print(json.dumps([sorted(sys.modules), pids, "libtorch" in maps]))
"""
    )
    graders = {
        "math_verify",
        "latex2sympy2_extended",
        "gtpo.rewards.equivalence.equivalent",
        "gtpo.rewards.equivalence.symbolic",
    }
    assert graders.isdisjoint(loaded)
    assert "torch" in loaded
    assert not has_torch
    assert len(pids) == 1
    assert wait_for_end(pids[0])


def test_a_worker_ends_when_its_parent_is_killed():
    script = """
import os, signal
from gtpo.rewards import is_correct
from gtpo.rewards.grading.grader import default_grader
is_correct("1", "1")
print(*default_grader().pool.process_ids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == -9
    assert wait_for_end(int(done.stdout))


def test_a_forked_child_grades_with_workers_of_its_own():
    parents, childs, answers = run_script(
        """
import json, os
from gtpo.rewards import is_correct
from gtpo.rewards.grading.grader import default_grader
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
    assert set(parents).isdisjoint(childs)
    assert childs


def test_ranks_of_a_distributed_run_grade_side_by_side(tmp_path: Path):
    script = tmp_path / "ranks.py"
    script.write_text(
        """
import json, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
from gtpo.rewards import paper_reward

def rank_main(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    texts = [f"<reasoning>r</reasoning><answer>{rank + number}.0</answer>" for number in range(4)]
    rewards = torch.tensor(paper_reward(completions=texts, answer=["2"] * 4))
    gathered = [torch.zeros(4) for _ in range(2)]
    dist.all_gather(gathered, rewards)
    if rank == 0:
        print(json.dumps([values.tolist() for values in gathered]), flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(rank_main, args=(sys.argv[1],), nprocs=2)
"""
    )
    rewards = run_script(
        f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", str(tmp_path / "store")
    )
    assert rewards == [[10.0, 10.0, 20.0, 10.0], [10.0, 20.0, 10.0, 10.0]]
