"""What the API reference needs of our docstrings: doctests as code, and the help texts of GTPOConfig's options."""

import ast
import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Changes docstrings after they are read from the source; nothing is imported."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Put doctests between code fences: in Markdown `>>>` is a quotation."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(fenced, obj.docstring.value)

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Take the docstring of an option from its help text: `name: type = _option(default, "help")`."""
        call = getattr(node, "value", None)
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "_option"):
            return
        default, text = call.args
        attr.value = ast.unparse(default)
        attr.docstring = griffe.Docstring(help_text(text), parent=attr)


def help_text(node: ast.expr) -> str:
    """The text of a string literal. Of an f-string, the parts in braces as code."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"`{ast.unparse(part).strip(chr(39))}`"
            for part in node.values
        )
    return str(ast.literal_eval(node))


def fenced(doctest: re.Match[str]) -> str:
    lines = doctest[0].rstrip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(["```pycon", *(line[indent:] for line in lines), "```"]) + "\n"
