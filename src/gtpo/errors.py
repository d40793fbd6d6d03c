"""The exceptions of the package. There are few, and each tells the caller what to do about it."""

import contextlib
import importlib.util
import numbers
from collections.abc import Callable, Generator
from typing import Any

EXTRAS = {
    "trl": "accelerate datasets huggingface_hub peft pyarrow torch transformers trl",
    "rewards": "latex2sympy2_extended math_verify sympy",
    "verl": "omegaconf transfer_queue verl",
    "vllm": "vllm",
    "figures": "matplotlib",
}
"""Each extra of the package, and the modules that a base installation does not have without it."""


class GTPOError(Exception):
    """Base of everything that gtpo raises on purpose."""


class ConfigError(GTPOError, ValueError):
    """A setting is out of range, or asks for something that GTPO cannot do: change the setting."""


class DataError(GTPOError, ValueError):
    """A tensor, a row or a file does not have the expected form: fix the input."""


class GradingError(GTPOError, RuntimeError):
    """The grading workers cannot start, or so many answers time out that their rewards mean nothing."""


class MissingExtraError(GTPOError, ImportError):
    """An optional dependency is not installed; the message names the pip command."""


def require(is_right: bool, name: str, value: object, expected: str) -> None:
    """Raise ConfigError unless the setting `name` is as `expected` says."""
    if not is_right:
        raise ConfigError(f"{name} must be {expected}, got {shortened(value)}.")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless the setting `name` is one of `choices`."""
    require(value in choices, name, value, f"one of {', '.join(map(repr, choices))}")


def require_number(name: str, value: Any, is_right: Callable[[Any], bool], expected: str) -> None:
    """Raise ConfigError unless the setting `name` is a number for which `is_right` holds."""
    require(isinstance(value, numbers.Real) and is_right(value), name, value, expected)


def shortened(value: object, length: int = 200) -> str:
    """The repr of a value for an error message, truncated: files of other people may contain anything.

    >>> shortened("x" * 10, length=4)
    "'xxx…"
    """
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}…"


@contextlib.contextmanager
def naming_the_step(step: int) -> Generator[None]:
    """Add the training step to the DataError of the block."""
    try:
        yield
    except DataError as error:
        raise DataError(f"Step {step}: {error}") from error


@contextlib.contextmanager
def naming_the_extra() -> Generator[None]:
    """Turn the ModuleNotFoundError of a package that an extra installs into MissingExtraError."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if _extra_of(package) is None:
            raise
        raise MissingExtraError(_missing(package)) from error


def require_package(package: str) -> None:
    """Raise MissingExtraError unless the package is installed. For code that imports it in another process."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(_missing(package))


def _missing(package: str) -> str:
    return f"This needs {package}, which is not installed. Install it with: pip install 'gtpo[{_extra_of(package)}]'"


def _extra_of(package: str) -> str | None:
    return next((extra for extra, packages in EXTRAS.items() if package in packages.split()), None)
