"""Rollouts of any GRPO run as groups: what would GTPO have changed?

Read are JSON lines and the parquet files that TRL writes with `log_completions`. Both have text only, so tokens are
made again, the end token and the entropies are missing, and the entropy filter and penalty stay out.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import shape_advantages
from gtpo.errors import DataError
from gtpo.files import JsonLines, is_integer, is_number
from gtpo.records import GroupRecord, completion_record
from gtpo.token_view.groups import Recorded

Encoder = Callable[[str], tuple[list[int], list[str]]]
"""Text to token ids and the text of each token."""

TEXT_ONLY = (
    "Made from text: the tokens were made again and may differ from those that were sampled, the end token and the "
    "entropies are missing, so the entropy filter and penalty are left out. Groups are rows of one step and prompt."
)
WORDS_ONLY = "No tokenizer was given: the tokens here are words, tags and signs, not the model's. Give --tokenizer."

_KNOWN = {"step", "prompt", "completion", "reward", "rewards", "advantage"}
_CONFLICTS_ONLY = ShapingConfig(entropy_filter="off", entropy_penalty=0.0)


@dataclasses.dataclass(frozen=True)
class Rollout:
    """One completion as text: parts that the policy wrote and parts that it was given (tool output)."""

    step: int
    prompt: str
    parts: list[tuple[str, bool]]
    rewards: dict[str, float | None]
    reward: float | None
    advantage: float | None


def read_rollouts(paths: Sequence[Path], encode: Encoder) -> Recorded:
    """The groups in some files or folders of rollouts, shaped by GTPO's conflict weights alone."""
    skipped: Counter[str] = Counter()
    groups: dict[tuple[int, str], list[Rollout]] = {}
    for path in _files(paths):
        for row in _rows(path, skipped):
            rollout = _rollout(row, skipped)
            if rollout is not None:
                groups.setdefault((rollout.step, rollout.prompt), []).append(rollout)
    notes = [f"{count} rows skipped: {reason}." for reason, count in skipped.items()]
    alone = sum(len(members) == 1 for members in groups.values())
    if alone:
        notes.append(f"{alone} of {len(groups)} prompts have one completion only, which nothing can conflict with.")
    if not groups:
        raise DataError("There is no rollout to show. " + (" ".join(notes) or "The files are empty."))
    return Recorded([_group(members, encode) for _, members in sorted(groups.items(), key=lambda g: g[0][0])], notes)


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted([*path.glob("*.parquet"), *path.glob("completions/*.parquet")]) or sorted(
                path.glob("*.jsonl")
            )
            if not inside:
                raise DataError(f"{path} holds no .parquet and no .jsonl file of completions.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise DataError(f"{path} does not exist. Give a .jsonl or .parquet file of completions.")
    return found


def _rows(path: Path, skipped: Counter[str]) -> list[dict[str, Any]]:
    def on_skip(_: int, reason: str) -> None:
        skipped[reason] += 1

    if path.suffix != ".parquet":
        return list(JsonLines(path).rows(on_skip))
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError):
        skipped[f"{path.name} is not a whole parquet file"] += 1
        return []


def _rollout(row: dict[str, Any], skipped: Counter[str]) -> Rollout | None:
    if "prompt" not in row or "completion" not in row:
        skipped["no prompt or no completion"] += 1
        return None
    if "reward" not in row and "advantage" not in row:
        skipped["neither a reward nor an advantage"] += 1
        return None
    parts = _parts(row["completion"])
    if parts is None or not is_integer(row.get("step", 0)):
        skipped["a completion that is neither text nor chat messages, or a step that is no whole number"] += 1
        return None
    given = row["rewards"] if isinstance(row.get("rewards"), dict) else {}
    by_function = given or {name: value for name, value in row.items() if name not in _KNOWN and is_number(value)}
    rewards = {str(name): _number(value) for name, value in by_function.items()}
    if "reward" in row and not given:
        rewards = {"reward": _number(row["reward"]), **rewards}
    return Rollout(
        row.get("step", 0), _prompt(row["prompt"]), parts, rewards, _number(row.get("reward")),
        _number(row.get("advantage")),
    )  # fmt: skip


def _parts(completion: Any) -> list[tuple[str, bool]] | None:
    if isinstance(completion, str):
        return [(completion, True)]
    if isinstance(completion, list) and all(isinstance(message, dict) for message in completion):
        return [(_content(message), message.get("role", "assistant") == "assistant") for message in completion]
    return None


def _prompt(prompt: Any) -> str:
    if isinstance(prompt, list) and all(isinstance(message, dict) for message in prompt):
        return "\n\n".join(f"{message.get('role', '')}: {_content(message)}" for message in prompt)
    return str(prompt)


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _advantages(members: Sequence[Rollout]) -> list[float | None]:
    """R − mean R where there are rewards, else the advantages as they are; None where a row has neither."""
    scored = [member.reward for member in members if member.reward is not None]
    if scored:
        mean = sum(scored) / len(scored)
        return [None if member.reward is None else member.reward - mean for member in members]
    return [member.advantage for member in members]


def _group(members: Sequence[Rollout], encode: Encoder) -> GroupRecord:
    encoded = [_tokens(member.parts, encode) for member in members]
    advantages = _advantages(members)
    longest = max(1, *(len(ids) for ids, _, _ in encoded))
    shape = len(members), longest
    completion_ids, inside, trained = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
    for row, (ids, _, is_trained) in enumerate(encoded):
        completion_ids[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        inside[row, : len(ids)] = 1
        trained[row, : len(ids)] = torch.tensor(is_trained, dtype=torch.int64)
    shaped = shape_advantages(
        completion_ids,
        inside,
        torch.tensor([advantage or 0.0 for advantage in advantages], dtype=torch.float64),  # any reward fits
        torch.zeros(shape, dtype=torch.float64),
        torch.zeros(len(members), dtype=torch.int64),
        initial_entropy=None,
        loss_mask=trained,
        valid=torch.tensor([advantage is not None for advantage in advantages]),
        config=_CONFLICTS_ONLY,
    )
    completions = [
        completion_record(
            shaped, row, token_ids=ids, pieces=pieces, rewards=member.rewards, advantage=advantages[row] or 0.0
        )
        for row, (member, (ids, pieces, _)) in enumerate(zip(members, encoded, strict=True))
    ]
    return GroupRecord(members[0].step, members[0].prompt, completions, None, None)


def _tokens(parts: list[tuple[str, bool]], encode: Encoder) -> tuple[list[int], list[str], list[bool]]:
    ids: list[int] = []
    pieces: list[str] = []
    trained: list[bool] = []
    for text, is_trained in parts:
        part_ids, part_pieces = encode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        ids += part_ids
        pieces += part_pieces
        trained += [is_trained] * len(part_ids)
    return ids, pieces, trained
