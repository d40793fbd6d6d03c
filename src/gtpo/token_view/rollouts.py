"""Groups from the completions of any GRPO run: what would GTPO have changed?

The completions come from JSON Lines or from the parquet files that TRL writes with `log_completions`.
"""

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
from gtpo.files import JsonLines, is_integer, is_number
from gtpo.records import CompletionRecord, GroupRecord, completion_record
from gtpo.token_view.encoders import Encoder, load_encoder, word_encoder
from gtpo.token_view.groups import LoadedGroups

TEXT_ONLY = (
    "These groups were built from text. It was tokenized again, so tokens may differ from those that were sampled. "
    "The end token and the entropies are missing, so the entropy filter and the entropy penalty are off. "
    "Rows with the same step and prompt are a group."
)
WORDS_ONLY = "There is no tokenizer: the tokens are words, tags and punctuation, not the model's. Pass --tokenizer."

Row = dict[str, Any]
"""One completion, as it was logged."""

_NEEDED = "a row needs a prompt, a completion (text or messages), and a reward or advantage; a step must be an integer"
_KNOWN = {"step", "prompt", "completion", "reward", "rewards", "advantage"}
_CONFLICTS_ONLY = ShapingConfig(entropy_filter="off", entropy_penalty=0.0)


def load_rollouts(paths: Sequence[Path], tokenizer: str | None = None) -> LoadedGroups:
    """The groups in files or folders of completions, shaped by GTPO's conflict weights alone.

    `tokenizer` is a folder or a hub id. Without one, the tokens are words.
    """
    encode = load_encoder(tokenizer) if tokenizer else word_encoder()
    skipped: Counter[str] = Counter()
    members: dict[tuple[int, str], list[Row]] = {}
    for file in [file for path in paths for file in _files(path)]:
        for row in _rows(file, skipped):
            if _is_usable(row):
                members.setdefault((row.get("step", 0), _prompt(row["prompt"])), []).append(row)
            else:
                skipped[_NEEDED] += 1
    notes = [f"{count} rows skipped: {reason}." for reason, count in skipped.items()]
    if not members:
        raise DataError("There are no completions to show. " + (" ".join(notes) or "The files are empty."))
    num_single = sum(len(rows) == 1 for rows in members.values())
    if num_single:
        notes.append(f"{num_single} of {len(members)} prompts have a single completion, which has no conflicts.")
    groups = [_group(step, prompt, rows, encode) for (step, prompt), rows in members.items()]
    origin = [TEXT_ONLY] if tokenizer else [TEXT_ONLY, WORDS_ONLY]
    return LoadedGroups(sorted(groups, key=lambda group: group.step), [*origin, *notes])


def _files(path: Path) -> list[Path]:
    """The file itself, or the files in a folder: what TRL logged, otherwise JSON Lines."""
    if path.is_file():
        return [path]
    tables = sorted([*path.glob("*.parquet"), *path.glob("completions/*.parquet")])
    files = tables or sorted(path.glob("*.jsonl"))
    if not files:
        raise DataError(f"{path} is not a .jsonl or .parquet file, and not a folder that contains such files.")
    return files


def _rows(path: Path, skipped: Counter[str]) -> list[Row]:
    if path.suffix != ".parquet":
        return list(JsonLines(path).rows(lambda _, reason: skipped.update([reason])))
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError):
        skipped[f"{path.name} is not a complete parquet file"] += 1
    except UnicodeDecodeError:
        skipped[f"{path.name} has text that is not UTF-8"] += 1
    return []


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
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _rewards(row: Row) -> dict[str, float | None]:
    """The rewards by function: those in `rewards`, otherwise `reward` and every other column of numbers."""
    by_function = row.get("rewards")
    if isinstance(by_function, dict) and by_function:
        return {str(name): _number(value) for name, value in by_function.items()}
    rewards = {"reward": _number(row["reward"])} if "reward" in row else {}
    rewards |= {name: float(value) for name, value in row.items() if name not in _KNOWN and is_number(value)}
    return rewards


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
        rewards, advantage = _rewards(rows[number]), advantages[number] or 0.0
        completions.append(
            completion_record(shaped, number, token_ids=ids, pieces=pieces, rewards=rewards, advantage=advantage)
        )
    return GroupRecord(step, prompt, completions, None, None)


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
