"""A complete step of `gtpo train` with vLLM on the same GPU: where the time goes, and how often the policy is scored.

    python benchmarks/bench_step.py --model MODEL_DIR --data DATA_DIR --out OUT --append benchmarks/results.csv
    python benchmarks/bench_step.py --model MODEL_DIR --data DATA_DIR --out OUT --sft-steps 300 --correction off --lora
    python benchmarks/bench_step.py --size tiny --out OUT       # a CPU, seconds: the lab, and no vLLM

It runs the command line of users, with a recipe, in this process; options after `--` override the recipe. DATA_DIR
holds gsm8k_train.jsonl. OUT gets steps.json (seconds and scoring passes of every step) and the folder of the run. The
first two steps are a warm-up and left out of the medians.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
RECIPE = REPOSITORY / "recipes/qwen2.5-1.5b-gsm8k/config.yaml"
LAB = REPOSITORY / "src/gtpo/training/config/lab.yaml"
WARM_UP = 2
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
ONE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--method", choices=("gtpo", "grpo"), default="gtpo")
    parser.add_argument("--model", default="lab", help="folder of a model")
    parser.add_argument("--data", help="folder with gsm8k_train.jsonl")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--correction", choices=("on", "off"), default="on", help="for the sampler's log-probs")
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--sft-steps", type=int, default=0, help="number of SFT steps on the solutions before")
    parser.add_argument("--sft-model", type=Path, help="folder of that model; reused if it exists")
    parser.add_argument("--name", help="name of the model in results.csv; default: its folder")
    parser.add_argument("--port", default="29511", help="another one for each run on the machine")
    parser.add_argument("--plain", action="store_true", help="set no environment variables of a launcher")
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    parser.add_argument("rest", nargs="*", metavar="-- --option value", help="more options of gtpo train")
    return parser.parse_args()


def common(options: argparse.Namespace, model: str) -> list[str]:
    is_tiny = options.size == "tiny"
    command = ["train", "--traceback", str(LAB if is_tiny else RECIPE), "--model", model, "--save_strategy", "no"]
    command += ["--held_out_problems", "0"]
    return command + (["--data_dir", options.data] if options.data else [])


def train_sft(options: argparse.Namespace) -> str:
    """Run a short SFT in a process of its own, which frees the GPU. Returns the folder of the model."""
    run = options.sft_model or options.out / "sft"
    if not (run / "model" / "config.json").is_file():
        command = [*common(options, options.model), "--method", "sft", "--output_dir", str(run)]
        command += ["--max_steps", str(options.sft_steps), "--learning_rate", "1e-4"]
        command += ["--per_device_train_batch_size", "32", "--gradient_accumulation_steps", "1"]
        subprocess.run([sys.executable, "-m", "gtpo.cli.main", *command], check=True)
    return str(run / "model")


def training_command(options: argparse.Namespace, model: str) -> list[str]:
    command = [*common(options, model), "--method", options.method, "--output_dir", str(options.out / "run")]
    command += ["--max_steps", str(options.steps), "--use_vllm", "true", "--max_problems", str(64 * options.steps)]
    command += ["--vllm_importance_sampling_correction", "true" if options.correction == "on" else "false"]
    if options.lora:
        command += ["--use_peft", "true", "--lora_r", "32", "--lora_alpha", "64", "--learning_rate", "1e-5"]
        command += ["--lora_target_modules", "q_proj", "k_proj", "v_proj", "o_proj"]
    if options.size == "tiny":
        command += ["--per_device_train_batch_size", "8", "--max_completion_length", "16"]
    return [*command, *options.rest]


def summarise(options: argparse.Namespace, steps: list[dict[str, Any]], peak: float) -> None:
    from phases import REWARDS, SHAPING, phase_rows
    from results import report, result

    timed = steps[WARM_UP:] or steps
    tuned = "LoRA" if options.lora else "full"
    name = options.name or Path(options.model).name
    size = f"{name}, {tuned}, correction {options.correction}"
    provider = options.method.upper()
    totals = [sum(step["seconds"].values()) for step in timed]
    rows = [result("step", provider, size, "whole step", totals, "s")]
    rows += phase_rows(provider, size, timed)
    small = [step["seconds"][REWARDS] + step["seconds"][SHAPING] for step in timed]
    shares = [100 * part / whole for part, whole in zip(small, totals, strict=True)]
    rows.append(result("step", provider, size, "rewards and shaping", shares, "%"))
    if peak:
        rows.append(result("step", provider, size, "peak memory of the trainer", [peak], "GB"))
    report(rows, options.append)


def main() -> int:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    model = train_sft(options) if options.sft_steps else options.model
    command = training_command(options, model)
    if options.size == "full":  # before torch and vLLM are loaded
        launched = {} if options.plain else {**ONE_PROCESS, "MASTER_PORT": options.port}
        for name, value in {**OFFLINE, **launched}.items():
            os.environ.setdefault(name, value)

    import torch
    from phases import StepClock
    from results import commit, hardware, versions

    from gtpo.cli.main import main as gtpo

    if options.size == "tiny":
        from stored import replace_vllm

        replace_vllm()
    clock = StepClock()
    clock.install()
    sys.stderr.write(f"gtpo {' '.join(command)}\n")
    try:
        status = gtpo(command)
    finally:  # keep the measurements even if training fails
        peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
        content = {
            "command": ["gtpo", *command], "commit": commit(), "hardware": hardware(), "versions": versions(),
            "peak_memory_gb": peak, "steps": clock.steps,
        }  # fmt: skip
        (options.out / "steps.json").write_text(json.dumps(content, indent=1) + "\n")
        if clock.steps:
            summarise(options, clock.steps, peak)
    return status


if __name__ == "__main__":
    exit_status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_status)  # vLLM's engine can block an ordinary exit
