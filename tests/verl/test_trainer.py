"""With real Ray and real TransferQueue, verl's actor gets the advantages of the paper."""

import json
import math
from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import torch
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from gtpo import ConfigError, DataError, ShapingConfig, shape_advantages
from gtpo.core.metrics import logged_metrics, metric_totals
from tests.core.rollouts import tensors
from tests.oracle import credit as credit_loops
from tests.oracle import paper
from tests.verl.stored import (
    Rollout,
    advantage_stage,
    as_completions,
    make_trainer,
    random_rollouts,
    store,
)

VARIANTS = {  # settings under algorithm.gtpo, and the same for the oracle
    "the paper's": ({}, {}),
    "filtered": ({"entropy_filter": "all", "entropy_threshold": 0.75}, {"filter_mode": "all", "threshold": 0.75}),
    "protect": (
        {"conflict_edges": "prefix", "conflict_positive_weight": 1.0, "conflict_negative_weight": 0.5},
        {"edges": "prefix", "positive": 1.0, "negative": 0.5},
    ),
    "same opponent": ({"conflict_match": "prefix", "entropy_penalty": 0.3}, {"match": "prefix", "gamma": 0.3}),
    "centred": ({"entropy_penalty_center": "true", "initial_entropy": 0.2}, {"center": True, "initial_entropy": 0.2}),
}


def options(settings):
    return [f"+algorithm.gtpo.{name}={value}" for name, value in settings.items()]


def mean_entropy(rollouts):
    counted = [c for c in as_completions(rollouts) if c.valid]
    return sum(paper.mean_entropy(c) for c in counted) / len(counted)


def expected(rollouts, **settings):
    settings = {"initial_entropy": mean_entropy(rollouts), **settings}
    batch = as_completions(rollouts)
    return {rollout.key: paper.shaped(batch, me, **settings) for rollout, me in zip(rollouts, batch, strict=True)}


def assert_equal(stored, wanted):
    for key, row in wanted.items():
        assert stored[key] == pytest.approx(row, abs=1e-5), key


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_actor_gets_the_advantages_of_the_oracle(variant, seed, transfer_queue):
    ours, oracles = VARIANTS[variant]
    rollouts = random_rollouts(seed)
    batch, _, stored = advantage_stage(make_trainer(rollouts, *options(ours)), store(rollouts))
    wanted = expected(rollouts, **oracles)
    assert_equal(stored, wanted)
    padding = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if tag.get("is_padding")]
    assert len(padding) == 4  # 12 rows, and the actor's mini-batches need 16
    assert not {key.split("_")[0] for key in padding} & {rollout.uid for rollout in rollouts}
    mask = transfer_queue.kv_batch_get(padding, batch.partition_id, ["response_mask"])["response_mask"]
    assert not mask.values().any()
    assert len(stored) == 16
    assert all(value == 0 for key in stored.keys() - wanted.keys() for value in stored[key])
    assert batch.keys != [rollout.key for rollout in rollouts]


