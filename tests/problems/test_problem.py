"""A problem as messages and as a row of a data set for TRL, and the filter by prompt length."""

import logging
from typing import Any

import pytest

from gtpo.problems import SYSTEM_PROMPT, Problem, filter_by_length, to_dataset, to_messages
from gtpo.rewards import has_format

SUM = Problem("2 + 3 = ?", "5", "mine/1", "Count.", "Algebra", 1)
HORSES = Problem("How many legs have two horses?", "8", "mine/2")


def test_the_instruction_of_the_paper_is_the_system_message_and_can_be_replaced_or_omitted():
    user = {"role": "user", "content": "2 + 3 = ?"}
    assert to_messages(SUM) == [{"role": "system", "content": SYSTEM_PROMPT}, user]
    assert to_messages(SUM, "Answer.") == [{"role": "system", "content": "Answer."}, user]
    assert to_messages(SUM, None) == [user]


def test_the_instruction_contains_an_example_of_the_rewarded_format():
    example = SYSTEM_PROMPT[SYSTEM_PROMPT.index("<reasoning>") : SYSTEM_PROMPT.index("</answer>") + len("</answer>")]
    assert has_format(example)


def test_the_data_set_has_chat_prompts_and_the_columns_for_rewards():
    dataset = to_dataset([SUM, HORSES], "Answer.")
    assert dataset.column_names == ["prompt", "answer", "source", "solution", "subject", "level"]
    assert dataset[0] == {
        "prompt": to_messages(SUM, "Answer."),
        "answer": "5",
        "source": "mine/1",
        "solution": "Count.",
        "subject": "Algebra",
        "level": 1,
    }
    assert dataset["answer"][:] == ["5", "8"]
    assert dataset[1]["level"] is None
    assert len(to_dataset([])) == 0


def test_trl_treats_the_prompts_as_conversations():
    from trl.data_utils import is_conversational

    assert is_conversational(to_dataset([SUM])[0])


class WordTokenizer:
    """Counts words; its chat template adds a word per message and one for the answer."""

    chat_template: str | None = "a word per message"

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        assert options == {"add_generation_prompt": True, "tokenize": False}
        return " ".join(f"{message['role']}: {message['content']}" for message in messages) + " assistant:"

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        assert add_special_tokens == (self.chat_template is None)
        return {"input_ids": [0] * len(text.split())}


def test_the_length_filter_counts_the_templated_prompt_and_logs_how_many_it_dropped(caplog: pytest.LogCaptureFixture):
    problems = [SUM, HORSES, SUM]
    with caplog.at_level(logging.WARNING):
        assert filter_by_length(problems, WordTokenizer(), 7, None) == ([SUM, SUM], 1)
    assert "Dropped 1 of 3 problems longer than 7 tokens." in caplog.text
    assert filter_by_length(problems, WordTokenizer(), 8, None) == (problems, 0)
    assert filter_by_length(problems, WordTokenizer(), 9, "Be brief.") == ([], 3)
    assert filter_by_length(problems, WordTokenizer(), 10, "Be brief.") == ([SUM, SUM], 1)


def test_the_length_filter_counts_plain_paragraphs_without_a_chat_template():
    tokenizer = WordTokenizer()
    tokenizer.chat_template = None
    assert filter_by_length([SUM, HORSES], tokenizer, 5, None) == ([SUM], 1)
    assert filter_by_length([SUM, HORSES], tokenizer, 6, "Be brief.") == ([], 2)
