"""What the decoding loop of a colocated vLLM spends its time on: one engine as TRL starts it, many kinds of requests.

    python benchmarks/bench_generation.py --model MODEL_DIR --data DATA_DIR --out OUT --append benchmarks/results.csv
    python benchmarks/bench_generation.py ... --engine synchronous    # without asynchronous scheduling
    python benchmarks/bench_generation.py ... --engine twice          # room for twice the completions
    python benchmarks/bench_generation.py ... --engine v2             # vLLM's second model runner
    python benchmarks/bench_generation.py --model FOLDER --load-format dummy --matrix --tokens 100 --out OUT

Every kind of request samples 32 prompts × 8 completions of exactly 300 tokens (--tokens), so that a decoding step is
comparable between kinds: seconds / 300. Next to it: the seconds in Python's garbage collector, and those in which TRL
reads the log-probs afterwards. The last command above measures the kinds of MATRIX in less than 40 s after the start
of the engine, from a folder with only config.json and the tokenizer's files: without --data prompts are 170 random
ids, and no completion ends early. With --profile OUT gets the profile of the Python code (cProfile) of one kind, by
default the first, without garbage collection.
"""

import argparse
import contextlib
import cProfile
import gc
import os
import pstats
import random
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from bench_whole_step import ENVIRONMENT

LIMIT = 300
WARM_UP_LIMIT = 16
PROMPT_LENGTH = 170
GROUP_SIZE = 8
REPEATS = 3
FLAT = {"detokenize": False, "flat_logprobs": True}
NEITHER: dict[str, Any] = {"detokenize": False, "logprobs": None}
# Arguments of SamplingParams, and "collector": what happens to Python's garbage collector (the function collector).
KINDS: dict[str, dict[str, Any]] = {
    "as TRL asks": {},
    "no detokenisation": {"detokenize": False},
    "no log-probs": {"logprobs": None},
    "neither": NEITHER,
    "neither, collector off": {**NEITHER, "collector": "off"},
    "no detokenisation, flat log-probs": FLAT,
    "no detokenisation, flat log-probs, collector off": {**FLAT, "collector": "off"},
    "no detokenisation, flat log-probs, collector frozen": {**FLAT, "collector": "frozen"},
    "no detokenisation, flat log-probs, collector thawed": {**FLAT, "collector": "thawed"},
    "no detokenisation, flat log-probs, n": {**FLAT, "n": GROUP_SIZE},
    "as TRL asks, collector off": {"collector": "off"},
    "as TRL asks, until the end of the text": {"ignore_eos": False},
    "no detokenisation, until the end of the text": {"detokenize": False, "ignore_eos": False},
}
MATRIX = (
    "as TRL asks",
    "no detokenisation, flat log-probs",
    "no detokenisation, flat log-probs, collector off",
    "no detokenisation, flat log-probs, n",
    "neither",
    "neither, collector off",
)
DEFAULT_KINDS = (
    "as TRL asks",
    "no detokenisation",
    "no log-probs",
    "neither",
    "no detokenisation, flat log-probs",
    "as TRL asks, until the end of the text",
    "no detokenisation, until the end of the text",
)
ENGINES: dict[str, dict[str, Any]] = {
    "default": {},
    "synchronous": {"async_scheduling": False},
    "asynchronous": {"async_scheduling": True},
    "twice": {"max_num_seqs": 512},
    "v2": {},
}
ENGINE_ENVIRONMENT = {"v2": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a model")
    parser.add_argument("--name", default="qwen2.5-coder-1.5b", help="what results.csv calls the model")
    parser.add_argument("--load-format", default="auto", help="dummy: random weights, config.json is enough")
    parser.add_argument("--data", help="folder with gsm8k_train.jsonl; without it prompts are random ids")
    parser.add_argument("--out", type=Path, required=True)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(DEFAULT_KINDS), help="of requests")
    kinds.add_argument("--matrix", dest="kinds", action="store_const", const=list(MATRIX), help="the kinds of MATRIX")
    parser.add_argument("--prompts", type=int, default=32, help="number of prompts")
    parser.add_argument("--tokens", type=int, default=LIMIT, help="tokens of each completion")
    parser.add_argument("--profile", nargs="?", choices=tuple(KINDS), const=True, help="kind to profile")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="default")
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    return parser.parse_args()


