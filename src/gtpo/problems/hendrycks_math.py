r"""MATH: 12,500 competition problems of seven subjects and five levels (arXiv:2103.03874); and MATH-500.

MATH-500 is a subset of the test split of MATH: never report both as independent.

A row of EleutherAI/hendrycks_math on the hub, with one config per subject. The answer is the last \boxed{} of the
solution:

    problem   How many vertical asymptotes does the graph of $y=\frac{2}{x^2+x-6}$ have?
    level     Level 3
    type      Algebra
    solution  … Therefore, the graph has $\boxed{2}$ vertical asymptotes.
"""

from gtpo.errors import DataError
from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.rows import Row, optional_text, parse_level, text_field
from gtpo.text import boxed

SUBJECTS = {
    "algebra": "Algebra",
    "counting_and_probability": "Counting & Probability",
    "geometry": "Geometry",
    "intermediate_algebra": "Intermediate Algebra",
    "number_theory": "Number Theory",
    "prealgebra": "Prealgebra",
    "precalculus": "Precalculus",
}


def read_math_row(row: Row, place: str, split: str) -> Problem | None:
    r"""Turn a row into a Problem; None if the \boxed{} is empty, as in two rows of the published train split."""
    solution = text_field(row, "solution", place)
    answer = boxed(solution)
    if answer is None:
        raise DataError(f"{place}: the solution has no closed \\boxed{{}} with the answer. Fix or delete the row.")
    if not answer:
        return None
    subject = text_field(row, "type", place)
    question = text_field(row, "problem", place)
    level = parse_level(row.get("level"))
    return Problem(question, answer, f"math/{split}/{subject}", solution, subject, level)


def read_math500_row(row: Row, place: str, split: str) -> Problem:
    """Turn a row into a Problem. MATH-500 has columns for the answer and the subject."""
    return Problem(
        question=text_field(row, "problem", place),
        answer=text_field(row, "answer", place),
        source=f"math500/{row.get('unique_id') or split}",
        solution=optional_text(row, "solution") or "",
        subject=text_field(row, "subject", place),
        level=parse_level(row.get("level")),
    )


def subject_of(source: str) -> str | None:
    """The subject in "math/test/Algebra" or "math500/test/precalculus/807.json"."""
    names = SUBJECTS | {name: name for name in SUBJECTS.values()}
    return next((names[part] for part in source.split("/") if part in names), None)


SETS = (
    ProblemSet(
        name="math",
        hub="EleutherAI/hendrycks_math",
        configs=tuple(SUBJECTS),
        read_row=read_math_row,
        splits={"train": "train", "test": "test"},
        files={"train": ("math_train_clean.jsonl", "math_train.jsonl"), "test": ("math_test.jsonl",)},
        subject_of=subject_of,
    ),
    ProblemSet(
        name="math500",
        hub="HuggingFaceH4/MATH-500",
        read_row=read_math500_row,
        splits={"test": "test"},
        files={"test": ("math500.jsonl",)},
        subject_of=subject_of,
    ),
)
