"""What a checkpoint must remember: the entropy of the policy before training touched it."""

import dataclasses
from typing import Any, cast

from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import ExportableState

from gtpo.core.initial_entropy import InitialEntropy
from gtpo.errors import ConfigError


class InitialEntropyCallback(TrainerCallback, ExportableState):
    """Keeps `InitialEntropy` in `trainer_state.json` of every checkpoint and takes it back from there on resume."""

    def __init__(self, **measured: Any) -> None:
        known = {field.name for field in dataclasses.fields(InitialEntropy)}  # older checkpoints say more
        self.initial_entropy = InitialEntropy(**{name: value for name, value in measured.items() if name in known})

    def state(self) -> dict[str, Any]:
        return {"args": dataclasses.asdict(self.initial_entropy), "attributes": {}}

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        states = cast("dict[str, Any]", state.stateful_callbacks)
        if args.initial_entropy is not None:  # said now, it counts for more than what the checkpoint remembers
            self.initial_entropy = InitialEntropy(given=args.initial_entropy)
        elif state.global_step > 0:
            saved = states.get(type(self).__name__)
            if saved is not None:
                self.initial_entropy = type(self)(**saved["args"]).initial_entropy
            elif args.entropy_filter == "auto":
                raise ConfigError(
                    "entropy_filter='auto' needs the entropy of the initial policy, and the checkpoint at step "
                    f"{state.global_step} does not have it: GTPOTrainer did not write it. Its policy is no longer the "
                    "initial one, so it is not measured now. Set initial_entropy, or set entropy_filter to 'all', "
                    "'negative' or 'off'."
                )
        states[type(self).__name__] = self.state()
