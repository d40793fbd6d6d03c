"""Options that GTPOTrainer works with. CheckedTrainer compares every advantage with the oracle while it trains."""

import math
from pathlib import Path

import pytest
import torch
from datasets import Dataset, IterableDataset
from peft import LoraConfig

from gtpo import ConfigError, DataError, GTPOConfig, GTPOTrainer
from tests.tiny import tiny_model as build_tiny_model
from tests.tiny import tiny_tokenizer
from tests.trl.checked import CheckedTrainer, last_log, parity_reward, prompts, settings, train
from trl import GRPOConfig

LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)

WORKS_WITH = {
    "the defaults": {},
    "every knob turned": {
        "conflict_edges": "prefix",
        "conflict_match": "prefix",
        "conflict_positive_weight": 1.0,
        "conflict_negative_weight": 0.5,
        "entropy_filter": "negative",
        "entropy_penalty": 0.7,
        "entropy_penalty_center": True,
    },
    "a penalty relative to the spread of rewards": {"entropy_penalty": 0.7, "entropy_penalty_relative": True},
    "lora": {"peft_config": LORA},
    "gradient accumulation": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "reentrant gradient checkpointing": {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
    },
    "several iterations on one batch": {"num_iterations": 2},
    "more steps per generation than accumulation": {"steps_per_generation": 2, "per_device_train_batch_size": 4},
    "another sampling temperature": {"temperature": 0.7, "entropy_threshold": 1.2},
    "generation kwargs": {"generation_kwargs": {"min_new_tokens": 3}},
    "a kl term": {"beta": 0.1},
    "a kl term on lora": {"beta": 0.1, "peft_config": LORA},
    "a kl term on lora with an old-logps pass": {"beta": 0.1, "peft_config": LORA, "num_iterations": 2},
    "sequence-level importance ratios": {"importance_sampling_level": "sequence", "num_iterations": 2},
    "two-sided clipping": {"delta": 4.0, "num_iterations": 2},
    "the high-entropy quantile": {"top_entropy_quantile": 0.5},
    "dapo's normalisation": {"loss_type": "dapo"},
    "dr_grpo's normalisation": {"loss_type": "dr_grpo"},
    "bnpo's normalisation": {"loss_type": "bnpo"},
    "cispo's loss": {"loss_type": "cispo", "epsilon_high": 5.0},
    "luspo's loss": {"loss_type": "luspo", "importance_sampling_level": "sequence", "num_iterations": 2},
    "sapo's loss": {"loss_type": "sapo", "num_iterations": 2},
    "advantages divided by the deviation of the group": {"scale_rewards": "group"},
    "advantages divided by the deviation of the batch": {"scale_rewards": "batch"},
    "an entropy bonus": {"entropy_coef": 0.01},
    "an adaptive entropy bonus": {"use_adaptive_entropy": True, "entropy_target": 1.5},
    "padding to a multiple": {"pad_to_multiple_of": 4},
    "a dropout-free policy": {"disable_dropout": True},
}


@pytest.mark.parametrize("options", WORKS_WITH.values(), ids=WORKS_WITH.keys())
def test_advantages_are_the_papers_and_entropies_cost_at_most_a_pass_with(options, tiny_model, tmp_path):
    trainer = train(tiny_model, **settings(tmp_path, **options))
    assert trainer.checks >= 2
    assert trainer.seen["filtered"] > 0
    assert trainer.seen["kept"] > 0
    assert trainer.seen["conflict"] > 0
    has_reference_adapters = "beta" in options and "peft_config" in options  # another pass, with the adapters off
    assert trainer.passes in (count * trainer.checks for count in ((1, 2) if has_reference_adapters else (0, 1)))
    assert math.isfinite(last_log(trainer)["loss"])


def test_entropies_come_from_the_pass_that_corrects_for_vllm(tiny_model, tmp_path):
    """Without vLLM itself, but with everything that TRL does with its log-probs."""

    class Corrected(CheckedTrainer):
        def train(self, *args, **kwargs):
            self.use_vllm, self._last_loaded_step = True, -1
            self.vllm_generation = type("Stub", (), {"sync_weights": lambda self: None})()
            return super().train(*args, **kwargs)

    def sampled_elsewhere(prompts, trainer):
        torch.manual_seed(trainer.state.global_step)
        completions = [[20, *torch.randint(20, 24, (4,)).tolist(), 1] for _ in prompts]
        logprobs = [[-1.0] * len(ids) for ids in completions]
        return {"prompt_ids": [[5, 6]] * len(prompts), "completion_ids": completions, "logprobs": logprobs}

    options = settings(tmp_path, rollout_func=sampled_elsewhere, entropy_filter="all")
    trainer = train(tiny_model, trainer=Corrected, **options)
    assert trainer.checks == 4
    assert trainer.passes == trainer.checks
    assert "sampling/importance_sampling_ratio/mean" in last_log(trainer)


