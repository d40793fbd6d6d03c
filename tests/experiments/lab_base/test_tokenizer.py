"""The lab's tokenizer: exact round trips and the chat template."""

import random

import pytest

from experiments.lab_base.habits import Habits, demonstrate
from experiments.lab_base.tokenizer import make_tokenizer
from gtpo.problems.lab import lab_problems

USER = {"role": "user", "content": "(17+5)*4=?"}
SYSTEM = {"role": "system", "content": "Think between <reasoning> and </reasoning>."}
ASSISTANT = {"role": "assistant", "content": "<reasoning>17+5=22</reasoning><answer>22</answer>"}


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def text(tokenizer, messages, **options):
    return tokenizer.apply_chat_template(messages, tokenize=False, **options)


def test_decoding_restores_every_text_of_the_lab(tokenizer):
    rng = random.Random(0)
    for problem in lab_problems("train", 200):
        for original in (problem.question, problem.solution, demonstrate(problem, Habits(), rng)):
            ids = tokenizer(original).input_ids
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids, skip_special_tokens=True) == original


def test_decoding_restores_spaces_and_line_breaks(tokenizer):
    original = "so  now 12 + 3 =\n 15 </answer> "
    assert tokenizer.decode(tokenizer(original).input_ids) == original


def test_the_prompt_is_the_question_between_two_marks(tokenizer):
    assert text(tokenizer, [USER], add_generation_prompt=True) == "<bos><user>(17+5)*4=?<assistant>"
    assert text(tokenizer, [USER]) == "<bos><user>(17+5)*4=?"


def test_a_system_message_changes_nothing(tokenizer):
    assert text(tokenizer, [SYSTEM, USER], add_generation_prompt=True) == text(
        tokenizer, [USER], add_generation_prompt=True
    )


def test_a_prompt_is_a_prefix_of_the_complete_conversation(tokenizer):
    prompt = tokenizer.apply_chat_template([SYSTEM, USER], add_generation_prompt=True)["input_ids"]
    complete = tokenizer.apply_chat_template([SYSTEM, USER, ASSISTANT])["input_ids"]
    assert complete[: len(prompt)] == prompt
    assert complete[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(complete[len(prompt) : -1]) == ASSISTANT["content"]


def test_marks_are_single_tokens_and_tags_are_pieces(tokenizer):
    assert tokenizer.tokenize("<bos><user>2=?<assistant>") == ["<bos>", "<user>", "2", "=", "?", "<assistant>"]
    assert tokenizer.tokenize("</reasoning><answer>") == ["</", "reasoning", ">", "<", "answer", ">"]
