"""Prompts computed once for several completions: what the model sees, what it computes, and for which models."""

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model

from gtpo.trl.fast import sharing
from gtpo.trl.fast.padding import Padding
from gtpo.trl.fast.sharing import PackedRows, can_share, shared_order
from tests.tiny import save_tiny_model
from tests.trl.fast.test_padding import MODELS, build
from tests.trl.ragged import Fast, Stock, distance, rollout, run

SHARING = {
    "llama",
    "llama with llama3's frequencies",
    "llama with yarn",
    "qwen2",
    "qwen3",
    "qwen3 mixture",
    "smollm3, some layers without positions",
    "gpt-neox, partly rotary",
}
MORE = {
    "gemma": ("GemmaConfig", {}),
    "granite": ("GraniteConfig", {}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "olmo2": ("Olmo2Config", {}),
    "phi3": ("Phi3Config", {}),
}
PROMPT, COMPLETION = 6, 5


def rows(prompts, completions):
    """Rows of these prompts, padded on the left, with completions of these lengths, padded on the right."""
    torch.manual_seed(0)
    ids, mask = torch.randint(3, 60, (len(prompts), PROMPT + COMPLETION)), torch.zeros(len(prompts), 11).long()
    for row, (prompt, length) in enumerate(zip(prompts, completions, strict=True)):
        ids[row, PROMPT - len(prompt) : PROMPT] = torch.tensor(prompt)
        mask[row, PROMPT - len(prompt) : PROMPT + length] = 1
    return ids, mask


def log_probs(model, ids, mask, **inputs):
    with torch.no_grad():
        logits = model(input_ids=ids, **{"attention_mask": mask, **inputs}).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_a_model_computes_the_same_for_packed_rows(name):
    config_name, overrides = {**MODELS, **MORE}[name][:2]
    model = build(config_name, overrides)
    assert can_share(model, Padding.of(model)) == (name in SHARING | MORE.keys())
    if name in MODELS and name not in SHARING:
        return
    for parameter in model.parameters():  # norms begin with ones
        parameter.data.add_(torch.randn_like(parameter) / 10)
    ids, mask = rows([[7, 8, 9], [4, 5, 6, 7, 8], [7, 8, 9], [7, 8, 9]], [5, 3, 1, 4])
    packed = PackedRows.of(ids, mask, COMPLETION)
    assert packed is not None
    assert packed.ids.shape[0] < 4
    separate = log_probs(model, ids, mask)[:, -COMPLETION:]
    with packed.replacing_inputs(model):
        together = packed.unpack(log_probs(model, packed.ids, packed.is_scored))
    is_completion = mask[:, -COMPLETION:].bool()
    torch.testing.assert_close(together[is_completion], separate[is_completion], atol=2e-5, rtol=2e-5)
    assert not together[~is_completion].any()


def test_every_family_that_shares_prompts_is_compared():
    names = [*((name, MODELS[name]) for name in SHARING), *MORE.items()]
    assert {getattr(transformers, model[0]).model_type for _, model in names} == sharing.FAMILIES


@pytest.mark.parametrize(
    "change", [{"_attn_implementation": "eager"}, {"sliding_window": 4}, {"output_router_logits": True}]
)
def test_other_attention_is_not_packed(change):
    model = build("LlamaConfig", {})
    for name, value in change.items():
        setattr(model.config, name, value)
    assert not can_share(model, Padding.of(model))


prompts_and_lengths = st.lists(
    st.tuples(st.sampled_from([[7], [8], [7, 8], [7, 8, 9, 10, 11, 12]]), st.integers(0, COMPLETION)),
    min_size=1,
    max_size=9,
)


@given(drawn=prompts_and_lengths, columns=st.sampled_from([1, 10, 5000]))
def test_a_token_sees_its_prompt_and_its_own_completion(drawn, columns):
    """Every completion is found once in the packed rows, with the tokens and positions of its own row."""
    prompts, completions = map(list, zip(*drawn, strict=True))
    ids, mask = rows(prompts, completions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "ATTENTION_COLUMNS", columns)
        packed = PackedRows.of(ids, mask, COMPLETION)
    if packed is None:
        return
    seen = {}
    model = torch.nn.Identity()
    model.forward = lambda **inputs: seen.update(inputs)
    with packed.replacing_inputs(model):
        model(input_ids=packed.ids)
    assert not model._forward_pre_hooks
    assert int(packed.is_scored.sum()) == sum(completions)
    assert packed.ids.numel() <= ids.numel() * 2
    for row, (prompt, length) in enumerate(drawn):
        own = ids[row, PROMPT : PROMPT + length].tolist()
        places = packed.places[row].tolist()
        assert [place >= 0 for place in places] == [token < length for token in range(COMPLETION)]
        width = packed.ids.shape[1] - 1
        for token, place in enumerate(places[:length]):
            number, column = place // width, place % width  # of the token before, which predicts this one
            assert packed.is_scored[number, column + 1]
            visible = seen["attention_mask"][number, 0, column].nonzero().flatten().tolist()
            assert visible[-1] == column
            assert packed.ids[number, visible].tolist() == prompt + own[:token]
            assert packed.positions[number, visible].tolist() == list(range(len(prompt) + token))
            assert packed.ids[number, column + 1] == own[token]


def test_code_from_elsewhere_is_not_packed():
    model = build("LlamaConfig", {})

    class FSDPLlama(type(model)):
        __module__ = "torch.distributed.fsdp"

    class Own(type(model)):
        pass

    model.__class__ = FSDPLlama
    assert can_share(model, Padding.of(model))
    model.__class__ = Own
    assert not can_share(model, Padding.of(model))


def test_an_adapter_that_reads_the_tokens_of_a_row_is_not_packed():
    for tokens, is_shared in ((None, True), ([7], False)):
        lora = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], alora_invocation_tokens=tokens)
        model = get_peft_model(build("LlamaConfig", {}), lora)
        assert can_share(model, Padding.of(model)) is is_shared