def test_an_infinite_reward_is_refused_by_name(tiny_model, tmp_path):
    def generous_reward(completions, **columns):
        return [1.0, float("inf"), *([0.0] * (len(completions) - 2))]

    with pytest.raises(DataError, match=r"generous_reward returned inf, or .* for completion 1 of the batch"):
        train(tiny_model, generous_reward, **settings(tmp_path))


def test_a_model_that_is_broken_stops_the_run_with_step_and_row(tiny_model, tmp_path, monkeypatch):
    token_entropy = GTPOTrainer._token_entropy

    def broken_in_step_2(self, batch, captured):
        entropy = token_entropy(self, batch, captured)
        return torch.where(torch.arange(len(entropy)).unsqueeze(1) == 3, torch.nan, entropy) if self._step else entropy

    monkeypatch.setattr(GTPOTrainer, "_token_entropy", broken_in_step_2)
    with pytest.raises(
        DataError, match=r"Step 2: Row 3 has the mean entropy nan .*logits of the model are not finite"
    ):
        train(tiny_model, **settings(tmp_path, entropy_filter="all"))


def test_the_loss_of_liger_in_older_versions_of_trl_is_refused(tiny_model, tmp_path):
    with_liger = type("WithLiger", (GTPOTrainer,), {"liger_loss": None})
    with pytest.raises(ConfigError, match=r"does not support use_liger_kernel=True .*install trl>=1\.14"):
        train(tiny_model, trainer=with_liger, **settings(tmp_path))


def test_truncated_completions_that_are_masked_neither_move_nor_count(tiny_model, tmp_path):
    trainer = train(tiny_model, **settings(tmp_path, mask_truncated_completions=True, top_k=8))
    assert trainer.seen["invalid"] > 0
    assert trainer.seen["kept"] > trainer.seen["invalid"]


def test_a_first_batch_without_any_valid_completion_trains_nothing(tiny_model, tmp_path):
    def truncated(prompts, trainer):
        return {"prompt_ids": [[5]] * len(prompts), "completion_ids": [[20, 21]] * len(prompts), "logprobs": None}

    options = settings(tmp_path, mask_truncated_completions=True, initial_entropy=None, rollout_func=truncated)
    trainer = train(tiny_model, trainer=GTPOTrainer, **options)
    assert last_log(trainer)["gtpo/frac_kept"] == 0.0
    assert last_log(trainer)["loss"] == 0.0


def test_unscorable_completions_are_invalid_rows(tiny_model, tmp_path):
    def sometimes_none(completion_ids, **kwargs):
        return [None if sum(ids) % 3 == 0 else float(sum(ids) % 2) for ids in completion_ids]

    for options in ({"entropy_penalty_center": True}, {"scale_rewards": "batch"}):
        trainer = train(tiny_model, sometimes_none, **settings(tmp_path, **options))
        assert trainer.seen["invalid"] > 0


def test_several_weighted_reward_functions(tiny_model, tmp_path):
    def short(completion_ids, **kwargs):
        return [None if len(ids) > 5 else 1.0 / len(ids) for ids in completion_ids]

    trainer = train(tiny_model, [parity_reward, short], **settings(tmp_path, reward_weights=[1.0, 3.0]))
    assert trainer.checks == 4


def test_tool_output_is_aligned_but_not_trained(tiny_model, tmp_path):
    def with_tool_output(prompts, trainer):
        torch.manual_seed(len(prompts))
        completions = [[5, 6, *torch.randint(3, 60, (2,)).tolist(), 9, 1] for _ in prompts]
        return {
            "prompt_ids": [[20, 21]] * len(prompts),
            "completion_ids": completions,
            "logprobs": None,
            "env_mask": [[1, 0, 1, 1, 0, 1]] * len(prompts),
        }

    trainer = train(tiny_model, **settings(tmp_path, rollout_func=with_tool_output))
    assert trainer.seen["untrained"] > 0
    assert trainer.seen["conflict"] > 0


