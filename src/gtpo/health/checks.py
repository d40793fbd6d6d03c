"""The checks behind a verdict: one function per kind of trouble, with its thresholds.

Each check takes the state of a run and yields findings. docs/health.md has the table of thresholds and how well they
work. Values are means over up to five logged rows. The checks of the reward are in rewards.py.
"""

import math
import statistics

from gtpo.files import is_number
from gtpo.health.result import Finding, Findings, check, level_of
from gtpo.health.state import WINDOW, State
from gtpo.logged import LN2

EARLY_STEPS = 30
"""A run that is in trouble before this step has no checkpoint worth continuing from."""


def smaller_steps(state: State) -> str:
    """The remedy for updates that are too large."""
    reward = state["reward"]
    died_at_once = len(reward) > WINDOW and max(reward.values[WINDOW:]) < reward.first
    if state.steps[-1] <= EARLY_STEPS or died_at_once:
        return "Start again with a smaller learning rate (a third or less) and with warm-up (warmup_steps)"
    return "Halve the learning rate and continue from the last healthy checkpoint"


@check(in_row=("loss", "grad_norm"))
def not_finite(state: State) -> Findings:
    """A loss or gradient that is not a number destroys the weights in the same step."""
    broken = [name for name in ("loss", "grad_norm") if name in state.row and not is_number(state.row[name])]
    if broken:
        reason = f"{' and '.join(broken)} {'is' if len(broken) == 1 else 'are'} not a finite number"
        yield Finding("not_finite", 2, reason, f"{smaller_steps(state)}; in fp16, use bf16 or fp32")


@check("grad_norm", rows=10)
def gradient_exploding(state: State) -> Findings:
    """Gradients are many times their usual size. Clipping protects the weights only for a while."""
    track, usual = state["grad_norm"], state["grad_norm"].usual
    lasting, spike = statistics.median(track.values[-WINDOW:]) / usual, max(track.values[-WINDOW:]) / usual
    if level := level_of(lasting, 10, 100):
        reason = f"the gradient norm is {lasting:.0f} times its usual {usual:.3g}"
        yield Finding("gradient_exploding", level, reason, f"{smaller_steps(state)}, or lower max_grad_norm")
    elif spike > 30:
        reason = f"the gradient norm jumped to {spike:.0f} times its usual {usual:.3g} in one of the last rows"
        yield Finding("gradient_exploding", 1, reason, "Lower max_grad_norm if this happens again")


@check("grad_norm", looks_at=("tied",), rows=3, steps=10)
def no_gradient(state: State) -> Findings:
    """Groups with different rewards but no gradient: no weight is trained. Tied groups are another check's."""
    rows = max(3, state.rows_of(10) or 3)
    tied = state["tied"].recent if len(state["tied"]) else 0.0
    if max(state["grad_norm"].values[-rows:]) < 1e-9 and tied < 0.95:
        remedy = "Check that the model has trainable parameters and that the completions are not all masked"
        yield Finding("no_gradient", 2, "the gradient has been zero in all of the last rows", remedy)


@check("completion_entropy", rows=6)
def entropy_rising(state: State) -> Findings:
    """Entropy rises through the threshold: the collapse that GTPO's filter is meant to prevent."""
    track = state["completion_entropy"]
    first, recent = track.first, track.recent
    threshold = LN2 if state.entropy_threshold is None else state.entropy_threshold
    if first <= threshold:
        level = level_of(recent, min(threshold, max(2 * first, threshold / 2)), 1.5 * threshold)
    else:
        level = level_of(recent, 1.5 * first, 2 * first)
    if level and recent - first > 2 * track.error:
        reason = f"entropy rose from {first:.2f} to {recent:.2f} nats (threshold {threshold:.2f})"
        gtpo = "turn the entropy filter on (entropy_filter='all') or raise entropy_penalty"
        grpo = "lower the temperature, or keep the policy near the base with beta"
        yield Finding("entropy_rising", level, reason, f"{smaller_steps(state)}; {gtpo if state.is_gtpo else grpo}")


@check("completion_entropy", rows=2)
def policy_uniform(state: State) -> Findings:
    """So much entropy, whatever it was before, that tokens are drawn almost at random."""
    recent = state["completion_entropy"].recent
    limit = 5.0 if state.vocab_size is None else min(5.0, 0.7 * math.log(state.vocab_size))
    if recent > limit:
        reason = f"the entropy is {recent:.1f} nats: tokens are drawn almost at random"
        if state.vocab_size is not None:
            reason += f" (a uniform policy has {math.log(state.vocab_size):.1f})"
        remedy = "Check that the weights of the model were loaded and that the temperature is not far above 1"
        if state["completion_entropy"].values[0] < limit / 2:
            remedy = smaller_steps(state)
        yield Finding("policy_uniform", 2, reason, remedy)


@check("completion_entropy", rows=4)
def entropy_vanishing(state: State) -> Findings:
    """Nothing is left to explore. A solved task looks the same, so this is only a warning."""
    first, recent = state["completion_entropy"].first, state["completion_entropy"].recent
    if recent < 0.01 and recent < first / 10:
        reason = f"entropy fell from {first:.2f} to {recent:.4f} nats: completions of a prompt hardly differ"
        remedy = "Stop here if the accuracy is high enough; otherwise raise the temperature or lower the learning rate"
        if state.is_gtpo:
            remedy += ", entropy_penalty and conflict_positive_weight"
        yield Finding("entropy_vanishing", 1, reason, remedy)


