"""The generated files in docs/results/tables, and the generated parts of pages that people write.

A table file is written as a whole. In a written page, the part NAME is between <!-- NAME --> and <!-- /NAME -->.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from gtpo.errors import DataError

ON_PAIRS = (
    "Each row compares a method with another over the seeds that both have: their means, the mean difference, its "
    "95 % interval (the wider of Student's and the bootstrap's), the number of pairs, the exact p of the sign-flip "
    "test (from eight pairs on), the verdict, and how many more seeds would show a difference of this size four times "
    "in five. Counts of runs are compared by Fisher's exact test."
)
ON_PROBLEMS = (
    "Intervals are a bootstrap over problems, with the seeds averaged per problem. They say how far the result "
    "carries over to other problems, not to other runs."
)


class TablePage(NamedTuple):
    """A file of tables: its title, the page that it belongs to, a note, and its parts by heading."""

    title: str
    page: str
    note: str
    parts: Mapping[str, str]


TABLE_PAGES: Mapping[str, TablePage] = {
    "lab-runs.md": TablePage(
        "Lab runs",
        "../../../experiments/README.md",
        "After training: 128 held-out problems × 32 samples at the temperature of the setting. Means over seeds. "
        "experiments/data/lab_runs.csv has every run, with its seconds, machine, versions and commit.",
        {"Means of every method": "lab-runs"},
    ),
    "qwen-runs.md": TablePage(
        "Qwen runs",
        "../../../experiments/README.md",
        'Values at the end of training. "collapsed" is the verdict of `gtpo health` on the last step; on the test '
        "problems, no run is below half of the untrained model either.",
        {"Every run": "real-runs"},
    ),
    "claim-1.md": TablePage(
        "Claim 1: tables",
        "../claim-1-accuracy.md",
        ON_PAIRS,
        {"Lab": "lab-claim-1", "Qwen2.5-Coder-1.5B in training": "real-seeds"},
    ),
    "claim-2.md": TablePage("Claim 2: tables", "../claim-2-format.md", ON_PAIRS, {"Lab": "lab-claim-2"}),
    "claim-3.md": TablePage(
        "Claim 3: tables",
        "../claim-3-collapse.md",
        f'{ON_PAIRS} For entropy, "holds" means lower.',
        {"Lab": "lab-claim-3"},
    ),
    "claim-4.md": TablePage(
        "Claim 4: tables",
        "../claim-4-parts.md",
        f'{ON_PAIRS} "better" and "worse" are about the first method; entropy is "lower" or "higher".',
        {"Lab": "lab-claim-4"},
    ),
    "claim-5.md": TablePage(
        "Claim 5: tables",
        "../claim-5-pass-at-k.md",
        ON_PAIRS,
        {
            "Lab": "lab-claim-5",
            "Qwen2.5-Coder-1.5B over seeds": "real-tests",
            "Qwen2.5-Coder-1.5B on GSM8K, pair by pair, intervals over problems": "real-pairs",
        },
    ),
    "qwen-problems.md": TablePage(
        "Qwen: every comparison over problems",
        "../claim-5-pass-at-k.md",
        f'{ON_PROBLEMS} "runs" counts those of the first and of the second method. Two RL methods are compared over '
        "the seeds in which both were evaluated on the set.",
        {"Differences": "real-differences"},
    ),
    "qwen-evaluations.md": TablePage(
        "Qwen: every evaluation",
        "../claim-5-pass-at-k.md",
        "In brackets: bootstrap 95 % intervals over problems. In parentheses: the number of seeds.",
        {"By problem set": "real-evaluations", "In the layout of the paper's table 1": "real-table-1"},
    ),
    "mechanism.md": TablePage(
        "Shared tokens and similar completions: tables",
        "../mechanism.md",
        "In brackets: bootstrap 95 % intervals over problems. In parentheses: the number of seeds.",
        {
            "Similarity of 32 completions of a problem": "real-alike",
            "Tokens that good and bad completions share, in groups that have both": "shared",
        },
    ),
    "qwen-math.md": TablePage(
        "Qwen trained on MATH: tables",
        "../claim-3-collapse.md",
        "Qwen2.5-Coder-1.5B-Instruct, 50 steps on MATH, evaluated at temperature 0.9.",
        {"Training": "math-runs", "After training, seed by seed": "math-each", "Differences over seeds": "math-tests"},
    ),
    "math-500.md": TablePage("MATH-500 by kind of answer: tables", "../math-500.md", ON_PROBLEMS, {"pass@1": "whole"}),
}


def table_files(parts: Mapping[str, str], looks: str) -> dict[str, str]:
    """The text of every generated file by its name, and an index of them. A page without parts is left out."""
    pages = {name: page for name, page in TABLE_PAGES.items() if any(part in parts for part in page.parts.values())}
    files = {name: _text(page, parts) for name, page in pages.items()}
    listed = "\n".join(f"- [{page.title}]({name})" for name, page in pages.items())
    note = "Every table behind the [results](../../results.md), generated from experiments/data by"
    files["README.md"] = f"# Tables\n\n{note} `python -m experiments.present`.\n\n{listed}\n\n{looks}\n"
    return files


def _text(page: TablePage, parts: Mapping[str, str]) -> str:
    origin = f"Generated by `python -m experiments.present` for [this page]({page.page})."
    sections = [f"## {heading}\n\n{parts[part]}" for heading, part in page.parts.items()]
    return "\n\n".join([f"# {page.title}", page.note, origin, *sections]) + "\n"


def insert(text: str, parts: Mapping[str, str]) -> str:
    """The page with the generated parts between their markers. Every part must have markers.

    >>> insert("<!-- a -->old<!-- /a -->", {"a": "new"})
    '<!-- a -->\\nnew\\n<!-- /a -->'
    """
    for name, part in parts.items():
        markers = re.compile(rf"(<!-- {re.escape(name)} -->).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not markers.search(text):
            raise DataError(f"The document has no markers for {name}. Add <!-- {name} --><!-- /{name} --> to it.")
        text = markers.sub(lambda match, part=part: f"{match[1]}\n{part}\n{match[2]}", text)
    return text
