"""What we rely on in TRL. A version that breaks one of these tests breaks GTPO. `make test-matrix` runs them."""

import ast
import copy
import inspect

import pytest
import torch
from peft import LoraConfig
from trl.generation import vllm_generation
from trl.trainer import grpo_trainer

from gtpo import GTPOConfig, GTPOTrainer
from gtpo.trl import checks, versions
from gtpo.trl.checks import CHOICES
from gtpo.trl.config import LOSS_TYPES
from gtpo.trl.fast import checkpoints, correction, generation, padding, resume, sharing, trainer, trimming
from gtpo.trl.fast.correction import CorrectionInUpdate
from gtpo.trl.fast.padding import COMPLETION_KEYS, PROMPT_KEYS, SHARED_KEYS
from gtpo.trl.fast.resume import CompleteCheckpoints, ExactResume
from gtpo.trl.fast.trimming import LOSS_DIVISORS, TrimmedBatches
from gtpo.trl.watching import generated, recording, watch
from tests.trl.checked import parity_reward, prompts, settings
from trl import GRPOConfig, GRPOTrainer

NEUTRAL = {
    "conflict_positive_weight": 1.0,
    "conflict_negative_weight": 1.0,
    "entropy_filter": "off",
    "entropy_penalty": 0.0,
    "trim_batches": False,
}
GRPO = {"loss_type": "grpo", "scale_rewards": "none", "beta": 0.0, "bf16": False}


def plain(tmp_path, **overrides):
    """Settings without the options of GTPO."""
    options = settings(tmp_path, **overrides)
    return {key: value for key, value in options.items() if key not in ("entropy_threshold", "initial_entropy")}


def run(trainer_class, config, model, **kwargs):
    gradients = []

    class Watched(trainer_class):
        def training_step(self, *args, **kwds):
            loss = super().training_step(*args, **kwds)
            gradients.append({n: p.grad.clone() for n, p in self.model.named_parameters() if p.grad is not None})
            return loss

    torch.manual_seed(0)  # before TRL 1.15, the trainer does not seed the weights of LoRA
    trainer = Watched(model, parity_reward, config, prompts(), **kwargs)
    trainer.train()
    return trainer, gradients


WITH_DROPOUT = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.3)


