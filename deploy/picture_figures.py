"""Take pictures of the papers' figures in a data directory, for the pages of `traube papers --output`: needs chromium.

Examples
--------
python deploy/picture_figures.py docs/results
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageChops

from traube._core import paths

WIDTH, HEIGHT, MARGIN = 1100, 2600, 16
MISSING = "Nothing to show yet"


def take_picture(browser: str, page: Path, picture: Path) -> None:
    """Let a browser without a window draw a page, and keep what it shows, without the empty space below."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(browser, "--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=20000"),
        *(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}", page.resolve().as_uri()),
    ]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 (a browser that is installed, on our own page)
    with Image.open(picture) as drawn:
        colors = drawn.convert("RGB")
    background = Image.new("RGB", colors.size, colors.getpixel((0, HEIGHT - 1)))
    _, _, _, bottom = ImageChops.difference(colors, background).getbbox() or (0, 0, 0, HEIGHT)
    colors.crop((0, 0, WIDTH, min(bottom + MARGIN, HEIGHT))).save(picture, optimize=True)


def main() -> None:
    """Take a picture of each figure that shows something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="Folder of the papers' pages; PAPER/figure_N.png is written into it.")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed")
    for page in sorted((paths.home() / "papers").glob("*/figure_*.html")):
        if MISSING not in page.read_text("utf-8"):
            picture = options.output / page.parent.name / f"{page.stem}.png"
            take_picture(browser, page, picture)
            print(picture)


if __name__ == "__main__":
    main()
