"""Code for another process that makes packages look as if they were not installed."""

HIDING = """
import sys


class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, fullname, path=None, target=None):
        is_hidden = fullname.partition(".")[0] in HIDDEN
        return None if is_hidden else self.finder.find_spec(fullname, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


def hide(packages: list[str]) -> str:
    """Code that hides these packages from what follows it."""
    return f"HIDDEN = {packages!r}\n{HIDING}"
