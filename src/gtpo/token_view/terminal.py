"""The token view of one group in a terminal: the same fates, with marks that also work without color."""

import math
from itertools import groupby

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from gtpo.records import CompletionRecord, GroupRecord
from gtpo.text import visible, visible_lines
from gtpo.token_view.changes import count_changes
from gtpo.token_view.fates import FATES, plain_fates, token_fates

_STYLES = {
    "amplified": "bold white on #0b5fa5",
    "skipped": "bold #0d9a6e",
    "up": "#4a9fe0",
    "down": "#d9712e",
    "worsened": "bold white on #a8430f",
    "still": "default",
    "untrained": "italic dim",
    "filtered": "dim",
    "invalid": "dim strike",
}
_BAR_WIDTH = 12
_USUAL = {name for name, fate in FATES.items() if not fate.rare}
"""Always in the legend of a GTPO run."""


def group_view(group: GroupRecord) -> Group:
    """What rich prints: prompt, legend, the completions with the good ones first, and the counts."""
    title = f"step {group.step}" + (f", recorded for: {visible(group.reason)}" if group.reason else "")
    title += f", credit: {visible(group.method)}" if _is_other_scheme(group) else ""
    prompt = "prompt not recorded" if group.prompt is None else visible_lines(group.prompt, 2000)
    parts = [Text(title, style="bold"), Text(prompt, style="dim")]
    fates = list(map(plain_fates if _is_plain(group) else token_fates, group.completions))
    present = {fate for names in fates for fate in names}
    parts.append(_legend(present if _is_plain(group) else present | _USUAL))
    facts = _fact_lines(group)
    # The good completions come first, the excluded ones last.
    ranks = [(not completion.valid, -(completion.advantage or 0.0)) for completion in group.completions]
    for index in sorted(range(len(facts)), key=ranks.__getitem__):
        parts += [Text(), facts[index], _tokens(group.completions[index], fates[index])]
    return Group(*parts, Text(), Text(_changes_line(group)))


def _is_plain(group: GroupRecord) -> bool:
    return group.method != "gtpo"


def _is_other_scheme(group: GroupRecord) -> bool:
    return group.method not in ("gtpo", "grpo")


def _changes_line(group: GroupRecord) -> str:
    changes = count_changes([group])
    removed, tags = _percent(changes.share_removed), _percent(changes.share_tags)
    would = "GTPO would change: " if _is_plain(group) else ""
    return (
        f"{would}{changes.protected} of {changes.tokens} tokens protected ({removed} of the downward push removed), "
        f"{changes.amplified} amplified; {tags} of {changes.conflicts} conflict tokens are format tags; "
        f"{changes.filtered} of {changes.completions} completions filtered"
    )


def _legend(names: set[str]) -> Text:
    text = Text()
    for name, fate in FATES.items():
        if name in names:
            text.append(f"{fate.mark} {fate.label}", style=_STYLES[name])
            text.append(f"  {fate.meaning}\n", style="dim")
    text.rstrip()
    return text


def _fact_lines(group: GroupRecord) -> list[Text]:
    """One line per completion, in columns: the bars of all completions begin at the same place."""
    names = list(dict.fromkeys(name for completion in group.completions for name in completion.rewards))
    rows = [_facts(number, completion, group, names) for number, completion in enumerate(group.completions, start=1)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines: list[Text] = []
    for row in rows:
        cells = [set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True) if width]
        lines.append(Text(cells[0], style="bold").append("  " + "  ".join(cells[1:]).rstrip(), style="not bold"))
    return lines


def _facts(number: int, completion: CompletionRecord, group: GroupRecord, names: list[str]) -> list[str]:
    advantage = completion.advantage or 0.0
    kind = "good" if advantage > 1e-5 else "bad" if advantage < -1e-5 else "neutral"
    if not completion.valid:
        kind = "excluded: no reward, or masked"
    elif not completion.kept:
        kind = "filtered"
    entropy = ""
    if completion.entropy is not None:
        entropy = f"⟨H⟩ {completion.entropy:.2f}" + _bar(completion.entropy, group.entropy_threshold)
    return [
        f"#{number} {kind}",
        f"advantage {_signed(completion.advantage)}",
        "" if _is_plain(group) else f"push {_signed(completion.push)}",
        _credit(completion) if _is_other_scheme(group) else "",
        *(f"{visible(str(name))} {_plain(completion.rewards.get(name))}" for name in names),
        "truncated" if completion.truncated else "",
        entropy,
    ]


def _credit(completion: CompletionRecord) -> str:
    """The advantages of its trained tokens: all equal, or the lowest and the highest."""
    pairs = zip(completion.token_advantage, completion.trained, strict=True)
    values = sorted(value for value, is_trained in pairs if is_trained and value is not None)
    ends = [_signed(value) for value in (*values[:1], *values[-1:])]
    return f"credit {' to '.join(dict.fromkeys(ends))}" if ends else ""


def _bar(entropy: float, threshold: float | None) -> str:
    if not threshold:
        return ""
    filled = round(min(_BAR_WIDTH, max(0, _BAR_WIDTH / 2 * entropy / threshold)))
    cells = ["━" if cell < filled else "─" for cell in range(_BAR_WIDTH)]
    cells.insert(_BAR_WIDTH // 2, "┃")
    name = "ln 2" if abs(threshold - math.log(2)) < 1e-4 else f"{threshold:.2f}"
    return f" {''.join(cells)} {'above' if entropy > threshold else 'below'} {name}"


def _tokens(completion: CompletionRecord, fates: list[str]) -> Text:
    text = Text("  ")
    pieces = completion.pieces
    if pieces is None:
        pieces = [f" {position}" for position in range(1, completion.num_tokens + 1)]
    for fate, positions in groupby(range(len(fates)), key=fates.__getitem__):
        text.append(FATES[fate].mark, style=_STYLES[fate])
        is_first = True
        for position in positions:
            piece = visible(pieces[position])
            if not is_first and not piece.startswith(" "):
                text.append("│", style="dim")
            text.append(piece, style=_STYLES[fate])
            is_first = "\n" in pieces[position]
            if is_first:
                text.append("\n  ")
        text.append(" ")
    return text if pieces else Text("  empty completion", style="italic")


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("-", "−")


def _signed(value: float | None) -> str:
    return ("+" if value is not None and value > 0 else "") + _plain(value)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
