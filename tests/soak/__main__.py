"""`python -m tests.soak --rounds N --seed N`: break and resume short runs, and print what survived."""

import argparse
import collections
import random
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each kind of fault")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    from tests.soak.rounds import ROUNDS, Soak, soak_test
    from tests.tiny import save_tiny_model

    tried: collections.Counter[str] = collections.Counter()
    lost: collections.Counter[str] = collections.Counter()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        save_tiny_model(f"{folder}/model")
        for name, loss in soak_test(Soak(Path(folder), f"{folder}/model", random.Random(args.seed)), args.rounds):
            tried[name] += 1
            lost[name] += loss is not None
            if loss is not None:
                sys.stderr.write(f"LOST: {name}: {loss}\n")
    sys.stdout.write("| fault | tried | survived | lost |\n| --- | --- | --- | --- |\n")
    for name in ROUNDS:
        sys.stdout.write(f"| {name} | {tried[name]} | {tried[name] - lost[name]} | {lost[name]} |\n")
    seconds = time.monotonic() - start
    sys.stdout.write(f"\n{tried.total()} runs, seed {args.seed}, {seconds:.0f} s\n")
    return 1 if lost.total() else 0


if __name__ == "__main__":
    sys.exit(main())
