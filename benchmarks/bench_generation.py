"""What the decoding loop of a colocated vLLM spends its time on: one engine as TRL starts it, many kinds of requests.

    python benchmarks/bench_generation.py --model MODEL_DIR --data DATA_DIR --out OUT --append benchmarks/results.csv
    python benchmarks/bench_generation.py ... --engine synchronous    # without asynchronous scheduling
    python benchmarks/bench_generation.py ... --engine twice          # room for twice the completions

Every kind of request samples 32 prompts × 8 completions of exactly 300 tokens, so that a decoding step is comparable
between kinds: seconds / 300. With --profile OUT gets the profile of the Python code (cProfile) of the first kind.
"""

import argparse
import cProfile
import os
import pstats
import sys
import time
from pathlib import Path
from typing import Any

from bench_whole_step import ENVIRONMENT

LIMIT = 300
GROUP_SIZE = 8
REPEATS = 3
KINDS: dict[str, dict[str, Any]] = {
    "as TRL asks": {},
    "no detokenisation": {"detokenize": False},
    "no log-probs": {"logprobs": None},
    "neither": {"detokenize": False, "logprobs": None},
    "no detokenisation, flat log-probs": {"detokenize": False, "flat_logprobs": True},
    "as TRL asks, until the end of the text": {"ignore_eos": False},
    "no detokenisation, until the end of the text": {"detokenize": False, "ignore_eos": False},
}
ENGINES: dict[str, dict[str, Any]] = {
    "default": {},
    "synchronous": {"async_scheduling": False},
    "twice": {"max_num_seqs": 512},
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a model")
    parser.add_argument("--name", default="qwen2.5-coder-1.5b", help="what results.csv calls the model")
    parser.add_argument("--data", required=True, help="folder with gsm8k_train.jsonl")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS), help="kinds of requests")
    parser.add_argument("--prompts", type=int, default=32, help="number of prompts")
    parser.add_argument("--profile", action="store_true", help="profile the Python code")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="default")
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    return parser.parse_args()


def make_engine(options: argparse.Namespace) -> Any:
    """An engine with the settings of TRL's colocate mode."""
    from vllm import LLM

    settings: dict[str, Any] = {
        "model": options.model,
        "gpu_memory_utilization": 0.3,
        "max_model_len": 1024,
        "max_num_seqs": 256,
        "distributed_executor_backend": "external_launcher",
        "seed": 0,
        "max_num_batched_tokens": 4096,
        "logprobs_mode": "processed_logprobs",
        **ENGINES[options.engine],
    }
    return LLM(**settings)


def prompts_of(options: argparse.Namespace) -> list[dict[str, list[int]]]:
    from transformers import AutoTokenizer

    from gtpo.problems import load_problems, to_dataset

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    rows = to_dataset(load_problems("gsm8k", split="train", data_dir=options.data, limit=options.prompts))
    ids = [
        tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        for row in rows
    ]
    return [{"prompt_token_ids": prompt} for prompt in ids for _ in range(GROUP_SIZE)]


def main() -> None:
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, value in ENVIRONMENT.items():  # before torch and vLLM are loaded
        os.environ.setdefault(name, value)
    from results import report, result
    from vllm import SamplingParams

    engine = make_engine(options)

    def sample(prompts: list[dict[str, list[int]]], **kind: Any) -> float:
        request = {"temperature": 1.0, "max_tokens": LIMIT, "ignore_eos": True, "logprobs": 0, **kind}
        start = time.perf_counter()
        engine.generate(prompts, sampling_params=SamplingParams(**request), use_tqdm=False)
        return time.perf_counter() - start

    prompts = prompts_of(options)
    size = f"{options.name}, {options.prompts} × {GROUP_SIZE}, {LIMIT} tokens each, engine: {options.engine}"
    for name in options.kinds:
        sample(prompts, **KINDS[name])
        seconds = [sample(prompts, **KINDS[name]) for _ in range(REPEATS)]
        steps = [1000 * value / LIMIT for value in seconds]
        rows = [
            result("generation", name, size, "generation", seconds, "s"),
            result("generation", name, size, "decoding step", steps, "ms"),
        ]
        report(rows, options.append)
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(sample, prompts, **KINDS[options.kinds[0]])
        with (options.out / f"profile-{options.engine}.txt").open("w") as file:
            pstats.Stats(profile, stream=file).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # vLLM's engine may not let an ordinary exit through
