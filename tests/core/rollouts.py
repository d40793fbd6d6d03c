"""Random groups that share beginnings and endings, as rollouts do; their tensors; and options of shaping."""

import math
import random

import torch
from hypothesis import strategies as st

import gtpo
from tests.oracle.paper import Completion

PAD = 0  # also a token of the tiny vocabularies: a pad id inside a completion is a token like any other
KNOBS = st.fixed_dictionaries(
    {
        "conflict_edges": st.sampled_from(["both", "prefix", "suffix", "none"]),
        "conflict_match": st.sampled_from(["position", "prefix"]),
        "conflict_positive_weight": st.sampled_from([0.0, 1.0, 2.0]),
        "conflict_negative_weight": st.sampled_from([0.0, 0.5, 1.0]),
        "entropy_filter": st.sampled_from(["auto", "all", "negative", "off"]),
        "entropy_threshold": st.sampled_from([math.log(2), 0.3137, 1.0571]),
        "entropy_penalty": st.sampled_from([0.0, 0.1, 1.0]),
        "entropy_penalty_center": st.booleans(),
        "entropy_penalty_relative": st.booleans(),
    }
)
ORACLE_NAMES = {
    "conflict_edges": "edges",
    "conflict_match": "match",
    "conflict_positive_weight": "positive",
    "conflict_negative_weight": "negative",
    "entropy_filter": "filter_mode",
    "entropy_threshold": "threshold",
    "entropy_penalty": "gamma",
    "entropy_penalty_center": "center",
    "entropy_penalty_relative": "relative",
}


def random_batch(seed: int) -> list[Completion]:
    """One to three groups of one to five completions, in random order."""
    rng = random.Random(seed)
    vocabulary = range(rng.randint(1, 5))
    batch: list[Completion] = []
    for group in range(rng.randint(1, 3)):
        openings, endings = ([_piece(rng, vocabulary) for _ in range(rng.randint(1, 2))] for _ in range(2))
        for _ in range(rng.randint(1, 5)):
            tokens = rng.choice(openings) + _piece(rng, vocabulary) + rng.choice(endings)
            completion = Completion(
                tokens,
                advantage=rng.choice([1.0, -1.0, 0.5, -0.25, 0.0, 3e-6, -9e-6, 2e-5]),
                group=7 * group - 3,
                entropies=[rng.choice([0.0, 0.1, 0.5, 1.0, 2.0]) for _ in tokens],
                trained=[rng.random() < 0.6 for _ in tokens] if rng.random() < 0.5 else [],
                valid=rng.random() < 0.9,
            )
            batch.append(completion)
    rng.shuffle(batch)
    return batch


def _piece(rng: random.Random, vocabulary: range) -> list[int]:
    return rng.choices(vocabulary, k=rng.randint(0, 4))


BATCHES = st.integers(0, 2**32 - 1).map(random_batch)
"""Drawn by seed: hypothesis takes ten times as long to draw every token."""


def tensors(batch: list[Completion], extra_padding: int = 0, ids_dtype: torch.dtype = torch.int64):
    """(completion_ids, completion_mask, advantages, token_entropy, group_ids), and loss_mask and valid."""
    width = max((len(c.tokens) for c in batch), default=0) + extra_padding
    ids = torch.full((len(batch), width), PAD, dtype=ids_dtype)
    mask = torch.zeros(len(batch), width, dtype=torch.int64)
    entropy = torch.full((len(batch), width), 77.0)  # padding must not count
    loss_mask = torch.ones(len(batch), width, dtype=torch.int64)
    for row, c in enumerate(batch):
        size = len(c.tokens)
        ids[row, :size] = torch.tensor(c.tokens, dtype=ids_dtype)
        mask[row, :size] = 1
        if c.entropies:
            entropy[row, :size] = torch.tensor(c.entropies)
        if c.trained:
            loss_mask[row, :size] = torch.tensor(c.trained, dtype=torch.int64)
    positional = (
        ids,
        mask,
        torch.tensor([c.advantage for c in batch]),
        entropy,
        torch.tensor([c.group for c in batch]),
    )
    return positional, {"loss_mask": loss_mask, "valid": torch.tensor([c.valid for c in batch])}


def shape(batch, initial_entropy=0.5, layout=None, **knobs):
    positional, masks = tensors(batch, **(layout or {}))
    return gtpo.shape_advantages(
        *positional, initial_entropy=initial_entropy, config=gtpo.ShapingConfig(**knobs), **masks
    )
