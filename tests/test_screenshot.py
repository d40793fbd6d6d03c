"""The picture of a token view for the docs: `scripts/screenshot.py`."""

import importlib.util
import shutil
from pathlib import Path

import pytest
from PIL import Image

from gtpo.token_view.groups import LoadedGroups
from gtpo.token_view.page import render_page
from tests.token_view.example_group import example_group

SCRIPT = Path(__file__).parents[1] / "scripts" / "screenshot.py"


@pytest.fixture
def screenshot():
    spec = importlib.util.spec_from_file_location("screenshot", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render_page(LoadedGroups([example_group()], []), title="a run"), encoding="utf-8")
    return path


def test_the_picture_shows_the_tokens(screenshot, page, monkeypatch):
    if not any(map(shutil.which, screenshot.BROWSERS)):
        pytest.skip("no browser")
    picture = page.with_name("picture.png")
    monkeypatch.setattr(screenshot, "WINDOWS", ((1600, 1000),))
    monkeypatch.setattr("sys.argv", ["screenshot.py", str(page), str(picture)])
    screenshot.main()
    with Image.open(picture) as image:
        colors = {color for _, color in image.convert("RGB").getcolors()}
        assert image.width > image.height > 1000
    assert {(11, 95, 165), (226, 244, 236), (251, 228, 213)} <= colors


def test_windows_are_tried_until_nothing_is_cut_off(screenshot, page, monkeypatch):
    def render(page, window, theme, scale):
        image = Image.new("RGB", window, "white")
        image.paste("black", (10, 10, 150, 200))
        return image

    monkeypatch.setattr(screenshot, "render", render)
    monkeypatch.setattr(screenshot, "WINDOWS", ((120, 300), (400, 300)))
    picture = page.with_name("picture.png")
    screenshot.take_picture(page, picture)
    with Image.open(picture) as image:
        assert image.size == (150 + screenshot.MARGIN, 200 + screenshot.MARGIN)
    monkeypatch.setattr(screenshot, "WINDOWS", ((120, 300),))
    with pytest.raises(SystemExit, match="too large for a picture"):
        screenshot.take_picture(page, picture)


def test_a_missing_browser_is_reported_with_its_package(screenshot, page, monkeypatch):
    monkeypatch.setattr(screenshot, "BROWSERS", ("no-such-browser",))
    with pytest.raises(SystemExit, match="apt-get install chromium"):
        screenshot.take_picture(page, page.with_name("picture.png"))
