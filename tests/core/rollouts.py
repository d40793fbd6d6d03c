"""Random groups that share beginnings and endings, as rollouts do; their tensors; and the knobs to shape them with."""

import math

import torch
from hypothesis import strategies as st

import gtpo
from tests.oracle.paper import Completion

PAD = 0  # also a token of the tiny vocabularies: a pad id inside the text is text
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
}


@st.composite
def groups(draw: st.DrawFn, max_groups: int = 3, max_rows: int = 5) -> list[Completion]:
    vocabulary = st.integers(0, draw(st.integers(0, 4)))
    pieces = st.lists(vocabulary, max_size=4)
    advantages = st.sampled_from([1.0, -1.0, 0.5, -0.25, 0.0, 3e-6, -9e-6, 2e-5])
    batch: list[Completion] = []
    for group in range(draw(st.integers(1, max_groups))):
        openings, endings = (
            draw(st.lists(pieces, min_size=1, max_size=2)),
            draw(st.lists(pieces, min_size=1, max_size=2)),
        )
        for _ in range(draw(st.integers(1, max_rows))):
            tokens = draw(st.sampled_from(openings)) + draw(pieces) + draw(st.sampled_from(endings))
            size = len(tokens)
            batch.append(
                Completion(
                    tokens,
                    draw(advantages),
                    7 * group - 3,
                    draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0]), min_size=size, max_size=size)),
                    draw(st.one_of(st.just([]), st.lists(st.booleans(), min_size=size, max_size=size))),
                    draw(st.integers(0, 9)) > 0,
                )
            )
    return draw(st.permutations(batch))


def tensors(batch: list[Completion], extra_padding: int = 0, ids_dtype: torch.dtype = torch.int64):
    """(completion_ids, completion_mask, advantages, token_entropy, group_ids), and loss_mask and valid."""
    width = max((len(c.tokens) for c in batch), default=0) + extra_padding
    ids = torch.full((len(batch), width), PAD, dtype=ids_dtype)
    mask = torch.zeros(len(batch), width, dtype=torch.int64)
    entropy = torch.full((len(batch), width), 77.0)  # padding must not be read
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
