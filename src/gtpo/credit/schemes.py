"""The credit schemes by name, and the one function that applies any of them."""

import dataclasses
import inspect
import numbers
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gtpo.core.config import ShapingConfig
from gtpo.core.types import TokenFloats
from gtpo.credit.annealed import annealed
from gtpo.credit.balanced import balanced
from gtpo.credit.component import component
from gtpo.credit.grpo import grpo
from gtpo.credit.gtpo import gtpo
from gtpo.credit.input import OPTIONAL, CreditInput, required
from gtpo.credit.negative import negative
from gtpo.credit.pass_at_k import pass_at_k
from gtpo.credit.prefix_baseline import prefix_baseline
from gtpo.credit.process_sets import process_sets
from gtpo.errors import ConfigError, DataError
from gtpo.importing import import_function

CreditFunction = Callable[..., Tensor]
"""Takes a CreditInput and its own parameters by keyword, and returns one advantage per token, (B, T)."""

REQUIRED = inspect.Parameter.empty
"""Stands for the default of a parameter that has none."""


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A credit scheme: a function, the optional inputs it needs, its parameters with their defaults, its source."""

    name: str
    function: CreditFunction
    needs: tuple[str, ...]
    parameters: Mapping[str, object]
    source: str

    def check(self, parameters: Mapping[str, object]) -> None:
        """Raise ConfigError unless these are parameters of the scheme, each of the right type, none missing."""
        for name, value in parameters.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise ConfigError(f"Credit scheme {self.name!r} has no parameter {name!r}. Its parameters: {known}.")
            default = self.parameters[name]
            if not _is_like(value, default):
                kind = "a number" if type(default) in (int, float) else f"of the type of its default {default!r}"
                raise ConfigError(f"{name} of credit scheme {self.name!r} must be {kind}, got {value!r}.")
        for name, default in self.parameters.items():
            if default is REQUIRED and name not in parameters:
                remedy = f"Pass {name}=…, to a trainer in credit_parameters."
                raise ConfigError(f"Credit scheme {self.name!r} needs the parameter {name!r}. {remedy}")


def token_advantages(scheme: str | CreditFunction, inputs: CreditInput, **parameters: object) -> TokenFloats:
    """One advantage per token, Ã_it: 0 on tokens that are not trained, without gradient, in the type of A_i.

    `scheme` is a name in SCHEMES, "package.module:function", or a function of your own. What a function returns for
    padding, for tokens outside `loss_mask` and for invalid rows is ignored.

    >>> ids = torch.tensor([[5, 6], [5, 0]])
    >>> inputs = CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0]), torch.tensor([0, 0]))
    >>> token_advantages("negative", inputs, positive_scale=0.5)
    tensor([[ 0.5000,  0.5000],
            [-1.0000,  0.0000]])
    >>> token_advantages(lambda inputs: inputs.completion_ids / 10, inputs)
    tensor([[0.5000, 0.6000],
            [0.5000, 0.0000]])
    """
    found = find_scheme(scheme)
    found.check(parameters)
    for name in found.needs:
        required(getattr(inputs, name), name)
    credit = found.function(inputs, **parameters)
    _check_credit(found.name, credit, inputs)
    credit = credit.detach().to(inputs.advantages.dtype)
    return torch.where(inputs.trained, credit, torch.zeros_like(credit))


def find_scheme(scheme: str | CreditFunction) -> Scheme:
    """A scheme by name, by "package.module:function", or made of a function.

    The parameters of a function are those that its signature names after the first. If it reads optional inputs, its
    attribute `needs` lists them.

    >>> find_scheme("pass_at_k").needs
    ('rewards',)
    """
    if isinstance(scheme, str) and scheme in SCHEMES:
        return SCHEMES[scheme]
    if isinstance(scheme, str):
        return _own_scheme(import_function(scheme, kind="credit scheme", named=SCHEMES))
    if callable(scheme):
        return _own_scheme(scheme)
    raise ConfigError(f"A credit scheme is a name or a function, got {scheme!r}. Names: {', '.join(SCHEMES)}.")


def _own_scheme(function: CreditFunction) -> Scheme:
    needs: tuple[str, ...] = tuple(getattr(function, "needs", ()))
    unknown = [name for name in needs if name not in OPTIONAL]
    name = getattr(function, "__name__", repr(function))
    if unknown:
        raise ConfigError(f"Credit scheme {name!r} needs {unknown[0]!r}. It can need: {', '.join(OPTIONAL)}.")
    return Scheme(name, function, needs, _parameters(function), source="")


def _parameters(function: CreditFunction) -> dict[str, object]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {p.name: p.default for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _is_like(value: object, default: object) -> bool:
    """Whether a value is a boolean, or a number, where the default is one."""
    if isinstance(default, bool):
        return isinstance(value, bool)
    is_number = not isinstance(value, bool) and isinstance(value, numbers.Real)
    return is_number or not isinstance(default, numbers.Real)


def _check_credit(name: str, credit: object, inputs: CreditInput) -> None:
    expected = tuple(inputs.completion_ids.shape)
    got = f"{credit.dtype} of {tuple(credit.shape)}" if isinstance(credit, Tensor) else type(credit).__name__
    if not isinstance(credit, Tensor) or not credit.is_floating_point() or credit.shape != expected:
        raise DataError(f"Credit scheme {name!r} must return a floating-point tensor of shape {expected}, got {got}.")
    if not bool(credit[inputs.trained].isfinite().all()):
        raise DataError(f"Credit scheme {name!r} returned NaN or infinity for a trained token. Check its inputs.")


def _scheme(function: CreditFunction, source: str, *needs: str, **shaping: object) -> Scheme:
    return Scheme(function.__name__, function, needs, {**_parameters(function), **shaping}, source)


_SHAPING = dataclasses.asdict(ShapingConfig())
_OURS = "this package"
_ALL = (
    _scheme(grpo, "arXiv:2402.03300"),
    _scheme(gtpo, "arXiv:2508.03772", "token_entropy", **_SHAPING),
    _scheme(annealed, _OURS, "token_entropy", "initial_entropy", "batch_entropy", **_SHAPING),
    _scheme(balanced, _OURS),
    _scheme(component, _OURS, "component_advantages", "token_component"),
    _scheme(process_sets, "arXiv:2509.21154"),
    _scheme(prefix_baseline, _OURS, "rewards"),
    _scheme(negative, "arXiv:2506.01347"),
    _scheme(pass_at_k, "arXiv:2508.10751", "rewards"),
)
SCHEMES: Mapping[str, Scheme] = {scheme.name: scheme for scheme in _ALL}
