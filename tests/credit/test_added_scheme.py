"""The scheme that docs/credit.md adds trains the tiny model by its name, and its weights are in the records."""

import math
import re
from pathlib import Path

import pytest

from gtpo import GTPOTrainer
from tests.reading import read_groups
from tests.trl.checked import settings, train

PAGE = Path(__file__).parents[2] / "docs/credit.md"


def test_the_scheme_of_the_page_trains_and_its_weights_are_recorded(tiny_model, tmp_path, monkeypatch):
    section = PAGE.read_text().split("## Add a scheme")[1]
    (tmp_path / "my_schemes.py").write_text(re.findall(r"```python\n(.*?)```", section, re.S)[0])
    monkeypatch.chdir(tmp_path)
    options = {"credit": "my_schemes:forking_tokens", "credit_parameters": {"share": 0.3}, "max_steps": 2}
    train(tiny_model, trainer=GTPOTrainer, **settings(tmp_path, record_every=1, **options))
    groups = read_groups(tmp_path)
    assert [group.step for group in groups] == [1, 1, 2, 2]
    assert {group.method for group in groups} == {"my_schemes:forking_tokens"}
    for completion in (completion for group in groups for completion in group.completions):
        num_kept = math.ceil(0.3 * completion.num_tokens)
        highest = sorted(completion.token_entropy, reverse=True)[num_kept - 1]
        kept = [entropy >= highest for entropy in completion.token_entropy]
        assert completion.token_advantage == pytest.approx([completion.advantage * keep for keep in kept], rel=1e-5)
