"""Imports between folders follow an explicit graph without cycles, and light folders import no heavy library."""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gtpo"
GRAPH = {
    "errors": "",
    "text": "",
    "files": "errors",
    "statistics": "errors",
    "logged": "files",
    "importing": "errors",
    "core": "errors",
    "credit": "core errors importing",
    "records": "core errors",
    "problems": "errors files text",
    "lab": "problems",
    "models": "errors files lab",
    "rewards": "errors text",
    "health": "files logged",
    "runs": "errors files health logged records",
    "verl": "core credit errors",
    "trl": "core credit errors files health logged records",
    "evaluation": "errors files importing models problems rewards statistics text",
    "compare": "errors evaluation runs statistics",
    "report": "files health logged records runs text",
    "token_view": "core errors files records runs text",
    "training": "core errors evaluation files importing models problems records rewards runs text trl",
    "cli": "compare errors evaluation files health logged problems records report runs text token_view training",
}
"""Each folder or module of gtpo, and those that it imports from, function-local imports included."""

HEAVY = {"torch", "trl", "verl", "vllm", "matplotlib", "peft", "datasets", "transformers", "accelerate", "math_verify"}
ALLOWED_HEAVY = {"core": {"torch"}, "credit": {"torch"}, "verl": {"torch", "verl"}}
LIGHT = ("errors", "text", "files", "importing", "statistics", "logged", "records", "health", "runs", "models")
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names of all imported modules, at any depth of the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_graph_has_no_cycle_and_names_every_folder():
    order = list(TopologicalSorter({name: edges.split() for name, edges in GRAPH.items()}).static_order())
    assert sorted(order) == sorted(GRAPH)
    assert set(map(part, FILES)) == set(GRAPH)


@pytest.mark.parametrize("name", GRAPH)
def test_a_folder_imports_exactly_what_the_graph_lists(name):
    used = {
        module.split(".")[1] for path in FILES if part(path) == name for module in imported(path) if "gtpo." in module
    }
    assert used & GRAPH.keys() - {name} == set(GRAPH[name].split())


@pytest.mark.parametrize("name", [*LIGHT, *ALLOWED_HEAVY])
def test_light_folders_import_no_heavy_library(name):
    used = {module.split(".")[0] for path in FILES if part(path) == name for module in imported(path)}
    assert used & HEAVY <= ALLOWED_HEAVY.get(name, set())


def test_the_verl_plug_in_imports_only_the_standard_library():
    names = imported(SOURCE.parent / "gtpo_verl_plugin.py")
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_no_file_is_longer_than_400_lines():
    tests = Path(__file__).parent.rglob("*.py")
    assert [str(file) for file in (*FILES, *tests) if len(file.read_text().splitlines()) > 400] == []
