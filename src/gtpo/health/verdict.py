"""The health of a run: healthy, warning or collapsing, the reason in one sentence, and what to try."""

import dataclasses
from collections.abc import Iterable, Sequence

from gtpo.health import checks, rewards
from gtpo.health.held_out import HeldOut
from gtpo.health.result import Check, Finding, Level, Result
from gtpo.health.state import FEWEST_ROWS, FEWEST_STEPS, State
from gtpo.logged import Row

NAMES = ("healthy", "warning", "collapsing")
"""The verdicts, by level."""
UNKNOWN = "unknown"
"""The verdict on a run that has logged too little to be judged. Its level is 0."""

CHECKS: tuple[Check, ...] = (
    checks.not_finite,
    rewards.nothing_scored,
    rewards.held_out_worse,
    rewards.reward_hacking,
    checks.policy_uniform,
    checks.all_truncated,
    checks.gradient_exploding,
    checks.no_gradient,
    checks.entropy_rising,
    rewards.format_falling,
    checks.length_exploding,
    checks.length_vanishing,
    checks.completions_filtered,
    checks.sampler_off,
    checks.policy_far_off,
    checks.rewards_timing_out,
    rewards.accuracy_falling,
    rewards.reward_falling,
    rewards.groups_tied,
    checks.entropy_vanishing,
    rewards.nothing_learned,
)
"""In the order in which findings of the same level are listed."""
_JUDGING = {"reward_falling", "accuracy_falling", "format_falling"}
_CONSEQUENCES = {"groups_tied", "nothing_learned"}
"""A dead policy is tied and learns nothing either, but easier problems or larger steps would not help it."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What every check returned at one step."""

    step: float
    results: tuple[Result, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The most severe first. Warnings that follow from other trouble are left out where there is other trouble."""
        findings = [finding for result in self.results for finding in result.findings]
        causes = [finding for finding in findings if finding.level == 2 or finding.kind not in _CONSEQUENCES]
        return tuple(sorted(causes or findings, key=lambda finding: -finding.level))

    @property
    def checked(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if not result.skipped)

    @property
    def skipped(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.skipped)

    @property
    def is_judged(self) -> bool:
        """Whether a check of the reward, the accuracy or the format could run, over steps enough to show trouble."""
        return self.step >= FEWEST_STEPS and any(result.kind in _JUDGING for result in self.checked)

    @property
    def level(self) -> Level:
        return self.findings[0].level if self.findings else 0

    @property
    def name(self) -> str:
        return NAMES[self.level] if self.findings or self.is_judged else UNKNOWN

    @property
    def reason(self) -> str:
        if self.findings:
            return self.findings[0].reason
        if self.is_judged:
            return "no check found a problem"
        return f"a run is judged after {FEWEST_ROWS} logged rows and {FEWEST_STEPS} steps, by its reward"


class Health:
    """Watches a run: pass each row of metrics to `add` in turn, as a callback does at every logging step.

    What was measured on held-out problems after training counts at the `end` only.
    """

    def __init__(self, *, entropy_threshold: float | None = None, held_out: HeldOut | None = None) -> None:
        self.held_out = held_out or HeldOut()
        self.state = State(entropy_threshold, dataclasses.replace(self.held_out, after={}))

    def add(self, row: Row) -> Verdict:
        self.state.extend([row])
        return self.verdict()

    def verdict(self) -> Verdict:
        """The verdict after the rows so far."""
        return Verdict(self.state.row.get("step", 0), tuple(check(self.state) for check in CHECKS))

    def end(self) -> Verdict:
        """The verdict on the finished run."""
        if self.held_out.after:
            self.state.held_out = self.held_out
        return self.verdict()


def health_of(
    rows: Iterable[Row], *, entropy_threshold: float | None = None, held_out: HeldOut | None = None
) -> list[Verdict]:
    """A verdict after each row of a run. What was measured after training belongs to the last one.

    >>> broken = [{"step": step, "format": 0.9 if step < 12 else 0.2} for step in range(1, 17)]
    >>> verdicts = health_of(broken)
    >>> [verdict.level for verdict in verdicts]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2]
    >>> verdicts[2].name, verdicts[10].name, verdicts[-1].reason
    ('unknown', 'healthy', 'format fell from 90 % at its best to 20 %')
    """
    health = Health(entropy_threshold=entropy_threshold, held_out=held_out)
    verdicts = [health.add(row) for row in rows]
    return [*verdicts[:-1], health.end()] if verdicts else []


def last_verdict(
    rows: Iterable[Row], *, entropy_threshold: float | None = None, held_out: HeldOut | None = None
) -> Verdict:
    """The last verdict of `health_of`, without those before it."""
    health = Health(entropy_threshold=entropy_threshold, held_out=held_out)
    health.state.extend(rows)
    return health.end()


def first_alarms(verdicts: Sequence[Verdict]) -> dict[tuple[str, Level], Verdict]:
    """For each kind of finding and each level, the first verdict that has it."""
    alarms: dict[tuple[str, Level], Verdict] = {}
    for verdict in verdicts:
        for finding in verdict.findings:
            alarms.setdefault((finding.kind, finding.level), verdict)
    return alarms
