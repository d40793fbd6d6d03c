"""Groups from the completions of any GRPO run: what would GTPO have changed?

The completions come from JSON Lines or from the parquet files that TRL writes with `log_completions`. Both have text
only. It is tokenized again, without the end token and without entropies, so the entropy filter and penalty are off.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import shape_advantages
from gtpo.errors import DataError
from gtpo.files import JsonLines, is_integer, is_number
from gtpo.records import CompletionRecord, GroupRecord, completion_record
from gtpo.token_view.encoders import Encoder
from gtpo.token_view.groups import LoadedGroups

TEXT_ONLY = (
    "These groups were built from text. It was tokenized again, so tokens may differ from those that were sampled. "
    "The end token and the entropies are missing, so the entropy filter and the entropy penalty are off. "
    "Rows with the same step and prompt are a group."
)
WORDS_ONLY = "There is no tokenizer: the tokens are words, tags and punctuation, not the model's. Pass --tokenizer."

_KNOWN = {"step", "prompt", "completion", "reward", "rewards", "advantage"}
_CONFLICTS_ONLY = ShapingConfig(entropy_filter="off", entropy_penalty=0.0)


@dataclasses.dataclass(frozen=True)
class Rollout:
    """One completion as text. `parts` has each part and whether it is trained; tool output is not."""

    step: int
    prompt: str
    parts: list[tuple[str, bool]]
    rewards: dict[str, float | None]
    reward: float | None
    advantage: float | None


def load_rollouts(paths: Sequence[Path], encode: Encoder) -> LoadedGroups:
    """The groups in files or folders of completions, shaped by GTPO's conflict weights alone."""
    skipped: Counter[str] = Counter()
    rollouts: dict[tuple[int, str], list[Rollout]] = {}
    for path in _files(paths):
        for row in _rows(path, skipped):
            rollout = _rollout(row, skipped)
            if rollout is not None:
                rollouts.setdefault((rollout.step, rollout.prompt), []).append(rollout)
    notes = [f"{count} rows skipped: {reason}." for reason, count in skipped.items()]
    num_single = sum(len(members) == 1 for members in rollouts.values())
    if num_single:
        notes.append(f"{num_single} of {len(rollouts)} prompts have a single completion, which has no conflicts.")
    if not rollouts:
        raise DataError("There are no completions to show. " + (" ".join(notes) or "The files are empty."))
    groups = [_group(members, encode) for members in rollouts.values()]
    return LoadedGroups(sorted(groups, key=lambda group: group.step), notes)


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_file():
            files.append(path)
        elif path.is_dir():
            files += _files_in(path)
        else:
            raise DataError(f"{path} does not exist. Pass a .jsonl or .parquet file of completions.")
    return files


def _files_in(folder: Path) -> list[Path]:
    tables = sorted([*folder.glob("*.parquet"), *folder.glob("completions/*.parquet")])
    files = tables or sorted(folder.glob("*.jsonl"))
    if not files:
        raise DataError(f"{folder} has no .parquet or .jsonl files. Pass a folder or a file with completions.")
    return files


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
        skipped[f"{path.name} is not a complete parquet file"] += 1
        return []


def _rollout(row: dict[str, Any], skipped: Counter[str]) -> Rollout | None:
    if "prompt" not in row or "completion" not in row:
        skipped["prompt or completion is missing"] += 1
        return None
    if "reward" not in row and "advantage" not in row:
        skipped["reward and advantage are both missing"] += 1
        return None
    parts = _parts(row["completion"])
    if parts is None or not is_integer(row.get("step", 0)):
        skipped["completion is not text or chat messages, or step is not an integer"] += 1
        return None
    return Rollout(
        step=row.get("step", 0),
        prompt=_prompt(row["prompt"]),
        parts=parts,
        rewards=_rewards(row),
        reward=_number(row.get("reward")),
        advantage=_number(row.get("advantage")),
    )


def _rewards(row: dict[str, Any]) -> dict[str, float | None]:
    """The rewards by function: those in `rewards`, otherwise `reward` and every other column of numbers."""
    by_function = row.get("rewards")
    if isinstance(by_function, dict) and by_function:
        return {str(name): _number(value) for name, value in by_function.items()}
    rewards = {"reward": _number(row["reward"])} if "reward" in row else {}
    rewards |= {name: float(value) for name, value in row.items() if name not in _KNOWN and is_number(value)}
    return rewards


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
    """R − mean R where there are rewards, otherwise the given advantages; None where a row has neither."""
    rewards = [member.reward for member in members if member.reward is not None]
    if rewards:
        mean = sum(rewards) / len(rewards)
        return [None if member.reward is None else member.reward - mean for member in members]
    return [member.advantage for member in members]


def _group(members: Sequence[Rollout], encode: Encoder) -> GroupRecord:
    encoded = [_tokens(member.parts, encode) for member in members]
    advantages = _advantages(members)
    longest = max(1, *(len(ids) for ids, _, _ in encoded))
    shape = len(members), longest
    completion_ids, completion_mask, trained = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
    for row, (ids, _, is_trained) in enumerate(encoded):
        completion_ids[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        completion_mask[row, : len(ids)] = 1
        trained[row, : len(ids)] = torch.tensor(is_trained, dtype=torch.int64)
    shaped = shape_advantages(
        completion_ids,
        completion_mask,
        torch.tensor([advantage or 0.0 for advantage in advantages], dtype=torch.float64),  # holds any reward
        torch.zeros(shape, dtype=torch.float64),
        torch.zeros(len(members), dtype=torch.int64),
        initial_entropy=None,
        loss_mask=trained,
        valid=torch.tensor([advantage is not None for advantage in advantages]),
        config=_CONFLICTS_ONLY,
    )
    completions: list[CompletionRecord] = []
    for row, (member, (ids, pieces, _)) in enumerate(zip(members, encoded, strict=True)):
        advantage = advantages[row] or 0.0
        completions.append(
            completion_record(shaped, row, token_ids=ids, pieces=pieces, rewards=member.rewards, advantage=advantage)
        )
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
