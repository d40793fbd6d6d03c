"""Panels as inline SVG: drawn by hand so that the page's colours, light or dark, are the drawing's too."""

import dataclasses
import html
import math
from collections.abc import Iterable, Sequence

from gtpo.report.curves import LEAST_LOG, Panel
from gtpo.report.evaluations import Curve

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 34
NUM_COLORS = 8


@dataclasses.dataclass(frozen=True)
class Axis:
    """Maps values to places on the canvas."""

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
    """The round number next above: 1, 2, 2.5 or 5 times a power of ten.

    >>> nice_step(0.13), nice_step(37)
    (0.2, 50.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))


def panel_svg(panel: Panel, colors: dict[str, int]) -> str:
    """One panel: a band and a mean a method, its runs thin behind, marks dashed."""
    series = [run for line in panel.lines for run in line.runs]
    steps = [step for run in series for step in run.steps]
    values = [value for run in series for value in run.values]
    low, high = _range(values, panel)
    x = Axis(*_room(min(steps), max(max(steps), min(steps) + 1)), LEFT, WIDTH - RIGHT)
    y = Axis(low, high, HEIGHT - BOTTOM, TOP, panel.is_log)
    parts = [_grid(x, y, "step")]
    for name, value in panel.marks.items():
        if low <= value <= high:
            parts.append(
                f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(value):.1f}" y2="{y.at(value):.1f}"/>'
                f'<text class="markname" x="{WIDTH - RIGHT - 4}" y="{y.at(value) - 5:.1f}">{escaped(name)}</text>'
            )
    for line in panel.lines:
        color = f"c{colors[line.method] % NUM_COLORS}"
        if len(line.runs) > 1:
            outline = [
                *zip(line.steps, line.high, strict=True),
                *reversed(list(zip(line.steps, line.low, strict=True))),
            ]
            parts.append(f'<path class="band {color}" d="{_path(outline, x, y)}Z"/>')
            for run in line.runs:
                parts.append(
                    f'<path class="thin {color}" d="{_path(zip(run.steps, run.values, strict=True), x, y)}"/>'
                )
        parts.append(_drawn(list(zip(line.steps, line.mean, strict=True)), x, y, color, line.method))
    return _svg(parts, f"{panel.title} over steps")


def curve_svg(curves: Sequence[Curve], colors: dict[str, int]) -> str:
    """pass@k or maj@k over k, in percent, with the interval over problems as a band; k on a logarithmic axis."""
    ks = sorted({point[0] for curve in curves for point in curve.points})
    bounds = [100 * bound for curve in curves for point in curve.points for bound in point[2:]]
    x = Axis(ks[0], max(ks[-1], 2 * ks[0]), LEFT, WIDTH - RIGHT, is_log=True)
    low, high = min(math.floor(min(bounds) / 10) * 10, 90), max(math.ceil(max(bounds) / 10) * 10, 10)
    y = Axis(low, max(high, low + 10), HEIGHT - BOTTOM, TOP)
    parts = [_grid(x, y, "k", ks)]
    for curve in curves:
        color = f"c{colors[curve.run] % NUM_COLORS}"
        high = [(k, 100 * top) for k, _, _, top in curve.points]
        low = [(k, 100 * bottom) for k, _, bottom, _ in curve.points]
        parts.append(f'<path class="band {color}" d="{_path([*high, *reversed(low)], x, y)}Z"/>')
        points = [(k, 100 * value) for k, value, _, _ in curve.points]
        parts.append(_drawn(points, x, y, color, curve.run))
        parts += [f'<circle class="dot {color}" cx="{x.at(k):.1f}" cy="{y.at(v):.1f}" r="3"/>' for k, v in points]
    return _svg(parts, f"{curves[0].kind}@k over k")


def escaped(text: str) -> str:
    """Text of unknown origin: escaped, without control and direction characters, of bounded length."""
    return html.escape("".join(character if character.isprintable() else "�" for character in text[:300]))


def short(value: float) -> str:
    """A number for an axis.

    >>> short(0.00002), short(1500.0), short(0.5)
    ('2e-05', '1500', '0.5')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _range(values: Sequence[float], panel: Panel) -> tuple[float, float]:
    low, high = min(values), max(values)
    if panel.is_log:
        return low / 1.2, high * 1.2
    if panel.unit == "%":
        bottom, top = math.floor((low - 1) / 10) * 10, math.ceil((high + 1) / 10) * 10
        return _room(bottom if low < 0 else max(0.0, bottom), top if high > 100 else min(100.0, top))
    near = [mark for mark in panel.marks.values() if high > 0.3 * mark]
    low, high = min(0.0, low), max([high, *near])
    pad = 0.06 * (high - low) or abs(high) or 1.0
    return _room(low, high + pad)


def _room(low: float, high: float) -> tuple[float, float]:
    """The range of an axis, with room between its ends also where they are tiny, or huge and nearly the same.

    >>> _room(0.0, 0.5), _room(1e50, 1e50)[1] > 1e50, _room(0.0, 5e-324)[1] > 1e-40
    ((0.0, 0.5), True, True)
    """
    return low, max(high, low + 1e-9 * max(abs(low), abs(high), 1e-24))


def _grid(x: Axis, y: Axis, name: str, ks: Sequence[int] | None = None) -> str:
    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(t):.1f}" y2="{y.at(t):.1f}"/>'
        f'<text class="tick end" x="{LEFT - 8}" y="{y.at(t) + 4:.1f}">{short(t)}</text>'
        for t in y.ticks(4)
    ]
    parts += [
        f'<text class="tick mid" x="{x.at(t):.1f}" y="{HEIGHT - BOTTOM + 17}">{short(t)}</text>'
        for t in (x.ticks() if ks is None else ks)
    ]
    label = f'<text class="tick mid axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 3}">{name}</text>'
    return "".join([*parts, label])


def _drawn(points: Sequence[tuple[float, float]], x: Axis, y: Axis, color: str, name: str) -> str:
    """A line with its name and last value as a tooltip; a single point is a dot."""
    if not points:
        return ""
    told = f"<title>{escaped(name)}: {short(points[-1][1])} at {short(points[-1][0])}</title>"
    if len(points) == 1:
        place = f'cx="{x.at(points[0][0]):.1f}" cy="{y.at(points[0][1]):.1f}"'
        return f'<circle class="dot {color}" {place} r="4">{told}</circle>'
    return f'<path class="line {color}" d="{_path(points, x, y)}">{told}</path>'


def _path(points: Iterable[tuple[float, float]], x: Axis, y: Axis) -> str:
    return "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in points)


def _svg(parts: list[str], label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(label)}">{"".join(parts)}</svg>'
