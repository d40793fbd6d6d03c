"""What a user installs holds everything that the code reads."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_file_beside_the_code_is_package_data():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]
    shipped = {
        path
        for package, globs in patterns.items()
        for pattern in globs
        for path in (ROOT / "src" / package.replace(".", "/")).glob(pattern)
    }
    beside = {path for path in (ROOT / "src/gtpo").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert beside <= shipped
    assert {path.name for path in beside} >= {"py.typed", "lab.yaml", "model.safetensors", "token_view.html"}
