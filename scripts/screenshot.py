"""A picture of a token view, taken with an installed Chromium."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gtpo.errors import ConfigError, MissingExtraError
from gtpo.files import writing

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MARGIN = 48
"""Pixels left around what is drawn."""
_WINDOWS = ((2600, 2400), (4000, 5500))
"""Tried in turn until the group fits."""


def take_picture(page: Path, picture: Path, *, theme: str = "light") -> None:
    """Write the page's first group as a PNG at twice the resolution, cut to its size."""
    from PIL import Image

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise MissingExtraError(
            f"A picture needs a browser, and none of {', '.join(BROWSERS)} is installed (Debian: apt-get install "
            f"chromium). The page itself is there: {page}"
        )
    for window in _WINDOWS:
        image = _photograph(browser, page, window, theme)
        right, bottom = _extent(image)
        if right < image.width and bottom < image.height:
            size = min(image.width, right + _MARGIN), min(image.height, bottom + _MARGIN)
            few = image.crop((0, 0, *size)).quantize(256, dither=Image.Dither.NONE)  # a third of the file's size
            with writing(picture, "Choose another with --screenshot."):
                picture.parent.mkdir(parents=True, exist_ok=True)
                few.save(picture, optimize=True)
            return
    raise ConfigError(f"This group is too large for a picture. The page itself is there: {page}")


def _photograph(browser: str, page: Path, window: tuple[int, int], theme: str) -> Any:
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.png"
        command = [
            browser, "--headless=new", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2",
            "--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}/profile",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            f"--window-size={window[0]},{window[1]}", f"--screenshot={whole}",
            f"{page.resolve().as_uri()}#picture&view=aligned&theme={theme}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if not whole.is_file():
            said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise ConfigError(f"{browser} could not take a picture of {page}: {said[0][:300]}")
        with Image.open(whole) as image:
            return image.convert("RGB")


def _extent(image: Any) -> tuple[int, int]:
    """How far to the right and down anything is drawn."""
    from PIL import Image, ImageChops

    paper = Image.new("RGB", image.size, image.getpixel((0, 0)))
    _, _, right, bottom = ImageChops.difference(image, paper).getbbox() or (0, 0, 0, 0)
    return right, bottom
