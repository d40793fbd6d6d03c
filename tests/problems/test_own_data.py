"""Data of one's own: chat prompts, system prompts, rows without an answer, and every form that `datasets` loads."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from gtpo.errors import ConfigError, DataError
from gtpo.problems import Problem, load_problems, to_dataset, to_messages
from tests.problems.jsonl import write_jsonl

CHAT = [
    {"role": "user", "content": "Add 2 and 3."},
    {"role": "assistant", "content": "5"},
    {"role": "user", "content": "And 4?"},
]
SYSTEM = {"role": "system", "content": "Be brief."}
ROWS = [{"prompt": CHAT, "answer": "9"}, {"prompt": [SYSTEM, CHAT[0]], "answer": "5"}]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_prompt_of_chat_messages_is_sent_as_it_is(suffix: str, tmp_path: Path):
    path = tmp_path / f"mine.{suffix}"
    if suffix == "jsonl":
        write_jsonl(path, *ROWS)
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    problems = load_problems(path)
    assert [(problem.question, problem.answer) for problem in problems] == [("And 4?", "9"), ("Add 2 and 3.", "5")]
    assert to_messages(problems[0], "Add.") == [{"role": "system", "content": "Add."}, *CHAT]
    assert to_messages(problems[0], "") == CHAT
    assert to_messages(problems[1], "Add.") == [SYSTEM, CHAT[0]]
    assert to_dataset(problems, "")["prompt"][:] == [CHAT, [SYSTEM, CHAT[0]]]


def test_a_prompt_may_be_text_and_have_another_name_and_a_question_comes_first(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"chat": "2 + 3?", "question": "no", "answer": 5})
    (problem,) = load_problems(path, columns={"prompt": "chat"})
    assert to_messages(problem, None) == [{"role": "user", "content": "2 + 3?"}]
    path = write_jsonl(tmp_path / "both.jsonl", {"prompt": "no", "question": "2 + 3?", "answer": 5})
    assert load_problems(path) == [Problem("2 + 3?", "5", "both")]


def test_a_row_may_have_its_own_system_prompt(tmp_path: Path):
    path = write_jsonl(
        tmp_path / "mine.jsonl",
        {"question": "2 + 3?", "answer": 5, "how": "Be brief."},
        {"question": "2 + 4?", "answer": 6, "how": None},
    )
    problems = load_problems(path, columns={"system_prompt": "how"})
    assert [to_messages(problem, "Add.")[0]["content"] for problem in problems] == ["Be brief.", "Add."]


def test_rows_without_an_answer_are_allowed_where_nothing_needs_it(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"prompt": "Say hi."}, {"prompt": "Say ho.", "answer": None})
    problems = load_problems(path, needs_answer=False)
    assert [problem.answer for problem in problems] == ["", ""]
    assert to_dataset(problems)["answer"][:] == [None, None]
    with pytest.raises(DataError, match=r"mine\.jsonl, line 1: this row has no 'answer', only prompt\. Add it, map"):
        load_problems(path)
    with pytest.raises(DataError, match=r"no 'truth', only prompt\. It should hold the answer\. Correct the row"):
        load_problems(path, needs_answer=False, columns={"answer": "truth"})


def test_a_mistyped_column_is_named_with_the_one_that_was_meant(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"task": "1+1=?", "answer": "2"})
    with pytest.raises(DataError, match=r"no 'tsak', only task, answer\. .*Did you mean 'task'\?.*--columns"):
        load_problems(path, columns={"question": "tsak"})


def test_an_answer_of_zero_is_an_answer(tmp_path: Path):
    path = write_jsonl(
        tmp_path / "mine.jsonl", {"prompt": "1 - 1", "answer": 0}, {"prompt": "0.5 - 0.5", "answer": 0.0}
    )
    for needs_answer in (True, False):
        assert [problem.answer for problem in load_problems(path, needs_answer=needs_answer)] == ["0", "0"]


def test_a_system_prompt_must_be_text(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"prompt": "1 - 1", "answer": 0, "system_prompt": ["Be brief."]})
    with pytest.raises(DataError, match=r"mine\.jsonl, line 1: the column 'system_prompt' must hold text, got \['Be"):
        load_problems(path)


def test_an_empty_system_prompt_of_a_row_means_none(tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", {"prompt": "1 - 1", "answer": 0, "system_prompt": ""})
    assert [message["role"] for message in to_dataset(load_problems(path))["prompt"][0]] == ["user"]


BROKEN = {
    "a number": (5, "'prompt' must hold text or a list of chat messages, got 5"),
    "no message": ([], "'prompt' must hold text or a list of chat messages"),
    "no content": ([{"role": "user"}], "message 1 of the column 'prompt' must be"),
    "an image": ([{"role": "user", "content": [{"type": "image"}]}], "message 1 of the column 'prompt' must be"),
    "a tool call": ([{"role": "user", "content": "?", "tool_calls": [1]}], "message 1 of the column 'prompt' must be"),
    "an answer": (CHAT[:2], "ends with a message of the assistant"),
    "a role of its own": (
        [CHAT[0], {"role": "bot", "content": "5"}],
        "message 2 .* has the role 'bot'. Use one of sys",
    ),
    "no question": ([SYSTEM], "has no message of the user"),
}


@pytest.mark.parametrize(("prompt", "complaint"), BROKEN.values(), ids=BROKEN.keys())
def test_the_error_for_a_broken_prompt_names_row_and_column(prompt: object, complaint: str, tmp_path: Path):
    path = write_jsonl(tmp_path / "mine.jsonl", ROWS[0], {"prompt": prompt, "answer": "5"})
    with pytest.raises(DataError) as error:
        load_problems(path)
    assert f"{path}, line 2: " in str(error.value)
    assert re.search(complaint, str(error.value))


def test_a_csv_file_is_a_problem_file(tmp_path: Path):
    path = tmp_path / "mine.csv"
    path.write_text('task,answer,unit\n"2 + 3,\nor 5?",5,m\n1 + 1?,2,\n')
    problems = load_problems(path, columns={"question": "task"})
    assert [(problem.question, problem.answer) for problem in problems] == [("2 + 3,\nor 5?", "5"), ("1 + 1?", "2")]
    assert problems[0].others["unit"] == "m"
    path.write_text("question,answer\n1 + 1?,2,3\n")
    with pytest.raises(DataError, match=r"mine\.csv, line 2: the row does not have as many cells as the header"):
        load_problems(path)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of a data set of the hub."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "sums"
    folder.mkdir()
    write_jsonl(folder / "train.jsonl", *ROWS)
    write_jsonl(folder / "test.jsonl", ROWS[1])
    return folder


def test_a_folder_with_the_files_of_a_hub_data_set_has_its_splits(hub: Path):
    assert [problem.answer for problem in load_problems(hub, split="train")] == ["9", "5"]
    assert [problem.answer for problem in load_problems(hub)] == ["5"]
    assert [problem.answer for problem in load_problems(f"{hub}@train", limit=1)] == ["9"]
    assert to_messages(load_problems(hub)[0], "")[0] == SYSTEM
    with pytest.raises(DataError, match=r"has no split 'dev', only .*sums@"):
        load_problems(f"{hub}@dev")


def test_a_folder_that_datasets_saved_is_loaded(tmp_path: Path):
    single = Dataset.from_list([{"task": "1 + 1?", "truth": "2"}])
    single.save_to_disk(str(tmp_path / "single"))
    DatasetDict({"train": single, "validation": single}).save_to_disk(str(tmp_path / "several"))
    columns = {"question": "task", "answer": "truth"}
    for name in ("single", "several@validation"):
        (problem,) = load_problems(tmp_path / name, columns=columns)
        assert (problem.question, problem.answer) == ("1 + 1?", "2")
    with pytest.raises(
        DataError, match=r"several, split train, row 1: this row has no 'question' or 'prompt', only task"
    ):
        load_problems(f"{tmp_path / 'several'}@train")


def test_a_hub_id_is_loaded_by_datasets_with_its_configuration_and_split(monkeypatch: pytest.MonkeyPatch):
    asked = []

    def load_dataset(*arguments: object):
        asked.append(arguments)
        return {"train": [{"question": "1 + 1?", "answer": 2}], "dev": []}

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    assert load_problems("user/sums", split="train") == [Problem("1 + 1?", "2", "sums")]
    with pytest.raises(DataError, match=r"user/sums:hard@dev has no problems\. Add rows"):
        load_problems("user/sums:hard@dev")
    assert asked == [("user/sums", None), ("user/sums", "hard")]


def test_names_that_are_neither_here_nor_on_the_hub_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"user/absent.*There is no such folder, and the hub does not have it"):
        load_problems("user/absent")
    with pytest.raises(DataError, match="does not exist"):
        load_problems(tmp_path / "absent")
    with pytest.raises(ConfigError, match="a hub id such as user/name, got 'absent'"):
        load_problems("absent")
    (tmp_path / "mine.txt").touch()
    with pytest.raises(DataError, match=r"mine\.txt is not a \.jsonl, \.csv or \.parquet file"):
        load_problems(tmp_path / "mine.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"Cannot load the data set .*empty"):
        load_problems(tmp_path / "empty")


def test_rows_that_are_read_stay_json(tmp_path: Path):
    """Other columns of a chat file reach rewards, the prompt does not."""
    path = write_jsonl(tmp_path / "mine.jsonl", {**ROWS[0], "tests": ["a"]})
    (problem,) = load_problems(path)
    assert json.loads(json.dumps(problem.others)) == {"tests": ["a"]}
