"""Problem sets by name, from files of the hub's form and from folders of JSONL files."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gtpo.problems
from gtpo.errors import ConfigError, DataError
from gtpo.problems import Problem, load_problems, problem_sets, to_dataset
from gtpo.problems.hendrycks_math import SUBJECTS
from gtpo.problems.local import parse_columns

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


def write_jsonl(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n", encoding="utf-8"
    )
    return path


def math_row(problem: str, solution: str, subject: str = "Algebra", level: str = "Level 3") -> dict[str, str]:
    return {"problem": problem, "level": level, "type": subject, "solution": solution}


def test_gsm8k_from_the_hub(hub: Hub):
    hub("openai/gsm8k", "main", "test", [{"question": "Clips?", "answer": "48/2 = <<48/2=24>>24.\nSo:\n#### 1,072"}])
    assert load_problems("gsm8k") == [Problem("Clips?", "1072", "gsm8k/test", "48/2 = 24.\nSo:")]


def test_math_from_the_hub_has_seven_subjects_levels_and_nested_boxes(hub: Hub):
    for config, subject in SUBJECTS.items():
        solution = r"First \boxed{1}, no: $\boxed{\frac{1}{\sqrt{2}}}$."
        hub("EleutherAI/hendrycks_math", config, "test", [math_row(f"A {subject} question", solution, subject)])
    problems = load_problems("math")
    assert [problem.subject for problem in problems] == list(SUBJECTS.values())
    assert len(problems) == 7
    assert {problem.answer for problem in problems} == {r"\frac{1}{\sqrt{2}}"}
    assert {problem.level for problem in problems} == {3}
    assert problems[1].source == "math/test/Counting & Probability"


def test_math_train_leaves_out_blank_answers_repetitions_and_test_questions(
    hub: Hub, caplog: pytest.LogCaptureFixture
):
    for config in SUBJECTS:
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
        f"{list(SUBJECTS)[1]} 0",
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
def test_every_set_reads_its_file_of_a_folder(name: str, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [{"question": f"Q{n}", "answer": str(n), "solution": "", "source": f"{name}/{n}"} for n in range(3)]
    write_jsonl(tmp_path / FOLDER[name, split], *rows)
    expected = [Problem(f"Q{n}", str(n), f"{name}/{n}") for n in range(3)]
    assert load_problems(name, split=split, data_dir=tmp_path) == expected
    monkeypatch.setenv("GTPO_DATA", str(tmp_path))
    assert load_problems(name, split=split, limit=2) == expected[:2]


def test_subjects_and_levels_are_read_from_a_folder(tmp_path: Path):
    row = {"question": "Q", "answer": "1", "solution": "S", "level": "Level 4"}
    write_jsonl(tmp_path / "math_test.jsonl", row | {"source": "math/test/Number Theory"})
    write_jsonl(tmp_path / "math500.jsonl", row | {"source": "math500/test/number_theory/807.json"})
    for name in ("math", "math500"):
        (problem,) = load_problems(name, data_dir=tmp_path)
        assert (problem.subject, problem.level) == ("Number Theory", 4)


def test_a_folder_may_hold_rows_as_they_are_published(tmp_path: Path):
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


def test_an_aime_answer_of_any_length_is_read(tmp_path: Path):
    rows = [{"problem": "Q", "answer": answer} for answer in ("025", "000", "9" * 5000)]
    write_jsonl(tmp_path / "aime25.jsonl", *rows)
    assert [one.answer for one in load_problems("aime25", data_dir=tmp_path)] == ["25", "0", "9" * 5000]


def test_a_whole_solution_is_no_gold_answer(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"question": "?", "answer": "3 + 4 = 7\n#### 7"})
    with pytest.raises(DataError, match="line 1: the answer holds '####'"):
        load_problems(path)


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"question": "2 + 3?", "answer": 5}\r\n')
    assert load_problems(path) == [Problem("2 + 3?", "5", "mine")]


def test_what_a_data_frame_leaves_blank_is_missing(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", '{"question": "?", "answer": 5, "solution": NaN, "subject": NaN}')
    assert load_problems(path) == [Problem("?", "5", "mine")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"question": "?", "answer": "5"}\n{"question": "caf\xe9?", "answer": "5"}\n', "line 2: this is not UTF-8"),
        (b'[{"question": "?", "answer": "5"}]', "must be JSON Lines"),
        (b'[\n  {"question": "?", "answer": "5"}\n]', "must be JSON Lines"),
    ],
)
def test_a_file_of_another_form_is_an_error_that_says_so(content: bytes, complaint: str, tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        load_problems(path)


def test_a_local_file_with_columns_of_its_own(tmp_path: Path):
    rows = [{"task": "Q", "truth": 12, "kind": "Algebra"}, {"task": "R", "truth": "1/2", "kind": None}]
    columns = {"question": "task", "answer": "truth", "subject": "kind"}
    expected = [
        Problem("Q", "12", "own", subject="Algebra", others=rows[0]),
        Problem("R", "1/2", "own", others=rows[1]),
    ]
    path = write_jsonl(tmp_path / "own.jsonl", rows[0], "", rows[1])
    assert load_problems(str(path), columns=columns) == expected
    rows[0]["truth"] = "12"
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "own.parquet")
    assert load_problems(tmp_path / "own.parquet", columns=columns, limit=1) == expected[:1]


def write_rows(path: Path, *others: dict[str, Any]) -> Path:
    rows = [{"task": f"{i} + {i} = ?", "answer": 2 * i, **other} for i, other in enumerate(others)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_further_columns_of_a_file_are_kept_for_rewards(tmp_path: Path):
    path = write_rows(tmp_path / "a.jsonl", {"bonus": 0.5, "tags": ["x"], "images": 1}, {"bonus": 2.0, "prompt": "no"})
    problems = load_problems(str(path), columns={"question": "task"})
    assert [{**problem.others, "task": 0} for problem in problems] == [
        {"task": 0, "bonus": 0.5, "tags": ["x"]},
        {"task": 0, "bonus": 2.0},
    ]
    assert hash(problems[0]) != hash(problems[1])
    dataset = to_dataset(problems)
    assert dataset["bonus"][:] == [0.5, 2.0]
    assert dataset["tags"][:] == [["x"], None]
    assert dataset["task"][0] == "0 + 0 = ?"  # by its own name too
    assert not {"images", "others"} & set(dataset.column_names)
    assert dataset["prompt"][0][1] == {"role": "user", "content": "0 + 0 = ?"}


UNFIT = {
    "numbers and words": ({"bonus": 1}, {"bonus": "much"}),
    "an enormous number": ({"bonus": 10**30},),
    "lists and objects": ({"bonus": [1]}, {"bonus": {"a": 1}}),
    "half a character": ({"bonus": "\ud800"},),
}


@pytest.mark.parametrize("others", UNFIT.values(), ids=UNFIT.keys())
def test_a_column_that_no_data_set_takes_is_left_out_and_named(
    others: tuple[dict[str, Any], ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    problems = load_problems(str(write_rows(tmp_path / "a.jsonl", *others)), columns={"question": "task"})
    assert "bonus" not in to_dataset(problems).column_names
    assert "The column 'bonus' does not reach rewards" in caplog.text


def test_the_lab_is_asked_for_its_problems(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, int]] = []
    lab = ModuleType("gtpo.problems.lab")
    lab.lab_problems = lambda split, num_problems: asked.append((split, num_problems)) or []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gtpo.lab", ModuleType("gtpo.lab"))
    monkeypatch.setitem(sys.modules, "gtpo.problems.lab", lab)
    assert load_problems("lab", split="train", limit=5) == load_problems("lab") == []
    assert asked == [("train", 5), ("test", 256)]
    with pytest.raises(ConfigError, match="split of lab"):
        load_problems("lab", split="dev")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{not json", "line 2: this cannot be read as JSON"),
        (f'{{"question": "Q", "answer": {"1" * 5000}}}', "line 2: this cannot be read as JSON (it has a whole number"),
        ('{"question": "Q", "answer": ' + "[" * 200_000, "line 2: this cannot be read as JSON (its brackets nest"),
        ('{"question": "Q", "answer": 1, "level": 1' + "0" * 30 + "}", "line 2: the level must be at most 1000000000"),
        ('{"question": "Q", "answer": 1, "level": "' + "9" * 5000 + '"}', "line 2: the level must be at most"),
        (r'{"question": "\ud800 hi", "answer": 1}', "line 2: the column 'question' has half of a character"),
        (r'{"question": "Q", "answer": "\ud800"}', "line 2: the column 'answer' has half of a character"),
        (r'{"question": "Q", "answer": 1, "solution": "\udfff"}', "line 2: the column 'solution' has half"),
        ('["a list"]', "line 2: each line must be a JSON object"),
        ('{"question": "Q"}', "line 2: the column 'answer' must hold text, got only the columns question"),
        ('{"question": "Q", "answer": ""}', "line 2: the column 'answer' must hold text, got ''"),
        ('{"question": "Q", "answer": null}', "line 2: the column 'answer' must hold text, got None"),
        ('{"question": "Q", "answer": ["1"]}', "line 2: the column 'answer' must hold text"),
        ('{"question": "Q", "answer": true}', "line 2: the column 'answer' must hold text, got True"),
        ('{"question": "Q", "answer": NaN}', "line 2: the column 'answer' must hold text, got nan"),
        ('{"question": 7.5, "answer": {}}', "line 2: the column 'answer' must hold text"),
    ],
)
def test_a_broken_row_is_an_error_that_names_file_line_and_remedy(line: str, complaint: str, tmp_path: Path):
    path = write_jsonl(tmp_path / "gsm8k_test.jsonl", {"question": "Q", "answer": "1"}, line)
    for load in (lambda: load_problems(path), lambda: load_problems("gsm8k", data_dir=tmp_path)):
        with pytest.raises(DataError) as error:
            load()
        assert f"{path}, {complaint}" in str(error.value)
        assert "Mend" in str(error.value)


def test_a_broken_row_of_the_hub_is_an_error_that_names_it(hub: Hub):
    hub("openai/gsm8k", "main", "test", [{"question": "Q", "answer": "no marker"}])
    with pytest.raises(DataError, match=r"openai/gsm8k \(main\), split test, row 0: the answer must end in '####"):
        load_problems("gsm8k")
    for config in SUBJECTS:
        hub("EleutherAI/hendrycks_math", config, "test", [math_row("Q", r"open \boxed{1")])
    with pytest.raises(DataError, match=r"hendrycks_math \(algebra\), split test, row 0: the solution has no closed"):
        load_problems("math")


def test_files_that_are_missing_or_of_another_kind_are_refused(tmp_path: Path):
    (tmp_path / "broken.parquet").write_text("not parquet")
    with pytest.raises(DataError, match="not a Parquet file"):
        load_problems(tmp_path / "broken.parquet")
    good = tmp_path / "good.parquet"
    pq.write_table(pa.table({"question": ["1 + 1?"] * 8, "answer": ["2"] * 8}), good)
    content = good.read_bytes()
    for damaged in (content[:8] + b"\xff" * 200 + content[208:], content[:-20] + b"\xff" * 12 + content[-8:]):
        (tmp_path / "broken.parquet").write_bytes(damaged)
        with pytest.raises(DataError, match=r"broken\.parquet is not a Parquet file, or damaged"):
            load_problems(tmp_path / "broken.parquet")
    columns = [pa.array(["a"])] * 3
    pq.write_table(pa.Table.from_arrays(columns, names=["question", "answer", "answer"]), good)
    with pytest.raises(DataError, match=r"good\.parquet has more than one column 'answer': rename"):
        load_problems(good)
    with pytest.raises(DataError, match="There is no file"):
        load_problems(tmp_path / "absent.jsonl")
    with pytest.raises(DataError, match=r"has no amc23_40.jsonl or amc23.jsonl for amc23 \(test\)"):
        load_problems("amc23", data_dir=tmp_path)


def test_an_unreachable_hub_names_the_way_out(hub: Hub):
    with pytest.raises(DataError, match=r"Could not read openai/gsm8k from the hub .*data_dir or GTPO_DATA"):
        load_problems("gsm8k")


def test_unknown_names_splits_and_columns_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="aime24, aime25, amc23, gsm8k, math, math500, lab"):
        load_problems("gsm9k")
    with pytest.raises(ConfigError, match="split of aime24 must be one of 'test'"):
        load_problems("aime24", split="train")
    with pytest.raises(ConfigError, match="limit"):
        load_problems("gsm8k", limit=0)
    with pytest.raises(ConfigError, match="columns"):
        load_problems(write_jsonl(tmp_path / "own.jsonl", {"question": "Q"}), columns={"query": "question"})


def test_columns_are_for_files_and_are_typed_as_pairs(tmp_path: Path):
    assert parse_columns("question=task,answer=truth") == {"question": "task", "answer": "truth"}
    for text in ("question", "question=", "=task", ""):
        with pytest.raises(ConfigError, match="question=task"):
            parse_columns(text)
    with pytest.raises(ConfigError, match="columns must be left out: lab is no file"):
        load_problems("lab", columns={"question": "task"})


def test_a_new_set_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tiny_sums.py").write_text(
        """
