"""What the API reference needs of our source: doctests as code, and descriptions of options and fields."""

import ast
import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+", re.MULTILINE)
COMMENT = re.compile(r"  # (?P<text>(?!noqa|pyright|type:).+)")


class Docstrings(griffe.Extension):
    """Changes docstrings after they are read from the source; nothing is imported."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Put doctests between code fences: in Markdown `>>>` is a quotation."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(fenced, obj.docstring.value)

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Describe an attribute by its help text, `_option(default, "help")`, or else by the comment in its line."""
        call = getattr(node, "value", None)
        comment = COMMENT.search(attr.source)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "_option":
            default, text = call.args
            attr.value = ast.unparse(default)
            attr.docstring = griffe.Docstring(help_text(text), parent=attr)
        elif attr.docstring is None and comment is not None:
            attr.docstring = griffe.Docstring(comment["text"], parent=attr)


def help_text(node: ast.expr) -> str:
    """The text of a string literal. Of an f-string, the name of what stands in braces."""
    if not isinstance(node, ast.JoinedStr):
        return str(ast.literal_eval(node))
    parts = [
        next(f"`{name.id}`" for name in ast.walk(part) if isinstance(name, ast.Name))
        if isinstance(part, ast.FormattedValue)
        else str(ast.literal_eval(part))
        for part in node.values
    ]
    return "".join(parts)


def fenced(doctest: re.Match[str]) -> str:
    """A doctest as a code block of Markdown."""
    lines = doctest[0].rstrip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(["```pycon", *(line[indent:] for line in lines), "```"]) + "\n"
