"""Makes the documentation's pictures from the running thing: docs/report.png and docs/studio.png, both of the house.

    .venv/bin/python tools/screenshot.py

Needs what ./test installs: playwright and a browser.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

import veilnet as vn
from veilnet.io.template import house
from veilnet.report.building import report_of

DOCS = Path(__file__).resolve().parents[1] / "docs"
COLOURS = 64  # of a picture: enough for a page of few colours, and small
PATIENCE = 180_000  # milliseconds


def main() -> int:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.stderr.write("screenshot: needs a browser: run 'sudo apt-get install chromium' and try again\n")
        return 2
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        save("report.png", picture_of_report(opened))
        save("studio.png", picture_of_studio(opened))
        opened.close()
    return 0


def picture_of_report(opened: Any) -> bytes:
    """The free plan of the house."""
    with tempfile.TemporaryDirectory() as folder:
        page_file = Path(folder) / "report.html"
        report_of(vn.design(house())).save(page_file)
        page = opened.new_page(viewport={"width": 1120, "height": 1222}, color_scheme="light")
        page.goto(page_file.as_uri())
        return bytes(page.screenshot())


def picture_of_studio(opened: Any) -> bytes:
    """The house, with the public error dragged a little and everything computed."""
    command = [sys.executable, "-u", "-m", "veilnet", "studio"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(found.group(0) for line in process.stdout if (found := re.search(r"http://\S+", line)))
        # What waits for the page is a script that the page's own policy would not let run.
        page = opened.new_page(
            viewport={"width": 1280, "height": 1120}, color_scheme="light", bypass_csp=True
        )
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.click("#house")
        page.wait_for_selector("#frontier svg")
        page.eval_on_selector("#public", "s => { s.value = 150; s.dispatchEvent(new Event('input')); }")
        page.wait_for_function("document.querySelector('#command').innerText.includes('--public-error')")
        page.wait_for_timeout(1500)  # the search for a better plan begins when the hand has rested
        page.wait_for_function("!document.querySelector('.job')")
        taken = bytes(page.screenshot())
        process.terminate()
    return taken


def save(name: str, taken: bytes) -> None:
    """A picture with few colours."""
    picture = Image.open(io.BytesIO(taken)).convert("P", palette=Image.Palette.ADAPTIVE, colors=COLOURS)
    picture.save(DOCS / name, optimize=True)
    sys.stdout.write(f"Wrote {DOCS / name}\n")


if __name__ == "__main__":
    sys.exit(main())
