"""A version of TRL outside the tested window is reported, and the window is the one of pyproject.toml."""

import tomllib
from pathlib import Path

import pytest

from gtpo.trl.versions import NEWEST, OLDEST, warn_if_untested

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("version", ["1.10.0", "1.14.2", "1.16.0", "1.16.3.dev0"])
def test_a_tested_version_is_not_reported(version, caplog):
    warn_if_untested(version)
    assert not caplog.records


@pytest.mark.parametrize("version", ["1.9.2", "1.17.0", "1.17rc1", "2.0.0", "0.29.1"])
def test_an_untested_version_is_reported_once(version, caplog):
    warn_if_untested.cache_clear()
    warn_if_untested(version)
    warn_if_untested(version)
    assert [record.message for record in caplog.records] == [
        f"gtpo is tested with TRL 1.10 to 1.16, but TRL {version} is installed. If a run fails, install a tested "
        "version: pip install 'trl==1.16.*'."
    ]


def test_the_window_begins_with_the_lowest_version_that_pip_may_install():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"trl>={OLDEST[0]}.{OLDEST[1]},<2" in extras["trl"]
    newest, lowest = ((ROOT / name).read_text() for name in ("constraints.txt", "constraints-lowest.txt"))
    assert f"\ntrl=={NEWEST[0]}.{NEWEST[1]}." in newest
    assert f"\ntrl=={OLDEST[0]}.{OLDEST[1]}.0\n" in lowest
