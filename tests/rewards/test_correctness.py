"""The reward functions, called directly and by TRL."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gtpo.errors import DataError
from gtpo.rewards import correctness_reward, format_reward, paper_reward, question_text
from gtpo.rewards.grading import default_grader


def completion(answer: str) -> str:
    return f"<reasoning>so it is</reasoning>\n<answer>{answer}</answer>"


def test_a_right_answer_is_rewarded_only_in_the_complete_format():
    completions = [completion("5"), completion("15"), "<answer>5</answer>", completion("5") + " done", "5"]
    assert correctness_reward(completions, ["5"] * 5) == [10.0, 0.0, 0.0, 0.0, 0.0]
    assert correctness_reward(completions, ["5"] * 5, require_format=False) == [10.0, 0.0, 10.0, 10.0, 0.0]


@pytest.mark.parametrize(
    "text",
    [
        completion("5") + "<answer>5</answer>",
        "<reasoning>I will say <answer>5</answer></reasoning>",
        "<reasoning>I will say <answer>5</answer></reasoning><answer>5</answer>",
        "<answer>5</answer><reasoning>because</reasoning>",
        "<reasoning></reasoning><answer>5</answer>",
        "<reasoning>so</reasoning><answer></answer>",
        completion("5 or 15"),
        completion("5, 15"),
    ],
)
def test_hedging_is_never_rewarded_as_a_right_answer(text: str):
    assert correctness_reward([text], ["5"]) == [0.0]
    assert paper_reward([text], ["5"])[0] in (1.5, 10.0)


def test_the_paper_reward_is_the_sum_of_its_parts():
    completions = [
        completion("1,000"),
        completion("100"),
        "<answer>1000</answer>",
        "<reasoning>a</reasoning><answer>",
        "",
    ]
    answer = ["1000"] * 5
    assert paper_reward(completions, answer) == [20.0, 10.0, 1.0, 1.5, 0.0]
    parts = zip(format_reward(completions), correctness_reward(completions, answer), strict=True)
    assert paper_reward(completions, answer) == [sum(part) for part in parts]


def test_the_prompt_is_the_question():
    question = "Factor $x^2 - 1$. How many eggs?"
    chat = [
        {"role": "user", "content": "Simplify $(x-1)(x+1)$."},
        {"role": "assistant", "content": "$x^2-1$"},
        {"role": "user", "content": [{"type": "text", "text": question}]},
    ]
    completions = [completion("x^2-1"), completion("(x+1)(x-1)")]
    gold = ["(x-1)(x+1)"] * 2
    for prompt in (question, chat):
        assert correctness_reward(completions, gold, prompts=[prompt] * 2) == [0.0, 10.0]
        assert paper_reward(completions, gold, prompts=[prompt] * 2) == [10.0, 20.0]
    assert correctness_reward(completions, gold) == [10.0, 10.0]
    assert correctness_reward(completions, gold, prompts=[chat[:0]] * 2) == [10.0, 10.0]
    eggs = [completion("18 eggs"), completion("18 hens")]
    assert paper_reward(eggs, ["18"] * 2, prompts=[chat] * 2) == [20.0, 10.0]


@pytest.mark.parametrize(
    "prompt",
    [
        "<|im_start|>system\nCount eggs.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
        "<|start_header_id|>user<|end_header_id|>\n\nCount eggs.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
        "[INST] How many eggs? [/INST] 5 [INST] {} [/INST]",
        "Question: How many eggs?\nAnswer: 5\n\nQuestion: {}",
        "Problem:\nHow many eggs?\n\nProblem:\n{}",
        "{}",
    ],
)
def test_the_question_of_a_text_prompt_is_its_last_turn_of_the_user(prompt: str):
    question = "How many hens are there, if $x = 5$?\nProblem solved."
    assert question_text(prompt.format(question)) == question


def test_rows_without_a_gold_answer_have_no_reward():
    assert correctness_reward([completion("5")] * 2, [None, "5"]) == [None, 10.0]
    assert paper_reward([completion("5")] * 2, [None, "5"]) == [None, 20.0]


def test_malformed_columns_are_refused():
    with pytest.raises(DataError, match="one gold answer per completion"):
        paper_reward([completion("5")] * 2, ["5"])
    with pytest.raises(DataError, match="one prompt per completion, got 1 for 2"):
        paper_reward([completion("5")] * 2, ["5"] * 2, prompts=["?"])
    with pytest.raises(DataError, match="completion 1 must be text and not empty, got ' '"):
        correctness_reward([completion("5")] * 2, ["5", " "])
    for text in (completion("5"), "no format"):
        with pytest.raises(DataError, match="completion 0 must be text and not empty, got 5"):
            correctness_reward([text], [5])  # type: ignore[list-item]
    with pytest.raises(DataError, match="Pass completions as a list"):
        format_reward([["5"]])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        (None, "got None"),
        ([1, 2, 3], "a list with 1"),
        ({"role": "user", "content": "?"}, "got {'role': 'user'"),
        ([{"content": "?"}], "a list with {'content'"),
        ([{"role": "user", "content": ["?"]}], r"list of blocks, got \['\?'\]"),
        ([{"role": "user", "content": 5}], "list of blocks, got 5"),
    ],
)
def test_malformed_prompts_are_refused(prompt: Any, named: str):
    with pytest.raises(DataError, match=named):
        paper_reward([completion("5")], ["5"], prompts=[prompt])


def test_timeouts_and_crashes_of_a_batch_are_logged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(default_grader().pool, "grade", lambda pairs: ["timeout", "crash", "timeout", "right"])
    logged: dict[str, float] = {}
    completions = [completion(f"unseen {number}") for number in range(4)]
    rewards = correctness_reward(completions, ["7"] * 4, log_metric=logged.__setitem__)
    assert rewards == [0.0, 0.0, 0.0, 10.0]
    assert logged == {"rewards/timeouts": 2.0, "rewards/crashes": 1.0, "accuracy": 0.25}


def test_the_fractions_of_complete_formats_and_right_answers_are_logged():
    logged: dict[str, float] = {}
    paper_reward(
        [completion("5"), completion("6"), "5", "<answer>5</answer>"], ["5"] * 4, log_metric=logged.__setitem__
    )
    assert (logged["accuracy"], logged["format"]) == (0.25, 0.5)


def test_accuracy_ignores_rows_without_a_gold_answer():
    logged: dict[str, float] = {}
    correctness_reward([completion("5")] * 4, ["5", "6", None, None], log_metric=logged.__setitem__)
    assert logged["accuracy"] == 0.5


def test_trl_calls_the_rewards_and_keeps_their_numbers_and_metrics():
    from trl import GRPOTrainer

    metrics: dict[str, list[float]] = defaultdict(list)
    functions = [format_reward, correctness_reward, paper_reward]
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device=torch.device("cpu"), is_main_process=True),
        args=SimpleNamespace(report_to=[]),
        reward_funcs=functions,
        reward_func_names=[function.__name__ for function in functions],
        reward_processing_classes=[None] * len(functions),
        state=SimpleNamespace(global_step=0),
        environments=None,
        _log_completion_extra=lambda column, values: None,
        _log_metric=lambda name, value: metrics[name].append(value),
    )
    texts = [completion("\\frac12"), completion("2"), "<answer>0.5</answer>"]
    inputs = [{"prompt": "?", "answer": "0.5", "source": "test", "level": 1} for _ in texts]
    chat_prompts = [[{"role": "user", "content": "?"}] for _ in texts]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    expected = torch.tensor([[10.0, 10.0, 20.0], [10.0, 0.0, 10.0], [1.0, 0.0, 1.0]])
    for prompts, completions in ((["?"] * 3, texts), (chat_prompts, chats)):
        rewards = GRPOTrainer._calculate_rewards(trainer, inputs, prompts, completions, [[1], [2], [3]])
        torch.testing.assert_close(rewards, expected)
    assert metrics["rewards/timeouts"] == [0.0] * 4
