"""The report of more and more agents: how long it takes to make, its size, how long a browser takes to open it.

    python benchmarks/pages.py

Opening is the time from the navigation to the end of the load event in headless Chromium, the page drawn, the least
of five turns; it is left out where there is no browser or no playwright.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import veilnet as vn
from timing import markdown

AGENTS = (5, 50, 500)
TURNS = 5
OPENED = """() => new Promise(done => requestAnimationFrame(() => setTimeout(() => {
    const timing = performance.getEntriesByType('navigation')[0];
    done(Math.max(timing.loadEventEnd, performance.now()) / 1000);
}, 0)))"""


def plan_for(agents: int) -> vn.Plan:
    """Agents of three readings of eight parameters, two of them public and four private."""
    rng = np.random.default_rng([agents, 8])
    network = vn.Network(
        observe={f"meter {k:03d}": rng.standard_normal((3, 8)) for k in range(agents)},
        noise=1.0,
        public=rng.standard_normal((2, 8)),
        private={f"private {k + 1}": rng.standard_normal((1, 8)) for k in range(4)},
        prior=vn.Prior(covariance=np.eye(8)),
    )
    return vn.design(network)


def opening(files: list[Path]) -> list[float]:
    """Seconds until each page is loaded and drawn; NaN without a browser."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        return [float("nan")] * len(files)
    found = []
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for file in files:
            turns = []
            for _ in range(TURNS):
                page = opened.new_page()
                page.goto(file.as_uri())
                turns.append(page.evaluate(OPENED))
                page.close()
            found.append(min(turns))
        opened.close()
    return found


def main() -> int:
    rows, files = [], []
    with tempfile.TemporaryDirectory() as folder:
        for agents in AGENTS:
            plan = plan_for(agents)
            made = []
            for _ in range(TURNS):
                start = time.perf_counter()
                report = plan.report()
                made.append(time.perf_counter() - start)
            files.append(Path(folder) / f"{agents}.html")
            report.save(files[-1])
            rows.append([str(agents), f"{min(made):.2f}", f"{files[-1].stat().st_size / 1000:.0f}"])
        for row, seconds in zip(rows, opening(files), strict=True):
            row.append(f"{seconds:.2f}")
    print(markdown(["agents", "made in (s)", "size (KB)", "opened in (s)"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
