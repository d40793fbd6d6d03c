"""The checks behind a verdict: one function per kind of trouble, with its thresholds.

Each check takes the state of a run and yields findings. docs/health.md has the table of thresholds and the traces that
set them. Values are means over five logged rows, so a check finds nothing before the fifth row. A gradient or a reward
that is not a number is found at once.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Literal

from gtpo.files import is_number
from gtpo.health.state import State
from gtpo.logged import LN2

Level = Literal[0, 1, 2]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One kind of trouble: its level (1 warning, 2 collapsing), the reason, and what to try."""

    kind: str
    level: Level
    reason: str
    remedy: str


Findings = Iterator[Finding]
_SMALLER_STEPS = "Halve the learning rate and continue from the last healthy checkpoint"


def not_finite(state: State) -> Findings:
    """A loss or gradient that is not a number destroys the weights in the same step."""
    broken = [name for name in ("loss", "grad_norm") if name in state.row and not is_number(state.row[name])]
    if broken:
        reason = f"{' and '.join(broken)} {'is' if len(broken) == 1 else 'are'} not a finite number"
        yield Finding("not_finite", 2, reason, f"{_SMALLER_STEPS}; in fp16, use bf16 or fp32")


def nothing_scored(state: State) -> Findings:
    """If no completion of a step has a score, nothing is learned, and all other metrics look normal."""
    if not _is_scored(state):
        remedy = "Check the reward function: it returned None for all of them"
        yield Finding("nothing_scored", 1, "no completion of the last logged step has a score", remedy)


def gradient_exploding(state: State) -> Findings:
    """Gradients are many times their usual size. Clipping protects the weights only for a while."""
    usual = state["grad_norm"].usual
    ratio = state["grad_norm"].recent / usual if usual > 0 else 0.0
    if level := _level(ratio, 10, 100):
        reason = f"the gradient norm is {ratio:.0f} times its usual {usual:.3g}"
        yield Finding("gradient_exploding", level, reason, f"{_SMALLER_STEPS}, or lower max_grad_norm")


def entropy_rising(state: State) -> Findings:
    """Entropy rises through the threshold: the collapse that GTPO's filter is meant to prevent."""
    first, recent = state["completion_entropy"].first, state["completion_entropy"].recent
    threshold = LN2 if state.entropy_threshold is None else state.entropy_threshold
    if first <= threshold:
        level = _level(recent, min(threshold, max(2 * first, threshold / 2)), 1.5 * threshold)
    else:
        level = _level(recent, 1.5 * first, 2 * first)
    if level:
        reason = f"entropy rose from {first:.2f} to {recent:.2f} nats (threshold {threshold:.2f})"
        remedy = f"{_SMALLER_STEPS}; turn the entropy filter on (entropy_filter='all') or raise entropy_penalty"
        yield Finding("entropy_rising", level, reason, remedy)


def entropy_vanishing(state: State) -> Findings:
    """Nothing is left to explore. A solved task looks the same, so this is only a warning."""
    first, recent = state["completion_entropy"].first, state["completion_entropy"].recent
    if recent < 0.01 and recent < first / 10:
        reason = f"entropy fell from {first:.2f} to {recent:.4f} nats: completions of a prompt hardly differ"
        remedy = "Stop here if the accuracy is high enough; otherwise raise the temperature, or lower entropy_penalty"
        yield Finding("entropy_vanishing", 1, reason, f"{remedy} and conflict_positive_weight")


def format_falling(state: State) -> Findings:
    """The format is the first thing that a collapsing policy loses."""
    yield from _falling(state, "format", (0.1, 0.25), "look at the completions of these steps with gtpo inspect")


def accuracy_falling(state: State) -> Findings:
    """Accuracy falls. If the format stays, no other metric may show it."""
    limits = (0.15, max(0.15, 0.5 * state["accuracy"].best))
    yield from _falling(state, "accuracy", limits, "make sure that the reward rewards correct answers")


