"""One job in a process of its own: `gtpo train`, then an evaluation on the held-out problems.

    python -m experiments.lab.run_job comfortable_gtpo_seed1 --out DIR

A job that was killed resumes from its last checkpoint when it is started again. The arms of a seed share everything
but their options: problems, order of prompts and the first samples.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from experiments.lab.arms import ARMS
from experiments.lab.jobs import Job, JobFolder, write_result
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
    "credit": "credit/mean_abs",
    "credit_of_grpo": "credit/mean_abs_grpo",
}
"""The columns of a curve, and the logged metric of each. The oldest runs lack the last three."""

PREFERRED = {"entropy": "gtpo/token_entropy"}
"""Taken instead where it is logged: TRL's entropy leaves out the completions that a trimmed update leaves out."""


def run_job(job: Job, folder: JobFolder) -> int:
    """Train, evaluate, write the result, remove the run. Returns the exit code of `gtpo train` if it fails."""
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
    """Arguments of `gtpo train`: a new run, or one that resumes from its last complete checkpoint."""
    if (work / "config.yaml").is_file() and any(work.glob("checkpoint-*/complete")):
        return ["train", "--resume", str(work)]
    shutil.rmtree(work, ignore_errors=True)
    options = {**train_options(job.setting, job.arm), "seed": job.seed, "output_dir": work, "record_groups": 0}
    if options["method"] != "gtpo":
        del options["record_groups"]
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
    return ["train", *(f"--{name}={text}" for name, text in texts.items())]


def measure_policy(model: str, out: Path, setting: Setting) -> dict[str, Any]:
    """Accuracy, format, entropy and pass@k of sampled completions; accuracy and format of greedy ones."""
    from gtpo.evaluation.evaluate import evaluate
    from gtpo.evaluation.sampling import SamplingSettings

    num_problems, temperature = setting.num_problems, setting.temperature
    sampled = SamplingSettings(NUM_SAMPLES, temperature, max_new_tokens=MAX_NEW_TOKENS)
    greedy = SamplingSettings(1, 0.0, max_new_tokens=MAX_NEW_TOKENS)
    results: dict[str, Any] = {"num_problems": num_problems, "num_samples": NUM_SAMPLES, "temperature": temperature}
    for name, settings, ks in (("sampled", sampled, KS), ("greedy", greedy, (1,))):
        evaluation = evaluate([model], ["lab"], settings, out / name, ks=ks, limit=num_problems, batch_size=BATCH_SIZE)
        estimates = evaluation.measurements[0].estimates
        values = {metric: round(estimate.value, 5) for metric, estimate in estimates.items()}
        if name == "greedy":
            return {**results, "greedy": values["pass@1"], "greedy_format": values["format_rate"]}
        results |= {"accuracy": values["pass@1"], "format": values["format_rate"], "entropy": values["mean_entropy"]}
        results |= {"length": values["mean_length"], "truncated": values["truncation_rate"]}
        results |= {metric: value for metric, value in values.items() if "@" in metric}
    return results


def read_curve(work: Path) -> dict[str, list[float | None]]:
    """The columns of CURVE at every logged step, to four digits, without columns that no step has."""
    from gtpo.runs.run import load_run

    rows = load_run(work).rows
    columns: dict[str, list[float | None]] = {"step": [row["step"] for row in rows]}
    for name, logged in CURVE.items():
        values = [row.get(PREFERRED.get(name, logged), row.get(logged)) for row in rows]
        if any(value is not None for value in values):
            columns[name] = [None if value is None else float(f"{value:.4g}") for value in values]
    return columns


def provenance() -> dict[str, Any]:
    """Versions, device and commit of a run."""
    import platform

    import torch

    from gtpo.training.run_folder import versions

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU {platform.machine()}"
    return {"versions": versions(), "device": device, "commit": commit()}


def commit() -> str:
    """The commit of the working tree, with a + if it has changes. The variable GTPO_COMMIT overrides it."""
    if named := os.environ.get("GTPO_COMMIT"):
        return named
    try:
        command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.lab.run_job", description="Run one job.")
    parser.add_argument("job", help="the name of the job, such as comfortable_gtpo_seed1")
    parser.add_argument("--out", type=Path, required=True, help="folder for work, logs and results")
    options = parser.parse_args(arguments)
    job, folder = Job.parse(options.job), JobFolder(options.out)
    with folder.lock(job):
        return 0 if folder.is_done(job) else run_job(job, folder)


if __name__ == "__main__":
    sys.exit(main())