@pytest.mark.parametrize(
    ("options", "kwargs"),
    [
        ({}, {}),
        ({"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}, {}),
        ({"num_iterations": 2, "steps_per_generation": 2, "per_device_train_batch_size": 4}, {}),
        ({"mask_truncated_completions": True}, {}),
        ({}, {"peft_config": WITH_DROPOUT}),
    ],
    ids=["plain", "accumulation", "reused batches", "masked truncation", "lora with dropout"],
)
def test_neutral_gtpo_is_grpo_bit_for_bit(options, kwargs, tiny_model, tmp_path):
    theirs, their_gradients = run(
        GRPOTrainer, GRPOConfig(**GRPO, **plain(tmp_path, **options)), tiny_model, **copy.deepcopy(kwargs)
    )
    ours, our_gradients = run(
        GTPOTrainer, GTPOConfig(**NEUTRAL, **plain(tmp_path, **options)), tiny_model, **copy.deepcopy(kwargs)
    )
    assert len(our_gradients) == len(their_gradients) >= 4
    for mine, other in zip(our_gradients, their_gradients, strict=True):
        assert mine.keys() == other.keys()
        assert all(mine[name].equal(other[name]) for name in mine)
    for (name, mine), (_, theirs_value) in zip(
        ours.model.named_parameters(), theirs.model.named_parameters(), strict=True
    ):
        assert mine.equal(theirs_value), name
    timing = {"step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
    for mine, other in zip(ours.state.log_history, theirs.state.log_history, strict=True):
        assert {k: v for k, v in mine.items() if k in other and k not in timing} == {
            k: v for k, v in other.items() if k not in timing
        }
        assert all(key.startswith(("gtpo/", "credit/")) for key in mine.keys() - other.keys())


LOSS_OPTIONS = [{"loss_type": loss_type} for loss_type in LOSS_TYPES] + [
    {"importance_sampling_level": "sequence"},
    {"delta": 1.5},
    {"top_entropy_quantile": 0.5},
]


@pytest.mark.parametrize("options", LOSS_OPTIONS, ids=str)
def test_a_constant_row_of_advantages_equals_a_single_advantage(options, tiny_model, tmp_path):
    config = GRPOConfig(**{**GRPO, **plain(tmp_path, **options)})
    trainer = GRPOTrainer(tiny_model, parity_reward, config, prompts())
    torch.manual_seed(0)
    mask = (torch.arange(5) < torch.tensor([[5], [3], [1], [4]])).long()
    ids = torch.randint(3, 60, (4, 5))
    batch = {
        "prompt_ids": torch.randint(3, 60, (4, 3)),
        "prompt_mask": torch.ones(4, 3, dtype=torch.int64),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": torch.tensor([1.0, -0.5, 0.25, -2.0]),
        "old_per_token_logps": torch.randn(4, 5) - 4,
        "num_items_in_batch": mask.sum(),
    }
    trainer.current_gradient_accumulation_steps = 1

    def loss_and_gradients(advantages):
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, {**batch, "advantages": advantages})
        loss.backward()
        return loss, [p.grad.clone() for p in trainer.model.parameters()]

    loss, gradients = loss_and_gradients(batch["advantages"])
    constant_loss, constant_gradients = loss_and_gradients(batch["advantages"].unsqueeze(1).expand(4, 5))
    assert loss.equal(constant_loss)
    assert all(a.equal(b) for a, b in zip(gradients, constant_gradients, strict=True))
    masked_loss, _ = loss_and_gradients(batch["advantages"].unsqueeze(1) * mask)  # as shaping leaves them
    assert masked_loss.equal(loss)
    halved_loss, _ = loss_and_gradients(batch["advantages"].unsqueeze(1) * torch.tensor([1.0, 0, 1, 0, 1]))
    assert not halved_loss.equal(loss)


OVERRIDDEN = {
    GTPOTrainer: {
        "_calculate_rewards",
        "_generate_and_score_completions",
        "_get_per_token_logps_and_entropies",
    },
    CorrectionInUpdate: {
        "compute_loss",
        "_generate_and_score_completions",
        "_get_per_token_logps_and_entropies",
    },
    TrimmedBatches: {"_get_per_token_logps_and_entropies", "_prepare_inputs"},
    ExactResume: {"_get_train_sampler"},
    CompleteCheckpoints: {
        "_load_best_model",
        "_load_from_checkpoint",
        "_load_optimizer_and_scheduler",
        "_load_rng_state",
        "_save_checkpoint",
        "train",
    },
}


@pytest.mark.parametrize("ours", OVERRIDDEN, ids=lambda cls: cls.__name__)
def test_only_these_methods_of_the_parent_are_overridden_and_each_calls_it(ours):
    theirs = {name for parent in GRPOTrainer.__mro__ for name in vars(parent)}
    methods = {name for name, value in vars(ours).items() if inspect.isfunction(value)}
    assert {name for name in methods & theirs if not name.startswith("__")} == OVERRIDDEN[ours]
    for name in OVERRIDDEN[ours]:
        assert f"super().{name}(" in inspect.getsource(getattr(ours, name))


def compared_strings(module, attribute):
    """All strings that `self.attribute` or `args.attribute` is compared with in the source of a module."""
    strings = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", None) == attribute:
            constants = [
                part for side in node.comparators for part in ast.walk(side) if isinstance(part, ast.Constant)
            ]
            strings |= {constant.value for constant in constants}
    return strings


@pytest.mark.parametrize("option", CHOICES)
def test_choices_are_those_that_trl_knows_and_checks_late(option):
    module, attribute = (vllm_generation, "mode") if option == "vllm_mode" else (grpo_trainer, option)
    assert {choice for choice in CHOICES[option] if isinstance(choice, str)} == compared_strings(module, attribute)
    GRPOConfig("unused", bf16=False, **{option: "nonsense"})  # no error here, only in the middle of the first step


def test_the_divisor_of_every_loss_type_is_known():
    assert LOSS_DIVISORS.keys() == compared_strings(grpo_trainer, "loss_type")


def test_trl_names_every_key_of_a_batch_that_is_cut():
    tree = ast.parse(inspect.getsource(grpo_trainer))
    names = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert names >= PROMPT_KEYS | COMPLETION_KEYS | SHARED_KEYS


@pytest.mark.skipif(not sharing.SCORES_MARKED_TOKENS, reason="this version of TRL scores whole rows")
def test_trl_calls_the_model_itself_and_scores_the_tokens_that_the_mask_marks():
    source = inspect.getsource(GRPOTrainer._get_per_token_logps_and_entropies)
    assert "labels = input_ids_batch.masked_fill(attention_mask_batch == 0, -100)" in source
    assert "model(**model_inputs, labels=labels, fused_lm_head=True)" in source


def test_what_trimming_reads_of_the_parent_exists():
    source = inspect.getsource(grpo_trainer)
    for name in ("_is_vlm", "aux_loss_enabled", "top_entropy_quantile", "_entropy_bonus_enabled", "_buffered_inputs"):
        assert f"self.{name} = " in source


OF_GTPO = {"config", "trainer", "gathering", "state", "penalty"}
FOR_ANY_TRAINER = [trainer, resume, checkpoints, correction, trimming, sharing, padding, generation]
FOR_ANY_TRAINER += [watch, recording, generated, checks, versions]


@pytest.mark.parametrize("module", FOR_ANY_TRAINER, ids=lambda module: module.__name__)
def test_files_for_any_trainer_import_nothing_of_gtpo_on_trl(module):
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    assert not {node.module for node in imports} & {f"gtpo.trl.{name}" for name in OF_GTPO}


@pytest.mark.parametrize("has_old_pass", [False, True])
def test_trl_scores_the_policy_then_the_reference_then_rewards_then_shuffles(
    has_old_pass, tiny_model, tmp_path, monkeypatch
):
    events = []

    class Watched(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            events.append("begin")
            batch = super()._generate_and_score_completions(inputs)
            events.append("old log-probs in batch" if "old_per_token_logps" in batch else "no old log-probs")
            assert batch["advantages"].shape == (8,)
            return batch

        def _get_per_token_logps_and_entropies(self, model, *args, **kwargs):
            if not torch.is_grad_enabled():
                lora_is_on = not self.model.base_model.model.model.layers[0].self_attn.q_proj.disable_adapters
                events.append("policy" if lora_is_on else "reference")
                assert model is self.model
            return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)

        def _calculate_rewards(self, *args, **kwargs):
            events.append("rewards")
            rewards_per_func = super()._calculate_rewards(*args, **kwargs)
            assert rewards_per_func.shape == (8, 1)
            return rewards_per_func

    shuffle = grpo_trainer.shuffle_sequence_dict

    def watched_shuffle(batch):
        events.append("shuffle")
        return shuffle(batch)

    monkeypatch.setattr(grpo_trainer, "shuffle_sequence_dict", watched_shuffle)
    options = plain(tmp_path, num_iterations=2 if has_old_pass else 1, max_steps=1)
    config = GRPOConfig(**{**GRPO, "beta": 0.1, **options})
    peft_config = LoraConfig(r=4, target_modules=["q_proj"])
    Watched(tiny_model, parity_reward, config, prompts(), peft_config=peft_config).train()
    expected = ["begin", "policy", "reference", "rewards", "old log-probs in batch", "shuffle"]
    if not has_old_pass:
        expected = ["begin", "reference", "rewards", "no old log-probs", "shuffle"]
    assert events == expected


def test_the_fused_head_gives_the_entropy_at_the_sampling_temperature(tiny_model, tmp_path):
    config = GRPOConfig(**{**GRPO, **plain(tmp_path, temperature=0.5)})
    trainer = GRPOTrainer(tiny_model, parity_reward, config, prompts())
    torch.manual_seed(0)
    ids = torch.randint(3, 60, (2, 7))
    with torch.no_grad():
        _, entropy, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, torch.ones_like(ids), 4, compute_entropy=True
        )
        probabilities = (trainer.model(input_ids=ids).logits / 0.5).softmax(-1)[:, 2:-1]
    torch.testing.assert_close(entropy, -(probabilities * probabilities.log()).sum(-1), atol=1e-5, rtol=1e-5)
