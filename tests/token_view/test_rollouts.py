"""Groups from the completions of any GRPO run, as JSON Lines and as TRL logs them."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from gtpo import ConfigError, DataError
from gtpo.token_view.encoders import load_encoder
from gtpo.token_view.page import render_page
from gtpo.token_view.rollouts import load_rollouts
from tests.oracle import paper
from tests.tiny import tiny_tokenizer
from tests.token_view.logged_run import logging_config
from tests.trl.checked import parity_reward, prompts
from trl import GRPOTrainer


@pytest.fixture
def saved(tmp_path):
    """Write rows as JSON Lines."""

    def save(*rows):
        path = tmp_path / "rollouts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return save


def row(completion, reward, prompt="p", **others):
    return {"prompt": prompt, "completion": completion, "reward": reward, **others}


def load(path, tokenizer=None):
    return load_rollouts([path], tokenizer)


def test_rows_with_the_same_step_and_prompt_are_a_group_with_conflict_weights(saved):
    path = saved(
        row("<a>4</a>", 2, step=2),
        row("<a>x y</a>", 0, step="1"),  # as text, as in tables of earlier versions of TRL
        row("<a>5</a>", 0, step=2),
        row("<a>6</a>", 1, step=2, prompt="q"),
        row("<a>5 5</a>", 4, step=1),
    )
    first, second, alone = load(path).groups
    assert (first.step, second.step, alone.prompt) == (1, 2, "q")
    good, bad = second.completions
    assert (good.advantage, bad.advantage) == (1.0, -1.0)
    assert good.pieces == ["<a>", "4", "</a>"]
    assert (good.token_weight, bad.token_weight) == ([2.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    assert good.token_advantage == [2.0, 1.0, 2.0]
    assert good.rewards == {"reward": 2.0}
    assert good.entropy is good.token_entropy is second.entropy_threshold is None
    assert good.kept
    assert first.completions[0].push == first.completions[0].advantage == -2.0


def test_advantages_replace_rewards_and_a_row_without_either_is_excluded(saved):
    path = saved(
        {"prompt": "p", "completion": "a b", "advantage": 0.7},
        {"prompt": "p", "completion": "a c", "advantage": -0.7},
        {"prompt": "p", "completion": "a d", "advantage": None},
    )
    completions = load(path).groups[0].completions
    assert [c.advantage for c in completions[:2]] == [0.7, -0.7]
    assert [c.valid for c in completions] == [True, True, False]
    assert completions[1].token_weight == [0.0, 1.0]


def test_chat_messages_are_joined_and_tool_output_is_not_trained(saved):
    messages = [
        {"role": "assistant", "content": "look up"},
        {"role": "tool", "content": "found"},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]
    prompt = [{"role": "user", "content": "go"}]
    completion = load(saved(row(messages, 1, prompt=prompt), row("look", 0, prompt=prompt))).groups[0].completions[0]
    assert completion.pieces == ["look", " up", "found", "done"]
    assert completion.trained == [True, True, False, True]
    assert completion.token_advantage[2] == 0


def test_unusable_rows_are_skipped_with_a_note(saved):
    path = saved(row("a", 1), {"prompt": "p"}, {"prompt": "p", "completion": "a"}, row(7, 1), row("b", 0, step="x"))
    with path.open("a") as file:
        file.write('{"prompt": "p", "comp')
    loaded = load(path)
    assert [c.pieces for c in loaded.groups[0].completions] == [["a"]]
    notes = " ".join(loaded.notes)
    assert "4 rows skipped: a row needs a prompt, a completion" in notes
    assert "1 rows skipped: not a complete JSON line" in notes
    assert "1 of 1 prompts have a single completion" in notes


def test_files_without_completions_are_refused(saved, tmp_path):
    with pytest.raises(DataError, match=r"no completions to show\. The files are empty"):
        load(saved())
    with pytest.raises(DataError, match=r"nowhere\.jsonl is not a \.jsonl or \.parquet file"):
        load(tmp_path / "nowhere.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not a folder that contains such files"):
        load(tmp_path / "empty")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(DataError, match=r"torn\.parquet is not a complete parquet file"):
        load(tmp_path / "torn.parquet")


def test_a_table_with_text_that_is_not_utf8_is_named(tmp_path):
    bytes_of_rows = pyarrow.array([b"fine", b"\xff\xfe"], pyarrow.binary())
    texts = pyarrow.Array.from_buffers(pyarrow.string(), 2, bytes_of_rows.buffers())
    path = tmp_path / "utf8.parquet"
    parquet.write_table(pyarrow.table({"prompt": texts, "completion": texts, "reward": [0.0, 1.0]}), path)
    with pytest.raises(DataError, match=r"utf8\.parquet has text that is not UTF-8"):
        load(path)


def test_hostile_text_is_tokenized(saved, tiny_model):
    texts = ["\ud800 </script>", "\x00\u202e", "", "w1 " * 3000]
    for tokenizer in (None, tiny_model):
        group = load(saved(*(row(text, n) for n, text in enumerate(texts))), tokenizer).groups[0]
        assert len(group.completions) == 4
        assert group.completions[2].token_ids == []


def test_pieces_are_the_text_of_the_tokens(tiny_model):
    assert load_encoder(tiny_model)("say red") == (tiny_tokenizer()("say red")["input_ids"], ["say", "red"])


def test_tokens_that_are_bytes_of_one_character_are_decoded_separately(tmp_path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {piece: n for n, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    ids, pieces = load_encoder(str(tmp_path))("a é")
    assert len(ids) == 4
    assert pieces == ["a", " ", "�", "�"]


def test_a_tokenizer_that_cannot_be_loaded_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(ConfigError, match="omit --tokenizer to compare words instead"):
        load_encoder(str(tmp_path / "none"))


def test_completions_that_trl_logged_agree_with_the_oracle(tiny_model, tmp_path):
    config = logging_config(tmp_path, max_steps=2, top_k=3)
    GRPOTrainer(tiny_model, [parity_reward], config, prompts()).train()
    loaded = load_rollouts([tmp_path], tiny_model)
    assert [group.step for group in loaded.groups] == [1, 1, 2, 2]
    conflicts = 0
    for group in loaded.groups:
        assert len(group.completions) == 4
        rows = [paper.Completion(c.token_ids, c.advantage, 0) for c in group.completions]
        for completion, mine in zip(group.completions, rows, strict=True):
            flags = paper.conflicts(rows, mine, "both", "position")
            weight = 2.0 if mine.advantage > 0 else 0.0
            assert completion.token_weight == [weight if flag else 1.0 for flag in flags]
            assert list(completion.rewards) == ["parity_reward"]
            conflicts += sum(flags)
    assert conflicts


def test_rewards_beyond_float32_are_kept(saved):
    loaded = load(saved(row("a b", 1e50), row("a c", -1e50)))
    assert [completion.push for completion in loaded.groups[0].completions] == [1e50, -1e50]
    assert "1e+50" in render_page(loaded, title="t")


def test_a_reward_that_is_not_a_float_excludes_its_row(saved):
    path = saved(row("a", 1.0), row("b", 10**400), row("c", 0.5, other=10**400), row("d", 1.0, step=10**400))
    loaded = load(path)
    assert [completion.valid for completion in loaded.groups[0].completions] == [True, False, True]
    assert loaded.groups[0].completions[1].rewards == {"reward": None}
    assert any("a step must be an integer" in note for note in loaded.notes)


def test_rewards_and_names_without_end_are_cut(saved):
    many = {f"{number} {'x' * 10_000}": 1.0 for number in range(1000)}
    rewards = load(saved(row("a", 1.0, **many), row("b", 0.5, rewards=many))).groups[0].completions
    assert [len(completion.rewards) for completion in rewards] == [50, 50]
    assert max(len(name) for name in rewards[0].rewards) == 100
