"""The wheel contains everything that the code reads, and pyproject.toml declares everything that it imports."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gtpo
from gtpo.errors import EXTRAS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gtpo"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = sorted(path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")
DATA = [path for path in FILES if path.suffix != ".py"]
MODULES = {"math-verify": "math_verify", "pyyaml": "yaml", "TransferQueue": "transfer_queue"}
"""Distributions whose module has another name."""
WITH_THEIR_OWN_ERROR = {"bitsandbytes", "gguf"}
"""Optional packages that no extra installs; the code that needs one raises an error with the pip command."""


def modules(requirements):
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in requirements]
    return {MODULES.get(name, name) for name in names}


def imported_packages():
    nodes = [node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"gtpo"}


def test_every_data_file_is_package_data():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    packaged = {
        path
        for package, globs in patterns.items()
        for pattern in globs
        for path in (ROOT / "src" / package.replace(".", "/")).glob(pattern)
    }
    assert set(DATA) <= packaged
    assert {path.name for path in DATA} >= {"py.typed", "lab.yaml", "model.safetensors", "page.html"}


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_the_error_for_a_missing_package_names_an_extra_that_installs_it():
    declared = PROJECT["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert set(packages.split()) <= modules(declared[extra])


def test_every_imported_package_is_a_base_dependency_or_has_an_error_that_names_it():
    base = modules(PROJECT["project"]["dependencies"])
    named = {package for packages in EXTRAS.values() for package in packages.split()} | WITH_THEIR_OWN_ERROR
    assert imported_packages() <= base | named
    assert base.isdisjoint(named)


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {gtpo.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_describes_this_version_under_what_is_unreleased():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", gtpo.__version__]


@pytest.mark.slow
def test_the_wheel_and_the_sdist_hold_every_file_and_the_wheel_runs(tmp_path):
    source, built, installed = tmp_path / "source", tmp_path / "built", tmp_path / "installed"
    source.mkdir()
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))

    def run(*command, **options):
        done = subprocess.run(
            [sys.executable, *map(str, command)], cwd=tmp_path, capture_output=True, text=True, check=False, **options
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run("-m", "build", "--no-isolation", "--outdir", built, source)  # the wheel is built from the sdist
    run("-m", "twine", "check", "--strict", *built.iterdir())
    (wheel,) = built.glob("*.whl")
    run("-m", "pip", "install", "--no-deps", "--target", installed, wheel)
    assert [
        path for path in FILES if (installed / path.relative_to(ROOT / "src")).read_bytes() != path.read_bytes()
    ] == []
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    assert run(installed / "bin" / "gtpo", "--version", env=environment).startswith(f"gtpo {gtpo.__version__}\n")
    assert str(installed) in run("-c", "import gtpo, sys; sys.stdout.write(gtpo.__file__)", env=environment)
