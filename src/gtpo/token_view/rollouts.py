"""Groups from the completions of any GRPO run: what would GTPO have changed?

rollout_files.py reads them from the files that TRL, verl or somebody else wrote.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import shape_advantages
from gtpo.errors import DataError
from gtpo.files import is_integer, is_number
from gtpo.records import CompletionRecord, GroupRecord, shaped_fields
from gtpo.token_view.encoders import Encoder, load_encoder, word_encoder
from gtpo.token_view.evaluation_rows import EVALUATION
from gtpo.token_view.groups import LoadedGroups
from gtpo.token_view.rollout_files import Row, read_rollouts

TEXT_ONLY = (
    "These groups were built from text. It was tokenized again, so tokens may differ from those that were sampled. "
    "The end token and the entropies are missing, so the entropy filter and the entropy penalty are off. "
    "Rows with the same step and prompt are a group. Reasoning and tool calls of chat messages are shown between "
    "<think> and <tool_call> tags, which may not be the model's."
)
WORDS_ONLY = "There is no tokenizer: the tokens are words, tags and punctuation, not the model's. Pass --tokenizer."

_NEEDED = "a row needs a prompt, a completion (text or messages), and a reward or advantage; a step must be an integer"
_KNOWN = {"step", "prompt", "completion", "reward", "rewards", "advantage", EVALUATION}
_MOST_REWARDS, _LONGEST_NAME = 50, 100
"""Rewards of a row that are shown, and characters of their names."""
_CONFLICTS_ONLY = ShapingConfig(entropy_filter="off", entropy_penalty=0.0)


def load_rollouts(paths: Sequence[Path], tokenizer: str | None = None) -> LoadedGroups:
    """The groups in files or folders of completions, shaped by GTPO's conflict weights alone.

    `tokenizer` is a folder or a hub id. Without one, the tokens are words.
    """
    encode = load_encoder(tokenizer) if tokenizer else word_encoder()
    skipped: Counter[str] = Counter()
    origin = [TEXT_ONLY] if tokenizer else [TEXT_ONLY, WORDS_ONLY]
    members: dict[tuple[int, str], list[Row]] = {}
    notes: list[str] = []
    for row in read_rollouts(paths, skipped, notes):
        if _is_usable(row):
            members.setdefault((row.get("step", 0), _prompt(row["prompt"])), []).append(row)
        else:
            skipped[_NEEDED] += 1
    notes += [f"{count} rows skipped: {reason}." for reason, count in skipped.items()]
    if not members:
        raise DataError("There are no completions to show. " + (" ".join(notes) or "The files are empty."))
    num_single = sum(len(rows) == 1 for rows in members.values())
    if num_single:
        notes.append(f"{num_single} of {len(members)} prompts have a single completion, which has no conflicts.")
    num_excluded = sum(advantage is None for rows in members.values() for advantage in _advantages(rows))
    if num_excluded:
        notes.append(f"{num_excluded} completions are shown as excluded: their reward or advantage is not a number.")
    groups = [_group(step, prompt, rows, encode) for (step, prompt), rows in members.items()]
    return LoadedGroups(sorted(groups, key=lambda group: group.step), [*origin, *notes])


def _is_usable(row: Row) -> bool:
    """Whether the row has what `_NEEDED` lists."""
    completion = row.get("completion")
    has_text = isinstance(completion, str) or _is_chat(completion)
    has_score = "reward" in row or "advantage" in row
    return "prompt" in row and has_text and has_score and is_integer(row.get("step", 0))


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(message, dict) for message in value)


def _prompt(prompt: Any) -> str:
    if not _is_chat(prompt):
        return str(prompt)
    return "\n\n".join(f"{message.get('role', '')}: {_content(message)}" for message in prompt)


def _content(message: dict[str, Any]) -> str:
    """The text of a message: its reasoning, its content and its tool calls, which chat templates write as tokens too.

    >>> _content({"reasoning_content": "add", "content": "", "tool_calls": [{"function": {"name": "add"}}]})
    '<think>add</think><tool_call>{"name": "add"}</tool_call>'
    """
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    reasoning, calls = message.get("reasoning_content"), message.get("tool_calls")
    parts = [f"<think>{reasoning}</think>" if isinstance(reasoning, str) and reasoning else ""]
    parts.append(content if isinstance(content, str) else "")
    parts += [f"<tool_call>{_call(call)}</tool_call>" for call in calls] if isinstance(calls, list) else []
    return "".join(parts)


def _call(call: Any) -> str:
    """A tool call as JSON. In a parquet file it has null for every argument that only other calls have."""
    function = call.get("function", call) if isinstance(call, dict) else call
    try:
        return json.dumps(_without_null(function), ensure_ascii=False, default=str)
    except RecursionError:
        return "…"


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return value


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _rewards(row: Row) -> dict[str, float | None]:
    """The rewards by function: those in `rewards`, otherwise `reward` and every other column of numbers."""
    by_function = row.get("rewards")
    if isinstance(by_function, dict) and by_function:
        rewards = {str(name): _number(value) for name, value in by_function.items()}
    else:
        rewards = {"reward": _number(row["reward"])} if "reward" in row else {}
        rewards |= {name: float(value) for name, value in row.items() if name not in _KNOWN and is_number(value)}
    return {name[:_LONGEST_NAME]: rewards[name] for name in list(rewards)[:_MOST_REWARDS]}


def _advantages(rows: Sequence[Row]) -> list[float | None]:
    """R − mean R where there are rewards, otherwise the given advantages; None where a row has neither."""
    rewards = [_number(row.get("reward")) for row in rows]
    known = [reward for reward in rewards if reward is not None]
    if not known:
        return [_number(row.get("advantage")) for row in rows]
    mean = sum(known) / len(known)
    return [None if reward is None else reward - mean for reward in rewards]


def _group(step: int, prompt: str, rows: Sequence[Row], encode: Encoder) -> GroupRecord:
    encoded = [_tokens(row["completion"], encode) for row in rows]
    completion_ids = _padded([ids for ids, _, _ in encoded])
    advantages = _advantages(rows)
    shaped = shape_advantages(
        completion_ids,
        _padded([[1] * len(ids) for ids, _, _ in encoded]),
        torch.tensor([advantage or 0.0 for advantage in advantages], dtype=torch.float64),  # holds any reward
        torch.zeros(completion_ids.shape, dtype=torch.float64),
        torch.zeros(len(rows), dtype=torch.int64),
        initial_entropy=None,
        loss_mask=_padded([trained for _, _, trained in encoded]),
        valid=torch.tensor([advantage is not None for advantage in advantages]),
        config=_CONFLICTS_ONLY,
    )
    completions: list[CompletionRecord] = []
    for number, (ids, pieces, _) in enumerate(encoded):
        completion = CompletionRecord(
            token_ids=ids,
            pieces=pieces,
            rewards=_rewards(rows[number]),
            advantage=advantages[number] or 0.0,
            entropy=None,
            token_entropy=None,
            **shaped_fields(shaped, number, len(ids)),
        )
        completions.append(completion)
    reason = "evaluation" if all(EVALUATION in row for row in rows) else None
    return GroupRecord(step, prompt, completions, None, None, reason=reason)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True)


def _tokens(completion: str | list[Row], encode: Encoder) -> tuple[list[int], list[str], list[bool]]:
    """The ids of the tokens, their text, and whether each is trained. Tool output is not."""
    messages = [{"content": completion}] if isinstance(completion, str) else completion
    ids: list[int] = []
    pieces: list[str] = []
    trained: list[bool] = []
    for message in messages:
        text = _content(message).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        message_ids, message_pieces = encode(text)
        ids += message_ids
        pieces += message_pieces
        trained += [message.get("role", "assistant") == "assistant"] * len(message_ids)
    return ids, pieces, trained
