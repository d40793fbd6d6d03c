r"""The problem sets that the package knows, and what turns their published answers into final answers.

gsm8k           8.5K grade school word problems whose answers are integers (arXiv:2110.14168)
math            12,500 competition problems of seven subjects and five levels (arXiv:2103.03874)
math500         500 problems of the test split of math: never report both as independent
aime24, aime25  thirty problems each, answers from 0 to 999; the problem texts are the MAA's
amc23           the forty problems of AMC 12 whose answers are integers; the problem texts are the MAA's
"""

import re
from dataclasses import replace

from gtpo.errors import DataError
from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.text import boxed

MATH_SUBJECTS = {
    "algebra": "Algebra",
    "counting_and_probability": "Counting & Probability",
    "geometry": "Geometry",
    "intermediate_algebra": "Intermediate Algebra",
    "number_theory": "Number Theory",
    "prealgebra": "Prealgebra",
    "precalculus": "Precalculus",
}


def after_marker(problem: Problem) -> Problem:
    """The answer after the #### of GSM8K; the solution before it loses its calculator annotations.

    >>> problem = after_marker(Problem("Clips?", "He sold 48/2 = <<48/2=24>>24. #### 24", "gsm8k"))
    >>> problem.answer, problem.solution
    ('24', 'He sold 48/2 = 24.')
    """
    solution, marker, answer = problem.answer.rpartition("####")
    if not marker:
        return problem
    solution = re.sub(r"<<.*?>>", "", solution).strip()
    return replace(problem, answer=answer.strip().replace(",", ""), solution=solution)


def in_box(problem: Problem) -> Problem:
    r"""The answer in the last \boxed{} of a solution of MATH. It is "" in two rows of the train split."""
    if problem.answer != problem.solution:
        return with_subject(problem)  # a row of a local copy that has a column for the answer
    answer = boxed(problem.solution)
    if answer is None:
        raise DataError("the solution has no closed \\boxed{} with the answer. Fix or delete the row.")
    return replace(problem, answer=answer, source=f"{problem.source}/{problem.subject}")


def with_subject(problem: Problem) -> Problem:
    """Take a missing subject from the source: "math/test/Algebra" or "math500/test/precalculus/807.json"."""
    names = MATH_SUBJECTS | {name: name for name in MATH_SUBJECTS.values()}
    subject = next((names[part] for part in problem.source.split("/") if part in names), None)
    return replace(problem, subject=problem.subject or subject)


def plain_integer(problem: Problem) -> Problem:
    """An integer without leading zeros and ".0": AIME publishes 025 for 25, and some mirrors of AMC 27.0.

    >>> [plain_integer(Problem("?", answer, "aime24")).answer for answer in ("025", "000", "27.0")]
    ['25', '0', '27']
    """
    answer = problem.answer.removesuffix(".0")
    return replace(problem, answer=str(int(answer)) if answer.isascii() and answer.isdecimal() else answer)


_SETS = (
    ProblemSet(
        name="aime24",
        hub="HuggingFaceH4/aime_2024",
        columns={"question": "problem", "source": "url"},
        splits={"test": "train"},
        files={"test": ("aime24.jsonl",)},
        finish=plain_integer,
    ),
    ProblemSet(
        name="aime25",
        hub="math-ai/aime25",
        columns={"question": "problem", "source": "id"},
        files={"test": ("aime25.jsonl",)},
        finish=plain_integer,
    ),
    ProblemSet(
        name="amc23",
        hub="math-ai/amc23",
        columns={"source": "url"},
        files={"test": ("amc23_40.jsonl", "amc23.jsonl")},
        finish=plain_integer,
    ),
    ProblemSet(
        name="gsm8k",
        hub="openai/gsm8k",
        configs=("main",),
        files={"train": ("gsm8k_train.jsonl",), "test": ("gsm8k_test.jsonl",)},
        finish=after_marker,
    ),
    ProblemSet(
        name="math",
        hub="EleutherAI/hendrycks_math",
        configs=tuple(MATH_SUBJECTS),
        columns={"question": "problem", "answer": "solution", "subject": "type"},
        files={"train": ("math_train_clean.jsonl", "math_train.jsonl"), "test": ("math_test.jsonl",)},
        finish=in_box,
    ),
    ProblemSet(
        name="math500",
        hub="HuggingFaceH4/MATH-500",
        columns={"question": "problem", "source": "unique_id"},
        files={"test": ("math500.jsonl",)},
        finish=with_subject,
    ),
)

PROBLEM_SETS = {problem_set.name: problem_set for problem_set in _SETS}
