"""What a checkpoint must remember: the entropy of the policy before training touched it."""

import dataclasses
from typing import Any, cast

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from gtpo.core.initial_entropy import InitialEntropy
from gtpo.errors import ConfigError


class InitialEntropyCallback(TrainerCallback, ExportableState):
    """Keeps `InitialEntropy` in `trainer_state.json` of every checkpoint and takes it back from there on resume."""

    def __init__(self, is_needed: bool = True, **measured: Any) -> None:
        self.is_needed = is_needed
        self.initial_entropy = InitialEntropy(**measured)

    def state(self) -> dict[str, Any]:
        return {"args": {"is_needed": self.is_needed, **dataclasses.asdict(self.initial_entropy)}, "attributes": {}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        states = cast("dict[str, Any]", state.stateful_callbacks)
        if state.global_step > 0 and self.initial_entropy.given is None:
            saved = states.get(type(self).__name__)
            if saved is not None:
                measured = {key: value for key, value in saved["args"].items() if key != "is_needed"}
                self.initial_entropy = InitialEntropy(**measured)
            elif self.is_needed:
                raise ConfigError(
                    "entropy_filter='auto' needs the entropy of the initial policy, and the checkpoint at step "
                    f"{state.global_step} does not have it: GTPOTrainer did not write it. Its policy is no longer the "
                    "initial one, so it is not measured now. Set initial_entropy, or set entropy_filter to 'all', "
                    "'negative' or 'off'."
                )
        states[type(self).__name__] = self.state()
