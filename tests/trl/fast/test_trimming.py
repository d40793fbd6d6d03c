"""Trimmed batches: the gradient of every optimizer step stays the same, and padding is not computed."""

import math

import pytest
import torch
from peft import LoraConfig
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3MoeConfig, Qwen3MoeForCausalLM

from gtpo.trl.fast.padding import COMPLETION_KEYS, PROMPT_KEYS, SHARED_KEYS, Padding
from gtpo.trl.fast.trimming import TrimmedBatches
from tests.tiny import save_tiny_model, tiny_tokenizer
from tests.trl.ragged import Corrected, Fast, Stock, distance, mostly_tied, rollout, rollout_with_tools, run
from trl import GRPOTrainer

LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
TIED = {"reward": mostly_tied, "entropy_filter": "off", "entropy_penalty": 0.0}
CASES = {
    "accumulation": {},
    "one micro-batch per step": {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 24},
    "two steps on one generation batch": {"gradient_accumulation_steps": 2, "steps_per_generation": 4},
    "two generation batches in one step": {"gradient_accumulation_steps": 4, "steps_per_generation": 2},
    "generation batches across steps": {"gradient_accumulation_steps": 3, "steps_per_generation": 4, "max_steps": 4},
    "some common divisor": {"gradient_accumulation_steps": 4, "steps_per_generation": 6, "max_steps": 3},
    "several iterations": {"num_iterations": 2},
    "lora": {"peft_config": LORA},
    "nothing filtered": {"entropy_filter": "off"},
    "everything filtered": {"entropy_threshold": 1e-3},
    "everything filtered before the update": {"entropy_threshold": 1e-3, "entropy_filter": "all"},
    "entropies known before the update": {"entropy_filter": "all"},
    "fewer rows with weight than micro-batches": {
        **TIED,
        "per_device_train_batch_size": 1,
        "steps_per_generation": 24,
        "gradient_accumulation_steps": 24,
    },
    "tied groups": TIED,
    "masked truncation": {"mask_truncated_completions": True},
    "tools": {"rollout_func": rollout_with_tools},
    "dapo": {"loss_type": "dapo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "bnpo": {"loss_type": "bnpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0, "num_iterations": 2},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "num_iterations": 2},
    "sapo": {"loss_type": "sapo", "num_iterations": 2},
    "advantages divided by a deviation": {"scale_rewards": "group"},
    "an entropy bonus": {"entropy_coef": 0.5},
    "bnpo with tools": {"loss_type": "bnpo", "rollout_func": rollout_with_tools},
    "a kl term": {"beta": 0.1},
    "a kl term in bnpo": {"beta": 0.1, "loss_type": "bnpo"},
    "the high-entropy quantile": {"top_entropy_quantile": 0.5},
    "sequence-level ratios": {"importance_sampling_level": "sequence", "num_iterations": 2},
    "correction of the sampler": {"trainer": Corrected, "vllm_importance_sampling_mode": "token_truncate"},
    "one correction per completion": {"trainer": Corrected, "vllm_importance_sampling_mode": "sequence_truncate"},
    "padding to a multiple": {"pad_to_multiple_of": 4},
    "gradient checkpointing": {"gradient_checkpointing": True},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Closer to uniform than the model of other tests, whose rounding errors grow tenfold with every step."""
    folder = tmp_path_factory.mktemp("model")
    save_tiny_model(folder, initializer_range=0.3)
    return str(folder)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_trimming_leaves_every_gradient_and_the_weights_alone(options, model, tmp_path):
    plain = run(model, tmp_path, trim_batches=False, **options)
    trimmed = run(model, tmp_path, **options)
    assert len(trimmed.gradients) == len(plain.gradients) >= 2
    for mine, theirs in zip(trimmed.gradients, plain.gradients, strict=True):
        assert distance(mine, theirs) < 1e-5
        assert theirs.any() or options.get("entropy_threshold") == 1e-3
    assert distance(trimmed.weights(), plain.weights()) < 1e-5
    assert distance(trimmed.movement, plain.movement) < 1e-3  # weights move by little more than their rounding error
    assert len(trimmed.update) == len(plain.update)  # the same number of passes: processes stay in step
    assert tokens(trimmed.update) < tokens(plain.update)
    assert len(trimmed.scoring) in (0, len(plain.scoring))
    assert tokens(trimmed.scoring) <= tokens(plain.scoring)
    losses = [[entry["loss"] for entry in t.state.log_history if "loss" in entry] for t in (trimmed, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-6)


def tokens(shapes):
    return sum(rows * columns for rows, columns in shapes)


def test_the_comparison_detects_wrong_gradients(model, tmp_path, monkeypatch):
    options = {"gradient_accumulation_steps": 2, "steps_per_generation": 4, "max_steps": 2}
    plain = run(model, tmp_path, trim_batches=False, **options)
    monkeypatch.setattr(math, "gcd", lambda *_: 4)  # rows may move from one optimizer step to the next
    across = run(model, tmp_path, **options)
    assert distance(across.gradients[0], plain.gradients[0]) > 1e-2
    monkeypatch.undo()
    monkeypatch.setattr(TrimmedBatches, "_divisor", lambda self, batch: torch.tensor(1.0))
    unscaled = run(model, tmp_path, **options)
    assert distance(unscaled.gradients[0], plain.gradients[0]) > 1e-2


def test_only_real_tokens_of_rows_with_weight_are_computed(model, tmp_path):
    """With one row per micro-batch there is no padding, and 30 % of the rows are left out."""
    options = {"max_steps": 1, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 12}
    options |= {"entropy_filter": "all"}
    plain = run(model, tmp_path, trim_batches=False, **options)
    trimmed = run(model, tmp_path, **options)
    weighty = [
        int(prompt.sum() + completion.sum())
        for batch in plain.batches
        for prompt, completion, advantages in zip(
            batch["prompt_mask"], batch["completion_mask"], batch["advantages"], strict=True
        )
        if advantages.any()
    ]
    assert 12 < len(weighty) < 20
    assert [sum(len(batch["advantages"]) for batch in run.batches) for run in (plain, trimmed)] == [24, len(weighty)]
    assert tokens(trimmed.update) < 1.25 * sum(weighty) < 0.6 * tokens(plain.update)


def test_token_entropy_is_logged_over_all_completions_including_those_left_out(model, tmp_path):
    """The filter leaves out completions of high entropy: without them a rise could not be seen."""
    options = {"per_device_train_batch_size": 24, "gradient_accumulation_steps": 2, "steps_per_generation": 1}
    options |= {"entropy_filter": "all"}
    plain, trimmed = (run(model, tmp_path, trim_batches=trims, max_steps=2, **options) for trims in (False, True))
    assert tokens(trimmed.update) < tokens(plain.update)

    def logged(trainer, name):
        return [entry[name] for entry in trainer.state.log_history if "loss" in entry]

    assert logged(trimmed, "gtpo/token_entropy") == pytest.approx(logged(plain, "gtpo/token_entropy"), rel=1e-4)
    assert logged(plain, "gtpo/token_entropy") == pytest.approx(logged(plain, "entropy"), rel=1e-4)  # TRL's own
    assert logged(trimmed, "entropy") != pytest.approx(logged(plain, "entropy"), rel=1e-3)


def test_metrics_of_micro_batches_of_single_tokens_are_those_of_trl(model, tmp_path):
    """TRL takes a single column for one value per completion, and counts masked rows in its means."""

    def short(prompts, trainer):
        ids = [[1] if row % 4 == 1 else [20 + row % 5] if row % 4 else [21, 22, 1] for row in range(len(prompts))]
        scores = [[-1.0] * len(row) for row in ids]
        return {"prompt_ids": [[5, 6, 7]] * len(prompts), "completion_ids": ids, "logprobs": scores}

    options = {"rollout_func": short, "mask_truncated_completions": True, "entropy_coef": 0.01, "max_steps": 1}
    options |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 12}
    stock, fast = (run(model, tmp_path, trainer=trainer, **options) for trainer in (Stock, Fast))
    assert stock.state.log_history[0]["entropy"] == pytest.approx(fast.state.log_history[0]["entropy"], rel=1e-5)
    assert distance(fast.gradients[0], stock.gradients[0]) < 1e-5


def test_a_step_without_any_weight_computes_a_row_per_micro_batch(model, tmp_path):
    trimmed = run(model, tmp_path, entropy_threshold=1e-3, entropy_filter="all", max_steps=1)
    assert [rows for rows, _ in trimmed.update] == [1, 1, 1, 1]
    # Complete ones: a logged entropy of first tokens alone would look like a collapse.
    assert all(batch["completion_mask"].sum() > 1 for batch in trimmed.batches)
    assert not trimmed.gradients[0].any()


def learned_positions():
    torch.manual_seed(0)
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(
        vocab_size=64,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.3,
        **no_dropout,
    )
    return GPT2LMHeadModel(config)


def test_prompts_keep_their_padding_where_positions_are_learned(tmp_path, monkeypatch):
    options = {
        "processing_class": tiny_tokenizer(),
        "max_steps": 2,
        "entropy_threshold": 10.0,
        "entropy_filter": "all",
    }
    plain = run(learned_positions(), tmp_path, trim_batches=False, **options)
    trimmed = run(learned_positions(), tmp_path, **options)
    assert plain.gradients[0].any()
    assert [distance(*pair) < 1e-5 for pair in zip(trimmed.gradients, plain.gradients, strict=True)] == [True, True]
    full = {batch["prompt_ids"].shape[1] for batch in plain.batches}
    assert {batch["prompt_ids"].shape[1] for batch in trimmed.batches} == full
    assert tokens(trimmed.update) < tokens(plain.update)
    monkeypatch.setattr(Padding, "of", lambda *_: Padding(completions=True, prompts=True))
    wrong = run(learned_positions(), tmp_path, **options)
    assert distance(wrong.gradients[0], plain.gradients[0]) > 1e-3


def test_the_auxiliary_loss_of_a_router_is_taken_over_the_same_rows(tmp_path):
    def mixture():
        torch.manual_seed(0)
        config = Qwen3MoeConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=32,
            moe_intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            num_experts=4,
            num_experts_per_tok=2,
            router_aux_loss_coef=0.1,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
            initializer_range=0.3,
        )
        return Qwen3MoeForCausalLM(config)

    options = {"processing_class": tiny_tokenizer(), "max_steps": 2, "entropy_threshold": 10.0}
    plain = run(mixture(), tmp_path, trim_batches=False, **options)
    trimmed = run(mixture(), tmp_path, **options)
    assert plain.aux_loss_enabled
    assert plain.gradients[0].any()
    assert [distance(*pair) < 1e-5 for pair in zip(trimmed.gradients, plain.gradients, strict=True)] == [True, True]
    assert [rows for rows, _ in trimmed.update] == [6] * 8


def test_every_key_that_trl_puts_into_a_batch_is_known_and_cut(model, tmp_path):
    options = {"trainer": Corrected, "rollout_func": rollout_with_tools, "vllm_importance_sampling_mode": "token_mask"}
    trainer = run(model, tmp_path, beta=0.1, max_steps=1, entropy_filter="all", **options)
    assert len({batch["completion_mask"].shape[1] for batch in trainer.batches}) > 1
    for batch in trainer.batches:
        assert batch.keys() == PROMPT_KEYS | COMPLETION_KEYS | SHARED_KEYS
        completion, prompt = batch["completion_mask"], batch["prompt_mask"]
        assert completion[:, -1].any()
        assert prompt[:, 0].any()
        assert all(batch[key].shape == completion.shape for key in COMPLETION_KEYS)
        assert all(batch[key].shape == prompt.shape for key in PROMPT_KEYS)
        assert all(value.is_contiguous() for value in batch.values())  # so a checkpoint stores no more than this


def test_a_batch_with_an_unknown_key_stays_unchanged(model, tmp_path):
    class Extended(Corrected):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            return {**batch, "unknown": torch.arange(len(batch["advantages"]))}

    trainer = run(model, tmp_path, trainer=Extended, max_steps=1)
    assert [len(batch["advantages"]) for batch in trainer.batches] == [6] * 4
    assert len({batch["completion_ids"].shape for batch in trainer.batches}) == 1


def test_scoring_equals_the_parents_row_by_row(model, tmp_path):
    trainer = run(model, tmp_path, max_steps=1)
    torch.manual_seed(0)
    ids = torch.randint(3, 60, (7, 12))
    places = torch.arange(12)
    starts, stops = torch.tensor([[2, 0, 4, 1, 3, 4, 2], [9, 12, 6, 7, 6, 5, 6]])
    mask = ((places >= starts[:, None]) & (places < stops[:, None])).long()
    trainer.scoring.clear()
    with torch.no_grad():
        arguments = (trainer.model, ids, mask, 6)
        mine = trainer._get_per_token_logps_and_entropies(*arguments, batch_size=3, compute_entropy=True)
        shapes = [*trainer.scoring]
        theirs = super(TrimmedBatches, trainer)._get_per_token_logps_and_entropies(
            *arguments, batch_size=3, compute_entropy=True
        )
        assert trainer._get_per_token_logps_and_entropies(*arguments, batch_size=3)[1] is None
    assert shapes == [(3, 12), (3, 5), (1, 3)]
    for trimmed, padded in zip(mine[:2], theirs[:2], strict=True):
        assert trimmed.shape == padded.shape == (7, 6)
        torch.testing.assert_close(trimmed * mask[:, 6:], padded * mask[:, 6:], atol=1e-5, rtol=1e-5)
        assert not (trimmed * (1 - mask[:, 6:])).any()
    assert mine[2] is None


def test_an_unknown_keyword_is_warned_about_once_and_passed_to_the_parent(model, tmp_path, monkeypatch, caplog):
    trainer = run(model, tmp_path, max_steps=1)
    parent, received = GRPOTrainer._get_per_token_logps_and_entropies, []

    def of_a_later_version(self, *args, new_option=None, **kwargs):
        received.append(new_option)
        return parent(self, *args, **kwargs)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", of_a_later_version)
    ids = torch.randint(3, 60, (4, 8))
    trainer.scoring.clear()
    with torch.no_grad():
        for _ in range(2):
            trainer._get_per_token_logps_and_entropies(
                trainer.model, ids, torch.ones_like(ids), 4, batch_size=2, new_option="x"
            )
    assert received == ["x", "x"]
    assert trainer.scoring == [(2, 8)] * 4
    warnings = [record.message for record in caplog.records if "keep their padding" in record.message]
    assert warnings == ["Scoring passes keep their padding: gtpo does not know the argument new_option of TRL."]


def test_the_stored_rollouts_are_uneven(model, tmp_path):
    trainer = run(model, tmp_path, trim_batches=False, max_steps=1)
    stored = rollout([f"say w{i} :" for i in range(24)], trainer)
    assert len({len(ids) for ids in stored["completion_ids"]}) > 5
    assert len({len(ids) for ids in stored["prompt_ids"]}) > 3
