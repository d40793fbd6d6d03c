"""Functions that a user names as package.module:function."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from gtpo.errors import ConfigError


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
        remedy = "Check the name, and that the module is in this folder or on the Python path."
        raise ConfigError(
            f"{kind.capitalize()} {name!r} cannot be imported: {type(error).__name__}: {error}. {remedy}"
        ) from error
    if not callable(imported):
        raise ConfigError(f"{kind.capitalize()} {name!r} is a {type(imported).__name__}, not a function.")
    return imported
