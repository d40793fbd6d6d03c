"""Imports point one way, and heavy libraries stay in the files that need them."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gtpo"
LAYERS = [
    {"errors", "paper"},
    {"core", "locks", "records", "statistics", "problems", "rewards", "lab"},
    {"integrations", "evaluation", "reports"},
    {"training"},
    {"cli"},
]
HEAVY = {"trl", "verl", "vllm", "matplotlib", "peft", "datasets", "transformers", "accelerate", "math_verify"}
FILES = sorted(SOURCE.rglob("*.py"))


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(height for height, names in enumerate(LAYERS) if name in names)


def is_part(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def imported(tree: ast.AST) -> set[str]:
    """Dotted names of all imported modules, at any depth of the file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", [f for f in FILES if part(f) != "__init__"], ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    for name in imported(ast.parse(path.read_text())):
        if name.startswith("gtpo.") and len(parts := name.split(".")) > 1 and is_part(parts[1]):
            assert layer(parts[1]) <= layer(part(path)), f"{path.name} imports {name} from above"
    if part(path) == "core":
        outside = {name.split(".")[0] for name in imported(ast.parse(path.read_text()))}
        assert not outside & HEAVY


def test_hosts_do_not_import_each_other():
    hosts = [folder.name for folder in (SOURCE / "integrations").iterdir() if folder.is_dir()]
    for host in hosts:
        for path in (SOURCE / "integrations" / host).rglob("*.py"):
            names = imported(ast.parse(path.read_text()))
            others = [f"gtpo.integrations.{other}" for other in hosts if other != host]
            assert not any(name.startswith(tuple(others)) for name in names if others)


def test_the_plug_in_that_every_verl_process_loads_imports_nothing_but_the_standard_library():
    names = imported(ast.parse((SOURCE.parent / "gtpo_verl_plugin.py").read_text()))
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_no_file_is_longer_than_400_lines():
    assert [str(f) for f in FILES if len(f.read_text().splitlines()) > 400] == []
