"""`gtpo train` on the lab at reduced size, in this process or in one of its own that can be killed.

Such a process is forked from a server that has imported TRL already, which saves ten seconds each time.
"""

import multiprocessing
import os
import sys
import time
from pathlib import Path

import torch

from gtpo.cli.main import main
from tests.reading import read_metrics

SMALL_SFT = ["--per_device_train_batch_size", "8", "--held_out_problems", "8", "--max_problems", "64"]
SMALL = [
    *SMALL_SFT,
    *["--gradient_accumulation_steps", "1", "--max_completion_length", "40", "--num_generations", "4"],
]

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["gtpo.training.session", "gtpo.training.summary", "gtpo.cli.training_view"])
_TIMES = ("seconds", "step_time", "gtpo/seconds_sampling", "gtpo/seconds_shaping")


def launch(log, *arguments, **environment):
    """Start `gtpo train` in another process; what it prints goes to the file `log`."""
    process = _SERVER.Process(target=_run, args=(["train", *arguments], log, environment))
    process.start()
    return process


def _run(arguments, log, environment):
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    torch.set_num_threads(1)
    code = main(arguments)
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    sys.stdout.write(f"threads {names}\n")
    sys.stdout.flush()
    sys.exit(code)


def wait_until(condition, process, log, limit=240):
    """Wait until the condition holds while the process runs."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and process.is_alive():
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"This did not happen in time: {log.read_text()[-2000:]}")


def has_step(run, step):
    return (run / "metrics.jsonl").exists() and any(row["step"] >= step for row in read_metrics(run))


def numbers(run):
    """The metrics of a run without the times."""
    return [{name: value for name, value in row.items() if name not in _TIMES} for row in read_metrics(run)]
