"""A headless browser for pages: the system's Chromium, driven by playwright, and axe-core for accessibility."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import pytest

from helpers.machine import skip_or_fail

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120_000  # milliseconds, on a busy machine
# Quiet: nothing but the page that is opened may ask for anything.
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser; the test is skipped, and says what to install, where there is none."""
    driver = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: run ./test, which installs it"
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        skip_or_fail("needs a browser: run 'sudo apt-get install chromium' and try again")
    with started(driver) as running:
        opened = running.chromium.launch(executable_path=found, args=list(FLAGS), timeout=PATIENCE)
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def started(driver: Any) -> Iterator[Any]:
    """What drives a browser: a program of its own, which a small Debian lacks a library for."""
    starting = driver.sync_playwright()
    try:
        running = starting.start()
    except Exception as error:
        skip_or_fail(
            f"playwright does not start ({error}): run 'sudo apt-get install libatomic1' and try again"
        )
    try:
        yield running
    finally:
        running.stop()


def axe() -> str:
    """The source of axe-core, which looks for what people with disabilities cannot use."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-core: run ./test, which installs it")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def serious_violations(page: Any, source: str) -> list[str]:
    """What axe-core finds serious or critical on an open page, with the first place of each."""
    page.evaluate(source)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']} ({each['nodes'][0]['html'][:200]})"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
