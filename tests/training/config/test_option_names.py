"""Contract: the option names that are read from source files are those of TRL's own parser."""

import pytest

from gtpo.training.config import settings
from gtpo.training.config.plan import parser_for
from gtpo.training.config.settings import option_names


@pytest.mark.parametrize("method", ["gtpo", "grpo", "sft"])
def test_the_names_in_the_source_are_those_of_the_parser(method):
    assert option_names(method) == {action.dest for action in parser_for(method)._actions} - {"config"}


def test_without_the_source_no_names_are_known(monkeypatch):
    monkeypatch.setitem(settings.SOURCES, "gtpo", ("trl/trainer/moved.py",))
    assert option_names.__wrapped__("gtpo") == frozenset()
