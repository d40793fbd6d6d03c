"""Functions that a user names as package.module:function."""

import contextlib
import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from gtpo.errors import ConfigError, DataError, GTPOError


def import_function(name: str, *, kind: str, named: Iterable[str]) -> Callable[..., Any]:
    """Import a function given as `package.module:function`. `kind` and the `named` alternatives are for errors.

    >>> import_function("math:sqrt", kind="reward", named=["format"])(9.0)
    3.0
    """
    module, colon, function = name.partition(":")
    if not colon:
        raise ConfigError(f"There is no {kind} {name!r}. Use {', '.join(named)}, or package.module:function.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a script in this folder could import the module, too
    try:
        imported = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        remedy = "Fix the module."
        if isinstance(error, ImportError | AttributeError):
            remedy = "Check the name, and that the module is in this folder or on the Python path."
            near = difflib.get_close_matches(function, _functions(sys.modules.get(module)), n=1)
            remedy = f"Did you mean {module}:{near[0]}?" if near else remedy
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise ConfigError(f"{kind.capitalize()} {name!r} cannot be imported: {reason}. {remedy}") from error
    if not callable(imported):
        kind_found = type(imported).__name__
        raise ConfigError(f"{kind.capitalize()} {name!r} is of type {kind_found}, not a function. Check the name.")
    return imported


def _functions(module: ModuleType | None) -> list[str]:
    """The public functions of a module; none if it could not be imported."""
    return [name for name, value in vars(module).items() if callable(value) and name[0] != "_"] if module else []


@contextlib.contextmanager
def named_in_errors(function: str, gets: str, remedy: str) -> Generator[None]:
    """Raise DataError for whatever a user's function raises, with its place. `gets` describes its arguments."""
    try:
        yield
    except GTPOError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) would look like a finished run
        ours, caller, *calls = traceback.extract_tb(error.__traceback__)
        calls = [call for call in calls if call.filename not in (ours.filename, caller.filename)]
        place = f" ({Path(calls[-1].filename).name}, line {calls[-1].lineno})" if calls else f". It gets {gets}"
        raise DataError(f"{function} raised {type(error).__name__}: {error}{place}. {remedy}") from error
