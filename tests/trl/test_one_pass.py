"""GTPO shapes in the update: same gradients, metrics and records as with a scoring pass before it.

tests/trl/fast/test_trimming.py and tests/trl/test_processes.py compare gradients for many options of TRL; the runs
that they compare with (`trim_batches=False`) score every batch before the update.
"""

from typing import Any

import pytest
import torch
from peft import LoraConfig

from gtpo import ConfigError, DataError
from gtpo.trl.fast.padding import ROW_NUMBER
from tests.reading import read_groups
from tests.tiny import save_tiny_model
from tests.trl.ragged import Watched, distance, run


class Corrected(Watched):
    is_corrected = True


class OwnLoss(Watched):
    """Copies TRL's loss instead of calling it: what is left of `grpo` without clipping."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        mask, columns = inputs["completion_mask"], inputs["completion_ids"].shape[1]
        ids, inside = (torch.cat([inputs[f"prompt_{x}"], inputs[f"completion_{x}"]], dim=1) for x in ("ids", "mask"))
        logps, _, _ = self._get_per_token_logps_and_entropies(model, ids, inside, columns, compute_entropy=True)
        loss = -(logps - logps.detach()).exp() * inputs["advantages"] * mask
        return (loss.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).mean() / self.current_gradient_accumulation_steps


class OwnForward(Watched):
    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        return model(input_ids=inputs["completion_ids"]).logits.mean() * inputs["advantages"].mean()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_tiny_model(folder, initializer_range=0.3)
    return str(folder)


def shared_everything(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Groups of four. In the first, a bad completion shares all of its tokens with the good ones."""
    groups = [
        [[20, 21, 50, 1], [20, 21, 30, 31, 1], [22, 32, 50, 1], [23, 33, 34, 1]],
        [[20, 24, 50, 1], [20, 24, 50, 1], [20, 25, 50, 51, 1], [26, 1]],
    ]
    completions = [ids for _ in range(len(prompts) // 8) for group in groups for ids in group]
    return {"prompt_ids": [[5, 6]] * len(prompts), "completion_ids": completions, "logprobs": None}


def sometimes_none(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    return [None if len(ids) == 5 else float(sum(ids) % 3) for ids in completion_ids]


def odd_places_are_good(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [10.0 if row % 8 in (1, 2, 4, 5) else 0.0 for row in range(len(completion_ids))]


LEFT_TO_UPDATE = {
    "the defaults": {},
    "no filter": {"entropy_filter": "off"},
    "two generation batches in one step": {"steps_per_generation": 2, "per_device_train_batch_size": 8},
    "log-probs of the sampler": {"trainer": Corrected},
    "completions without a score": {"reward": sometimes_none},
    "a loss that does not call the parent's": {"trainer": OwnLoss},
}


@pytest.mark.parametrize("options", LEFT_TO_UPDATE.values(), ids=LEFT_TO_UPDATE.keys())
def test_gradients_metrics_and_records_are_those_of_a_pass_before_the_update(options, model, tmp_path):
    trainers = []
    for trims in (False, True):
        folder = tmp_path / str(trims)
        trainers.append(run(model, folder, trim_batches=trims, record_groups=2, record_every=1, **options))
    before, within = trainers
    assert before.scoring
    assert not within.scoring
    for mine, theirs in zip(within.gradients, before.gradients, strict=True):
        assert theirs.any()
        assert distance(mine, theirs) < 1e-5
    for mine, theirs in zip(within.state.log_history[:-1], before.state.log_history[:-1], strict=True):
        names = {name for name in theirs if name.startswith(("gtpo/", "credit/")) and "seconds" not in name}
        assert len(names) > 15
        assert {name: mine[name] for name in names} == pytest.approx({name: theirs[name] for name in names}, rel=1e-4)
    pairs = list(zip(*(read_groups(tmp_path / str(trims)) for trims in (True, False)), strict=True))
    assert len(pairs) >= 4
    for mine, theirs in pairs:
        assert (mine.step, mine.prompt, mine.initial_entropy) == (theirs.step, theirs.prompt, theirs.initial_entropy)
        for own, other in zip(mine.completions, theirs.completions, strict=True):
            assert (own.token_ids, own.kept, own.token_weight) == (other.token_ids, other.kept, other.token_weight)
            assert own.token_advantage == pytest.approx(other.token_advantage, rel=1e-3, abs=1e-5)
            for name in ("token_entropy", "token_logp", "entropy"):
                if own.valid or getattr(own, name) is not None:  # None: not scored, so not in the update
                    assert getattr(own, name) == pytest.approx(getattr(other, name), rel=1e-3, abs=1e-5)


def test_a_completion_without_any_weight_still_counts(model, tmp_path):
    options = {"rollout_func": shared_everything, "reward": odd_places_are_good, "max_steps": 1}
    before, within = (run(model, tmp_path, trim_batches=trims, **options) for trims in (False, True))
    assert not within.scoring
    weightless = [
        batch["completion_ids"][row].tolist()[:4]
        for batch in before.batches
        for row in (~batch["advantages"].any(dim=1)).nonzero().flatten().tolist()
    ]
    assert [20, 21, 50, 1] in weightless
    assert distance(within.gradients[0], before.gradients[0]) < 1e-5
    for name in ("gtpo/entropy_mean", "gtpo/token_entropy", "gtpo/frac_kept"):
        assert within.state.log_history[0][name] == pytest.approx(before.state.log_history[0][name], rel=1e-4)


KEPT_PASS = {
    "many may be filtered": {"entropy_filter": "all"},
    "a centred penalty": {"entropy_penalty_center": True},
    "a relative penalty": {"entropy_penalty_relative": True},
    "no penalty: tied completions leave the update": {"entropy_penalty": 0.0},
    "a batch used twice": {"num_iterations": 2},
    "two steps on one batch": {"gradient_accumulation_steps": 2, "steps_per_generation": 4},
    "dropout": {"peft_config": LoraConfig(r=2, target_modules=["q_proj"], lora_dropout=0.1)},
    "untouched batches": {"trim_batches": False},
    "another scheme": {"credit": "annealed"},
}


@pytest.mark.parametrize("options", KEPT_PASS.values(), ids=KEPT_PASS.keys())
def test_the_pass_stays_where_entropies_are_needed_before_the_update(options, model, tmp_path):
    trainer = run(model, tmp_path, **options)
    assert trainer.scoring
    assert "gtpo/entropy_mean" in trainer.state.log_history[0] or "credit" in options


def test_the_pass_stays_until_the_initial_entropy_is_measured(model, tmp_path):
    shares = []
    for needed in (1, 7):  # prompts; a batch has 6
        trainer = run(model, tmp_path, initial_entropy=None, initial_entropy_prompts=needed, max_steps=3)
        assert trainer.initial_entropy.is_frozen
        shares.append(len(trainer.scoring))
    assert shares[1] == 2 * shares[0] > 0


def test_a_broken_model_stops_the_run_with_its_step(model, tmp_path):
    class Breaking(Watched):
        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            if self.state.global_step == 1:
                with torch.no_grad():
                    next(self.model.parameters()).fill_(torch.nan)
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    with pytest.raises(
        DataError, match=r"Step 2: Row 0 has the mean entropy nan .* logits of the model are not finite"
    ):
        run(model, tmp_path, trainer=Breaking)


def test_a_loss_without_trls_forward_pass_is_an_error_that_says_what_to_set(model, tmp_path):
    with pytest.raises(ConfigError, match=r"OwnForward computes its loss without .*Set args\.trim_batches = False"):
        run(model, tmp_path, trainer=OwnForward)


def test_a_micro_batch_that_is_used_again_after_an_interruption_is_shaped_once(model, tmp_path):
    class Interrupted(Watched):
        is_interrupted = False

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().compute_loss(*args, **kwargs)
            if len(self.batches) == 2 and not self.is_interrupted:
                self.is_interrupted = True
                raise KeyboardInterrupt
            return loss

        def train(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().train(*args, **kwargs)
            except KeyboardInterrupt:
                super().train(*args, **kwargs)

    again, once = (run(model, tmp_path, trainer=trainer, max_steps=1) for trainer in (Interrupted, Watched))
    assert again.is_interrupted
    assert again.batches[1] is again.batches[2]
    torch.testing.assert_close(again.batches[1]["advantages"], once.batches[1]["advantages"])


def test_a_batch_that_was_stored_unshaped_is_generated_again(model, tmp_path):
    """After an interruption, optimizer steps and so checkpoints may end within a generation batch."""
    options = {"steps_per_generation": 4, "save_strategy": "steps", "save_steps": 1}
    run(model, tmp_path, gradient_accumulation_steps=2, max_steps=1, **options)
    options |= {"gradient_accumulation_steps": 4, "resume_from_checkpoint": True}
    run(model, tmp_path, max_steps=2, **options)
    stored = torch.load(tmp_path / "checkpoint-2" / "rollouts_0.pt", weights_only=True)["buffered_inputs"]
    assert ROW_NUMBER in stored[-1]
    assert run(model, tmp_path, max_steps=3, **options).state.global_step == 3


def test_a_resume_forgets_the_batch_before_an_interruption(model, tmp_path):
    class Interrupted(Watched):
        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            if self.state.global_step == 1 and not self.is_resumed:
                raise KeyboardInterrupt
            return super().compute_loss(*args, **kwargs)

        def train(self, *args: Any, **kwargs: Any) -> None:
            self.is_resumed = False
            with pytest.raises(KeyboardInterrupt):
                super().train(*args, **kwargs)
            self.is_resumed = True
            super().train(resume_from_checkpoint=True)

    trainer = run(model, tmp_path, trainer=Interrupted, save_strategy="steps", save_steps=1)
    assert trainer.state.global_step == 2
