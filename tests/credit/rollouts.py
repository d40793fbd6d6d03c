"""Random groups with rewards and components, their CreditInput, and parameters of every scheme."""

import dataclasses
import random

import torch
from hypothesis import strategies as st

from gtpo.credit import CreditInput, token_advantages
from tests.core import rollouts
from tests.oracle.credit import Batch, Rollout

NUM_COMPONENTS = 3
ENTROPIES = {"initial_entropy": 0.5, "batch_entropy": 0.3}
PARAMETERS = {
    "grpo": {},
    "gtpo": {},
    "annealed": {"until": st.sampled_from([0.0, 0.5, 0.6, 0.7])},
    "balanced": {},
    "component": {},
    "process_sets": {},
    "prefix_baseline": {"kappa": st.sampled_from([0.0, 0.5, 4.0, 1e30])},
    "negative": {"positive_scale": st.sampled_from([0.0, 0.1, 1.0])},
    "pass_at_k": {"k": st.integers(1, 5), "right_at": st.sampled_from([0.5, 1.0])},
}
"""The parameters of each scheme, and what is drawn for them. Those of gtpo are tested in tests/core."""
SCHEMES_AND_PARAMETERS = st.one_of(
    [st.tuples(st.just(name), st.fixed_dictionaries(drawn)) for name, drawn in PARAMETERS.items()]
)


def random_batch(seed: int) -> Batch:
    rng = random.Random(seed)
    batch: Batch = []
    for completion in rollouts.random_batch(seed):
        known = {field.name: getattr(completion, field.name) for field in dataclasses.fields(completion)}
        batch.append(
            Rollout(
                **known,
                reward=rng.choice([0.0, 0.25, 0.5, 1.0, 2.0, -1.0]),
                components=[rng.choice([0.0, 1.0, -0.5]) for _ in range(NUM_COMPONENTS)],
                judges=[rng.randrange(-1, NUM_COMPONENTS) for _ in completion.tokens],
            )
        )
    return batch


BATCHES = st.integers(0, 2**32 - 1).map(random_batch)


def credit_input(batch: Batch, extra_padding: int = 0, ids_dtype: torch.dtype = torch.int64, dtype=torch.float32):
    (ids, mask, advantages, entropy, group_ids), masks = rollouts.tensors(batch, extra_padding, ids_dtype)
    judges = torch.full(ids.shape, 99)  # padding must not count
    for row, rollout in enumerate(batch):
        judges[row, : len(rollout.judges)] = torch.tensor(rollout.judges, dtype=torch.int64)
    return CreditInput(
        ids,
        mask,
        advantages.to(dtype),
        group_ids,
        rewards=torch.tensor([rollout.reward for rollout in batch], dtype=dtype),
        component_advantages=torch.tensor([rollout.components for rollout in batch], dtype=dtype),
        token_component=judges,
        token_entropy=entropy.to(dtype),
        **ENTROPIES,
        **masks,
    )


def credit_of(scheme, batch: Batch, layout=None, **parameters) -> list[list[float]]:
    """Ã of each completion, without padding. What is not trained must be 0."""
    inputs = credit_input(batch, **(layout or {}))
    credit = token_advantages(scheme, inputs, **parameters)
    assert not credit[~inputs.trained].any()
    return [row[: len(rollout.tokens)].tolist() for row, rollout in zip(credit, batch, strict=True)]
