"""Time and memory of `gtpo inspect` on a large recording: `python benchmarks/bench_inspect.py --out DIR`.

Writes a recording of 500 groups × 16 completions × 2,000 tokens into DIR, unless it is there, and runs `gtpo inspect`
on it in a new process. With `--browser`, also measures how long a headless Chromium needs to open the pages.
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZES = {"full": (500, 16, 2000), "tiny": (30, 4, 200)}
"""Groups, completions of a group, tokens of a completion."""
VOCABULARY = 5000
NUM_DISTINCT = 128
"""Completions that are generated. Groups are drawn from them, because encoding floats takes most of the time."""
SHARED = 12
"""Tokens that all completions have in common, at the start and at the end."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of gtpo inspect on a large recording.")
    parser.add_argument("--size", choices=SIZES, default="full", help="(default: full)")
    parser.add_argument(
        "--out", type=Path, default=Path("inspect-bench"), metavar="DIR", help="folder of the recording"
    )
    parser.add_argument("--browser", action="store_true", help="also open the pages with Selenium and Chromium")
    args = parser.parse_args()
    run = args.out / args.size
    if not (run / "groups.jsonl").exists():
        write_recording(run / "groups.jsonl", *SIZES[args.size])
    seconds, cpu_seconds, gigabytes = inspect(run)
    pages = sorted([run / "inspect.html", *run.glob("inspect_groups/*.html")])
    megabytes = [page.stat().st_size / 1e6 for page in pages]
    lines = [
        "recording: {} groups × {} completions × {} tokens, ".format(*SIZES[args.size])
        + f"{(run / 'groups.jsonl').stat().st_size / 1e6:.0f} MB",
        f"gtpo inspect: {seconds:.1f} s ({cpu_seconds:.1f} s of CPU time), {gigabytes:.2f} GB of memory at its peak",
        f"{len(pages)} pages, {sum(megabytes):.0f} MB in all, the largest {max(megabytes):.1f} MB",
    ]
    if args.browser:
        shown = {pages[0], pages[-1], pages[len(pages) // 2]}
        lines += [f"{page.relative_to(run)}: opens in {opening_time(page):.2f} s" for page in sorted(shown)]
    sys.stdout.write("\n".join(lines) + "\n")


def write_recording(path: Path, num_groups: int, num_completions: int, num_tokens: int) -> None:
    """A recording of plain GRPO with random words, entropies and log-probabilities."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    words = [
        f" {''.join(draw.choices('abcdefghijklmnopqrstuvwxyz', k=draw.randint(2, 9)))}" for _ in range(VOCABULARY)
    ]
    pools = {
        advantage: [json.dumps(completion(draw, words, advantage, num_tokens)) for _ in range(NUM_DISTINCT // 2)]
        for advantage in (0.5, -0.5)
    }
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        for number in range(num_groups):
            prompt = " ".join(draw.choices(words, k=60))
            head = {"step": 10 * number + 1, "prompt": prompt, "entropy_threshold": None, "initial_entropy": None}
            head |= {"schema": 2, "method": "grpo", "reason": draw.choice(["spread", "conflict", "sample"])}
            members = [draw.choice(pools[0.5 if index % 2 else -0.5]) for index in range(num_completions)]
            file.write(json.dumps(head)[:-1] + ', "completions": [' + ", ".join(members) + "]}\n")
    partial.rename(path)


def completion(draw: random.Random, words: list[str], advantage: float, num_tokens: int) -> dict[str, Any]:
    """One completion; its first and its last tokens are those of every other."""
    ids = [draw.randrange(len(words)) for _ in range(num_tokens)]
    ids[:SHARED] = ids[-SHARED:] = range(SHARED)
    weight = 2.0 if advantage > 0 else 0.0
    return {
        "token_ids": ids,
        "pieces": [words[token] for token in ids],
        "rewards": {"format": 1.0, "correct": 0.5 + advantage},
        "advantage": advantage,
        "push": advantage,
        "entropy": 0.4,
        "kept": True,
        "valid": True,
        "prefix": SHARED,
        "suffix": SHARED,
        "token_weight": [weight] * SHARED + [1.0] * (num_tokens - 2 * SHARED) + [weight] * SHARED,
        "token_advantage": [advantage] * num_tokens,
        "token_entropy": [draw.expovariate(2.5) for _ in ids],
        "trained": [True] * num_tokens,
        "token_logp": [-draw.expovariate(2.5) for _ in ids],
        "truncated": False,
    }


def inspect(run: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and the largest memory in GB of `gtpo inspect` in a process of its own."""
    program = "import sys; from gtpo.cli.main import main; sys.exit(main(['inspect', sys.argv[1]]))"
    start, largest = time.perf_counter(), 0.0
    with subprocess.Popen([sys.executable, "-c", program, str(run)], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            largest = max(largest, memory(process.pid))
            time.sleep(0.05)
    if process.returncode:
        sys.exit(process.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, largest


def memory(process: int) -> float:
    """GB of a process and its descendants, pages that they share counted once (Linux)."""
    folder = Path("/proc") / str(process)
    try:
        share = next(line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        children = (folder / "task" / str(process) / "children").read_text().split()
    except (OSError, StopIteration):  # it has ended
        return 0.0
    return int(share.split()[1]) / 1e6 + sum(memory(int(child)) for child in children)


def opening_time(page: Path) -> float:
    """Seconds until a headless Chromium that is already running has drawn the page."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))) as browser:
        browser.set_window_size(1280, 900)
        browser.get("about:blank")
        start = time.perf_counter()
        browser.get(page.resolve().as_uri())
        frames = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        browser.execute_async_script(frames)
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
