"""One, two and three processes on the same completions: same advantages, same metrics, same weights."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.trl.stored_rollouts import CASES, GRPO_CASES, run_case

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("stored_rollouts.py")


def launch(processes: int, model: str, out: Path, script: Path = SCRIPT) -> dict:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "ACCELERATE_USE_CPU": "true",
    }
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        str(processes),
        str(script),
        model,
        str(out),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((out / "results.json").read_text())


@pytest.fixture(scope="module")
def results(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    single = {name: run_case(tiny_model, folder, options) for name, options in {**CASES, **GRPO_CASES}.items()}
    return {1: single, **{n: launch(n, tiny_model, tmp_path_factory.mktemp(f"processes{n}")) for n in (2, 3)}}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("processes", [2, 3])
def test_many_processes_compute_what_a_single_process_does(case, processes, results):
    single, many = results[1][case], results[processes][case]
    assert len(single["advantages"]) == (24 if case == "several iterations" else 36)
    for alone, split in zip(single["advantages"], many["advantages"], strict=True):
        assert split == pytest.approx(alone, abs=1e-4)
    for alone, split in zip(single["logs"], many["logs"], strict=True):
        ours = {name: value for name, value in alone.items() if name.startswith(("gtpo/", "credit/", "reward"))}
        ours = {name: value for name, value in ours.items() if not name.startswith("gtpo/seconds_")}
        if ours and "credit" not in CASES[case]:  # a reused batch is not shaped again
            assert ours["gtpo/frac_conflict"] > 0
        assert {name: split[name] for name in ours} == pytest.approx(ours, rel=1e-4, abs=1e-5)
    for alone, split in zip(single["weights"], many["weights"], strict=True):
        torch.testing.assert_close(torch.tensor(split), torch.tensor(alone), atol=2e-4, rtol=1e-3)


PAIRS = [
    ("trimmed", "untrimmed"),
    ("shaped in the update", "untrimmed"),
    ("bnpo, fast", "bnpo, stock"),
    ("cispo, fast", "cispo, stock"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_trimming_leaves_gradients_unchanged_and_processes_in_step(processes, pair, results):
    trimmed, plain = (results[processes][name] for name in pair)
    for step, (mine, theirs) in enumerate(zip(trimmed["gradients"], plain["gradients"], strict=True)):
        mine, theirs = torch.tensor(mine), torch.tensor(theirs)
        assert theirs.any()
        bound = 1e-5 if step == 0 else 1e-4  # later steps start from weights that differ by rounding
        assert (mine - theirs).norm() < bound * theirs.norm()
    assert all(sizes == trimmed["sizes"][0] for sizes in trimmed["sizes"])
    assert len(trimmed["sizes"][0]) == len(plain["sizes"][0]) == 6
    # In GRPO on three processes, one of them has a row with weight in every place. The update keeps filtered rows.
    is_smaller = sum(trimmed["sizes"][0]) < sum(plain["sizes"][0])
    assert is_smaller or (processes == 3 and "fast" in pair[0]) or pair[0] == "shaped in the update"


def test_micro_batches_of_several_processes_have_different_numbers_of_rows(results):
    sizes = [results[2][name]["sizes"][0] for name, _ in PAIRS]
    assert any(first != second for steps in sizes for first, second in zip(steps[::2], steps[1::2], strict=True))


def test_processes_differ_in_how_many_of_their_rows_have_weight(results):
    rows = results[3]["trimmed"]["advantages"]
    with_weight = [sum(any(row) for row in rows[first : first + 4]) for first in range(0, 36, 4)]
    assert any(len(set(with_weight[first : first + 3])) > 1 for first in (0, 3, 6))


def test_the_cases_exercise_filter_conflicts_and_invalid_rows(results):
    logs = [entry for case in results[1].values() for entry in case["logs"] if "gtpo/frac_kept" in entry]
    assert any(0 < entry["gtpo/frac_kept"] < 1 for entry in logs)
    assert any(entry["gtpo/num_tokens_skipped"] > 0 for entry in logs)
    rows = [row for case in results[1].values() for row in case["advantages"]]
    assert any(len(row) == 7 and not any(row) for row in rows)
