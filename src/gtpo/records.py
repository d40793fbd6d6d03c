"""The records of a run: what it writes while it trains, and what every viewer reads.

metrics.jsonl   one line per logging step: {"step": 7, "seconds": 31.2, "loss": …, "gtpo/frac_kept": …}
                names in evaluation lines start with "eval_"
groups.jsonl    one line per recorded group: a `GroupRecord`

A killed process can leave a torn last line; readers skip it and report it. Numbers that are not finite are null.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec

from gtpo.errors import DataError

if TYPE_CHECKING:
    from gtpo.core.shaping import ShapedAdvantages

METRICS_FILE = "metrics.jsonl"
GROUPS_FILE = "groups.jsonl"
TOKEN_PAGE = "inspect.html"
"""The page that `gtpo inspect RUN` writes next to the records. `#step-7` in its address leads to a step."""
SCHEMA = 3
READABLE = (1, 2, SCHEMA)
"""Schema 1 has no method, reason, log-probabilities or truncation, and every group has texts. Before schema 3, method
is gtpo or grpo, without parameters, and completions have no total reward and no parts of the advantage."""


@dataclasses.dataclass(frozen=True)
class CompletionRecord:
    """One completion; the lists have one entry per token. A list is None if it was not recorded.

    In a group with another method than gtpo the fields of GTPO (`push`, `kept`, `prefix`, `suffix` and `token_weight`)
    show what its conflict weights alone would have changed.
    """

    token_ids: list[int] | None
    pieces: list[str] | None
    rewards: dict[str, float | None]  # by reward function, before weighting; None if it could not score
    advantage: float | None  # A
    push: float | None  # A − γ⟨H⟩
    entropy: float | None  # ⟨H⟩, nats; None if it was not computed
    kept: bool  # δ
    valid: bool
    prefix: int  # tokens in the conflict run from the start
    suffix: int  # tokens in the conflict run from the end
    token_weight: list[float | None]  # λ; 0 on tokens that are not trained
    token_advantage: list[float | None]  # as the trainer used it: Ã of its credit scheme, A with GRPO
    token_entropy: list[float | None] | None
    trained: list[bool]
    token_logp: list[float | None] | None = None
    truncated: bool | None = None  # ended by the length limit; None if unknown
    reward: float | None = None  # the weighted sum of `rewards`
    component_advantages: list[float] | None = None  # by reward function, if the credit scheme takes them
    token_component: list[int] | None = None  # the reward function that judges a token, −1 for the total

    @property
    def num_tokens(self) -> int:
        return len(self.trained)

    def __post_init__(self) -> None:
        size = self.num_tokens
        texts = (self.token_ids, self.pieces)
        scores = (self.token_entropy, self.token_logp, self.token_component)
        lists = (*texts, self.token_weight, self.token_advantage, *scores)
        if any(values is not None and len(values) != size for values in lists):
            raise ValueError("its lists differ in length")
        if not (0 <= self.prefix <= size and 0 <= self.suffix <= size):
            raise ValueError("a conflict run is longer than the completion")


@dataclasses.dataclass(frozen=True)
class GroupRecord:
    """The completions of one prompt in one step. `prompt` is None if texts were not recorded.

    With `method`, `parameters` and what the completions hold, `gtpo.credit.token_advantages` gives the recorded
    advantages again.
    """

    step: int
    prompt: str | None
    completions: list[CompletionRecord]
    entropy_threshold: float | None
    initial_entropy: float | None
    schema: int = SCHEMA
    method: str = "gtpo"  # the credit scheme of GTPOTrainer, as its option names it; grpo for every other trainer
    reason: str | None = None  # why this group of the step was recorded, in one word
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])  # of the credit scheme
    batch_entropy: float | None = None  # mean ⟨H⟩ of the batch over all processes, if the scheme takes it

    def __post_init__(self) -> None:
        if not self.completions:
            raise ValueError("it has no completions")


def shaped_fields(shaped: "ShapedAdvantages", row: int, num_tokens: int) -> dict[str, Any]:
    """The fields of a CompletionRecord that one row of what `shape_advantages` returned contains."""
    return {
        "push": shaped.push[row].item(),
        "kept": bool(shaped.kept[row]),
        "valid": bool(shaped.valid[row]),
        "prefix": int(shaped.prefix_mask[row].sum()),
        "suffix": int(shaped.suffix_mask[row].sum()),
        "token_weight": shaped.token_weight[row, :num_tokens].tolist(),
        "token_advantage": shaped.advantages[row, :num_tokens].tolist(),
        "trained": shaped.trained[row, :num_tokens].tolist(),
    }


def group_from_row(row: dict[str, Any]) -> GroupRecord:
    """A group from its JSON form, `dataclasses.asdict`; DataError if a field is missing or has the wrong type."""
    if row.get("schema") not in READABLE:
        raise DataError(
            f"A group record has schema {row.get('schema')!r:.40}, this version reads schema 1 to {SCHEMA}. "
            "Read it with the version of gtpo that wrote it."
        )
    try:
        return msgspec.convert(row, GroupRecord)
    except (ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
        raise DataError(f"A group record is damaged: {error}. Leave it out.") from error


class _Step(msgspec.Struct):
    step: int


def step_of(line: bytes) -> int | None:
    """The step of a line of groups.jsonl, without decoding its tokens; None if the line is not a record."""
    try:
        return msgspec.json.decode(line, type=_Step).step
    except (ValueError, RecursionError):
        return None
