"""The token view as HTML: one page, or an index and one page per block of groups. Each page is self-contained.

The data of a page is JSON in blocks that the browser does not execute; every character that could end a block is
escaped. The script inserts text by `textContent` only. The content security policy allows this script and this style
sheet by their hashes, and nothing else.
"""

import base64
import dataclasses
import functools
import hashlib
import html
import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import quote

from gtpo.files import finite
from gtpo.text import visible, visible_lines
from gtpo.token_view.changes import Changes, count_changes
from gtpo.token_view.fates import FATES
from gtpo.token_view.groups import Groups, Place, RecordedGroups
from gtpo.token_view.page_data import TokenTable, changes_data, group_data
from gtpo.token_view.summaries import GroupSummary, shared_start, summarise, with_short_prompts

MAX_TOKENS = 400_000
"""Tokens in one page, about 10 bytes each. A larger recording has an index and several pages."""

_FEWEST_PARALLEL = 8
"""With fewer pages, starting processes takes longer than it saves."""
_MOST_PROCESSES = 4


class Page(NamedTuple):
    """A page of the token view: the name of its file in the folder of pages, or None for the page to open first."""

    name: str | None
    html: str


@dataclasses.dataclass(frozen=True)
class _Context:
    """What a page of groups shows besides its groups. `index`, `before` and `after` are links to other pages."""

    title: str
    rollouts: bool
    opened: int = 0
    index: str | None = None  # None: the page is the only one
    before: str | None = None
    after: str | None = None


class _Block(NamedTuple):
    """A page of groups, and what the index needs to know about it."""

    html: str
    summaries: list[GroupSummary]
    changes: Changes
    groups: Groups


def render_page(groups: Groups, *, title: str, rollouts: bool = False, opened: int = 0) -> str:
    """One page with all groups; `opened` is the index of the group that is shown first."""
    return _render_block(groups, _Context(title, rollouts, opened)).html


def render_pages(
    groups: Groups, *, title: str, index: str, folder: str, rollouts: bool = False, max_tokens: int = MAX_TOKENS
) -> Iterator[Page]:
    """Several pages of groups and, last, their index.

    `index` is the name of the index's file, and `folder` the name of the folder of pages next to it.
    """
    blocks = groups.blocks(max_tokens)
    names = [f"page-{number:03}.html" for number in range(1, len(blocks) + 1)]
    first = [f"{name}#{fragment(block.places[0])}" for name, block in zip(names, blocks, strict=True)]
    last = [f"{name}#{fragment(block.places[-1])}" for name, block in zip(names, blocks, strict=True)]
    contexts = [
        _Context(title, rollouts, index=f"../{quote(index)}", before=before, after=after)
        for before, after in zip([None, *last[:-1]], [*first[1:], None], strict=True)
    ]
    summaries: list[GroupSummary] = []
    pages: list[str] = []
    changes = Changes()
    for name, block in zip(names, _rendered(blocks, contexts), strict=True):
        summaries += block.summaries
        pages += [f"{quote(folder)}/{name}"] * len(block.summaries)
        changes += block.changes
        if isinstance(groups, RecordedGroups) and isinstance(block.groups, RecordedGroups):
            groups.add_findings(block.groups)
        yield Page(name, block.html)
    data = {
        "title": visible(title),
        "rollouts": rollouts,
        "notes": [visible_lines(note) for note in groups.notes],
        "summaries": _summary_rows(summaries, pages),
        "shared_start": shared_start(summaries),
        "changes": changes_data(changes),
    }
    scripts = ("shared", "groups", "index")
    page = _fill("index.html", scripts, title, searched="search prompts", data=embedded_json(data))
    yield Page(None, page)


def fragment(place: Place) -> str:
    """The part of a link that leads to a group."""
    return f"step-{place.step}-group-{place.number}"


def embedded_json(data: Any) -> str:
    """JSON that is safe in an HTML script block: plain ASCII without <, > and &.

    >>> embedded_json({"a": "</script>\\u2028"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u2028"}'
    """
    dump = functools.partial(json.dumps, allow_nan=False, separators=(",", ":"))
    try:
        text = dump(data)
    except ValueError:  # rare, and to look at every number first takes long
        text = dump(finite(data))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rendered(blocks: Sequence[Groups], contexts: Sequence[_Context]) -> Iterator[_Block]:
    """Each block as a page. Records are read in several processes; groups in memory stay where they are."""
    if len(blocks) < _FEWEST_PARALLEL or not isinstance(blocks[0], RecordedGroups):
        yield from map(_render_block, blocks, contexts)
        return
    with ProcessPoolExecutor(min(_MOST_PROCESSES, os.cpu_count() or 1)) as pool:
        yield from pool.map(_render_block, blocks, contexts)


def _render_block(groups: Groups, context: _Context) -> _Block:
    table, changes = TokenTable(), Changes()
    summaries: list[GroupSummary] = []
    parts: list[str] = []
    for number, group in groups.numbered():
        group_changes = count_changes([group])
        changes += group_changes
        summaries.append(summarise(group, number))
        content = embedded_json(group_data(group, number, group_changes, table))
        parts.append(f'<script type="application/json" class="group">{content}</script>')
    is_single = context.index is None
    data = dataclasses.asdict(context) | {
        "title": visible(context.title),
        "notes": [visible_lines(note) for note in groups.notes] if is_single else [],
        "changes": changes_data(changes) if is_single else None,
        "fates": [dataclasses.asdict(fate) for fate in FATES.values()],
        "summaries": _summary_rows(summaries, [""] * len(summaries)),
        "ids": table.ids,
        "texts": table.texts,
        "breaks": table.breaks,
    }
    scripts = ("shared", "groups", "channels", "tokens", "start")
    searched = "search prompts and completions"
    page = _fill(
        "page.html", scripts, context.title, searched=searched, data=embedded_json(data), groups="\n".join(parts)
    )
    return _Block(page, summaries, changes, groups)


def _summary_rows(summaries: Sequence[GroupSummary], pages: Sequence[str]) -> list[dict[str, Any]]:
    rows = map(dataclasses.asdict, with_short_prompts(summaries))
    return [row | {"page": page} for row, page in zip(rows, pages, strict=True)]


def _fill(template: str, scripts: Sequence[str], title: str, **parts: str) -> str:
    """The template with its style, its scripts and these parts."""
    style = _resource("page.css")
    script = "".join(_resource(f"{name}.js") for name in scripts)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts |= {"policy": policy, "style": style, "script": script, "title": html.escape(visible(title))}
    page = _resource(template)
    for name in ("head", "filters"):  # what the templates share has places for parts, too
        page = page.replace(f"<!-- {name} -->\n", _resource(f"{name}.html"))
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], page)


def _resource(name: str) -> str:
    return resources.files("gtpo.token_view").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