def test_evaluation_with_another_number_of_generations(tiny_model, tmp_path):
    options = settings(
        tmp_path,
        eval_strategy="steps",
        eval_steps=1,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
        eval_on_start=True,
        eval_dataset=prompts(4),
    )
    trainer = train(tiny_model, **options)
    evaluated = [entry for entry in trainer.state.log_history if "eval_gtpo/frac_kept" in entry]
    assert len(evaluated) == 5
    assert any(0 < entry["eval_gtpo/frac_kept"] < 1 for entry in evaluated)


def test_an_evaluation_does_not_measure_the_initial_entropy(tiny_model, tmp_path):
    options = settings(
        tmp_path,
        initial_entropy=None,
        max_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        eval_on_start=True,
        eval_dataset=prompts(4),
        per_device_eval_batch_size=4,
    )
    trainer = train(tiny_model, trainer=GTPOTrainer, **options)
    assert trainer.initial_entropy.num_prompts == 2  # of the only training batch


def test_conversational_prompts(tiny_model, tmp_path):
    chat = Dataset.from_dict({"prompt": [[{"role": "user", "content": f"say w{i}"}] for i in range(16)]})
    assert train(tiny_model, dataset=chat, **settings(tmp_path)).checks == 4


def test_an_iterable_dataset(tiny_model, tmp_path):
    stream = IterableDataset.from_generator(lambda: ({"prompt": f"say w{i} :"} for i in range(16)))
    assert train(tiny_model, dataset=stream, **settings(tmp_path)).checks == 4


def test_a_model_object_and_a_custom_tokenizer(tmp_path):
    trainer = train(build_tiny_model(), processing_class=tiny_tokenizer(), **settings(tmp_path))
    assert trainer.checks == 4


def test_dropout_in_our_own_pass_leaves_the_random_state_alone(tiny_model, tmp_path):
    class Watched(GTPOTrainer):
        states: list = []  # noqa: RUF012

        def _token_entropy(self, batch, captured):
            before = torch.get_rng_state()
            entropy = super()._token_entropy(batch, captured)
            self.states.append(before.equal(torch.get_rng_state()))
            return entropy

    dropped = LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.5)
    train(tiny_model, trainer=Watched, **settings(tmp_path, peft_config=dropped))
    assert Watched.states == [True] * 4


def test_args_are_optional(tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = GTPOTrainer(tiny_model, parity_reward, train_dataset=prompts())
    assert trainer.args.loss_type == "grpo"
    assert trainer.args.output_dir == f"{Path(tiny_model).name}-GTPO"


def test_a_grpo_config_is_refused(tiny_model, tmp_path):
    with pytest.raises(ConfigError, match="takes a GTPOConfig as args, got GRPOConfig"):
        GTPOTrainer(tiny_model, parity_reward, GRPOConfig(str(tmp_path), bf16=False), prompts())


def test_the_model_card_names_gtpo_and_cites_the_paper(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, save_strategy="steps", save_steps=1, max_steps=1))
    card = (tmp_path / "README.md").read_text()
    assert "trained with GTPO" in card
    assert "2508.03772" in card
    assert "DeepSeekMath" not in card


def test_every_documented_metric_is_logged(tiny_model, tmp_path):
    logged = last_log(train(tiny_model, **settings(tmp_path)))
    logged_names = {name.removeprefix("gtpo/") for name in logged if name.startswith("gtpo/")}
    documented = """
        entropy_mean entropy_max token_entropy initial_entropy frac_kept fully_filtered frac_conflict
        frac_conflict_prefix frac_conflict_suffix num_tokens_skipped num_tokens_amplified frac_push_removed
        frac_push_added frac_sign_flipped frac_tied_groups frac_distinct seconds_sampling seconds_shaping
    """
    assert logged_names == set(documented.split())


def test_checked_trainer_detects_wrong_advantages(tiny_model, tmp_path, monkeypatch):
    """The comparison in the tests above can fail."""
    monkeypatch.setattr("gtpo.core.shaping.conflict_runs", lambda ids, mask, *_, **__: (mask.bool(), mask.bool()))
    with pytest.raises(AssertionError):
        train(tiny_model, trainer=CheckedTrainer, **settings(tmp_path))


def test_config_defaults_are_the_papers():
    config = GTPOConfig("unused")
    assert (config.loss_type, config.scale_rewards, config.beta) == ("grpo", "none", 0.0)
    assert config.logging_steps == GRPOConfig("unused", bf16=False).logging_steps
    assert (config.conflict_positive_weight, config.conflict_negative_weight) == (2.0, 0.0)
    assert (config.entropy_penalty, config.entropy_threshold) == (0.1, math.log(2))