def make_engine(options: argparse.Namespace) -> Any:
    """An engine with the settings of TRL's colocate mode."""
    from vllm import LLM

    settings: dict[str, Any] = {
        "model": options.model,
        "load_format": options.load_format,
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
    """The prompts as TRL passes them: each one GROUP_SIZE times in a row."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    if options.data is None:
        generator = random.Random(0)
        ids = [generator.choices(range(tokenizer.vocab_size), k=PROMPT_LENGTH) for _ in range(options.prompts)]
        return [{"prompt_token_ids": prompt} for prompt in ids for _ in range(GROUP_SIZE)]

    from gtpo.problems import load_problems, to_dataset

    rows = to_dataset(load_problems("gsm8k", split="train", data_dir=options.data, limit=options.prompts))
    ids = [
        tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        for row in rows
    ]
    return [{"prompt_token_ids": prompt} for prompt in ids for _ in range(GROUP_SIZE)]


@contextlib.contextmanager
def collector(state: str) -> Generator[list[float]]:
    """Garbage collection off, frozen or thawed, or "on" as vLLM left it; gives the seconds of every collection.

    vLLM freezes what exists when its engine has started. frozen: all that exists now; thawed: nothing, as if vLLM had
    not done it. Both leave everything frozen that exists when they end.
    """
    seconds: list[float] = []
    start = 0.0

    def measure(phase: str, _: dict[str, int]) -> None:
        nonlocal start
        if phase == "start":
            start = time.perf_counter()
        else:
            seconds.append(time.perf_counter() - start)

    if state == "off":
        gc.disable()
    elif state == "frozen":
        gc.collect()
        gc.freeze()
    elif state == "thawed":
        gc.unfreeze()
    gc.callbacks.append(measure)
    try:
        yield seconds
    finally:
        gc.callbacks.remove(measure)
        gc.enable()
        if state == "thawed":
            gc.freeze()


def main() -> None:
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    environment = {**ENVIRONMENT, **ENGINE_ENVIRONMENT.get(options.engine, {})}
    for name, value in environment.items():  # before torch and vLLM are loaded
        os.environ.setdefault(name, value)
    from results import report, result
    from trl.generation.vllm_generation import extract_logprobs
    from vllm import SamplingParams

    engine = make_engine(options)
    prompts = prompts_of(options)

    def sample(kind: dict[str, Any], limit: int = options.tokens) -> tuple[float, float, float]:
        """Seconds of a generation, those of them in the garbage collector, and those of TRL reading the log-probs."""
        request: dict[str, Any] = {"temperature": 1.0, "max_tokens": limit, "ignore_eos": True, "logprobs": 0, **kind}
        state = request.pop("collector", "on")
        with collector(state) as collections:
            start = time.perf_counter()
            outputs = engine.generate(
                prompts[:: request.get("n", 1)], sampling_params=SamplingParams(**request), use_tqdm=False
            )
            generated, collected = time.perf_counter(), sum(collections)
            extract_logprobs(outputs)
            return generated - start, collected, time.perf_counter() - generated

    size = f"{options.name}, {options.prompts} × {GROUP_SIZE}, {options.tokens} tokens each, engine: {options.engine}"
    for name in options.kinds:
        sample(KINDS[name], limit=WARM_UP_LIMIT)
        seconds, collected, read = zip(*(sample(KINDS[name]) for _ in range(REPEATS)), strict=True)
        steps = [1000 * value / options.tokens for value in seconds]
        rows = [
            result("generation", name, size, "generation", seconds, "s"),
            result("generation", name, size, "decoding step", steps, "ms"),
            result("generation", name, size, "garbage collection", collected, "s"),
        ]
        if KINDS[name].get("logprobs", 0) is not None:
            rows.append(result("generation", name, size, "log-probs read by TRL", read, "s"))
        report(rows, options.append)
    if options.profile:
        kind = options.kinds[0] if options.profile is True else options.profile
        profile = cProfile.Profile()
        profile.runcall(sample, {**KINDS[kind], "collector": "off"})
        with (options.out / f"profile-{options.engine}.txt").open("w") as file:
            file.write(f"{kind}; {size}; garbage collection off\n")
            statistics = pstats.Stats(profile, stream=file)
            statistics.sort_stats("tottime").print_stats(40)
            statistics.sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # vLLM's engine may not let an ordinary exit through