def test_rows_with_holes_are_not_packed():
    ids, mask = rows([[7, 8]] * 2, [4, 4])
    assert PackedRows.of(ids, mask, COMPLETION) is not None
    for column in (PROMPT - 1, PROMPT + 1):
        torn = mask.clone()
        torn[0, column] = 0
        assert PackedRows.of(ids, torn, COMPLETION) is None


def test_completions_of_a_prompt_are_neighbours_and_empty_ones_come_last():
    ids, mask = rows([[7], [8, 9], [7], [8, 9], [7]], [1, 1, 1, 1, 1])
    order, costs = shared_order(ids[:, :PROMPT], mask[:, :PROMPT], [2, 5, 0, 4, 3])
    assert order == [1, 3, 4, 0, 2]
    assert costs == [5 + 1 + 1, 4 + 1 + 1, 3 + 1, 2 + 1, 0]  # a half of the prompt each


def long_prompts(prompts, trainer):
    output = rollout(prompts, trainer)
    return {**output, "prompt_ids": [[5, *range(20, 50), *ids] for ids in output["prompt_ids"]]}


@pytest.mark.skipif(not sharing.SCORES_MARKED_TOKENS, reason="prompts are shared with TRL 1.15 and newer")
def test_the_update_computes_the_prompt_of_a_group_once(tmp_path, monkeypatch):
    save_tiny_model(tmp_path / "model", initializer_range=0.3)
    options = {"rollout_func": long_prompts, "loss_type": "grpo", "beta": 0.0, "scale_rewards": "none"}
    stock, fast = (run(str(tmp_path / "model"), tmp_path, trainer=trainer, **options) for trainer in (Stock, Fast))
    for mine, theirs in zip(fast.gradients, stock.gradients, strict=True):
        assert distance(mine, theirs) < 1e-5
    monkeypatch.setattr(sharing, "can_share", lambda *_: False)
    separate = run(str(tmp_path / "model"), tmp_path, trainer=Fast, **options)
    computed = [sum(rows * columns for rows, columns in trainer.update) for trainer in (fast, separate)]
    assert computed[0] < 0.6 * computed[1]
    assert [len(trainer.update) for trainer in (fast, separate, stock)] == [8, 8, 8]
