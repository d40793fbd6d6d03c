"""Take a picture of the first group of a token view: `python scripts/screenshot.py PAGE.html OUT.png [--theme dark]`.

The pictures in the docs are taken with it. It needs an installed Chromium and Pillow.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MARGIN = 48
"""Pixels left around the content."""
NUM_COLORS = 128
WINDOWS = ((2600, 2400), (4000, 5500))
"""Window sizes, tried in this order until the group fits."""


def take_picture(page: Path, picture: Path, *, theme: str = "light", scale: int = 2) -> None:
    """Write the first group of the page as a PNG of `scale` pixels per CSS pixel, cropped to its content."""
    for window in WINDOWS:
        image = render(page, window, theme, scale)
        right, bottom = content_size(image)
        if right < image.width and bottom < image.height:
            size = min(image.width, right + MARGIN), min(image.height, bottom + MARGIN)
            save(image.crop((0, 0, *size)), picture)
            return
    sys.exit(f"The first group of {page} is too large for a picture.")


def save(image: Image.Image, picture: Path) -> None:
    """Write a PNG with a palette: a third of the file size."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(NUM_COLORS, dither=Image.Dither.NONE).save(picture, optimize=True)


def render(page: Path, window: tuple[int, int], theme: str = "light", scale: int = 2) -> Image.Image:
    """The page as the browser draws it in a window of this size."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"None of {', '.join(BROWSERS)} is installed. Install one (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as folder:
        screenshot = Path(folder) / "screenshot.png"
        command = [browser, "--headless=new", "--disable-gpu", "--hide-scrollbars"]
        command += ["--disable-background-networking", "--no-first-run", f"--user-data-dir={folder}/profile"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        command += [f"--force-device-scale-factor={scale}"]
        command += [f"--window-size={window[0]},{window[1]}", f"--screenshot={screenshot}"]
        command += [f"{page.resolve().as_uri()}#picture&view=aligned&theme={theme}"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if not screenshot.is_file():
            sys.exit(f"{browser} could not take a picture of {page}: {process.stderr.strip()[-300:]}")
        with Image.open(screenshot) as image:
            return image.convert("RGB")


def content_size(image: Image.Image) -> tuple[int, int]:
    """The right and bottom edge of everything that differs from the background."""
    background = Image.new("RGB", image.size, image.getpixel((0, 0)))
    box = ImageChops.difference(image, background).getbbox()
    return (0, 0) if box is None else box[2:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Take a picture of the first group of a token view.")
    parser.add_argument("page", type=Path, metavar="PAGE.html", help="a page that `gtpo inspect` wrote")
    parser.add_argument("picture", type=Path, metavar="OUT.png", help="the picture to write")
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="(default: light)")
    args = parser.parse_args()
    take_picture(args.page, args.picture, theme=args.theme)


if __name__ == "__main__":
    main()
