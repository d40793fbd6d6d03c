"""One job in a process of its own: `gtpo train`, then what the policy does on the held-out problems.

    python -m experiments.lab.job comfortable_gtpo_seed1 --out DIR

Killed at any point, it goes on from the last checkpoint when it is started again. The arms share everything but their
options: problems, order of prompts and the first samples are those of the seed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from experiments.lab.arms import ARMS
from experiments.lab.jobs import Folder, Job, write_result
from experiments.lab.settings import SETTINGS, Setting, train_options

NUM_SAMPLES = 32
MAX_NEW_TOKENS = 96
BATCH_SIZE = 512
KS = (1, 2, 4, 8, 16, 32)
CURVE = {
    "accuracy": "accuracy",
    "format": "format",
    "entropy": "entropy",
    "length": "completions/mean_length",
    "truncated": "completions/clipped_ratio",
    "grad_norm": "grad_norm",
    "tied": "frac_reward_zero_std",
    "kept": "gtpo/frac_kept",
    "conflict": "gtpo/frac_conflict",
    "distinct": "gtpo/frac_distinct",
}
"""The columns of a curve that are kept, and the logged metric behind each; runs that were made before have no last."""


def run_job(job: Job, folder: Folder) -> int:
    """Train, measure, write the result, clear up. The exit code of `gtpo train` if that did not end well."""
    from gtpo.cli.main import main as gtpo
    from gtpo.training.run_folder import RunFolder

    work, is_trained = folder.work(job), ARMS[job.arm].method != "none"
    if is_trained and (code := gtpo(train_arguments(job, work))) != 0:
        return code
    summary = RunFolder.open(work).summary() if is_trained else {"seconds": 0.0, "steps": 0}
    write_result(
        folder.result(job),
        {
            "job": job.name,
            "setting": job.setting,
            "arm": job.arm,
            "seed": job.seed,
            "options": {name: str(value) for name, value in train_options(job.setting, job.arm).items()},
            **provenance(),
            "seconds": summary["seconds"],
            "steps": summary["steps"],
            "after": measure_policy(str(work) if is_trained else "lab", work / "eval", SETTINGS[job.setting]),
            "curve": read_curve(work) if is_trained else {"step": []},
        },
    )
    shutil.rmtree(work)
    return 0


def train_arguments(job: Job, work: Path) -> list[str]:
    """The command line of `gtpo train`: a new run, or the rest of one that was killed after its first checkpoint."""
    from gtpo.trl.resume import last_complete_checkpoint

    if (work / "config.yaml").is_file() and last_complete_checkpoint(work):
        return ["train", "--resume", str(work)]
    shutil.rmtree(work, ignore_errors=True)
    options = {**train_options(job.setting, job.arm), "seed": job.seed, "output_dir": work, "record_groups": 0}
    if options["method"] != "gtpo":
        del options["record_groups"]
    return ["train", *(f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
                       for name, value in options.items())]  # fmt: skip


def measure_policy(model: str, out: Path, setting: Setting) -> dict[str, Any]:
    """Accuracy, format, entropy and pass@k of what the policy samples; accuracy and format of its greedy answers."""
    from gtpo.evaluation.evaluate import evaluate
    from gtpo.evaluation.sampling import SamplingSettings

    num_problems, temperature = setting.num_problems, setting.temperature
    sampled = SamplingSettings(NUM_SAMPLES, temperature, max_new_tokens=MAX_NEW_TOKENS)
    greedy = SamplingSettings(1, 0.0, max_new_tokens=MAX_NEW_TOKENS)
    found: dict[str, Any] = {"num_problems": num_problems, "num_samples": NUM_SAMPLES, "temperature": temperature}
    for name, settings, ks in (("sampled", sampled, KS), ("greedy", greedy, (1,))):
        evaluation = evaluate([model], ["lab"], settings, out / name, ks=ks, limit=num_problems, batch_size=BATCH_SIZE)
        values = {key: round(one.value, 5) for key, one in evaluation.measurements[0].estimates.items()}
        if name == "greedy":
            return {**found, "greedy": values["pass@1"], "greedy_format": values["format_rate"]}
        found |= {"accuracy": values["pass@1"], "format": values["format_rate"], "entropy": values["mean_entropy"]}
        found |= {"length": values["mean_length"], "truncated": values["truncation_rate"]}
        found |= {key: value for key, value in values.items() if "@" in key}
    return found


def read_curve(work: Path) -> dict[str, list[float | None]]:
    """The kept columns of every logged step, to four digits; a column that no step has is left out."""
    from gtpo.runs.run import load_run

    rows = load_run(work).rows
    columns: dict[str, list[float | None]] = {"step": [row["step"] for row in rows]}
    for name, logged in CURVE.items():
        values = [row.get(logged) for row in rows]
        if any(value is not None for value in values):
            columns[name] = [None if value is None else float(f"{value:.4g}") for value in values]
    return columns


def provenance() -> dict[str, Any]:
    """Which code, on what machine."""
    import platform

    import torch

    from gtpo.training.run_folder import versions

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU {platform.machine()}"
    return {"versions": versions(), "device": device, "commit": commit()}


def commit() -> str:
    """The commit of the tree, with a + if it was changed since; without a history what the variable COMMIT says."""
    if named := os.environ.get("COMMIT"):
        return named
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.lab.job", description="Run one job.")
    parser.add_argument("job", help="its name, such as comfortable_gtpo_seed1")
    parser.add_argument("--out", type=Path, required=True, help="where work, logs and results go")
    options = parser.parse_args(arguments)
    job, folder = Job.parse(options.job), Folder(options.out)
    with folder.lock(job):
        return 0 if folder.is_done(job) else run_job(job, folder)


if __name__ == "__main__":
    sys.exit(main())