SCHEMES = {  # settings under algorithm.gtpo, and the parameters of the loops
    "annealed": ({"initial_entropy": 0.6, "credit_parameters.until": 1.2}, {"initial_entropy": 0.6, "until": 1.2}),
    "balanced": ({}, {}),
    "prefix_baseline": ({"credit_parameters.kappa": 1.5}, {"kappa": 1.5}),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_another_scheme_gives_the_actor_its_advantages(scheme, transfer_queue):
    ours, parameters = SCHEMES[scheme]
    rollouts = random_rollouts(1)
    rollouts[3].reward = math.nan
    trainer = make_trainer(rollouts, *options({"credit": scheme, **ours}))
    _, logged, stored = advantage_stage(trainer, store(rollouts))
    batch = [
        credit_loops.Rollout(**vars(me), reward=0.0 if math.isnan(rollout.reward) else rollout.reward)
        for me, rollout in zip(as_completions(rollouts), rollouts, strict=True)
    ]
    if scheme == "annealed":
        parameters = {**parameters, "batch_entropy": mean_entropy(rollouts)}
    loops = getattr(credit_loops, scheme)
    wanted = [credit_loops.credit(loops, batch, me, **parameters) for me in batch]
    assert_equal(stored, {rollout.key: row for rollout, row in zip(rollouts, wanted, strict=True)})
    tokens = [value for me, row in zip(batch, wanted, strict=True) if me.valid for value in row]
    assert logged["credit/mean_abs"] == pytest.approx(sum(map(abs, tokens)) / len(tokens), abs=1e-5)
    assert not any(name.startswith("gtpo/") for name in logged)


def test_these_rollouts_have_every_kind_of_weight(transfer_queue):
    rollouts = random_rollouts(0) + random_rollouts(1)
    trainer = make_trainer(rollouts, *options({"entropy_filter": "all", "entropy_threshold": 0.75}))
    logged = advantage_stage(trainer, store(rollouts))[1]
    assert logged["gtpo/num_tokens_skipped"] > 5
    assert logged["gtpo/num_tokens_amplified"] > 5
    assert 0 < logged["gtpo/frac_kept"] < 1


def test_padding_rows_count_neither_in_the_metrics_nor_in_the_initial_entropy(transfer_queue):
    rollouts = random_rollouts(2)
    trainer = make_trainer(rollouts)
    _, logged, _ = advantage_stage(trainer, store(rollouts))
    positional, more = tensors(as_completions(rollouts))
    shaped = shape_advantages(*positional, initial_entropy=mean_entropy(rollouts), config=ShapingConfig(), **more)
    ids, mask, advantages, _, group_ids = positional
    wanted = logged_metrics(metric_totals(shaped, ids, mask, advantages, group_ids).unsqueeze(0))
    assert {name: logged[name] for name in wanted} == pytest.approx(wanted, abs=1e-5)
    assert logged["gtpo/initial_entropy"] == pytest.approx(mean_entropy(rollouts), abs=1e-5)
    assert trainer.initial_entropy.num_prompts == pytest.approx(4)
    assert trainer.initial_entropy.num_completions == 12


def test_the_initial_entropy_is_a_running_mean_that_freezes(transfer_queue):
    batches = [random_rollouts(seed) for seed in (3, 4, 5)]
    trainer = make_trainer([r for batch in batches for r in batch], "+algorithm.gtpo.initial_entropy_prompts=6")
    seen = [advantage_stage(trainer, store(batch))[1]["gtpo/initial_entropy"] for batch in batches]
    both = mean_entropy(batches[0] + batches[1])
    assert seen == pytest.approx([mean_entropy(batches[0]), both, both], abs=1e-5)


def test_a_row_without_a_score_gets_no_advantage_and_counts_nowhere(transfer_queue):
    rollouts = random_rollouts(6)
    rollouts[1].reward = math.nan
    trainer = make_trainer(rollouts)
    _, logged, stored = advantage_stage(trainer, store(rollouts))
    assert_equal(stored, expected(rollouts))
    assert set(stored[rollouts[1].key]) == {0.0}
    assert logged["gtpo/initial_entropy"] == pytest.approx(mean_entropy(rollouts), abs=1e-5)


def test_an_empty_completion_gets_no_advantages(transfer_queue):
    rollouts = random_rollouts(9)
    rollouts[2].tokens, rollouts[2].entropies = [], []
    _, logged, stored = advantage_stage(make_trainer(rollouts), store(rollouts))
    wanted = expected(rollouts)
    assert_equal(stored, wanted)
    assert wanted[rollouts[2].key] == []
    assert logged["gtpo/initial_entropy"] == pytest.approx(mean_entropy(rollouts), abs=1e-5)


def test_rows_of_equal_length_are_read_too(transfer_queue):
    rollouts = [Rollout("a", i, [5, 6, 7 + i], [0.5, 0.1, 0.3], float(i % 2)) for i in range(4)]
    rollouts += [Rollout("b", i, [5, 6, 7 + i], [0.5, 0.1, 0.3], 1.0) for i in range(4)]
    assert_equal(advantage_stage(make_trainer(rollouts), store(rollouts))[2], expected(rollouts))


def test_tokens_that_verl_rejects_get_no_weight_and_do_not_count_in_the_entropy(transfer_queue):
    rejecting = [
        "algorithm.rollout_correction.rollout_rs=token_k1",
        "algorithm.rollout_correction.rollout_rs_threshold=2.0",
    ]
    rollouts = random_rollouts(7, group_sizes=(4,))
    for rollout in rollouts:
        rollout.tokens, rollout.entropies = [5, *rollout.tokens, 6], [1.9, *rollout.entropies, 0.2]
        rollout.rollout_log_probs = [-1.0] * len(rollout.tokens)
        rollout.rollout_log_probs[0] = -9.0  # the actor's is −1: a ratio of e^8
    _, _, stored = advantage_stage(make_trainer(rollouts, *rejecting), store(rollouts))
    batch = as_completions(rollouts)
    for completion in batch:
        completion.trained = [False] + [True] * (len(completion.tokens) - 1)
    counted = sum(paper.mean_entropy(c) for c in batch) / len(batch)
    for rollout, me in zip(rollouts, batch, strict=True):
        assert stored[rollout.key] == pytest.approx(paper.shaped(batch, me, initial_entropy=counted), abs=1e-5)
        assert stored[rollout.key][0] == 0


def test_importance_weights_of_verl_are_stored_with_unchanged_advantages(transfer_queue):
    rollouts = random_rollouts(10)
    for rollout in rollouts:
        rollout.rollout_log_probs = [-1.2] * len(rollout.tokens)
    trainer = make_trainer(rollouts, "algorithm.rollout_correction.rollout_is=token")
    batch, _, stored = advantage_stage(trainer, store(rollouts))
    assert_equal(stored, expected(rollouts))
    weights = transfer_queue.kv_batch_get(batch.keys, batch.partition_id, ["rollout_is_weights"])["rollout_is_weights"]
    by_key = dict(zip(batch.keys, weights.unbind(), strict=True))
    for rollout in rollouts:
        assert by_key[rollout.key].tolist() == pytest.approx([math.exp(0.2)] * len(rollout.tokens), abs=1e-5)


@pytest.mark.parametrize(
    "change", [{"turn": 1}, {"response_mask": [1, 0, 1]}], ids=["several rows a session", "tool output in the row"]
)
def test_several_turns_are_refused(change, transfer_queue):
    rollouts = [Rollout("a", i, [5, 6, 7], [0.1, 0.1, 0.1], float(i)) for i in range(3)]
    rollouts.append(Rollout("a", 2 if "turn" in change else 3, [5, 6, 7], [0.1, 0.1, 0.1], 1.0, **change))
    with pytest.raises(DataError, match="several turns"):
        advantage_stage(make_trainer(rollouts), store(rollouts))


def test_a_model_that_is_broken_stops_the_run_with_step_and_row(transfer_queue):
    rollouts = [Rollout("a", i, [5, 6], [0.1, math.nan if i == 2 else 0.1], float(i)) for i in range(4)]
    with pytest.raises(DataError, match=r"Step 1: Row \d has the mean entropy nan \(1 of \d+ rows\)"):
        advantage_stage(make_trainer(rollouts), store(rollouts))


def test_missing_entropies_are_an_error(transfer_queue):
    rollouts = random_rollouts(8)
    trainer = make_trainer(rollouts)
    batch = trainer._balance_batch(store(rollouts), metrics={})
    data = transfer_queue.kv_batch_get(batch.keys, batch.partition_id, ["rollout_log_probs"])
    data["old_log_probs"] = data.pop("rollout_log_probs")  # what bypass mode does
    transfer_queue.kv_batch_put(batch.keys, batch.partition_id, data)
    with pytest.raises(DataError, match="left no entropies"):
        trainer._compute_advantage(batch, metrics={})


@pytest.mark.parametrize(
    "option",
    ["algorithm.adv_estimator=grpo", "+algorithm.gtpo.gamma=0.1", "algorithm.rollout_correction.bypass_mode=True"],
)
def test_an_option_that_does_not_fit_stops_the_trainer_before_it_starts(option):
    with pytest.raises(ConfigError, match=option.lstrip("+").split("=")[0].rsplit(".", 1)[1]):
        make_trainer((), option)


def test_the_parent_runs_in_the_mode_that_it_compares_with():
    trainer = make_trainer()
    assert trainer.trainer_mode == trainer.config.trainer.v1.trainer_mode == "sync"
    assert type(trainer.replay_buffer) is ReplayBuffer


def trainer_with_checkpoints(folder, *overrides):
    trainer = make_trainer((), f"trainer.default_local_dir={folder}", *overrides)
    trainer.train_dataloader = SimpleNamespace(state_dict=dict, load_state_dict=lambda state: None)
    return trainer


@pytest.mark.parametrize("how", ["auto", "resume_path"])
def test_a_resumed_run_has_the_initial_entropy_of_its_checkpoint(how, tmp_path):
    first = trainer_with_checkpoints(tmp_path)
    first.initial_entropy.add(torch.tensor([6.0, 12.0, 4.0]))
    first.global_steps = 3
    first._save_checkpoint()
    assert first.actor_rollout_wg.saved == [str(tmp_path / "global_step_3" / "actor")]
    assert json.loads((tmp_path / "global_step_3" / "gtpo.json").read_text())["num_prompts"] == 4.0

    path = [f"trainer.resume_from_path={tmp_path}/global_step_3"] if how == "resume_path" else []
    second = trainer_with_checkpoints(tmp_path, f"trainer.resume_mode={how}", *path)
    second._load_checkpoint()
    assert second.global_steps == 3
    assert second.actor_rollout_wg.loaded == [str(tmp_path / "global_step_3" / "actor")]
    assert second.initial_entropy == first.initial_entropy
    assert second.initial_entropy.value == 0.5


def test_a_checkpoint_without_the_initial_entropy_is_refused_if_the_filter_needs_it(tmp_path):
    first = trainer_with_checkpoints(tmp_path)
    first.global_steps = 3
    first._save_checkpoint()
    (tmp_path / "global_step_3" / "gtpo.json").unlink()
    with pytest.raises(ConfigError, match=r"algorithm\.gtpo\.initial_entropy"):
        trainer_with_checkpoints(tmp_path)._load_checkpoint()
    for setting in ("initial_entropy=0.4", "entropy_filter=off"):
        resumed = trainer_with_checkpoints(tmp_path, f"+algorithm.gtpo.{setting}")
        resumed._load_checkpoint()
        assert resumed.global_steps == 3


def test_a_fresh_run_measures_the_initial_entropy(tmp_path):
    trainer = trainer_with_checkpoints(tmp_path)
    trainer._load_checkpoint()
    assert trainer.global_steps == 0
    assert trainer.initial_entropy.value is None
