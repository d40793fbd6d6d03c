import random

import pytest

from gtpo.lab.habits import Habits, demonstrate
from gtpo.lab.tokenizer import make_tokenizer
from gtpo.problems.lab import lab_problems

USER = {"role": "user", "content": "(17+5)*4=?"}
SYSTEM = {"role": "system", "content": "Think between <reasoning> and </reasoning>."}
ASSISTANT = {"role": "assistant", "content": "<reasoning>17+5=22</reasoning><answer>22</answer>"}


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def text(tokenizer, messages, **options):
    return tokenizer.apply_chat_template(messages, tokenize=False, **options)


def test_every_text_of_the_lab_comes_back_exactly(tokenizer):
    rng = random.Random(0)
    for problem in lab_problems("train", 500):
        for written in (problem.question, problem.solution, demonstrate(problem, Habits(), rng)):
            ids = tokenizer(written).input_ids
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids, skip_special_tokens=True) == written


def test_spaces_and_line_breaks_come_back_exactly(tokenizer):
    written = "so  now 12 + 3 =\n 15 </answer> "
    assert tokenizer.decode(tokenizer(written).input_ids) == written


def test_the_prompt_is_the_question_between_two_marks(tokenizer):
    assert text(tokenizer, [USER], add_generation_prompt=True) == "<bos><user>(17+5)*4=?<assistant>"
    assert text(tokenizer, [USER]) == "<bos><user>(17+5)*4=?"


def test_a_system_message_changes_nothing(tokenizer):
    assert text(tokenizer, [SYSTEM, USER], add_generation_prompt=True) == text(
        tokenizer, [USER], add_generation_prompt=True
    )


def test_a_prompt_is_the_beginning_of_its_answered_conversation(tokenizer):
    prompt = tokenizer.apply_chat_template([SYSTEM, USER], add_generation_prompt=True)["input_ids"]
    whole = tokenizer.apply_chat_template([SYSTEM, USER, ASSISTANT])["input_ids"]
    assert whole[: len(prompt)] == prompt
    assert whole[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(whole[len(prompt) : -1]) == ASSISTANT["content"]


def test_marks_are_single_tokens_and_tags_are_pieces(tokenizer):
    assert tokenizer.tokenize("<bos><user>2=?<assistant>") == ["<bos>", "<user>", "2", "=", "?", "<assistant>"]
    assert tokenizer.tokenize("</reasoning><answer>") == ["</", "reasoning", ">", "<", "answer", ">"]
