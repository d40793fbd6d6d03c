"""FastGRPOTrainer has the gradients of TRL's GRPOTrainer at every optimizer step, for every loss, in fewer tokens."""

import pytest
import torch
from accelerate import Accelerator

from gtpo import FastGRPOTrainer
from gtpo.trl.fast.trimming import LOSS_DIVISORS
from tests.tiny import save_tiny_model
from tests.trl.ragged import Fast, Stock, distance, mostly_tied, reward, rollout_with_tools, run
from trl import GRPOConfig

SEQUENCE = {"importance_sampling_level": "sequence"}
EVERYWHERE = {
    "several iterations, tools, correction of the sampler": {
        "num_iterations": 2,
        "steps_per_generation": 2,
        "rollout_func": rollout_with_tools,
        "is_corrected": True,
    },
    "a kl term": {"beta": 0.1, "num_iterations": 2},
}
CASES = {
    **{f"{loss}, {name}": {"loss_type": loss, **case} for loss in LOSS_DIVISORS for name, case in EVERYWHERE.items()},
    "tied groups": {"reward": mostly_tied, "loss_type": "grpo"},
    "masked truncation": {"mask_truncated_completions": True},
    "luspo with sequence-level ratios": {"loss_type": "luspo", **SEQUENCE, "num_iterations": 2},
    "one correction per completion": {"is_corrected": True, "vllm_importance_sampling_mode": "sequence_mask"},
    "the off-policy mask": {"off_policy_mask_threshold": 1e-4, "num_iterations": 2, "learning_rate": 0.1},
    "a bias-corrected kl term": {"beta": 0.1, "use_bias_correction_kl": True, "num_iterations": 2},
}
SAME_ROWS = {
    "top_entropy_quantile is a quantile": {"top_entropy_quantile": 0.5},
    "the entropy bonus is a mean": {"entropy_coef": 0.1},
    "divides the KL term by the tokens": {"beta": 0.1, "loss_type": "bnpo"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_tiny_model(folder, initializer_range=0.3)
    return str(folder)


def pair(model, folder, *, is_corrected=False, **options):
    """The same run with TRL's trainer and with ours."""
    trainers = [
        run(model, folder, trainer=type("Watched", (base,), {"is_corrected": is_corrected}), **options)
        for base in (Stock, Fast)
    ]
    stock, fast = trainers
    assert len(fast.gradients) == len(stock.gradients) >= 2
    for step, (mine, theirs) in enumerate(zip(fast.gradients, stock.gradients, strict=True)):
        assert theirs.any()
        assert distance(mine, theirs) < (1e-4 if step else 1e-5)  # later weights differ by rounding already
    assert distance(fast.movement, stock.movement) < 1e-3  # weights move by little more than their rounding error
    assert len(fast.update) == len(stock.update)
    return stock, fast


def tokens(shapes):
    return sum(rows * columns for rows, columns in shapes)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_every_gradient_is_that_of_trl_in_fewer_tokens(options, model, tmp_path, caplog):
    may_warn = options.get("loss_type") == "bnpo" and "beta" in options
    stock, fast = pair(model, tmp_path, **options)
    assert tokens(fast.update) < tokens(stock.update)
    assert tokens(fast.scoring) <= tokens(stock.scoring)
    assert may_warn or "padding" not in caplog.text.lower()
    losses = [[entry["loss"] for entry in t.state.log_history if "loss" in entry] for t in (fast, stock)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("reason", "options"), SAME_ROWS.items(), ids=SAME_ROWS.keys())
def test_a_loss_that_is_not_a_sum_over_rows_keeps_its_rows_with_one_warning(reason, options, model, tmp_path, caplog):
    stock, fast = pair(model, tmp_path, **options)
    assert [len(batch["advantages"]) for batch in fast.batches] == [
        len(batch["advantages"]) for batch in stock.batches
    ]
    assert tokens(fast.update) < tokens(stock.update)
    assert caplog.text.count("micro-batches keep their rows: ") == caplog.text.count(reason) == 1


@pytest.mark.parametrize(
    ("reason", "attributes"),
    [
        ("the model takes images", {"_is_vlm": True}),
        ("loss_type='of a later version'", {"loss_type": "of a later version"}),
        ("use_liger_kernel=True", {"liger_loss": None}),
        ("their key 'unknown'", {}),
    ],
)
def test_an_unknown_loss_or_batch_stays_unchanged_with_one_warning(reason, attributes, caplog):
    trainer = object.__new__(type("Stub", (FastGRPOTrainer,), {}))
    trainer.__dict__.update(
        {"_is_vlm": False, "loss_type": "grpo", "accelerator": Accelerator(cpu=True), **attributes}
    )
    block = [{"advantages": torch.ones(2)}, {"advantages": torch.ones(2)}]
    if not attributes:
        block[0]["unknown"] = torch.ones(2)
    for _ in range(2):
        assert trainer._trimmed(block) is block
    assert caplog.text.count("Batches keep their padding: ") == caplog.text.count(reason) == 1


def test_trimming_can_be_turned_off_without_another_config_class(model, tmp_path, monkeypatch):
    monkeypatch.setattr(GRPOConfig, "trim_batches", False, raising=False)
    plain = run(model, tmp_path, trainer=Fast, max_steps=1)
    assert len(set(plain.update)) == 1
    assert sum(rows for rows, _ in plain.update) == 24


def test_more_prompts_whose_groups_are_tied_cost_no_update_and_count_in_the_mean(model, tmp_path):
    """Twice the prompts, the second half tied: the same rows in the update, and half the gradient."""
    first_half: set[str] = set()

    def noting(completion_ids, prompts, **_):
        first_half.update(prompts)
        return reward(completion_ids)

    def tied_elsewhere(completion_ids, prompts, **_):
        scores = reward(completion_ids)
        return [score * (prompt in first_half) for score, prompt in zip(scores, prompts, strict=True)]

    options = {"trainer": Fast, "loss_type": "grpo", "scale_rewards": "none", "beta": 0.0, "max_steps": 1}
    few = run(model, tmp_path, reward=noting, gradient_accumulation_steps=4, **options)
    many = run(model, tmp_path, reward=tied_elsewhere, gradient_accumulation_steps=8, **options)
    assert len(first_half) == 6
    assert distance(2 * many.gradients[0], few.gradients[0]) < 1e-5
    assert sum(len(batch["advantages"]) for batch in many.batches) == sum(
        len(batch["advantages"]) for batch in few.batches
    )
    tied = [trainer.state.log_history[0]["frac_reward_zero_std"] for trainer in (few, many)]
    assert tied[1] == pytest.approx((tied[0] + 1) / 2)  # of all sampled groups