@check("length", looks_at=("truncated", "accuracy"), rows=4)
def length_exploding(state: State) -> Findings:
    """Completions grow without getting better, or until they are truncated."""
    length, truncated, accuracy = state["length"], state["truncated"], state["accuracy"]
    remedy = "Look for a reward that favours length; raise max_completion_length, or use loss_type='dr_grpo'"
    reason = f"length grew from {length.first:.0f} to {length.recent:.0f} tokens"
    growth = length.recent / length.first if length.first > 0 else 0.0
    if len(truncated) and growth > 1.5 and truncated.recent - truncated.first > 0.2:
        reason += f" and {100 * truncated.recent:.0f} % of completions are truncated"
        yield Finding("length_exploding", 2 if truncated.recent > 0.5 else 1, reason, remedy)
    elif growth >= 1.3 and len(accuracy) and accuracy.first - accuracy.recent > accuracy.error:
        yield Finding("length_exploding", 1, f"{reason} and accuracy is lower than at the start", remedy)


@check("truncated", looks_at=("tied",), rows=2)
def all_truncated(state: State) -> Findings:
    """Almost no completion ends by itself, whatever was before. If the groups are tied as well, nothing is learned."""
    recent, tied = state["truncated"].recent, state["tied"]
    if recent >= 0.9:
        is_tied = state.num_rows >= 3 and len(tied) > 0 and tied.recent > 0.8
        reason = f"{100 * recent:.0f} % of the completions are truncated" + (" and score the same" if is_tied else "")
        remedy = "Raise max_completion_length, or check that the model can end a completion (EOS token, chat template)"
        if state["truncated"].values[0] < 0.5:
            remedy = f"{smaller_steps(state)}; look at the completions with gtpo inspect"
        yield Finding("all_truncated", 2 if is_tied else 1, reason, remedy)


@check("length", looks_at=("accuracy", "format"), rows=4)
def length_vanishing(state: State) -> Findings:
    """Completions shrink. With a good format and no gain in accuracy, the reward is being gamed."""
    length, accuracy, form = state["length"], state["accuracy"], state["format"]
    reason = f"length fell from {length.first:.0f} to {length.recent:.0f} tokens"
    remedy = "Read some completions (gtpo inspect) and close the loophole in the reward"
    has_both = len(accuracy) > 0 and len(form) > 0
    is_gamed = has_both and form.recent >= form.first and accuracy.recent <= accuracy.first
    if length.recent <= 0.5 * length.first and is_gamed:
        reason += f" while format stays at {100 * form.recent:.0f} % and accuracy is no better: a gamed reward"
        yield Finding("length_vanishing", 2, reason, remedy)
    elif length.recent < 0.3 * length.first:
        yield Finding("length_vanishing", 1, reason, remedy)


@check("kept", rows=4)
def completions_filtered(state: State) -> Findings:
    """The entropy filter leaves little to learn from."""
    dropped = 1 - state["kept"].recent
    level = level_of(dropped, 0.5, 0.9)
    if level and is_scored(state):
        reason = f"the entropy filter drops {100 * dropped:.0f} % of the completions"
        remedy = f"{smaller_steps(state)}; if it was so from the start, set entropy_filter='auto' or another threshold"
        yield Finding("completions_filtered", level, reason, remedy)


@check("timeouts", rows=4)
def rewards_timing_out(state: State) -> Findings:
    """Completions that could not be graded in time count as wrong, or get no score from a bounded reward."""
    recent = state["timeouts"].recent
    if recent >= 1:
        reason = f"{recent:.1f} completions a step could not be graded in time: they count as wrong or get no score"
        remedy = "Look at these completions, or raise the time limit (configure_grading or @bounded)"
        yield Finding("rewards_timing_out", 1, reason, remedy)


@check("ratio", looks_at=("sampler_gap",), rows=2)
def sampler_off(state: State) -> Findings:
    """The sampler and the trainer give the same tokens different probabilities."""
    ratio, gap = state["ratio"].recent, state["sampler_gap"]
    level = level_of(abs(math.log(max(ratio, 1e-9))), math.log(1.25), LN2)
    reason = f"the mean importance ratio between trainer and sampler is {ratio:.2f}, not about 1"
    if len(gap) and (gap_level := level_of(gap.recent, 0.1, 0.3)) > level:
        level = gap_level
        reason = f"the log-probabilities of trainer and sampler differ by {gap.recent:.2f} on average"
    if level:
        remedy = "Sync the sampler's weights more often, match its precision, or sample with the trainer"
        yield Finding("sampler_off", level, reason, remedy)


@check("clipped", rows=2)
def policy_far_off(state: State) -> Findings:
    """The policy has moved far since it sampled, so most of the update is clipped."""
    clipped = state["clipped"].recent
    if clipped > 0.3:
        reason = f"{100 * clipped:.0f} % of the tokens are clipped: the policy has moved far since it sampled"
        remedy = f"{smaller_steps(state)}, or lower num_iterations and steps_per_generation"
        yield Finding("policy_far_off", 1, reason, remedy)


def is_scored(state: State) -> bool:
    """Whether the last row has a reward, or the run logs none at all."""
    return "reward" not in state.row or is_number(state.row["reward"])
