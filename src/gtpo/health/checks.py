"""The checks behind a verdict on a run: one function a kind of trouble, its thresholds beside it.

Each takes the state of a run (`gtpo.health.verdict.Health`) and yields a finding or nothing. docs/health.md has the
table of thresholds and the traces that set them. Values are means over five logged rows, so that no check speaks
before the fifth, except that a gradient or a reward that is not a number speaks at once.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from gtpo.files import is_number

if TYPE_CHECKING:
    from gtpo.health.verdict import Health

Level = Literal[0, 1, 2]
LN2 = math.log(2)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One kind of trouble: how grave it is (1 warning, 2 collapsing), the reason, and what to try."""

    kind: str
    level: Level
    reason: str
    remedy: str


Findings = Iterator[Finding]
_SMALLER_STEPS = "Halve the learning rate and go on from the last healthy checkpoint"


def not_finite(run: "Health") -> Findings:
    """A loss or gradient that is not a number ruins the weights in the same step."""
    broken = [name for name in ("loss", "grad_norm") if name in run.row and not is_number(run.row[name])]
    if broken:
        reason = f"{' and '.join(broken)} {'is' if len(broken) == 1 else 'are'} not a finite number"
        yield Finding("not_finite", 2, reason, f"{_SMALLER_STEPS}; in fp16, use bf16 or fp32")


def nothing_scored(run: "Health") -> Findings:
    """A step of which no completion has a score teaches nothing, and everything else looks calm."""
    if not _is_scored(run):
        remedy = "Look at the reward: it returned None for all of them"
        yield Finding("nothing_scored", 1, "no completion of the last logged step has a score", remedy)


def gradient_exploding(run: "Health") -> Findings:
    """Gradients many times the usual ones; clipping hides it from the weights for a while, not from this."""
    recent, usual = run["grad_norm"].recent, run["grad_norm"].usual
    if recent is None or not usual:
        return
    level = _level(recent / usual, 10, 100)
    if level:
        reason = f"the gradient norm is {recent / usual:.0f} times its usual {usual:.3g}"
        yield Finding("gradient_exploding", level, reason, f"{_SMALLER_STEPS}, or lower max_grad_norm")


def entropy_rising(run: "Health") -> Findings:
    """Entropy through the threshold: the collapse that GTPO's filter is made against."""
    first, recent = run["completion_entropy"].first, run["completion_entropy"].recent
    if first is None or recent is None:
        return
    threshold = LN2 if run.entropy_threshold is None else run.entropy_threshold
    limits = (threshold, 1.5 * threshold) if first <= threshold else (1.5 * first, 2 * first)
    level = _level(recent, *limits)
    if level == 0 and first <= threshold:
        level = _level(recent, max(2 * first, threshold / 2), math.inf)
    if level:
        reason = f"entropy rose from {first:.2f} to {recent:.2f} nats (threshold {threshold:.2f})"
        remedy = f"{_SMALLER_STEPS}; turn the entropy filter on (entropy_filter='all') or raise entropy_penalty"
        yield Finding("entropy_rising", level, reason, remedy)


def entropy_vanishing(run: "Health") -> Findings:
    """Nothing is left to explore. A solved task looks like this too, so that it is a warning."""
    first, recent = run["completion_entropy"].first, run["completion_entropy"].recent
    if first is not None and recent is not None and recent < 0.01 and recent < first / 10:
        reason = f"entropy sank from {first:.2f} to {recent:.4f} nats: completions of a prompt hardly differ"
        remedy = "Stop here if the accuracy is what you want; else raise the temperature, or lower entropy_penalty"
        yield Finding("entropy_vanishing", 1, reason, f"{remedy} and conflict_positive_weight")


def format_falling(run: "Health") -> Findings:
    """The format is the first thing that a policy loses."""
    yield from _falling(run, "format", (0.1, 0.25), "look at the completions of these steps with gtpo inspect")


def accuracy_falling(run: "Health") -> Findings:
    """Right answers get lost; with the format kept, no other sign may show it."""
    half = 0.5 * (run["accuracy"].best or 0.0)
    limits = (0.15, max(0.15, half))
    yield from _falling(run, "accuracy", limits, "make sure that the reward pays for right answers")


def length_exploding(run: "Health") -> Findings:
    """Completions grow without getting better, or until they are cut off."""
    first, recent, cut, accuracy = run["length"].first, run["length"].recent, run["truncated"], run["accuracy"]
    if first is None or recent is None or recent < 1.3 * first:
        return
    num_cut = cut.recent or 0.0
    remedy = "Look for a reward that pays for length; raise max_completion_length, or use loss_type='dr_grpo'"
    reason = f"length grew from {first:.0f} to {recent:.0f} tokens"
    if recent > 1.5 * first and num_cut - (cut.first or 0.0) > 0.2:
        reason += f" and {100 * num_cut:.0f} % of completions are cut off"
        yield Finding("length_exploding", 2 if num_cut > 0.5 else 1, reason, remedy)
    elif accuracy.recent is not None and accuracy.recent < (accuracy.first or 0.0):
        yield Finding("length_exploding", 1, f"{reason} and accuracy is lower than at the start", remedy)


