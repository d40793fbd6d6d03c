"""The correction for the sampler's log-probs has TRL's gradients and metrics without TRL's scoring pass."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig
from trl.trainer import grpo_trainer

from gtpo.trl.fast.correction import METRICS, MODES, has_dropout
from tests.tiny import save_tiny_model
from tests.trl.ragged import Fast, Stock, Watched, distance, rollout, rollout_with_tools, run


class CorrectedStock(Stock):
    is_corrected = True


class CorrectedFast(Fast):
    is_corrected = True


class CorrectedGTPO(Watched):
    is_corrected = True


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_tiny_model(folder, initializer_range=0.3)
    return str(folder)


def never_tied(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(sum(token * (place + 1) for place, token in enumerate(ids)) % 97) for ids in completion_ids]


def near_the_policy(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Log-probs that differ a little from those of the first policy; one of them is unknown."""
    output = rollout_with_tools(prompts, trainer)
    with torch.no_grad():
        for row, (prompt, ids) in enumerate(zip(output["prompt_ids"], output["completion_ids"], strict=True)):
            logits = trainer.model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            logps = logits.log_softmax(-1).gather(1, torch.tensor(ids).unsqueeze(1)).squeeze(1)
            output["logprobs"][row] = (logps + 0.3 * torch.sin(torch.arange(len(ids)) + row)).tolist()
    if "nan_to_num(per_token_logps_diff" in inspect.getsource(grpo_trainer):  # before, TRL's own gradients are NaN
        output["logprobs"][3][2] = float("nan")
    return output


BOUNDS = {"vllm_importance_sampling_clip_min": 0.8, "vllm_importance_sampling_clip_max": 1.2}


@pytest.mark.parametrize("mode", MODES)
def test_gradients_and_metrics_are_those_of_trl_without_its_pass(mode, model, tmp_path):
    options = {"rollout_func": near_the_policy, "reward": never_tied, "vllm_importance_sampling_mode": mode, **BOUNDS}
    stock, fast = (
        run(model, tmp_path, trainer=trainer, **options, max_steps=1) for trainer in (CorrectedStock, CorrectedFast)
    )
    sampled = 24  # passes of `near_the_policy` itself
    assert len(stock.scoring) > sampled == len(fast.scoring)
    for mine, theirs in zip(fast.gradients, stock.gradients, strict=True):
        assert theirs.any()
        assert distance(mine, theirs) < 1e-5
    ours, expected = ({name: trainer.state.log_history[0][name] for name in METRICS} for trainer in (fast, stock))
    assert len(set(expected.values())) >= 4
    assert ours == pytest.approx(expected, rel=1e-4)


def never_ending(prompts: list[str], trainer: Any) -> dict[str, Any]:
    output = rollout(prompts, trainer)
    output["completion_ids"] = [[*ids[:-1], 51] for ids in output["completion_ids"]]
    return output


@pytest.mark.parametrize("mode", MODES)
def test_a_step_whose_completions_are_all_masked_logs_what_trl_logs(mode, model, tmp_path):
    options = {"rollout_func": never_ending, "mask_truncated_completions": True, "vllm_importance_sampling_mode": mode}
    stock, fast = (
        run(model, tmp_path, trainer=trainer, reward=never_tied, **options, max_steps=1)
        for trainer in (CorrectedStock, CorrectedFast)
    )
    assert not fast.scoring
    ours, expected = ({name: trainer.state.log_history[0][name] for name in METRICS} for trainer in (fast, stock))
    assert ours == expected
    assert ours["sampling/sampling_logp_difference/max"] == 0


@pytest.mark.parametrize(
    ("trainer", "options"),
    [
        (CorrectedFast, {"num_iterations": 2}),
        (CorrectedFast, {"steps_per_generation": 8}),
        (CorrectedGTPO, {"entropy_filter": "all"}),
        (CorrectedFast, {"peft_config": LoraConfig(r=2, target_modules=["q_proj"], lora_dropout=0.1)}),
    ],
    ids=["reused batch", "several updates of a batch", "entropies are needed", "dropout"],
)
def test_the_pass_stays_where_the_update_cannot_replace_it(trainer, options, model, tmp_path):
    done = run(model, tmp_path, trainer=trainer, **options)
    assert done.scoring
    assert all("old_per_token_logps" in batch for batch in done.batches)


def test_a_loss_that_reads_the_ratios_elsewhere_keeps_the_pass():
    trainer = object.__new__(CorrectedFast)
    config = SimpleNamespace(gradient_accumulation_steps=4, steps_per_generation=4)
    model = torch.nn.Linear(1, 1).train()
    trainer.__dict__ |= {"args": config, "model": model, "use_vllm": True, "num_iterations": 1}
    trainer.__dict__ |= {"vllm_importance_sampling_correction": True, "vllm_importance_sampling_mode": MODES[0]}
    assert trainer._update_has_the_log_probs()
    trainer.liger_loss = object()  # before TRL 1.14
    assert not trainer._update_has_the_log_probs()


def test_an_evaluation_keeps_the_pass(model, tmp_path):
    trainer = run(model, tmp_path, trainer=CorrectedFast, max_steps=1)
    assert not trainer.scoring
    trainer.evaluate(trainer.train_dataset.select(range(2)))
    assert trainer.scoring
    assert "eval_sampling/importance_sampling_ratio/mean" in trainer.state.log_history[-1]


def test_a_reference_model_is_still_scored(model, tmp_path):
    stock, fast = (
        run(model, tmp_path, trainer=trainer, rollout_func=near_the_policy, beta=0.1, max_steps=1)
        for trainer in (CorrectedStock, CorrectedFast)
    )
    assert distance(fast.gradients[0], stock.gradients[0]) < 1e-5
    assert all("ref_per_token_logps" in batch and "old_per_token_logps" not in batch for batch in fast.batches)


def test_dropout_and_router_noise_are_found_in_modules_and_in_attributes():
    assert not has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.0)))
    assert has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.1)))
    for name in ("attention_dropout", "router_jitter_noise"):
        module = torch.nn.Linear(2, 2)
        setattr(module, name, 0.0)
        assert not has_dropout(torch.nn.Sequential(module))
        setattr(module, name, 0.1)
        assert has_dropout(torch.nn.Sequential(module))
