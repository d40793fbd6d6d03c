"""What a check returns: its findings, the values that it looked at, or why it could not run."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Literal

from gtpo.health.state import State, Track
from gtpo.logged import MEANINGS

Level = Literal[0, 1, 2]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One kind of trouble: its level (1 warning, 2 collapsing), the reason, and what to try."""

    kind: str
    level: Level
    reason: str
    remedy: str


Findings = Iterator[Finding]


@dataclasses.dataclass(frozen=True)
class Result:
    """One check at one step. `skipped` says why it could not run; otherwise `values` are what it looked at."""

    kind: str
    findings: tuple[Finding, ...] = ()
    values: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict[str, dict[str, float]])
    skipped: str = ""


Check = Callable[[State], Result]


def check(
    *needs: str, in_row: tuple[str, ...] = (), looks_at: tuple[str, ...] = (), rows: int = 1, steps: int = 1
) -> Callable[[Callable[[State], Findings]], Check]:
    """Turn a function that yields findings into a check that runs when the run has logged what it needs.

    Args:
        needs: what must be logged: meanings of gtpo.logged.
        in_row: logged names of which the last row must have one, whatever its value.
        looks_at: what the function uses if it is logged.
        rows: how many rows must be logged.
        steps: how many steps they must cover.
    """

    def decorate(find: Callable[[State], Findings]) -> Check:
        kind = find.__name__

        @functools.wraps(find)
        def run(state: State) -> Result:
            if in_row and not any(name in state.row for name in in_row):
                return Result(kind, skipped=f"{' and '.join(in_row)} not in the last row")
            missing = [meaning for meaning in needs if not len(state[meaning])]
            if missing:
                return Result(kind, skipped=f"{' and '.join(map(_name_of, missing))} not logged")
            fewest = min([len(state[meaning]) for meaning in needs], default=state.num_rows)
            if fewest < rows:
                return Result(kind, skipped=f"needs {rows} logged rows, has {fewest}")
            if state.steps[-1] < steps:
                return Result(kind, skipped=f"needs {steps} steps, has {state.steps[-1]:g}")
            tracks = {meaning: state[meaning] for meaning in (*needs, *looks_at) if len(state[meaning])}
            if "reward" in needs:
                tracks |= {f"rewards/{name}": track for name, track in state.components.items()}
            return Result(kind, tuple(find(state)), {name: _values(track) for name, track in tracks.items()})

        return run

    return decorate


def _name_of(meaning: str) -> str:
    """The name under which TRL logs it; GTPO's if only GTPO does."""
    names = MEANINGS[meaning]
    return next((name for name in names if not name.startswith("gtpo/")), names[0])


def _values(track: Track) -> dict[str, float]:
    return {"first": track.first, "best": track.best, "recent": track.recent}


def level_of(value: float, warning: float, collapsing: float) -> Level:
    """2 above the limit of collapsing, 1 above that of a warning, otherwise 0."""
    return 2 if value > collapsing else 1 if value > warning else 0
