"""The scheme that a host uses: checked together with its parameters before the first batch."""

import dataclasses
import traceback
from collections.abc import Mapping
from typing import Any

import torch

from gtpo.core.config import ShapingConfig
from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput
from gtpo.credit.schemes import Scheme, find_scheme, token_advantages
from gtpo.errors import ConfigError, DataError, GTPOError

SHAPING = tuple(field.name for field in dataclasses.fields(ShapingConfig))
"""The parameters that hosts have options of their own for."""

_FROM_SCORES = {"token_entropy", "token_logps", "initial_entropy", "batch_entropy"}


@dataclasses.dataclass(frozen=True)
class ChosenScheme:
    """A scheme with its parameters. `name` is what the user wrote."""

    name: str
    scheme: Scheme
    parameters: Mapping[str, object]

    @property
    def needs(self) -> frozenset[str]:
        """The optional inputs that the host has to pass."""
        needs = frozenset(self.scheme.needs)
        has_auto_filter = is_shaped(self.scheme) and self.parameters["entropy_filter"] == "auto"
        return needs | {"initial_entropy"} if has_auto_filter else needs

    @property
    def needs_scores(self) -> bool:
        """Whether it needs something that only a pass of the policy over the completions computes."""
        return bool(self.needs & _FROM_SCORES)

    def __call__(self, inputs: CreditInput) -> TokenFloats:
        """One advantage per token. DataError if a function of the user raises something."""
        try:
            return token_advantages(self.name, inputs, **self.parameters)
        except GTPOError:
            raise
        except Exception as error:
            code = self.scheme.function.__code__.co_filename if hasattr(self.scheme.function, "__code__") else ""
            lines = [call.lineno for call in traceback.extract_tb(error.__traceback__) if call.filename == code]
            place = f" (line {lines[-1]} of {code})" if lines else ""
            raise DataError(
                f"Credit scheme {self.name!r} raised {type(error).__name__}: {error}{place}. Fix the function. Of the "
                f"optional inputs it gets those in its attribute `needs` ({', '.join(sorted(self.needs)) or 'none'})."
            ) from error


def choose_scheme(name: str, parameters: Mapping[str, object] | None, shaping: ShapingConfig) -> ChosenScheme:
    """The scheme `name` with its own `parameters` and, if it is a variant of GTPO, the options of `shaping`.

    It is tried on two completions, so a wrong parameter or a broken function raises ConfigError here.

    >>> choose_scheme("prefix_baseline", {"kappa": 2}, ShapingConfig()).needs
    frozenset({'rewards'})
    """
    own: Mapping[str, object] = parameters or {}
    scheme = find_scheme(name)
    options = dataclasses.asdict(shaping) if is_shaped(scheme) else {}
    for parameter in own:
        if parameter in options:
            raise ConfigError(f"{parameter} is an option of its own. Set it there, not in credit_parameters.")
    chosen = ChosenScheme(name, scheme, {**options, **{key: _as_default(scheme, key, own[key]) for key in own}})
    try:
        chosen(_example(chosen.needs))
    except DataError as error:
        raise ConfigError(f"{error} It was tried on a batch of two completions.") from error
    return chosen


def _as_default(scheme: Scheme, name: str, value: object) -> object:
    """The 2 of a command line as 2.0 if the default is 4.0."""
    is_float = isinstance(scheme.parameters.get(name), float)
    return float(value) if is_float and isinstance(value, int) and not isinstance(value, bool) else value


def is_shaped(scheme: Scheme) -> bool:
    """Whether the options of GTPO are parameters of the scheme."""
    return all(name in scheme.parameters for name in SHAPING)


def _example(needs: frozenset[str]) -> CreditInput:
    """Two completions of one prompt, with these optional inputs."""
    ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    scores = torch.full((2, 3), 0.5)
    rewards = torch.tensor([1.0, 0.0])
    advantages = rewards - rewards.mean()
    optional: dict[str, Any] = {
        "rewards": rewards,
        "component_advantages": advantages.unsqueeze(1),
        "token_component": torch.zeros_like(ids),
        "token_entropy": scores,
        "token_logps": -scores,
        "initial_entropy": 0.5,
        "batch_entropy": 0.5,
    }
    given = {name: value for name, value in optional.items() if name in needs}
    return CreditInput(ids, ids > 0, advantages, torch.tensor([0, 0]), **given)