def length_vanishing(run: "Health") -> Findings:
    """Completions shrink to almost nothing; with a good format and no gain in accuracy the reward is being gamed."""
    first, recent = run["length"].first, run["length"].recent
    if first is None or recent is None or recent > 0.5 * first:
        return
    accuracy, form = run["accuracy"], run["format"]
    reason = f"length fell from {first:.0f} to {recent:.0f} tokens"
    remedy = "Read some completions (gtpo inspect) and close the loophole in the reward"
    is_hacking = form.recent is not None and form.first is not None and form.recent >= form.first
    if is_hacking and accuracy.recent is not None and accuracy.recent <= (accuracy.first or 0.0):
        reason += f" while format holds at {100 * (form.recent or 0):.0f} % and accuracy is no better: a gamed reward"
        yield Finding("length_vanishing", 2, reason, remedy)
    elif recent < 0.3 * first:
        yield Finding("length_vanishing", 1, reason, remedy)


def groups_tied(run: "Health") -> Findings:
    """A group whose completions are all worth the same teaches nothing."""
    recent, accuracy = run["tied"].recent, run["accuracy"].recent
    if recent is not None and recent > 0.8:
        is_easy = accuracy is not None and accuracy > 0.5
        remedy = "Take harder problems" if is_easy else "Take easier problems, or a larger num_generations"
        reason = f"{100 * recent:.0f} % of the groups are tied: nearly nothing is learned from"
        yield Finding("groups_tied", 1, reason, remedy)


def completions_filtered(run: "Health") -> Findings:
    """The entropy filter leaves little to learn from."""
    kept = run["kept"].recent
    level = 0 if kept is None or not _is_scored(run) else _level(1 - kept, 0.5, 0.9)
    if kept is not None and level:
        reason = f"the entropy filter drops {100 * (1 - kept):.0f} % of the completions"
        remedy = f"{_SMALLER_STEPS}; if it was so from the start, set entropy_filter='auto' or another threshold"
        yield Finding("completions_filtered", level, reason, remedy)


def rewards_timing_out(run: "Health") -> Findings:
    """Answers that could not be graded in time count as wrong."""
    recent = run["timeouts"].recent
    if recent is not None and recent >= 1:
        reason = f"{recent:.1f} answers a step could not be graded in time and count as wrong"
        yield Finding("rewards_timing_out", 1, reason, "Look at these answers; raise the grader's timeout")


def ratios_off(run: "Health") -> Findings:
    """The sampler's probabilities and the trainer's differ, or the policy has moved far from the one that sampled."""
    ratio, clipped = run["ratio"].recent, run["clipped"].recent
    if ratio is not None:
        level = _level(abs(math.log(max(ratio, 1e-9))), math.log(1.25), LN2)
        if level:
            reason = f"the mean importance ratio between trainer and sampler is {ratio:.2f}, not about 1"
            remedy = "Sync the sampler's weights more often, match its precision, or sample with the trainer"
            yield Finding("ratios_off", level, reason, remedy)
    if clipped is not None and clipped > 0.3:
        reason = f"{100 * clipped:.0f} % of the tokens are clipped: the policy has left the one that sampled"
        yield Finding("ratios_off", 1, reason, f"{_SMALLER_STEPS}, or lower num_iterations and steps_per_generation")


CHECKS: tuple[Callable[["Health"], Findings], ...] = (
    not_finite,
    nothing_scored,
    gradient_exploding,
    entropy_rising,
    format_falling,
    length_exploding,
    length_vanishing,
    completions_filtered,
    ratios_off,
    rewards_timing_out,
    groups_tied,
    entropy_vanishing,
    accuracy_falling,
)
"""In the order in which equally grave findings are told."""


def _is_scored(run: "Health") -> bool:
    return "reward" not in run.row or is_number(run.row["reward"])


def _falling(run: "Health", meaning: str, limits: tuple[float, float], remedy: str) -> Findings:
    track = run[meaning]
    level = _level(track.drop, *limits)
    if level:
        reason = (
            f"{meaning} fell from {100 * (track.best or 0):.0f} % at its best to {100 * (track.recent or 0):.0f} %"
        )
        yield Finding(f"{meaning}_falling", level, reason, f"{_SMALLER_STEPS}; {remedy}")


def _level(value: float, warning: float, collapsing: float) -> Level:
    return 2 if value > collapsing else 1 if value > warning else 0
