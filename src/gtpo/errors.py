"""The exceptions of the package. There are few, and each tells the caller what to do about it."""


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
        raise ConfigError(f"{name} must be {expected}, got {value!r}.")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless the setting `name` is one of `choices`."""
    require(value in choices, name, value, f"one of {', '.join(map(repr, choices))}")