from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.rows import text_field

def read_row(row, place, split):
    return Problem(text_field(row, "sum", place), text_field(row, "total", place), f"sums/{split}")

SETS = (ProblemSet("sums", "me/sums", read_row, {"test": "validation"}, {"test": ("sums.jsonl",)}),)
"""
    )
    monkeypatch.setattr(gtpo.problems, "__path__", [*gtpo.problems.__path__, str(tmp_path)])
    monkeypatch.setattr(
        datasets, "load_dataset", lambda name, config, *, split: [{"sum": f"{name} {split}", "total": 3}]
    )
    problem_sets.cache_clear()
    try:
        assert load_problems("sums") == [Problem("me/sums validation", "3", "sums/test")]
        rows = [{"sum": "1 + 2", "total": 3}, {"question": "2 + 2", "answer": 4}]
        path = write_jsonl(tmp_path / "sums.jsonl", *rows)
        expected = [Problem("1 + 2", "3", "sums/test"), Problem("2 + 2", "4", "sums/test")]
        assert load_problems("sums", data_dir=tmp_path) == expected
        write_jsonl(path, *rows, {"sum": "3 + 4", "result": 7})
        with pytest.raises(DataError) as error:
            load_problems("sums", data_dir=tmp_path)
        assert f"{path}, line 3: the column 'total' must hold text, got only the columns sum, result" in str(
            error.value
        )
        assert "A row has the columns question and answer, or those of me/sums." in str(error.value)
    finally:
        problem_sets.cache_clear()
        sys.modules.pop("gtpo.problems.tiny_sums", None)
