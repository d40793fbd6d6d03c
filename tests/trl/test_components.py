"""The advantage of each reward function adds up to TRL's, and spans of characters become tokens."""

import math
import random

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gtpo import ConfigError, DataError
from gtpo.lab import lab_model_dir
from gtpo.rewards import format_reward
from gtpo.trl.components import TokenJudges, component_advantages
from tests.tiny import tiny_tokenizer
from tests.trl.checked import advantage

WEIGHTS = [1.0, 0.5, -2.0]


def byte_tokenizer():
    """One token per byte, so that other characters than ASCII have several."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: n for n, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_the_columns_add_up_to_the_advantage_of_the_total(scale):
    rng = random.Random(0)
    scores = [[rng.choice([0.0, 1.0, 2.5, math.nan]) for _ in WEIGHTS] for _ in range(20)]
    scores[3] = [math.nan] * 3
    scores[8:12] = [[0.0, 2.0, 0.5]] * 4  # a tied group
    parts = [[0.0 if math.isnan(x) else w * x for w, x in zip(WEIGHTS, row, strict=True)] for row in scores]
    columns = component_advantages(torch.tensor(scores), torch.tensor(WEIGHTS), 4, scale)
    is_scored = [not all(map(math.isnan, row)) for row in scores]
    totals = [sum(row) for row, scored in zip(parts, is_scored, strict=True) if scored]
    for row in range(20):
        group = [i for i in range(row // 4 * 4, row // 4 * 4 + 4) if is_scored[i]]
        if not is_scored[row]:
            assert columns[row].tolist() == [0.0] * 3
            continue
        expected = advantage(sum(parts[row]), [sum(parts[i]) for i in group], totals, scale)
        assert columns[row].sum().item() == pytest.approx(expected, abs=1e-4)
        if scale == "none":
            means = [sum(parts[i][column] for i in group) / len(group) for column in range(3)]
            assert columns[row].tolist() == pytest.approx([p - m for p, m in zip(parts[row], means, strict=True)])


@pytest.mark.parametrize("scale", ["group", "batch"])
def test_columns_of_a_tied_total_are_not_divided_by_zero(scale):
    rewards = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert not component_advantages(rewards, torch.ones(2), 2, scale).any()
    assert component_advantages(rewards, torch.ones(2), 2, "none").tolist() == [[0.5, -0.5], [-0.5, 0.5]]


def judged(tokenizer, text, *spans, **attributes):
    """The column of each token of the text."""

    def reward_with(own):
        reward = type("Reward", (), attributes)()
        reward.spans = own
        return reward

    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    judges = TokenJudges([reward_with(own) for own in spans], [f"reward_{n}" for n in range(len(spans))], tokenizer)
    return judges.token_component(ids, torch.ones_like(ids), 7)[0].tolist()


def test_every_token_with_a_character_of_a_span_is_judged():
    assert judged(tiny_tokenizer(), "w1 w20 red w3", lambda text: [(3, 10)]) == [-1, 0, 0, -1]
    assert judged(tiny_tokenizer(), "w1 w20 red w3", lambda text: [(5, 6), (11, 11)]) == [-1, 0, -1, -1]
    assert judged(tiny_tokenizer(), "w1 w20", lambda text: []) == [-1, -1]


def test_a_token_that_two_rewards_judge_belongs_to_neither():
    columns = judged(tiny_tokenizer(), "w1 w20 red", lambda text: [(0, 6)], lambda text: [(3, 10)])
    assert columns == [0, -1, 1]
    assert judged(tiny_tokenizer(), "w1 w20", lambda text: [(0, 2), (0, 2)]) == [0, -1]


def test_a_character_of_several_tokens_counts_for_the_last_of_them():
    text = "aé€b"  # 1, 2, 3 and 1 bytes
    assert judged(byte_tokenizer(), text, lambda text: [(1, 3)]) == [-1, -1, 0, 0, 0, 0, -1]
    assert judged(byte_tokenizer(), text, lambda text: [(3, 4)]) == [-1] * 6 + [0]
    assert judged(byte_tokenizer(), "abc", lambda text: [(1, 2)]) == [-1, 0, -1]


def test_special_tokens_and_padding_are_not_judged():
    reward = type("Reward", (), {"spans": staticmethod(lambda text: [(0, len(text))])})()
    ids = torch.tensor([[20, 1, 21, 0], [0, 0, 0, 0]])  # w17 <eos> w18
    judges = TokenJudges([len, reward], ["length", "reward"], tiny_tokenizer())
    columns = judges.token_component(ids, torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]), 0)
    assert columns[0, [0, 2, 3]].tolist() == [1, 1, -1]
    assert columns[1].tolist() == [-1] * 4


def test_the_format_reward_names_its_four_tags():
    tokenizer = AutoTokenizer.from_pretrained(lab_model_dir())
    text = "<reasoning>2 + 3 = 5</reasoning>\n<answer>5</answer>"
    columns = judged(tokenizer, text, format_reward.spans)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    tagged = "".join(tokenizer.decode([token]) for token, column in zip(ids, columns, strict=True) if column == 0)
    assert tagged == "<reasoning></reasoning><answer></answer>"


BAD_SPANS = {
    "out of range": (lambda text: [(0, 99)], r"got \(0, 99\) for a text of 6 characters"),
    "negative": (lambda text: [(-1, 2)], r"got \(-1, 2\)"),
    "backwards": (lambda text: [(3, 2)], r"got \(3, 2\)"),
    "not whole": (lambda text: [(0.0, 2)], r"got \(0\.0, 2\)"),
    "true": (lambda text: [(0, True)], r"got \(0, True\)"),
    "not pairs": (lambda text: [(0, 1, 2)], "ValueError: too many values"),
    "a number": (lambda text: 3, "TypeError: 'int' object is not iterable"),
    "raising": (lambda text: text.missing, "AttributeError: 'str' object has no attribute 'missing'"),
}


@pytest.mark.parametrize(("spans", "message"), BAD_SPANS.values(), ids=BAD_SPANS.keys())
def test_bad_spans_are_refused_with_reward_and_row(spans, message):
    with pytest.raises(DataError, match=f"`spans` of the reward reward_1, completion 7 of the batch .*{message}"):
        judged(tiny_tokenizer(), "w1 w20", lambda text: [], spans)


def test_rewards_without_spans_are_refused():
    with pytest.raises(ConfigError, match=r"none of the rewards \(length\) has an attribute `spans`"):
        TokenJudges([len], ["length"], tiny_tokenizer())
