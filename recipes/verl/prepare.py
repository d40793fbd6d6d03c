"""train.parquet and test.parquet as verl wants them.

They are built from a problem set with a train and a test split: gsm8k, math, lab.

python recipes/verl/prepare.py gsm8k [FOLDER]
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from gtpo.problems import load_problems, to_messages


def rows(name: str, split: str) -> Iterator[dict[str, Any]]:
    for index, problem in enumerate(load_problems(name, split=split)):
        yield {
            "data_source": problem.source,
            "prompt": to_messages(problem),
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"index": index, "question": problem.question},
        }


if __name__ == "__main__":
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    for split in ("train", "test"):
        pd.DataFrame(rows(sys.argv[1], split)).to_parquet(folder / f"{split}.parquet")
