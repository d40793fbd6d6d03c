"""The token view as one self-contained HTML page.

The data of the page is JSON in a block that the browser does not execute; every character that could end the block is
escaped. The script inserts text by `textContent` only. The content security policy allows this script and this style
sheet by their hashes, and nothing else.
"""

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from gtpo.files import finite, is_number
from gtpo.records import CompletionRecord, GroupRecord
from gtpo.text import visible, visible_lines
from gtpo.token_view.changes import count_changes
from gtpo.token_view.fates import FATES, plain_fates, token_fates
from gtpo.token_view.groups import LoadedGroups

MAX_TOKENS = 400_000
"""Tokens in one page, about 40 bytes each. Larger pages show only some of the groups."""


def render_page(
    loaded: LoadedGroups, *, title: str, rollouts: bool = False, opened: int = 0, max_tokens: int = MAX_TOKENS
) -> str:
    """The HTML page; `opened` is the index of the group that is shown first."""
    groups = loaded.groups
    indices = sorted({*thin_out(groups, max_tokens), opened})
    notes = list(loaded.notes)
    if len(indices) < len(groups):
        notes.append(
            f"The page shows {len(indices)} of {len(groups)} groups, evenly spaced, to stay small enough for a "
            "browser. Pass --step to see a particular one."
        )
    texts: dict[str, int] = {}
    data = {
        "title": visible(title),
        "rollouts": rollouts,
        "opened": indices.index(opened),
        "notes": [visible_lines(note) for note in notes],
        "fates": [dataclasses.asdict(fate) for fate in FATES.values()],
        "changes": dataclasses.asdict(count_changes(groups)),
        "groups": [_group(groups[index], texts) for index in indices],
        "texts": list(texts),
    }
    html, style, script = (
        resources.files("gtpo.token_view").joinpath(f"page.{suffix}").read_text(encoding="utf-8")
        for suffix in ("html", "css", "js")
    )
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "script": script, "data": embedded_json(data)}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], html)


def embedded_json(data: Any) -> str:
    """JSON that is safe in an HTML script block: plain ASCII without <, > and &.

    >>> embedded_json({"a": "</script>\\u2028"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u2028"}'
    """
    text = json.dumps(finite(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def thin_out(groups: Sequence[GroupRecord], max_tokens: int) -> list[int]:
    """The indices of evenly spaced groups that have about `max_tokens` tokens together; at least one."""
    total = sum(completion.num_tokens for group in groups for completion in group.completions)
    num_shown = len(groups) if total <= max_tokens else max(1, len(groups) * max_tokens // total)
    return [number * len(groups) // num_shown for number in range(num_shown)]


def _group(group: GroupRecord, texts: dict[str, int]) -> dict[str, Any]:
    return {
        "step": group.step,
        "is_plain": group.method != "gtpo",
        "reason": visible(group.reason) if group.reason else "",
        "prompt": "not recorded" if group.prompt is None else visible_lines(group.prompt),
        "threshold": _number(group.entropy_threshold),
        "completions": [_completion(completion, texts, group.method != "gtpo") for completion in group.completions],
        "changes": dataclasses.asdict(count_changes([group])),
    }


def _completion(completion: CompletionRecord, texts: dict[str, int], is_plain: bool) -> dict[str, Any]:
    names = list(FATES)
    pieces = completion.pieces
    if pieces is None:
        pieces = [str(position) for position in range(1, completion.num_tokens + 1)]
    return {
        "rewards": [[visible(str(name)), _number(value)] for name, value in completion.rewards.items()],
        "advantage": _number(completion.advantage),
        "push": _number(completion.push),
        "entropy": _number(completion.entropy),
        "kept": completion.kept,
        "valid": completion.valid,
        "prefix": completion.prefix,
        "suffix": completion.suffix,
        "truncated": completion.truncated,
        "size": completion.num_tokens,
        "ids": completion.token_ids,
        "texts": [texts.setdefault(visible(piece), len(texts)) for piece in pieces],
        "breaks": [position for position, piece in enumerate(pieces) if "\n" in piece],
        "fates": [names.index(fate) for fate in token_fates(completion)],
        "plain_fates": [names.index(fate) for fate in plain_fates(completion)] if is_plain else None,
        "weights": [_number(value) for value in completion.token_weight],
        "advantages": [_number(value) for value in completion.token_advantage],
        "entropies": _numbers(completion.token_entropy),
        "logps": _numbers(completion.token_logp),
    }


def _numbers(values: list[float | None] | None) -> list[float | None] | None:
    return None if values is None else [_number(value) for value in values]


def _number(value: float | None) -> float | None:
    return float(f"{value:.5g}") if is_number(value) else None


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
