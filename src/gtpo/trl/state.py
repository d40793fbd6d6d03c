"""The initial entropy in checkpoints: measured once, stored with every checkpoint, restored on resume."""

import dataclasses
from typing import Any, cast

from transformers import TrainerCallback, TrainerControl, TrainerState

from gtpo.core.initial_entropy import InitialEntropy
from gtpo.errors import ConfigError

STATE_NAME = "InitialEntropyCallback"
"""The entry in `stateful_callbacks` of `trainer_state.json`.

No callback has this class name: transformers would replace it on resume (`restore_callback_states_from_checkpoint`),
and the trainer would be left with the old object.
"""


class InitialEntropyState(TrainerCallback):
    """Stores the trainer's `InitialEntropy` in `trainer_state.json` and restores it from there, in place."""

    def __init__(self, initial_entropy: InitialEntropy, *, is_needed: bool) -> None:
        self.initial_entropy = initial_entropy
        self.is_needed = is_needed

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        saved = cast("dict[str, Any]", state.stateful_callbacks).get(STATE_NAME)
        if args.initial_entropy is not None:  # overrides the value of the checkpoint
            self.initial_entropy.given = args.initial_entropy
        elif saved is not None:
            for name in dataclasses.asdict(self.initial_entropy).keys() & saved["args"].keys():
                setattr(self.initial_entropy, name, saved["args"][name])
        elif state.global_step > 0 and self.is_needed:
            is_gtpo = args.credit == "gtpo"
            setting = "entropy_filter='auto'" if is_gtpo else f"credit={args.credit!r}"
            remedy = ", or set entropy_filter to 'all', 'negative' or 'off'" if is_gtpo else ""
            raise ConfigError(
                f"{setting} needs the entropy of the initial policy, and the checkpoint of step {state.global_step} "
                "does not have it: it was not written by GTPOTrainer with a scheme that measures it. It cannot be "
                f"measured now, because the policy has changed. Set initial_entropy{remedy}."
            )
        self._store(state)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._store(state)

    def _store(self, state: TrainerState) -> None:
        states = cast("dict[str, Any]", state.stateful_callbacks)
        states[STATE_NAME] = {"args": dataclasses.asdict(self.initial_entropy), "attributes": {}}
