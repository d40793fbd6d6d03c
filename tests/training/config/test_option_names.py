"""Contract: the option names that are read from source files are those of TRL's own parser."""

import pytest

from gtpo.training.config import option_names
from gtpo.training.config.option_names import names_in_source
from gtpo.training.config.parser import parser_names


@pytest.mark.parametrize("method", ["gtpo", "grpo", "sft"])
def test_the_names_in_the_source_are_those_of_the_parser(method):
    assert names_in_source(method) == parser_names(method)


@pytest.mark.parametrize("source", [("trl", "trainer/moved.py"), ("not_installed_package", "config.py")])
def test_without_the_source_no_names_are_known(source, monkeypatch):
    monkeypatch.setattr(option_names, "SOURCES", (source,))
    option_names._classes.cache_clear()
    assert names_in_source.__wrapped__("gtpo") is None
    option_names._classes.cache_clear()
