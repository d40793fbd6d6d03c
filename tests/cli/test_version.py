"""`gtpo --version` prints what a bug report needs, and imports none of it."""

import importlib.metadata
import sys

import pytest

import gtpo
from gtpo.cli.main import main


def test_version_lists_gtpo_python_and_the_libraries_installed_or_not(monkeypatch, capsys):
    versions = {"torch": "2.9.1", "transformers": "5.9.0", "trl": "1.16.0", "verl": "0.9.1"}

    def version(name):
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert not stop.value.code
    python = ".".join(map(str, sys.version_info[:3]))
    lines = [f"gtpo {gtpo.__version__}", f"python {python}", *(f"{name} {versions[name]}" for name in versions)]
    lines.insert(5, "vllm not installed")
    assert capsys.readouterr().out.splitlines() == lines
