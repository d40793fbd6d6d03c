"""The token view of one group in a terminal: the same fates, with marks that also work without color."""

import math
from itertools import groupby
from typing import TYPE_CHECKING

from gtpo.records import CompletionRecord, GroupRecord
from gtpo.text import visible, visible_lines
from gtpo.token_view.changes import count_changes
from gtpo.token_view.fates import FATES, RARE, token_fates

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

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


def group_view(group: GroupRecord) -> "Group":
    """What rich prints: prompt, legend, the completions with the good ones first, and the counts."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(f"step {group.step}", style="bold"),
        Text(visible_lines(group.prompt, 2000), style="dim"),
    ]
    parts.append(_legend({fate for completion in group.completions for fate in token_fates(completion)}))
    order = sorted(
        enumerate(group.completions, start=1), key=lambda pair: (not pair[1].valid, -(pair[1].advantage or 0.0))
    )
    for number, completion in order:
        parts += [Text(), _facts(number, completion, group.entropy_threshold), _tokens(completion)]
    parts += [Text(), Text(changes_line(group))]
    return Group(*parts)


def changes_line(group: GroupRecord) -> str:
    """What GTPO changed in a group, in one line."""
    changes = count_changes([group])
    removed, tags = _percent(changes.share_removed), _percent(changes.share_tags)
    return (
        f"{changes.protected} of {changes.tokens} tokens protected ({removed} of the downward push removed), "
        f"{changes.amplified} amplified; {tags} of {changes.conflicts} conflict tokens are format tags; "
        f"{changes.filtered} of {changes.completions} completions filtered"
    )


def _legend(present: set[str]) -> "Text":
    from rich.text import Text

    text = Text()
    for fate in FATES.values():
        if fate.name in present or fate.name not in RARE:
            text.append(f"{fate.mark} {fate.label}", style=_STYLES[fate.name]).append(
                f"  {fate.meaning}\n", style="dim"
            )
    text.rstrip()
    return text


def _facts(number: int, completion: CompletionRecord, threshold: float | None) -> "Text":
    from rich.text import Text

    advantage = completion.advantage or 0.0
    kind = "good" if advantage > 1e-5 else "bad" if advantage < -1e-5 else "tied"
    if not completion.valid:
        kind = "excluded: no reward, or masked"
    elif not completion.kept:
        kind = "filtered"
    text = Text(f"#{number} {kind}", style="bold")
    facts = [f"advantage {_signed(completion.advantage)}", f"push {_signed(completion.push)}"]
    facts += [f"{visible(str(name))} {_plain(value)}" for name, value in completion.rewards.items()]
    if completion.entropy is not None:
        facts.append(f"⟨H⟩ {completion.entropy:.2f}" + _bar(completion.entropy, threshold))
    return text.append("  " + "  ".join(facts), style="not bold")


def _bar(entropy: float, threshold: float | None) -> str:
    if not threshold:
        return ""
    filled = round(min(_BAR_WIDTH, max(0, _BAR_WIDTH / 2 * entropy / threshold)))
    cells = ["━" if cell < filled else "─" for cell in range(_BAR_WIDTH)]
    cells.insert(_BAR_WIDTH // 2, "┃")
    name = "ln 2" if abs(threshold - math.log(2)) < 1e-4 else f"{threshold:.2f}"
    return f" {''.join(cells)} {'above' if entropy > threshold else 'below'} {name}"


def _tokens(completion: CompletionRecord) -> "Text":
    from rich.text import Text

    text = Text("  ")
    fates = token_fates(completion)
    for fate, positions in groupby(range(len(fates)), key=fates.__getitem__):
        text.append(FATES[fate].mark, style=_STYLES[fate])
        is_first = True
        for position in positions:
            piece = visible(completion.pieces[position])
            if not is_first and not piece.startswith(" "):
                text.append("│", style="dim")
            text.append(piece, style=_STYLES[fate])
            is_first = "\n" in completion.pieces[position]
            if is_first:
                text.append("\n  ")
        text.append(" ")
    return text if completion.pieces else Text("  empty completion", style="italic")


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("-", "−")


def _signed(value: float | None) -> str:
    return ("+" if value is not None and value > 0 else "") + _plain(value)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
