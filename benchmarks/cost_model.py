"""The cost of a step on many GPUs, estimated from measurements on one: the table of docs/scaling.md.

    python benchmarks/cost_model.py                    # reads benchmarks/results.csv
    python benchmarks/cost_model.py --model qwen --gpus 1 8 1024

    t(P) = t_generation + t_sync + t_log-probs + t_rewards + t_shaping + t_update + t_rest     as on one GPU
           + reduce(P) + gather(P)

Assumptions: every GPU has its own vLLM and samples, scores and trains as many completions as the measured one (weak
scaling), so the work of each GPU does not change. Gradients are reduced by a ring once per step,
2 (P − 1)/P · bytes of the trained parameters, without overlap with computation. Split groups (the rows of a process
are not a multiple of G) are gathered at 9 bytes per token of the padded batch and 4 per completion; complete groups
are not. Bandwidth is that of NVLink up to 8 GPUs and that of the network beyond. Stragglers, checkpoints and TRL's
gathering of texts for its log are left out.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from phases import GENERATION, LOG_PROBS, PHASES, UPDATE
from results import RESULTS, Result, latest, load

BILLION = 1e9
PARAMETERS = 1.54 * BILLION
"""Of Qwen2.5-Coder-1.5B, its tied embeddings counted once: what a token is multiplied with."""
PEAK, BANDWIDTH = 989e12, 4.8e12
"""Of an H200: operations per second in bf16 without sparsity, and bytes per second of its memory."""


def limits(tokens: float, decoding_steps: int) -> dict[str, float]:
    """Seconds that the hardware needs at least for a step that trains this many tokens.

    Decoding reads the weights once per token of the longest completion. A token takes two operations per parameter
    forward and four backward.

    >>> {phase: round(seconds, 2) for phase, seconds in limits(60_000, 300).items()}
    {'generation': 0.19, 'log-probs': 0.19, 'update': 0.56}
    """
    return {
        GENERATION: decoding_steps * 2 * PARAMETERS / BANDWIDTH,
        LOG_PROBS: 2 * PARAMETERS * tokens / PEAK,
        UPDATE: 6 * PARAMETERS * tokens / PEAK,
    }


def shares_of_peak(step: dict[str, float], decoding_steps: int) -> dict[str, float]:
    """Least seconds over measured seconds of each phase, for the tokens that it computed, padding included."""
    scored = step.get("scoring by TRL: tokens", 0.0) + step.get("scoring by us: tokens", 0.0)
    least = {
        **limits(step["update: tokens"], decoding_steps),
        LOG_PROBS: limits(scored, decoding_steps)[LOG_PROBS],
    }
    return {phase: seconds / step[phase] for phase, seconds in least.items() if seconds and step.get(phase)}


def measured(rows: Sequence[Result], provider: str, size: str) -> dict[str, float]:
    return {row.metric: row.median for row in rows if row.provider == provider and row.size == size}


def rates(rows: Sequence[Result]) -> dict[str, float]:
    """Tokens a second of a scoring pass and of an update, padding included, from TRL's GRPO in bench_update.

    With TRL's correction a step makes one scoring pass more than without: the differences in tokens and time are its.
    """
    sizes = {row.size for row in rows if row.size.startswith("qwen2.5-1.5b")}
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        found[size.rpartition("correction ")[2]] = measured(rows, "TRL GRPO β=0", size)
    if set(found) != {"on", "off"} or not all(found.values()):
        return {}
    on, off = found["on"], found["off"]
    tokens = "tokens through the policy"
    return {
        LOG_PROBS: (on[tokens] - off[tokens]) / (on["time"] - off["time"]),
        UPDATE: off[tokens] / off["time"],
    }


def check(step: dict[str, float], rate: dict[str, float]) -> list[str]:
    """The rates of one benchmark against the times of another, at one GPU."""
    scored = step["scoring by TRL: tokens"] + step["scoring by us: tokens"]
    lines: list[str] = []
    for phase, tokens in ((LOG_PROBS, scored), (UPDATE, step["update: tokens"])):
        predicted = tokens / rate[phase]
        ratio = predicted / step[phase] if step[phase] else float("nan")
        lines.append(
            f"  {phase:<12} {tokens:>9,.0f} tokens: predicted {predicted:6.2f} s, measured {step[phase]:6.2f} s"
            f" ({ratio:.2f})"
        )
    return lines


def bandwidth(gpus: int, options: argparse.Namespace) -> float:
    return (options.nvlink if gpus <= 8 else options.network) * BILLION


def table(step: dict[str, float], options: argparse.Namespace) -> list[str]:
    """Seconds of a step on 1, 8 and 1,024 GPUs, and what travels."""
    alone = {phase: step[phase] for phase in PHASES}
    header = ["GPUs", "completions", *PHASES, "reduce", "gather if split", "step", "efficiency", "gathered if split"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    total_alone = sum(alone.values())
    for gpus in options.gpus:
        completions = gpus * options.completions
        share = (gpus - 1) / gpus
        reduced = 2 * share * options.parameters * BILLION * options.gradient_bytes
        gathered = completions * (9 * options.tokens + 4)
        speed = bandwidth(gpus, options)
        total = total_alone + reduced / speed
        cells = [f"{gpus:,}", f"{completions:,}", *(f"{seconds:.2f}" for seconds in alone.values())]
        cells += [f"{reduced / speed:.2f}", f"{share * gathered / speed:.3f}", f"{total:.2f} s"]
        cells += [f"{total_alone / total:.0%}", f"{gathered / 1e6:,.0f} MB a GPU"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--model", default="qwen", help="part of the name of the measured step's model")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 1024])
    parser.add_argument("--completions", type=int, default=256, help="of a GPU in a step, as measured")
    parser.add_argument("--tokens", type=int, default=300, help="of the longest completion")
    parser.add_argument("--parameters", type=float, default=1.78, help="trained, in billions")
    parser.add_argument("--gradient-bytes", type=int, default=4, help="of a parameter's gradient: 4 in fp32")
    parser.add_argument("--nvlink", type=float, default=450.0, help="GB/s of a GPU in one direction, up to 8")
    parser.add_argument("--network", type=float, default=50.0, help="GB/s of a GPU in one direction, beyond")
    options = parser.parse_args()
    rows = load(options.results)
    rate = rates(latest(rows, "update"))
    if rate:
        sys.stdout.write(f"tokens/s on one GPU: {rate[LOG_PROBS]:,.0f} scored, {rate[UPDATE]:,.0f} trained\n")
    steps = latest(rows, "step")
    for size in dict.fromkeys(row.size for row in steps if options.model in row.size.lower() and "full" in row.size):
        sys.stdout.write(f"\n{size}\n")
        for provider in dict.fromkeys(row.provider for row in steps if row.size == size):
            step = measured(steps, provider, size)
            limit = re.search(r"limit (\d+)", size)
            shares = shares_of_peak(step, int(limit[1]) if limit else options.tokens)
            texts = [f"{phase} {share:.0%}" for phase, share in shares.items()]
            sys.stdout.write(f"  {provider}: {step['whole step']:.2f} s; of the peak: {', '.join(texts)}\n")
        step = measured(steps, "GTPO", size)
        if "scoring by TRL: tokens" in step:
            sys.stdout.write("\n".join([*(check(step, rate) if rate else []), *table(step, options)]) + "\n")
    if not steps:
        sys.stdout.write(f"{options.results} holds no measured step: run benchmarks/bench_step.py first.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
