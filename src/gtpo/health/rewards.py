"""The checks of the reward: the total, every reward function, accuracy and format, and held-out problems."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from gtpo.health.checks import is_scored, smaller_steps
from gtpo.health.result import Finding, Findings, Level, Result, check, level_of
from gtpo.health.state import FEWEST_ROWS, Drop, State, Track

TIED = 0.95
TIED_STEPS = 10
"""Steps in which (almost) all groups must be tied: a small batch of a sound run is tied now and then."""

LONG_ROW = 10
"""Steps that make the first row alone a mean over enough completions to compare with."""


@check(in_row=("reward",))
def nothing_scored(state: State) -> Findings:
    """If no completion of a step has a score, nothing is learned, and all other metrics look normal."""
    if not is_scored(state):
        remedy = "Check the reward function: it returned None for all of them"
        yield Finding("nothing_scored", 1, "no completion of the last logged step has a score", remedy)


class Fall(NamedTuple):
    """A drop of a reward that costs more than a fifth of it. Falls are ordered by how bad they are."""

    level: Level
    lost: float
    best: float
    now: float


def falls(track: Track) -> Iterator[Fall]:
    """The falls of a reward, whatever its scale."""
    for drop in track.drops():
        lost = track.lost(drop.best, drop.now)
        if lost > 0.2:
            yield Fall(2 if lost > 0.5 and drop.is_sure else 1, lost, drop.best, drop.now)


@check("reward", rows=FEWEST_ROWS)
def reward_falling(state: State) -> Findings:
    """The total reward, or one reward function while the total does not rise, is far below its best."""
    tracks = {"the reward": state["reward"]}
    if not _has_risen(state["reward"]):
        others = {name: track for name, track in state.components.items() if not state.stands_in(name)}
        tracks |= {f"rewards/{name}": track for name, track in others.items()}
    worst = max(((fall, name) for name, track in tracks.items() for fall in falls(track)), default=None)
    if worst:
        fall, name = worst
        reason = f"{name} fell from {fall.best:.3g} at its best to {fall.now:.3g}"
        remedy = f"{smaller_steps(state)}; look at the completions of these steps with gtpo inspect"
        yield Finding("reward_falling", fall.level, reason, remedy)
    elif state.first_steps >= LONG_ROW and (drop := state["reward"].drop_after_first()):
        lost = state["reward"].lost(drop.best, drop.now)
        if lost > 0.5:
            reason = f"the reward fell from {drop.best:.3g} in the first logged row to {drop.now:.3g}"
            yield Finding("reward_falling", 2 if drop.is_sure else 1, reason, smaller_steps(state))


@check("format", rows=FEWEST_ROWS)
def format_falling(state: State) -> Findings:
    """The format is the first thing that a collapsing policy loses."""
    yield from _rate_falling(state, "format", "look at the completions of these steps with gtpo inspect")


@check("accuracy", rows=FEWEST_ROWS)
def accuracy_falling(state: State) -> Findings:
    """Accuracy falls. If the format stays, no other metric may show it."""
    yield from _rate_falling(state, "accuracy", "make sure that the reward rewards correct answers")


def _rate_falling(state: State, meaning: str, remedy: str) -> Findings:
    """A rate between 0 and 1, compared with its best rows and with the held-out problems before training."""
    track, before = state[meaning], state.held_out.before.get(meaning, 0.0)
    drops = [(drop, "at its best") for drop in track.drops()]
    if len(track) >= 10 and before / 2 - track.recent > 2 * track.error:  # other problems, perhaps another temperature
        drops.append((Drop(before, track.recent, is_sure=True), "on held-out problems before training"))
    rated: list[tuple[Level, Drop, str]] = []
    for drop, when in drops:
        limits = (0.1, 0.25) if meaning == "format" else (0.15, max(0.15, 0.5 * drop.best))
        if level := level_of(drop.best - drop.now, *limits):
            rated.append((level if drop.is_sure else 1, drop, when))
    if rated:
        level, drop, when = max(rated, key=lambda entry: (entry[0], entry[1].best - entry[1].now))
        reason = f"{meaning} fell from {100 * drop.best:.0f} % {when} to {100 * drop.now:.0f} %"
        yield Finding(f"{meaning}_falling", level, reason, f"{smaller_steps(state)}; {remedy}")


@check("reward", looks_at=("accuracy", "format"), rows=FEWEST_ROWS)
def reward_hacking(state: State) -> Findings:
    """The total reward rises because one reward function rises while another, or the accuracy, falls."""
    if not _has_risen(state["reward"]):
        return
    risen = [name for name, track in state.components.items() if _has_risen(track)]
    others = {f"rewards/{name}": track for name, track in state.components.items() if name not in risen}
    others |= {name: state[name] for name in ("accuracy", "format")}
    worst = max(((fall, name) for name, track in others.items() for fall in falls(track)), default=None)
    if worst:
        fall, name = worst
        gain = f"rewards/{risen[0]}" if risen else "the reward"
        reason = f"{gain} rises while {name} fell from {fall.best:.3g} at its best to {fall.now:.3g}: a gamed reward"
        remedy = "Read some completions (gtpo inspect), then close the loophole or change reward_weights"
        yield Finding("reward_hacking", fall.level, reason, remedy)


def _has_risen(track: Track) -> bool:
    """Whether the last rows are clearly above the first ones."""
    return len(track) >= 4 and track.recent - track.first > 2 * track.error


@check("tied", looks_at=("reward",), steps=TIED_STEPS)
def groups_tied(state: State) -> Findings:
    """A group whose completions all have the same reward teaches nothing."""
    tied, reward = state["tied"], state["reward"]
    rows = min(state.rows_of(TIED_STEPS) or len(tied), len(tied))
    share = min(tied.last(rows), tied.recent)
    if share <= 0.8:
        return
    reason = f"{100 * share:.0f} % of the groups are tied, so almost nothing is learned"
    level, remedy = _why_tied(state, tied, reward) if share >= TIED else (1, "")
    if not remedy:
        remedy = "Train on easier problems, or raise num_generations"
        if len(state["accuracy"]):
            remedy = "Train on harder problems" if state["accuracy"].recent > 0.5 else remedy
        elif is_at_its_top(reward):
            remedy = (
                "Read some completions (gtpo inspect): train on harder problems if they are right, otherwise they "
            )
            remedy += "earn the reward without it"
    yield Finding("groups_tied", level, reason, remedy)


def _why_tied(state: State, tied: Track, reward: Track) -> tuple[Level, str]:
    """The level and the remedy when all groups are tied; no remedy if the problems may be the reason."""
    if not len(reward):
        return 1, ""
    if tied.low >= TIED and reward.high - reward.low < 1e-6 * max(1.0, abs(reward.recent)):
        return 2, "Check the reward function and the difficulty of the problems: the reward has never varied"
    best = max(reward.first, reward.best, reward.values[0])
    if reward.lost(best, reward.recent) > 0.5:
        return 2, f"{smaller_steps(state)}; the policy no longer reaches any reward that it had"
    return 1, ""


def is_at_its_top(reward: Track) -> bool:
    """Whether the reward is about the highest that the run has reached, and was lower before."""
    return len(reward) > 0 and reward.high > reward.low and reward.lost(reward.high, reward.recent) < 0.1


@check("reward", looks_at=("accuracy",), rows=10, steps=50)
def nothing_learned(state: State) -> Findings:
    """The reward is no higher than at the start, although there was time, and the task is not solved."""
    reward = state["reward"]
    third = len(reward) // 3
    first, last = reward.mean(0, third), reward.last(third)
    if last - first < 0.5 * reward.noise * math.sqrt(2 / third) and not _is_solved(state):
        reason = f"after {state.steps[-1]:g} steps the reward is no higher than at first ({first:.3g}, now {last:.3g})"
        remedy = "Raise the learning rate if the other checks are clean, use more prompts per step, or train longer"
        yield Finding("nothing_learned", 1, reason, remedy)


def _is_solved(state: State) -> bool:
    """Whether the accuracy, or a reward that has stayed between 0 and 1, leaves little to learn."""
    reward, accuracy = state["reward"], state["accuracy"]
    if len(accuracy):
        return accuracy.recent > 0.9
    return reward.low >= 0 and reward.high <= 1 and reward.recent > 0.9


def held_out_worse(state: State) -> Result:
    """The model solves fewer held-out problems than before training, or keeps the format less often."""
    before, after, step = state.held_out.before, state.held_out.after, state.held_out.step
    shared = [name for name in before if name in after]
    if not shared:
        return Result("held_out_worse", skipped="no summary.json with held-out results before and after training")
    values = {f"held-out {name}": {"before": before[name], "after": after[name]} for name in shared}
    findings: list[Finding] = []
    if step is None:  # the last healthy checkpoint may be this model
        when = "in training"
        remedy = "Start again with a smaller learning rate, or continue from a checkpoint that solves more problems "
        remedy += "(gtpo eval RUN --all-checkpoints)"
    else:
        when, remedy = f"at step {step:g}", smaller_steps(state)
    for name in state.held_out.worse():
        level = 2 if after[name] < 0.5 * before[name] else 1
        reason = f"held-out {name} fell from {100 * before[name]:.0f} % to {100 * after[name]:.0f} % {when}"
        findings.append(Finding("held_out_worse", level, reason, remedy))
    return Result("held_out_worse", tuple(findings), values)