def length_exploding(state: State) -> Findings:
    """Completions grow without getting better, or until they are truncated."""
    length, truncated, accuracy = state["length"], state["truncated"], state["accuracy"]
    remedy = "Look for a reward that favours length; raise max_completion_length, or use loss_type='dr_grpo'"
    reason = f"length grew from {length.first:.0f} to {length.recent:.0f} tokens"
    if length.recent > 1.5 * length.first and truncated.recent - truncated.first > 0.2:
        reason += f" and {100 * truncated.recent:.0f} % of completions are truncated"
        yield Finding("length_exploding", 2 if truncated.recent > 0.5 else 1, reason, remedy)
    elif length.recent >= 1.3 * length.first and accuracy.recent < accuracy.first:
        yield Finding("length_exploding", 1, f"{reason} and accuracy is lower than at the start", remedy)


def length_vanishing(state: State) -> Findings:
    """Completions shrink. With a good format and no gain in accuracy, the reward is being gamed."""
    length, accuracy, form = state["length"], state["accuracy"], state["format"]
    reason = f"length fell from {length.first:.0f} to {length.recent:.0f} tokens"
    remedy = "Read some completions (gtpo inspect) and close the loophole in the reward"
    is_gamed = form.recent >= form.first and accuracy.recent <= accuracy.first
    if length.recent <= 0.5 * length.first and is_gamed:
        reason += f" while format stays at {100 * form.recent:.0f} % and accuracy is no better: a gamed reward"
        yield Finding("length_vanishing", 2, reason, remedy)
    elif length.recent < 0.3 * length.first:
        yield Finding("length_vanishing", 1, reason, remedy)


def groups_tied(state: State) -> Findings:
    """A group whose completions all have the same reward teaches nothing."""
    recent = state["tied"].recent
    if recent > 0.8:
        is_easy = state["accuracy"].recent > 0.5
        remedy = "Train on harder problems" if is_easy else "Train on easier problems, or raise num_generations"
        reason = f"{100 * recent:.0f} % of the groups are tied, so almost nothing is learned"
        yield Finding("groups_tied", 1, reason, remedy)


def completions_filtered(state: State) -> Findings:
    """The entropy filter leaves little to learn from."""
    dropped = 1 - state["kept"].recent
    level = _level(dropped, 0.5, 0.9)
    if level and _is_scored(state):
        reason = f"the entropy filter drops {100 * dropped:.0f} % of the completions"
        remedy = f"{_SMALLER_STEPS}; if this is so from the start, set entropy_filter='auto' or another threshold"
        yield Finding("completions_filtered", level, reason, remedy)


def rewards_timing_out(state: State) -> Findings:
    """Answers that could not be graded in time count as wrong."""
    recent = state["timeouts"].recent
    if recent >= 1:
        reason = f"{recent:.1f} answers a step could not be graded in time and count as wrong"
        yield Finding("rewards_timing_out", 1, reason, "Look at these answers, or raise the grader's timeout")


def ratios_off(state: State) -> Findings:
    """The sampler's and the trainer's probabilities differ, or the policy has moved far since it sampled."""
    ratio, clipped = state["ratio"].recent, state["clipped"].recent
    if level := _level(abs(math.log(max(ratio, 1e-9))), math.log(1.25), LN2):
        reason = f"the mean importance ratio between trainer and sampler is {ratio:.2f}, not about 1"
        remedy = "Sync the sampler's weights more often, match its precision, or sample with the trainer"
        yield Finding("ratios_off", level, reason, remedy)
    if clipped > 0.3:
        reason = f"{100 * clipped:.0f} % of the tokens are clipped: the policy has moved far since it sampled"
        yield Finding("ratios_off", 1, reason, f"{_SMALLER_STEPS}, or lower num_iterations and steps_per_generation")


CHECKS: tuple[Callable[[State], Findings], ...] = (
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
"""In the order in which findings of the same level are listed."""


def _is_scored(state: State) -> bool:
    return "reward" not in state.row or is_number(state.row["reward"])


def _falling(state: State, meaning: str, limits: tuple[float, float], remedy: str) -> Findings:
    best, recent = state[meaning].best, state[meaning].recent
    if level := _level(best - recent, *limits):
        reason = f"{meaning} fell from {100 * best:.0f} % at its best to {100 * recent:.0f} %"
        yield Finding(f"{meaning}_falling", level, reason, f"{_SMALLER_STEPS}; {remedy}")


def _level(value: float, warning: float, collapsing: float) -> Level:
    return 2 if value > collapsing else 1 if value > warning else 0
