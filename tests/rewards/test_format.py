"""The format part of the reward, the extracted answer, and the text of a chat."""

import pytest

from gtpo.rewards import completion_text, extract_answer, format_reward, format_score, has_format

GOOD = "<reasoning>2 + 3 = 5</reasoning>\n<answer>5</answer>"

SCORES = {
    GOOD: 10.0,
    f"Let us see. {GOOD}\n ": 10.0,
    "<reasoning>a</reasoning> so <answer>5</answer>": 10.0,
    f"{GOOD}\u200b": 10.0,
    # one closed pair alone
    "<reasoning>2 + 3 = 5</reasoning> 5": 1.0,
    "<answer>5</answer>": 1.0,
    "<answer>5</answer><answer>6</answer>": 1.0,
    # one closed pair and a tag of the other kind
    "<reasoning>2 + 3 = 5</reasoning><answer>5": 1.5,
    "<reasoning>2 + 3 = 5</reasoning>5</answer>": 1.5,
    "2 + 3</reasoning><answer>5</answer>": 1.5,
    "<reasoning>2 + 3<answer>5</answer>": 1.5,
    # both pairs, but not complete
    f"{GOOD} I hope that helps.": 1.5,
    f"{GOOD}<answer>6</answer>": 1.5,
    "<answer>5</answer><reasoning>2 + 3</reasoning>": 1.5,
    "<reasoning></reasoning><answer>5</answer>": 1.5,
    "<reasoning>2 + 3</reasoning><answer> \n</answer>": 1.5,
    "<reasoning>\u200b</reasoning><answer>5</answer>": 1.5,
    "<reasoning>2 + 3</reasoning><answer>\u2060\ufeff\u3164</answer>": 1.5,
    "<reasoning>\ufe0f\U000e0100</reasoning><answer>5</answer>": 1.5,
    "<reasoning>\u0301\u0301</reasoning><answer>5</answer>": 1.5,
    "<reasoning>2 + 3</reasoning><answer>\ue000\U000f0000</answer>": 1.5,
    "<reasoning>I write <answer>5</answer> now</reasoning><answer>5</answer>": 1.5,
    "<reasoning>the tag <answer> comes later</reasoning><answer>5</answer>": 1.5,
    "<reasoning>a</reasoning><reasoning>b</reasoning><answer>5</answer>": 1.5,
    "<reasoning>a<answer>5</answer></reasoning>": 1.5,
    # nothing closed
    "5": 0.0,
    "": 0.0,
    "<reasoning>2 + 3": 0.0,
    "</answer>5<answer>": 0.0,
    "<REASONING>2</REASONING><ANSWER>5</ANSWER>": 0.0,
}


@pytest.mark.parametrize(("text", "score"), SCORES.items())
def test_each_text_gets_its_format_score(text: str, score: float):
    assert format_score(text) == score
    assert has_format(text) == (score == 10.0)


def test_texts_and_chats_get_the_same_format_reward():
    texts = list(SCORES)
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    assert (
        format_reward(texts) == format_reward(completions=chats, prompts=["?"] * len(texts)) == list(SCORES.values())
    )


def test_the_answer_is_the_content_of_the_last_closed_pair():
    assert extract_answer(GOOD) == "5"
    assert extract_answer("<answer>5</answer> no, <answer> 6 </answer> done") == "6"
    assert extract_answer("<answer>5</answer><answer>6") == "5"
    assert extract_answer("<answer>use <answer>7</answer>") == "7"
    assert extract_answer("<answer></answer>") == ""
    assert extract_answer("<answer>5</answer></answer>") == "5"
    assert extract_answer("<answer>5</answer><answer><answer>6</answer> 7</answer>") == "6"
    assert extract_answer("5</answer>") is None
    assert extract_answer("<answer>5") is None


def test_the_text_of_a_chat_is_what_the_assistant_wrote():
    chat = [
        {"role": "assistant", "content": "<reasoning>I ask</reasoning>", "tool_calls": []},
        {"role": "tool", "content": "<answer>9</answer>"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": [{"type": "text", "text": "<answer>5</answer>"}]},
    ]
    assert has_format(completion_text(chat))
    assert extract_answer(completion_text(chat)) == "5"
