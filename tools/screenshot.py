"""Makes docs/report.png, the README's picture of a report, from the running thing: the house's plan in a browser.

    .venv/bin/python tools/screenshot.py

Needs what ./test installs: playwright and a browser.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import veilnet as vn
from veilnet.io.template import house
from veilnet.report.building import report_of

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "report.png"
WIDTH, HEIGHT = 1120, 1222
COLOURS = 64  # of the picture: enough for a page of few colours, and small


def main() -> int:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.stderr.write("screenshot: needs a browser: run 'sudo apt-get install chromium' and try again\n")
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page_file = Path(folder) / "report.html"
        report_of(vn.design(house())).save(page_file)
        opened = running.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(page_file.as_uri())
        taken = page.screenshot()
        opened.close()
    picture = Image.open(io.BytesIO(taken)).convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS)
    picture.save(PICTURE, optimize=True)
    sys.stdout.write(f"Wrote {PICTURE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
