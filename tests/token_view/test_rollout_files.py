"""What TRL and verl leave of their completions: repeated, older, damaged and foreign files."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from gtpo import DataError
from gtpo.token_view.rollout_files import TRAINING_OR_EVALUATION
from gtpo.token_view.rollouts import load_rollouts
from tests.token_view.logged_run import logging_config
from tests.trl.checked import parity_reward, prompts
from trl import GRPOTrainer


@pytest.fixture(scope="module")
def trl_run(tiny_model, tmp_path_factory):
    """Six steps in which each batch of completions is used twice, with an evaluation of other prompts at step 3."""
    folder = tmp_path_factory.mktemp("trl")
    config = logging_config(
        folder, per_device_eval_batch_size=4, num_iterations=2, max_steps=6, eval_strategy="steps", eval_steps=3
    )
    others = prompts(17).select([16])
    trainer = GRPOTrainer(tiny_model, [parity_reward], config, prompts(), eval_dataset=others)
    trainer.train()
    trainer.save_state()
    return folder


def tables(folder):
    return {path.name: parquet.read_table(path).to_pylist() for path in sorted(folder.glob("completions/*.parquet"))}


def test_a_buffer_that_trl_logged_twice_is_shown_once(trl_run):
    logged = tables(trl_run)
    assert len(logged) == 6

    def content(name):
        return [{key: repr(value) for key, value in row.items() if key != "step"} for row in logged[name]]

    assert content("completions_00001.parquet") == content("completions_00002.parquet")  # what TRL really does
    assert content("completions_00006.parquet")[:4] == content("completions_00005.parquet")[4:]
    loaded = load_rollouts([trl_run])
    num_shown = Counter(dict.fromkeys(range(1, 7), 0))
    for group in loaded.groups:
        num_shown[group.step] += len(group.completions)
    assert num_shown == {1: 8, 2: 0, 3: 8, 4: 0, 5: 8, 6: 4}
    assert "20 repeated rows dropped: TRL had logged them at the step before already." in loaded.notes


def test_groups_of_an_evaluation_are_marked_if_the_metrics_of_the_run_show_it(trl_run, tmp_path):
    loaded = load_rollouts([trl_run])
    evaluated = {(group.step, group.prompt) for group in loaded.groups if group.reason == "evaluation"}
    assert evaluated == {(3, "say w16 :"), (6, "say w16 :")}
    assert len(loaded.groups) > len(evaluated)  # step 3 has rows of training, too
    assert "8 rows are from evaluations and were not trained on: their groups are marked." in loaded.notes
    assert TRAINING_OR_EVALUATION not in loaded.notes
    folder = shutil.copytree(trl_run, tmp_path / "run")
    state = json.loads((folder / "trainer_state.json").read_text())
    state["log_history"] = [row for row in state["log_history"] if row["step"] <= 4]
    (folder / "trainer_state.json").write_text(json.dumps(state))  # as a checkpoint leaves it, before the last steps
    loaded = load_rollouts([folder / "completions"])
    assert {group.step for group in loaded.groups if group.reason == "evaluation"} == {3}
    assert TRAINING_OR_EVALUATION in loaded.notes
    (folder / "trainer_state.json").unlink()
    loaded = load_rollouts([folder])
    assert not any(group.reason for group in loaded.groups)
    assert TRAINING_OR_EVALUATION in loaded.notes


def test_files_of_an_earlier_run_in_the_same_folder_are_left_out(trl_run, tmp_path):
    folder = shutil.copytree(trl_run, tmp_path / "again")
    files = sorted(folder.glob("completions/*.parquet"))
    for number, file in enumerate(files):
        os.utime(file, (1000 + number, 1000 + number) if number >= 4 else (5000 + number, 5000 + number))
    loaded = load_rollouts([folder])
    assert {group.step for group in loaded.groups} == {1, 3}
    (note,) = [note for note in loaded.notes if "an earlier run left them" in note]
    assert "2 of 6 files" in note
    assert "completions_00005.parquet to completions_00006.parquet" in note
    assert {group.step for group in load_rollouts(files[4:]).groups} == {5, 6}  # files that are passed are shown
    for number, file in enumerate(files):
        os.utime(file, (5000, 5000 - number))  # as a copy leaves them
    assert not any("earlier run" in note for note in load_rollouts([folder]).notes)


def test_equal_rows_of_different_buffers_are_kept(tmp_path):
    rows = [{"step": 1, "prompt": "p", "completion": text, "reward": 1.0, "advantage": 0.0} for text in "ab"]
    for step, completions in ((1, "ab"), (2, "ba")):
        table = [row | {"step": step, "completion": text} for row, text in zip(rows, completions, strict=True)]
        parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / f"completions_{step:05d}.parquet")
    assert [len(group.completions) for group in load_rollouts([tmp_path]).groups] == [2, 2]


def verl_rows(step):
    """As `_write_generations` of verl 0.9.1 writes them."""
    scores = {"4": 1.0, "5": 0.0}
    return [
        {"input": f"user\n{question}", "output": f"<a>{text}</a>", "gts": "4", "score": score, "step": step,
         "acc": score > 0, "length": 3.0, "uid": f"{question}_{number}_0"}
        for question in ("2+2", "1+3")
        for number, (text, score) in enumerate(scores.items())
    ]  # fmt: skip


def test_rollout_dumps_of_verl_are_groups_by_step_and_input(tmp_path):
    for step in (1, 2, 10):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in verl_rows(step))
        (tmp_path / f"{step}.jsonl").write_text(lines)
    loaded = load_rollouts([tmp_path])
    assert [(group.step, group.prompt) for group in loaded.groups] == [
        (step, f"user\n{question}") for step in (1, 2, 10) for question in ("2+2", "1+3")
    ]
    right, wrong = loaded.groups[0].completions
    assert right.rewards == {"reward": 1.0, "acc": 1.0, "length": 3.0}
    assert (right.advantage, wrong.advantage) == (0.5, -0.5)
    assert right.token_weight == [2.0, 1.0, 2.0]
    assert right.token_logp is right.token_entropy is None


def test_a_score_that_is_not_a_number_is_noted(tmp_path):
    first, *others = verl_rows(1)
    lines = "".join(json.dumps(row) + "\n" for row in [first | {"score": "high"}, *others])
    (tmp_path / "1.jsonl").write_text(lines)
    loaded = load_rollouts([tmp_path])
    assert not loaded.groups[0].completions[0].valid
    note = "1 completions are shown as excluded: their reward or advantage is not a number."
    assert note in loaded.notes


def test_reasoning_and_tool_calls_are_shown(tmp_path):
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": None}}}
    messages = [
        {"role": "assistant", "reasoning_content": "use a tool", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "7"},
        {"role": "assistant", "content": "12"},
    ]
    table = [{"step": 1, "prompt": "p", "completion": messages, "f": 1.0, "advantage": 0.0}] * 2
    parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "completions_00001.parquet")
    completion = load_rollouts([tmp_path]).groups[0].completions[0]
    text = '<think>use a tool</think><tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>712'
    assert "".join(completion.pieces) == text
    not_trained = [number for number, trained in enumerate(completion.trained) if not trained]
    assert [completion.pieces[number] for number in not_trained] == ["7"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1", "is not a complete parquet file: was the run killed as it wrote\\? Leave the file out"),
        (b"", "is not a complete parquet file"),
        (None, "has the columns question, answer; it needs prompt, completion, and reward or advantage"),
    ],
)
def test_a_damaged_or_foreign_table_is_named_with_what_to_do(trl_run, tmp_path, content, message):
    bad = tmp_path / "completions_00009.parquet"
    if content is None:
        parquet.write_table(pyarrow.table({"question": ["a"], "answer": ["b"]}), bad)
    else:
        bad.write_bytes(content)
    with pytest.raises(DataError, match=f"completions_00009.parquet {message}"):
        load_rollouts([bad])
    good = next(trl_run.glob("completions/*.parquet"))
    loaded = load_rollouts([good, bad])  # what can be read is shown
    assert loaded.groups
    assert any(note.startswith("completions_00009.parquet") for note in loaded.notes)


def test_a_truncated_table_of_trl_is_named(trl_run, tmp_path):
    whole = next(trl_run.glob("completions/*.parquet")).read_bytes()
    torn = tmp_path / "torn.parquet"
    for size in (len(whole) // 2, len(whole) - 9):
        torn.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"torn\.parquet is not a complete parquet file"):
            load_rollouts([torn])


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    path = tmp_path / "1.jsonl"
    path.symlink_to(Path("/proc/self/mem"))
    with pytest.raises(DataError, match=r"1\.jsonl cannot be read"):
        load_rollouts([path])


def test_a_pipe_in_a_folder_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "1.jsonl")  # reading it would wait for ever
    with pytest.raises(DataError, match=r"not a folder that contains such files"):
        load_rollouts([tmp_path])
