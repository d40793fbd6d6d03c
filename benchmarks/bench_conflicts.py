"""The conflict search against dense tables (the method of the paper's released code) and plain Python loops.

    python benchmarks/bench_conflicts.py --append benchmarks/results.csv       # the GPU if there is one, and the CPU
    python benchmarks/bench_conflicts.py --size tiny                           # a CPU, seconds

Groups share beginnings and endings as rollouts do; "identical" is the worst case, a group of equal completions. Every
provider must find the same tokens. Scaling is over groups, G and T around the shape 32 × 16 × 4096.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from results import Result, exponent, report, result
from torch import Tensor

import gtpo

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the root of the repository
from tests.oracle import paper

VOCABULARY = 151936
OURS, DENSE, LOOPS = "gtpo.conflict_mask", "dense tables", "Python loops"


@dataclass(frozen=True)
class Shape:
    groups: int
    size: int
    tokens: int
    kind: str = "typical"

    @property
    def label(self) -> str:
        return f"{self.groups} × {self.size} × {self.tokens}" + (", identical" if self.kind == "identical" else "")


GOAL = Shape(32, 16, 4096)


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    mask: Tensor
    advantages: Tensor
    group_ids: Tensor


def make_batch(shape: Shape, device: str) -> Batch:
    """Random tokens between shared beginnings of up to 40 tokens and shared endings of up to 20."""
    generator = torch.Generator().manual_seed(0)
    num_rows, position = shape.groups * shape.size, torch.arange(shape.tokens)

    def draw(low: int, high: int, *size: int) -> Tensor:
        return torch.randint(low, high + 1, size, generator=generator)

    def per_group(values: Tensor) -> Tensor:
        return values.repeat_interleave(shape.size, 0)

    ids = draw(1, VOCABULARY - 1, num_rows, shape.tokens)
    length = draw(max(1, shape.tokens // 4), shape.tokens, num_rows, 1)
    advantages = draw(0, 1, num_rows).float() * 2 - 1
    opening, ending = (per_group(draw(1, VOCABULARY - 1, shape.groups, shape.tokens)) for _ in range(2))
    if shape.kind == "identical":
        ids, length = opening.clone(), torch.full_like(length, shape.tokens)
        advantages = (torch.arange(num_rows) % 2).float() * 2 - 1
    else:
        back = length - 1 - position
        is_ending = (back >= 0) & (back < draw(0, 20, num_rows, 1))
        ids = torch.where(is_ending, ending.gather(1, back.clamp(0, shape.tokens - 1)), ids)
        ids = torch.where(position < draw(0, 40, num_rows, 1), opening, ids)
    mask = position < length
    parts = (ids * mask, mask.long(), advantages, per_group(torch.arange(shape.groups)))
    return Batch(*(part.to(device) for part in parts))


def dense(batch: Batch) -> Tensor:
    """The method of the released code: a table of V × T counts for each sign, group by group, from both ends."""
    found = torch.zeros_like(batch.mask, dtype=torch.bool)
    position = torch.arange(batch.ids.shape[1], device=batch.ids.device)
    for group in batch.group_ids.unique().tolist():
        rows = (batch.group_ids == group).nonzero().squeeze(1)
        ids, inside, sign = batch.ids[rows], batch.mask[rows].bool(), batch.advantages[rows].sign()
        length = inside.sum(1, keepdim=True)
        turned = ids.gather(1, (length - 1 - position).clamp(min=0))
        first, last = (_dense_run(aligned, inside, sign, position) for aligned in (ids, turned))
        found[rows] = inside & ((position < first) | (position >= length - last))
    return found


def _dense_run(ids: Tensor, inside: Tensor, sign: Tensor, position: Tensor) -> Tensor:
    keys = position * VOCABULARY + ids
    size = VOCABULARY * ids.shape[1]
    good, bad = (torch.bincount(keys[inside & (sign == s).unsqueeze(1)], minlength=size) > 0 for s in (1, -1))
    hit = (good & bad)[keys] & inside & (sign != 0).unsqueeze(1)
    return hit.int().cumprod(1).sum(1, keepdim=True)


def loops(batch: Batch) -> Tensor:
    """The definition in plain Python (tests/oracle), one group at a time."""
    lengths = batch.mask.sum(1).tolist()
    rows = [
        paper.Completion(ids[:length], advantage, group)
        for ids, length, advantage, group in zip(
            batch.ids.tolist(), lengths, batch.advantages.tolist(), batch.group_ids.tolist(), strict=True
        )
    ]
    found = torch.zeros(batch.mask.shape, dtype=torch.bool)
    for number, row in enumerate(rows):
        group = [other for other in rows if other.group == row.group]
        found[number, : len(row.tokens)] = torch.tensor(paper.conflicts(group, row, "both", "position"))
    return found.to(batch.mask.device)


def ours(batch: Batch) -> Tensor:
    return gtpo.conflict_mask(batch.ids, batch.mask, batch.advantages, batch.group_ids)


PROVIDERS: dict[str, Callable[[Batch], Tensor]] = {OURS: ours, DENSE: dense, LOOPS: loops}


def measure(shape: Shape, device: str, providers: Sequence[str], repeats: int) -> list[Result]:
    """Time, and on a GPU also memory beyond the inputs. Every provider must agree with the first."""
    batch = make_batch(shape, device)
    expected = PROVIDERS[providers[0]](batch)
    rows: list[Result] = []
    for provider in providers:
        find = PROVIDERS[provider]
        assert find(batch).equal(expected), f"{provider} disagrees on {shape.label}"
        _wait(device)
        before = torch.cuda.memory_allocated() if device == "cuda" else 0
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        times: list[float] = []
        for _ in range(repeats if provider == OURS else min(repeats, 3)):
            _wait(device)
            start = time.perf_counter()
            find(batch)
            _wait(device)
            times.append(1e3 * (time.perf_counter() - start))
        label = f"{shape.label}, {device}"
        rows.append(result("conflicts", provider, label, "time", times, "ms", device))
        if device == "cuda":
            peak = (torch.cuda.max_memory_allocated() - before) / 1e6
            rows.append(result("conflicts", provider, label, "memory beyond the inputs", [peak], "MB"))
    return rows


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def scaling(device: str, repeats: int, base: Shape) -> list[Result]:
    """Our search over groups, G and T, each varied around the base shape, with the exponent of each."""
    sweeps = {
        "groups": [Shape(base.groups * n // 4, base.size, base.tokens) for n in (1, 4, 16)],
        "G": [Shape(base.groups, base.size * n // 4, base.tokens) for n in (1, 2, 4, 8)],
        "T": [Shape(base.groups, base.size, base.tokens * n // 4) for n in (1, 2, 4, 8)],
    }
    amounts = {"groups": lambda shape: shape.groups, "G": lambda shape: shape.size, "T": lambda shape: shape.tokens}
    rows: list[Result] = []
    for name, shapes in sweeps.items():
        found = [measure(shape, device, [OURS], repeats) for shape in shapes]
        rows += [row for group in found for row in group]
        slope = exponent([amounts[name](shape) for shape in shapes], [group[0].median for group in found])
        label = f"around {base.label}, {device}"
        rows.append(result("conflicts", OURS, label, f"exponent in {name}", [slope], "", device))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    options = parser.parse_args()
    everyone = [OURS, DENSE, LOOPS]
    if options.size == "tiny":
        rows = measure(Shape(2, 4, 64), "cpu", everyone, 3) + scaling("cpu", 3, Shape(4, 4, 64))
        report(rows, options.append)
        return
    if torch.cuda.is_available():
        report(measure(Shape(8, 8, 1024), "cuda", everyone, options.repeats), options.append)
        report(measure(GOAL, "cuda", everyone, options.repeats), options.append)
        identical = Shape(GOAL.groups, GOAL.size, GOAL.tokens, "identical")
        report(measure(identical, "cuda", [OURS], options.repeats), options.append)
        report(scaling("cuda", options.repeats, GOAL), options.append)
    report(measure(Shape(2, 8, 512), "cpu", everyone, 3), options.append)
    report(measure(GOAL, "cpu", [OURS, LOOPS], 3), options.append)
    report(scaling("cpu", 3, Shape(8, 8, 1024)), options.append)


if __name__ == "__main__":
    main()
