"""Panels as inline SVG. They are drawn by hand, so the page's colours, light or dark, apply to them too."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from gtpo.report.curves import Line, Mark, Panel
from gtpo.text import printable

WIDTH, HEIGHT = 460, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 44
"""The margins have room for the larger text on a phone."""
LEAST_ROOM, MOST_ROOM = 9.0, 17.0
"""The radius around a link within which it is hit. On a phone, a unit is about 0.75 pixels."""
NUM_COLORS = 8
LONGEST_TEXT = 300
LEAST_LOG = 1e-12
"""A logarithmic axis draws smaller values as this one."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """Maps values to positions on the canvas."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log(max(v, LEAST_LOG)) if self.is_log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            return [10.0**p for p in powers if self.low <= 10.0**p <= self.high]
        step = nice_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice_step(rough: float) -> float:
    """The next larger round number: 1, 2, 2.5 or 5 times a power of ten.

    >>> nice_step(0.13), nice_step(37)
    (0.2, 50.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))


def panel_svg(panel: Panel, colors: dict[str, int], *, are_links_in_tab_order: bool = True) -> Markup:
    """One panel: a band and a line per method or model, the runs of a method thin behind, and dashed marks.

    A report has the same links in every panel. Pass `are_links_in_tab_order` for one of them only.
    """
    is_over_k = panel.over == "k"
    xs = [x for line in panel.lines for curve in (line.x, *(run.steps for run in line.thin)) for x in curve]
    xs += [mark.step for line in panel.lines for mark in line.marks]
    ys = [y for line in panel.lines for curve in (line.y, *(run.values for run in line.thin)) for y in curve]
    ys += [y for line in panel.lines if line.middle for y in (*line.low, *line.high)]
    if is_over_k:
        ys += [y for line in panel.lines for y in (*line.low, *line.high)]
        x = Axis(min(xs), max(*xs, 2 * min(xs)), LEFT, WIDTH - RIGHT, is_log=True)
        ticks = sorted(set(xs))
    else:
        x = Axis(*_widened(min(xs), max(*xs, min(xs) + 1)), LEFT, WIDTH - RIGHT)
        ticks = [tick for tick in x.ticks() if tick == int(tick)]
    is_log = panel.key == "grad_norm" and min(ys) > LEAST_LOG and max(ys) > 30 * min(ys)
    low, high = (min(ys) / 1.2, max(ys) * 1.2) if is_log else _value_range(ys, panel)
    y = Axis(low, high, HEIGHT - BOTTOM, TOP, is_log)
    marks = [_mark(name, y.at(value)) for name, value in panel.marks.items() if low <= value <= high]
    has_dots = is_over_k or panel.has_dots
    lines = [_line(line, x, y, f"c{colors[line.name]}", has_dots, is_over_k) for line in panel.lines]
    room = _room([x.at(mark.step) for line in panel.lines for mark in line.marks])
    links = [
        _link(mark, x, y, room, f"c{colors[line.name]}", are_links_in_tab_order)
        for line in panel.lines
        for mark in line.marks
    ]
    name = f"{panel.key}@k over k" if is_over_k else f"{panel.title} over steps"
    return _svg([_grid(x, y, panel.over, ticks), *marks, *lines, *links], name)


def clean(text: str) -> str:
    """Text of unknown origin without control and direction characters, and of bounded length."""
    return printable(text[:LONGEST_TEXT])


def short(value: float) -> str:
    """A number for an axis.

    >>> short(0.00002), short(1500.0), short(0.5)
    ('2e-05', '1500', '0.5')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _value_range(values: Sequence[float], panel: Panel) -> tuple[float, float]:
    low, high = min(values), max(values)
    if panel.unit.endswith("%"):
        bottom, top = math.floor((low - 1) / 10) * 10, math.ceil((high + 1) / 10) * 10
        return _widened(bottom if low < 0 else max(0.0, bottom), top if high > 100 else min(100.0, top))
    near = [mark for mark in panel.marks.values() if high > 0.3 * mark]
    low, high = min(0.0, low), max([high, *near])
    pad = 0.06 * (high - low) or abs(high) or 1.0
    return _widened(low, high + pad)


