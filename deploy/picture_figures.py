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

from traube._core import paths

WIDTH, HEIGHT = 1100, 560
MISSING = "Nothing to show yet"


def take_picture(browser: str, page: Path, picture: Path) -> None:
    """Let a browser without a window draw a page, and keep what it shows."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(browser, "--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=20000"),
        *(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}", page.resolve().as_uri()),
    ]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 (a browser that is installed, on our own page)


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
