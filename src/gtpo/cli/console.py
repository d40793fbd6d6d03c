"""Where the commands print their tables."""

import sys
from typing import Any


def show(*contents: Any, width: int) -> None:
    """Print what rich lays out; into a file or a pipe as wide as given."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=width)
    for content in contents:
        console.print(content)
