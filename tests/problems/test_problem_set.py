"""Named problem sets, from data sets with the columns of the hub and from folders of JSONL files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gtpo.errors import DataError
from gtpo.problems import Problem, ProblemSet, load_problems
from gtpo.problems.sets import MATH_SUBJECTS
from tests.problems.jsonl import write_jsonl

Hub = Callable[[str, str | None, str, list[dict[str, Any]]], None]


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GTPO_DATA", raising=False)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub of local Parquet files: ids, configs, splits and columns as on the real one, read by the real library."""
    files: dict[tuple[str, str | None, str], str] = {}
    load = datasets.load_dataset

    def publish(name: str, config: str | None, split: str, rows: list[dict[str, Any]]) -> None:
        path = tmp_path / f"{len(files)}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        files[name, config, split] = str(path)

    def load_published(name: str, config: str | None = None, *, split: str) -> Any:
        if (name, config, split) not in files:
            raise ConnectionError(f"no {name}")
        return load("parquet", data_files=files[name, config, split], split="train", cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", load_published)
    return publish


def math_row(problem: str, solution: str, subject: str = "Algebra", level: str = "Level 3") -> dict[str, str]:
    return {"problem": problem, "level": level, "type": subject, "solution": solution}


def test_gsm8k_from_the_hub(hub: Hub):
    hub("openai/gsm8k", "main", "test", [{"question": "Clips?", "answer": "48/2 = <<48/2=24>>24.\nSo:\n#### 1,072"}])
    assert load_problems("gsm8k") == [Problem("Clips?", "1072", "gsm8k/test", "48/2 = 24.\nSo:")]


def test_math_from_the_hub_has_seven_subjects_levels_and_nested_boxes(hub: Hub):
    for config, subject in MATH_SUBJECTS.items():
        solution = r"First \boxed{1}, no: $\boxed{\frac{1}{\sqrt{2}}}$."
        hub("EleutherAI/hendrycks_math", config, "test", [math_row(f"A {subject} question", solution, subject)])
    problems = load_problems("math")
    assert [problem.subject for problem in problems] == list(MATH_SUBJECTS.values())
    assert len(problems) == 7
    assert {problem.answer for problem in problems} == {r"\frac{1}{\sqrt{2}}"}
    assert {problem.level for problem in problems} == {3}
    assert problems[1].source == "math/test/Counting & Probability"


def test_math_train_drops_blank_answers_repetitions_and_test_questions(hub: Hub, caplog: pytest.LogCaptureFixture):
    for config in MATH_SUBJECTS:
        is_first = config == "algebra"
        rows = [math_row(f"{config} {n}", rf"\boxed{{{n}}}", level="Level ?") for n in range(3)]
        extra = [math_row("blank", r"\boxed{}"), math_row("algebra 1", r"\boxed{1}"), math_row("asked", r"\boxed{4}")]
        hub("EleutherAI/hendrycks_math", config, "train", rows + (extra if is_first else []))
        hub("EleutherAI/hendrycks_math", config, "test", [math_row("asked" if is_first else config, r"\boxed{4}")])
    problems = load_problems("math", split="train")
    assert [problem.question for problem in problems[:4]] == [
        "algebra 0",
        "algebra 1",
        "algebra 2",
        f"{list(MATH_SUBJECTS)[1]} 0",
    ]
    assert len(problems) == 21
    assert problems[0].level is None
    assert "Dropped 3 rows of EleutherAI/hendrycks_math" in caplog.text


def test_math500_from_the_hub(hub: Hub):
    row = {
        "problem": "Q",
        "solution": "S",
        "answer": r"\pi",
        "subject": "Precalculus",
        "level": 2,
        "unique_id": "test/1",
    }
    hub("HuggingFaceH4/MATH-500", None, "test", [row])
    assert load_problems("math500") == [Problem("Q", r"\pi", "math500/test/1", "S", "Precalculus", 2)]


def test_aime_and_amc_from_the_hub(hub: Hub):
    aime24 = {"id": 60, "problem": "Q", "solution": "S", "answer": "025", "url": "wiki/1", "year": "2024"}
    hub("HuggingFaceH4/aime_2024", None, "train", [aime24])
    hub("math-ai/aime25", None, "test", [{"problem": "Q", "answer": "70", "id": "0"}])
    hub("math-ai/amc23", None, "test", [{"id": 0, "answer": 27.0, "url": "wiki/2", "question": "Q"}])
    assert load_problems("aime24") == [Problem("Q", "25", "aime24/wiki/1", "S")]
    assert load_problems("aime25") == [Problem("Q", "70", "aime25/0")]
    assert load_problems("amc23") == [Problem("Q", "27", "amc23/wiki/2")]


FOLDER = {
    ("gsm8k", "train"): "gsm8k_train.jsonl",
    ("gsm8k", "test"): "gsm8k_test.jsonl",
    ("math", "train"): "math_train_clean.jsonl",
    ("math", "test"): "math_test.jsonl",
    ("math500", "test"): "math500.jsonl",
    ("aime24", "test"): "aime24.jsonl",
    ("aime25", "test"): "aime25.jsonl",
    ("amc23", "test"): "amc23_40.jsonl",
}


@pytest.mark.parametrize(("name", "split"), FOLDER)
def test_every_set_loads_from_a_folder(name: str, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [{"question": f"Q{n}", "answer": str(n), "solution": "", "source": f"{name}/{n}"} for n in range(3)]
    write_jsonl(tmp_path / FOLDER[name, split], *rows)
    expected = [Problem(f"Q{n}", str(n), f"{name}/{n}") for n in range(3)]
    assert load_problems(name, split=split, data_dir=tmp_path) == expected
    monkeypatch.setenv("GTPO_DATA", str(tmp_path))
    assert load_problems(name, split=split, limit=2) == expected[:2]


def test_subjects_and_levels_come_from_the_file(tmp_path: Path):
    row = {"question": "Q", "answer": "1", "solution": "S", "level": "Level 4"}
    write_jsonl(tmp_path / "math_test.jsonl", row | {"source": "math/test/Number Theory"})
    write_jsonl(tmp_path / "math500.jsonl", row | {"source": "math500/test/number_theory/807.json"})
    for name in ("math", "math500"):
        (problem,) = load_problems(name, data_dir=tmp_path)
        assert (problem.subject, problem.level) == ("Number Theory", 4)


def test_a_folder_may_hold_rows_with_the_columns_of_the_hub(tmp_path: Path):
    write_jsonl(
        tmp_path / "gsm8k_test.jsonl",
        {"question": "Clips?", "answer": "48/2 = <<48/2=24>>24.\n#### 1,072"},
        {"question": "More?", "answer": "7"},
    )
    write_jsonl(
        tmp_path / "math_test.jsonl", math_row("Half?", "It is $\\boxed{\\frac{1}{2}}$."), math_row("?", "\\boxed{}")
    )
    assert [problem.answer for problem in load_problems("gsm8k", data_dir=tmp_path)] == ["1072", "7"]
    assert load_problems("gsm8k", data_dir=tmp_path)[0].solution == "48/2 = 24."
    math = load_problems("math", data_dir=tmp_path)
    assert [(problem.answer, problem.subject, problem.level) for problem in math] == [("\\frac{1}{2}", "Algebra", 3)]


def test_leading_zeros_of_an_aime_answer_are_dropped(tmp_path: Path):
    write_jsonl(tmp_path / "aime25.jsonl", *({"problem": "Q", "answer": answer} for answer in ("025", "000")))
    assert [problem.answer for problem in load_problems("aime25", data_dir=tmp_path)] == ["25", "0"]


def test_the_error_for_a_broken_row_of_the_hub_names_the_row(hub: Hub):
    hub("openai/gsm8k", "main", "test", [{"question": "Q", "answer": None}])
    with pytest.raises(
        DataError, match=r"openai/gsm8k \(main\), split test, row 0: the column 'answer' must hold text"
    ):
        load_problems("gsm8k")
    for config in MATH_SUBJECTS:
        hub("EleutherAI/hendrycks_math", config, "test", [math_row("Q", r"open \boxed{1")])
    with pytest.raises(DataError, match=r"hendrycks_math \(algebra\), split test, row 0: the solution has no closed"):
        load_problems("math")


def test_the_error_for_an_unreachable_hub_names_the_alternatives(hub: Hub):
    with pytest.raises(DataError, match=r"Could not load openai/gsm8k from the hub .*data_dir or GTPO_DATA"):
        load_problems("gsm8k")


def test_the_error_for_a_folder_without_the_file_names_the_file(tmp_path: Path):
    with pytest.raises(DataError, match=r"has no amc23_40.jsonl or amc23.jsonl for amc23 \(test\)"):
        load_problems("amc23", data_dir=tmp_path)


def test_a_set_may_name_its_splits_and_columns_differently(hub: Hub, tmp_path: Path):
    sums = ProblemSet(
        "sums", "me/sums", {"test": ("sums.jsonl",)}, {"question": "sum", "answer": "total"}, {"test": "validation"}
    )
    hub("me/sums", None, "validation", [{"sum": "0 + 1", "total": 1}])
    assert sums.load("test") == [Problem("0 + 1", "1", "sums/test")]
    path = write_jsonl(tmp_path / "sums.jsonl", {"sum": "1 + 2", "total": 3}, {"question": "2 + 2", "answer": 4})
    expected = [Problem("1 + 2", "3", "sums/test"), Problem("2 + 2", "4", "sums/test")]
    assert sums.load("test", data_dir=tmp_path) == expected
    write_jsonl(path, {"sum": "3 + 4", "result": 7})
    with pytest.raises(DataError) as error:
        sums.load("test", data_dir=tmp_path)
    assert f"{path}, line 1: this row has no 'total', only sum, result" in str(error.value)
