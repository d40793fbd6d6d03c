"""Panels as inline SVG. They are drawn by hand, so the page's colours, light or dark, apply to them too."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from gtpo.report.curves import LEAST_LOG, Line, Panel
from gtpo.report.evaluations import Curve
from gtpo.text import printable

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 34
NUM_COLORS = 8
LONGEST_TEXT = 300


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


def panel_svg(panel: Panel, colors: dict[str, int]) -> Markup:
    """One panel: a band and a mean per method, its runs thin behind, and dashed marks."""
    series = [run for line in panel.lines for run in line.runs]
    steps = [step for run in series for step in run.steps]
    low, high = _value_range([value for run in series for value in run.values], panel)
    x = Axis(*_widened(min(steps), max(max(steps), min(steps) + 1)), LEFT, WIDTH - RIGHT)
    y = Axis(low, high, HEIGHT - BOTTOM, TOP, panel.is_log)
    marks = [_mark(name, y.at(value)) for name, value in panel.marks.items() if low <= value <= high]
    lines = [_line(line, x, y, f"c{colors[line.method]}") for line in panel.lines]
    return _svg([_grid(x, y, "step", x.ticks()), *marks, *lines], f"{panel.title} over steps")


def curve_svg(curves: Sequence[Curve], colors: dict[str, int]) -> Markup:
    """pass@k or maj@k over k, in percent, with the interval over problems as a band and k on a logarithmic axis."""
    ks = sorted({point.k for curve in curves for point in curve.points})
    lowest = min(point.low for curve in curves for point in curve.points)
    highest = max(point.high for curve in curves for point in curve.points)
    low, high = min(math.floor(lowest / 10) * 10, 90), max(math.ceil(highest / 10) * 10, 10)
    x = Axis(ks[0], max(ks[-1], 2 * ks[0]), LEFT, WIDTH - RIGHT, is_log=True)
    y = Axis(low, max(high, low + 10), HEIGHT - BOTTOM, TOP)
    parts = [_grid(x, y, "k", ks)]
    for curve in curves:
        color = f"c{colors[curve.label]}"
        values = [(point.k, point.value) for point in curve.points]
        parts.append(_band([(p.k, p.low) for p in curve.points], [(p.k, p.high) for p in curve.points], x, y, color))
        parts.append(_main_line(values, x, y, color, curve.label))
        parts += [_dot(x.at(k), y.at(value), 3, color) for k, value in values]
    return _svg(parts, f"{curves[0].kind}@k over k")


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
    if panel.is_log:
        return low / 1.2, high * 1.2
    if panel.unit == "%":
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
    parts += [_text("tick mid", x.at(tick), HEIGHT - BOTTOM + 17, short(tick)) for tick in x_ticks]
    return "".join([*parts, _text("tick mid", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3, name)])


def _mark(name: str, height: float) -> str:
    return _horizontal("mark", height) + _text("markname", WIDTH - RIGHT - 4, height - 5, name)


def _line(line: Line, x: Axis, y: Axis, color: str) -> str:
    parts: list[str] = []
    if len(line.runs) > 1:
        low, high = zip(line.steps, line.low, strict=True), zip(line.steps, line.high, strict=True)
        parts.append(_band(list(low), list(high), x, y, color))
        for run in line.runs:
            parts.append(f'<path class="thin {color}" d="{_path(zip(run.steps, run.values, strict=True), x, y)}"/>')
    parts.append(_main_line(list(zip(line.steps, line.mean, strict=True)), x, y, color, line.method))
    return "".join(parts)


def _band(low: list[tuple[float, float]], high: list[tuple[float, float]], x: Axis, y: Axis, color: str) -> str:
    return f'<path class="band {color}" d="{_path([*high, *reversed(low)], x, y)}Z"/>'


def _main_line(points: Sequence[tuple[float, float]], x: Axis, y: Axis, color: str, name: str) -> str:
    """A line with its name and last value as a tooltip; a single point is a dot."""
    if not points:
        return ""
    last_x, last_y = points[-1]
    tooltip = f"<title>{escape(clean(name))}: {short(last_y)} at {short(last_x)}</title>"
    if len(points) == 1:
        return _dot(x.at(last_x), y.at(last_y), 4, color, tooltip)
    return f'<path class="line {color}" d="{_path(points, x, y)}">{tooltip}</path>'


def _dot(x: float, y: float, radius: int, color: str, content: str = "") -> str:
    return f'<circle class="dot {color}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{content}</circle>'


def _horizontal(style: str, height: float) -> str:
    return f'<line class="{style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _path(points: Iterable[tuple[float, float]], x: Axis, y: Axis) -> str:
    return "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in points)


def _svg(parts: Sequence[str], label: str) -> Markup:
    """The drawing. All text in `parts` must be escaped already."""
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(parts) + "</svg>")
