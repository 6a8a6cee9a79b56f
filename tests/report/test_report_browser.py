"""The report in a real browser: opens from disk, asks for nothing, complains of nothing, and is accessible."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.browser import PATIENCE, axe, browser, serious_violations
from helpers.shown_plans import curve_for, hostile_plan, plan_of
from veilnet.auditing.report import AuditReport, Row
from veilnet.report.html import element, join
from veilnet.report.page import Report

pytestmark = pytest.mark.slow

ROWS = (
    Row("promise", "gait", 2.0, 1.9, "ok", "it holds.", (1.8, 2.1)),
    Row("promise", "presence", 9.0, 3.0, "fail", "it does not hold."),
)
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"},
}


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    traded = plan_of("trade-off")
    reports = {
        "rows": traded.report(audit=AuditReport(ROWS, 1e-6), frontier=curve_for(traded)),
        "stream": plan_of("wandering").report(),
        "hostile": hostile_plan().report(),
    }
    for name, report in reports.items():
        report.save(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in reports}


def show(context: Any, path: Path) -> tuple[Any, list[str]]:
    """The page, opened from disk, and everything it asked for or complained of."""
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", lambda dialog: (heard.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    return page, heard


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["rows", "stream", "hostile"])
def test_it_opens_from_disk_and_asks_for_nothing(
    opened: Any, pages: dict[str, Path], name: str, screen: str
) -> None:
    context = opened.new_context(**SCREENS[screen])
    page, heard = show(context, pages[name])
    width, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= room, "the page scrolls sideways"
    assert heard == []
    context.close()


@pytest.mark.parametrize(
    ("name", "screen", "unfolded"),
    [("rows", "light", True), ("rows", "dark", False), ("stream", "phone", False)],
)
def test_it_is_accessible(
    opened: Any, pages: dict[str, Path], name: str, screen: str, unfolded: bool
) -> None:
    # axe-core itself is a script that the page's own policy would not let run
    context = opened.new_context(**SCREENS[screen], bypass_csp=True)
    page, _ = show(context, pages[name])
    if unfolded:
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert serious_violations(page, axe()) == []
    context.close()


def test_a_planted_fault_is_found(opened: Any, tmp_path: Path) -> None:
    """axe-core does look: a picture without a title and a pale text do not pass."""
    body = element("p", "pale", style="color:#ddd"), element("svg", role="img"), element("h1", "title")
    Report("faulty", join(body)).save(tmp_path / "faulty.html")
    context = opened.new_context(bypass_csp=True)
    page, _ = show(context, tmp_path / "faulty.html")
    found = " ".join(serious_violations(page, axe()))
    assert "color-contrast" in found
    assert "svg-img-alt" in found
    context.close()


def test_the_page_lets_nothing_be_asked_for(opened: Any, pages: dict[str, Path]) -> None:
    """Even a picture from elsewhere, put in by hand, is not fetched: the page's policy forbids it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x.png"
        context = opened.new_context()
        page, _ = show(context, pages["hostile"])
        with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
            page.evaluate(
                "address => document.body.append(Object.assign(new Image(), {src: address}))", address
            )
        with pytest.raises(TimeoutError):
            server.accept()
        context.close()


def test_the_table_of_500_agents_sorts_and_the_page_reads_without_scripts(
    opened: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    network = vn.Network(
        observe={f"meter {k:03d}": rng.standard_normal((2, 4)) for k in range(500)}, noise=1.0,
        public=rng.standard_normal((1, 4)), private={"g": rng.standard_normal((1, 4))},
        prior=vn.Prior(covariance=np.eye(4)),
    )  # fmt: skip
    vn.design(network).report().save(tmp_path / "many.html")
    context = opened.new_context()
    page, heard = show(context, tmp_path / "many.html")
    page.get_by_text("All 500 agents as a table").click()
    heading = page.locator("table.agents thead th").last
    heading.get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    parts = [
        float(text.split()[0]) for text in page.locator("table.agents tr td:last-child").all_inner_texts()
    ]
    assert len(parts) == 500
    assert parts == sorted(parts, reverse=True)
    assert heard == []
    context.close()
    context = opened.new_context(java_script_enabled=False)
    page, _ = show(context, tmp_path / "many.html")
    assert page.locator("table.agents tbody tr").count() == 500
    assert page.locator("h1").inner_text().startswith("The centre learns")
    context.close()


def test_it_prints_on_paper(opened: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    context = opened.new_context(color_scheme="dark")
    page, _ = show(context, pages["rows"])
    page.emulate_media(media="print")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert 2 <= (tmp_path / "report.pdf").read_bytes().count(b"/Type /Page\n") <= 12
    context.close()
