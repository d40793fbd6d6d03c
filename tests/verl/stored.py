"""Rollouts as verl's agent loop stores them, and the trainer with stand-ins for its GPU workers.

Everything between the rollouts and the update is verl's own code: TransferQueue, padding, balancing, the shift of the
entropies from positions to tokens, rollout correction, writing back.
"""

import os
import random
import uuid
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
import transfer_queue as tq
from hydra import compose, initialize_config_dir
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

import verl
from tests.oracle.paper import Completion

COMMAND = [
    "algorithm.adv_estimator=gtpo",
    "trainer.v1.trainer_mode=gtpo_sync",
    "algorithm.norm_adv_by_std_in_grpo=False",
    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean",
    "actor_rollout_ref.rollout.n=4",
]
SIZES = [
    "data.train_batch_size=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "trainer.device=cpu",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
]


def composed(options):
    """verl's configuration with these options, composed as `main_ppo` does."""
    folder = os.path.join(os.path.dirname(verl.__file__), "trainer", "config")
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer", overrides=options)


def verl_config(*overrides):
    config = composed([*COMMAND, *SIZES, *overrides])
    config.transfer_queue.enable = True
    return config


@dataclass
class Rollout:
    """One completion of a prompt. `rollout_log_probs` are the sampler's; the actor's are all −1."""

    uid: str
    session: int
    tokens: list[int]
    entropies: list[float]
    reward: float
    prompt_length: int = 3
    turn: int = 0
    response_mask: list[int] | None = None
    rollout_log_probs: list[float] = field(default_factory=list)

    @property
    def key(self):
        return f"{self.uid}_{self.session}_{self.turn}"

    def fields(self):
        size = len(self.tokens)
        scores = torch.zeros(size)
        if size:
            scores[-1] = self.reward
        mask = torch.tensor([1] * size if self.response_mask is None else self.response_mask, dtype=torch.int64)
        prompt, response = torch.full((self.prompt_length,), 7), torch.tensor(self.tokens, dtype=torch.int64)
        ids = torch.cat([prompt, response])
        return {
            "uid": self.uid,
            "session_id": self.session,
            "prompts": prompt,
            "responses": response,
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
            "response_mask": mask,
            "loss_mask": mask,
            "rm_scores": scores,
            "rollout_log_probs": torch.tensor(self.rollout_log_probs or [-1.0] * size),
            "num_turns": 2,
        }


class StandInWorkers:
    """The actor's worker group. It returns one number per position of prompt and response, as an engine does."""

    def __init__(self, rollouts):
        self.entropies = {rollout.key: rollout.entropies for rollout in rollouts}
        self._dispatch_info = {"actor": [0, 1]}
        self.saved, self.loaded = [], []

    def compute_log_prob(self, batch):
        assert batch.extra_info["calculate_entropy"]
        data = tq.kv_batch_get(batch.keys, batch.partition_id, ["input_ids", "responses"])
        rows = []
        for key, ids, response in zip(batch.keys, data["input_ids"].unbind(), data["responses"].unbind(), strict=True):
            entropy = torch.full((len(ids),), 50.0)  # must not be read
            start = len(ids) - len(response) - 1  # position t predicts token t + 1
            entropy[start : start + len(response)] = torch.tensor(self.entropies.get(key, [40.0] * len(response)))
            rows.append({"entropy": entropy, "log_probs": torch.full((len(ids),), -1.0)})
        tq.kv_batch_put(batch.keys, batch.partition_id, list_of_dict_to_tensordict(rows))
        return batch

    def save_checkpoint(self, path, *args, **kwargs):
        self.saved.append(path)

    def load_checkpoint(self, local_path, **kwargs):
        self.loaded.append(local_path)


def make_trainer(rollouts=(), *overrides):
    config = verl_config(*overrides)
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    trainer.tokenizer = SimpleNamespace(eos_token_id=2)
    trainer.actor_rollout_wg = StandInWorkers(rollouts)
    trainer.global_steps = 1
    return trainer


def store(rollouts):
    """Put the rows into TransferQueue in shuffled order."""
    partition = f"train{uuid.uuid4().hex}"
    rows = random.Random(0).sample(list(rollouts), len(rollouts))
    sizes = [rollout.prompt_length + len(rollout.tokens) for rollout in rows]
    return tq.kv_batch_put(
        [rollout.key for rollout in rows],
        partition,
        list_of_dict_to_tensordict([rollout.fields() for rollout in rows]),
        tags=[{"seq_len": size, "status": "success"} for size in sizes],
    )


def advantage_stage(trainer, batch):
    """Stages 3, 4 and 7 of verl's step. Returns the batch, its metrics and the stored advantages by key."""
    metrics = {}
    batch = trainer._balance_batch(batch, metrics=metrics)
    batch = trainer._compute_old_log_prob(batch, metrics=metrics)
    batch = trainer._compute_advantage(batch, metrics=metrics)
    stored = tq.kv_batch_get(batch.keys, batch.partition_id, ["advantages"])["advantages"]
    return batch, metrics, {key: row.tolist() for key, row in zip(batch.keys, stored.unbind(), strict=True)}


def as_completions(rollouts):
    """The same rollouts for the oracle, with advantages in plain Python; a row without a score (NaN) is not valid."""
    groups = {}
    for rollout in rollouts:
        if rollout.reward == rollout.reward:
            groups.setdefault(rollout.uid, []).append(rollout.reward)
    names = list(dict.fromkeys(rollout.uid for rollout in rollouts))
    return [
        Completion(
            tokens=rollout.tokens,
            advantage=rollout.reward - sum(groups[rollout.uid]) / len(groups[rollout.uid]) if is_scored else 0.0,
            group=names.index(rollout.uid),
            entropies=rollout.entropies,
            valid=is_scored and bool(rollout.tokens),
        )
        for rollout in rollouts
        for is_scored in [rollout.reward == rollout.reward]
    ]


def random_rollouts(seed, group_sizes=(4, 4, 3, 1)):
    """Groups that share beginnings and endings; the third lacks one rollout, the last all but one."""
    pick = random.Random(seed)
    rollouts = []
    for size in group_sizes:
        uid = str(uuid.UUID(int=pick.getrandbits(128), version=4))
        opening, ending = [pick.randrange(3, 9) for _ in range(4)], [pick.randrange(3, 9) for _ in range(3)]
        for session in range(size):
            middle = [pick.randrange(3, 99) for _ in range(pick.randrange(6))]
            tokens = opening[: pick.randrange(1, 5)] + middle + ending[pick.randrange(3) :]
            entropies = [pick.choice([0.1, 0.4, 0.9, 1.3]) for _ in tokens]
            reward = pick.choice([0.0, 1.0, 2.5])
            rollouts.append(Rollout(uid, session, tokens, entropies, reward, prompt_length=pick.randrange(2, 6)))
    return rollouts
