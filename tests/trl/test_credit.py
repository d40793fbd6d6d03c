"""Every credit scheme in GTPOTrainer: its advantages, what it costs, what is logged, and groups shaped again."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from gtpo import ConfigError, DataError, GTPOConfig, GTPOTrainer
from gtpo.cli.main import main
from gtpo.credit import SCHEMES, CreditInput, token_advantages
from tests.reading import read_groups
from tests.trl.checked import last_log, parity_reward, prompts, settings, train
from tests.trl.credited import train_with

OPTIONS = {
    "annealed": {"initial_entropy": 1.7, "credit_parameters": {"until": 1.05}},
    "negative": {"credit_parameters": {"positive_scale": 0.3}},
    "pass_at_k": {"credit_parameters": {"right_at": 1.5, "k": 2}},
    "prefix_baseline": {"credit_parameters": {"kappa": 1}},
}


def shaped_again(group):
    """The advantages of a recorded group, computed from its record alone."""

    def padded(rows):
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)

    rows = group.completions
    optional = {
        "token_entropy": [c.token_entropy for c in rows],
        "token_logps": [c.token_logp for c in rows],
        "token_component": [c.token_component for c in rows],
    }
    inputs = CreditInput(
        padded([c.token_ids for c in rows]),
        padded([[True] * c.num_tokens for c in rows]),
        torch.tensor([c.advantage for c in rows]),
        torch.zeros(len(rows), dtype=torch.int64),
        loss_mask=padded([c.trained for c in rows]),
        valid=torch.tensor([c.valid for c in rows]),
        rewards=torch.tensor([c.reward for c in rows]),
        component_advantages=None
        if rows[0].component_advantages is None
        else torch.tensor([c.component_advantages for c in rows]),
        initial_entropy=group.initial_entropy,
        batch_entropy=group.batch_entropy,
        **{name: None if None in values else padded(values) for name, values in optional.items()},
    )
    return token_advantages(group.method, inputs, **group.parameters)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_advantages_are_those_of_the_loops_and_a_record_gives_them_again(scheme, tiny_model, tmp_path, capsys):
    trainer = train_with(tiny_model, tmp_path, credit=scheme, **OPTIONS.get(scheme, {}))
    assert trainer.checks == 2
    assert trainer.num_judged > 8
    logged = last_log(trainer)
    assert ("gtpo/frac_kept" in logged) == (scheme == "gtpo")
    assert logged["credit/mean_abs_grpo"] > 0
    groups = read_groups(tmp_path)
    assert len(groups) == 4
    for group in groups:
        assert group.method == scheme
        again = shaped_again(group)
        for row, completion in enumerate(group.completions):
            size = completion.num_tokens
            assert again[row, :size].tolist() == pytest.approx(completion.token_advantage, abs=1e-5)
    assert main(["inspect", str(tmp_path), "--terminal"]) == 0
    assert "skipped" not in capsys.readouterr().err


@pytest.mark.parametrize(("scheme", "passes"), [("balanced", 0), ("component", 0), ("annealed", 2), ("gtpo", 0)])
def test_only_entropies_that_are_needed_before_the_update_cost_a_scoring_pass(scheme, passes, tiny_model, tmp_path):
    trainer = train_with(tiny_model, tmp_path, credit=scheme, record_groups=0, **OPTIONS.get(scheme, {}))
    assert trainer.passes == passes


def test_the_mean_size_of_advantages_is_logged_next_to_grpos(tiny_model, tmp_path):
    class Remembering(GTPOTrainer):
        def _generate_and_score_completions(self, inputs):
            self.batch = super()._generate_and_score_completions(inputs)
            return self.batch

    options = settings(tmp_path, max_steps=1, credit="negative", credit_parameters={"positive_scale": 0.5})
    trainer = train(tiny_model, trainer=Remembering, **options)
    logged, mask = last_log(trainer), trainer.batch["completion_mask"].bool()
    credit = trainer.batch["advantages"][mask]
    assert logged["credit/mean_abs"] == pytest.approx(credit.abs().mean().item(), rel=1e-5)
    of_grpo = torch.where(credit > 0, credit * 2, credit)
    assert logged["credit/mean_abs_grpo"] == pytest.approx(of_grpo.abs().mean().item(), rel=1e-5)
    assert not any(name.startswith("gtpo/") and "seconds" not in name for name in logged)


def test_a_reused_batch_and_a_resumed_run_keep_the_scheme(tiny_model, tmp_path):
    options = {"credit": "annealed", **OPTIONS["annealed"], "initial_entropy": None, "num_iterations": 2}
    saving = {"save_strategy": "steps", "save_steps": 2, "trainer": GTPOTrainer}
    first = train_with(tiny_model, tmp_path, **options, **saving)
    resumed = train_with(tiny_model, tmp_path, **options, **saving, **{"max_steps": 4, "resume_from_checkpoint": True})
    assert resumed.initial_entropy.num_prompts == first.initial_entropy.num_prompts + 2
    assert {group.method for group in read_groups(tmp_path)} == {"annealed"}


def test_a_checkpoint_without_the_initial_entropy_is_refused_only_by_schemes_that_need_it(tiny_model, tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 2, "trainer": GTPOTrainer, "initial_entropy": None}
    train_with(tiny_model, tmp_path, credit="balanced", **saving)
    resume = {**saving, "max_steps": 4, "resume_from_checkpoint": True}
    with pytest.raises(ConfigError, match=r"credit='annealed' needs the entropy of the initial policy"):
        train_with(tiny_model, tmp_path, credit="annealed", **resume)
    assert train_with(tiny_model, tmp_path, credit="grpo", **resume).state.global_step == 4


def test_the_model_card_names_the_scheme_and_does_not_cite_gtpo(tiny_model, tmp_path):
    trainer = GTPOTrainer(tiny_model, parity_reward, GTPOConfig(str(tmp_path), credit="balanced"), prompts())
    trainer.create_model_card(model_name="mine")
    card = (tmp_path / "README.md").read_text()
    assert "GRPO with balanced credit" in card
    assert "2508.03772" not in card


def test_component_credit_needs_a_reward_that_names_its_characters(tiny_model, tmp_path):
    with pytest.raises(ConfigError, match=r"none of the rewards \(parity_reward\) has an attribute `spans`"):
        train(tiny_model, trainer=GTPOTrainer, **settings(tmp_path, credit="component"))


def test_a_function_that_raises_is_named_with_step_and_line(tiny_model, tmp_path):
    options = settings(tmp_path, credit="tests.credit.own_schemes:fails_on_long_rows")
    with pytest.raises(DataError, match=r"Step 1: .*own_schemes:fails_on_long_rows' raised KeyError: .*line \d+ of"):
        train(tiny_model, trainer=GTPOTrainer, **options)