def _widened(low: float, high: float) -> tuple[float, float]:
    """The range of an axis, wide enough to divide by even if its ends are tiny, or huge and nearly equal.

    >>> _widened(0.0, 0.5), _widened(1e50, 1e50)[1] > 1e50, _widened(0.0, 5e-324)[1] > 1e-40
    ((0.0, 0.5), True, True)
    """
    return low, max(high, low + 1e-9 * max(abs(low), abs(high), 1e-24))


def _grid(x: Axis, y: Axis, name: str, x_ticks: Sequence[float]) -> str:
    parts = [_horizontal("grid", y.at(tick)) for tick in y.ticks(4)]
    parts += [_text("tick end", LEFT - 8, y.at(tick) + 4, short(tick)) for tick in y.ticks(4)]
    parts += [_text("tick mid", x.at(tick), HEIGHT - BOTTOM + 18, short(tick)) for tick in x_ticks]
    return "".join([*parts, _text("tick mid", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, name)])


def _mark(name: str, height: float) -> str:
    return _horizontal("mark", height) + _text("markname", WIDTH - RIGHT - 4, height - 5, name)


def _line(line: Line, x: Axis, y: Axis, color: str, has_dots: bool, has_interval: bool) -> str:
    """A line with its band, and with its name and last value as a tooltip; a single point is a dot."""
    parts = [f'<path class="thin {color}" d="{_path(run.steps, run.values, x, y)}"/>' for run in line.thin]
    if line.x:
        parts.append(f"<title>{escape(clean(line.name))}: {short(line.y[-1])} at {short(line.x[-1])}</title>")
        bands = [(line.low, line.high)] if line.has_band or has_interval else []
        for low, high in (*bands, line.middle) if line.middle else bands:
            band = _path([*line.x, *reversed(line.x)], [*high, *reversed(low)], x, y)
            parts.append(f'<path class="band {color}" d="{band}Z"/>')
        parts.append(f'<path class="line {color}" d="{_path(line.x, line.y, x, y)}"/>')
    if has_dots or len(line.x) == 1:
        for a, b in zip(line.x, line.y, strict=True):
            parts.append(f'<circle class="dot {color}" cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3"/>')
    return f"<g>{''.join(parts)}</g>"


def _room(places: Sequence[float]) -> float:
    """How far from a link it is hit: half the way to the next one, as far as that is neither tiny nor huge.

    >>> _room([0.0, 24.0, 60.0]), _room([0.0, 3.0]), _room([5.0, 5.0])
    (12.0, 9.0, 17.0)
    """
    distances = [after - before for before, after in itertools.pairwise(sorted(set(places)))]
    return max(LEAST_ROOM, min([MOST_ROOM, *(distance / 2 for distance in distances)]))


def _link(mark: Mark, x: Axis, y: Axis, room: float, color: str, is_in_tab_order: bool) -> str:
    """A recorded step that leads to its groups, with room around it to hit it."""
    place = f'cx="{x.at(mark.step):.1f}" cy="{y.at(mark.value):.1f}"'
    order = "" if is_in_tab_order else ' tabindex="-1"'
    circles = f'<circle class="room" {place} r="{room:.1f}"/><circle class="step" {place} r="3.4"/>'
    title = f"<title>{escape(clean(mark.label))}</title>"
    return f'<a class="{color}" href="{escape(mark.href)}"{order}>{title}{circles}</a>'


def _horizontal(style: str, height: float) -> str:
    return f'<line class="{style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _path(xs: Sequence[float], ys: Sequence[float], x: Axis, y: Axis) -> str:
    return "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in zip(xs, ys, strict=True))


def _svg(parts: Sequence[str], label: str) -> Markup:
    """The drawing. All text in `parts` must be escaped already."""
    role = "group" if any(part.startswith("<a ") for part in parts) else "img"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="{role}" aria-label="{escape(clean(label))}">'
    return Markup(head + "".join(parts) + "</svg>")
