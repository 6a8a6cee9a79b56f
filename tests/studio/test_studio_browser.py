"""The studio in a real browser: every figure on it is the library's, and nothing leaves this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")

import veilnet as vn
from helpers.browser import PATIENCE, axe, browser, serious_violations
from helpers.endless_jobs import make_endless
from helpers.small_network import small_network
from helpers.studio_server import studio_served
from helpers.symbol_table import symbol_table, write_symbol_table
from veilnet import cli
from veilnet.bounds.typical_errors import typical_errors
from veilnet.io.template import house, template_text
from veilnet.studio import app
from veilnet.studio.views import view
from veilnet.studio.workbench import Workbench

pytestmark = pytest.mark.slow


@dataclass
class Visit:
    """A studio of one's own, and a page on it that keeps what it heard."""

    address: str
    page: Any
    heard: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Where it is served."""
        return self.address.partition("/#")[0]

    def shown(self, selector: str, pattern: str) -> str:
        """The text of an element once it is seen and matches: what is hidden has the text of before."""
        self.page.wait_for_function(
            "([s, p]) => { const e = document.querySelector(s);"
            " return e.checkVisibility() && new RegExp(p, 's').test(e.innerText); }",
            arg=[selector, pattern],
        )
        return str(self.page.inner_text(selector))

    def drag(self, selector: str, place: int) -> None:
        """Put a slider somewhere, as a hand does."""
        self.page.eval_on_selector(
            selector,
            "(s, place) => { s.value = place; s.dispatchEvent(new Event('input', {bubbles: true})); }",
            place,
        )

    def look_on(self) -> None:
        """Until the page has looked twice at what the jobs do."""
        for _ in range(2):
            with self.page.expect_response("**/api/jobs"):
                pass


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """One browser for all tests: starting it takes longer than most of what they do."""
    with browser() as found:
        yield found


@contextmanager
def visiting(opened: Any, address: str) -> Iterator[Visit]:
    """The first page of a studio."""
    context = opened.new_context(
        viewport={"width": 1280, "height": 900}, bypass_csp=True, accept_downloads=True
    )
    context.set_default_timeout(PATIENCE)
    visit = Visit(address, context.new_page())
    visit.page.on("console", lambda message: visit.heard.append(f"{message.type}: {message.text}"))
    visit.page.on("pageerror", lambda error: visit.heard.append(str(error)))
    visit.page.on("dialog", lambda dialog: (visit.heard.append("dialog"), dialog.dismiss()))
    visit.page.on(
        "request",
        lambda request: (
            None if request.url.startswith((visit.origin, "data:")) else visit.heard.append(request.url)
        ),
    )
    visit.page.goto(address)
    visit.page.wait_for_selector("#welcome")
    yield visit
    context.close()


@pytest.fixture
def visit(opened: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """A first visit. Every test has a studio of its own, and no job ends before the test has seen it."""
    make_endless(monkeypatch)
    with studio_served() as address, visiting(opened, address) as begun:
        yield begun


def upload(visit: Visit, name: str, content: bytes) -> None:
    visit.page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": content})


def drop(visit: Visit, name: str, content: str) -> None:
    """Let a file fall on the page."""
    make = (
        "([name, text]) => { const d = new DataTransfer(); d.items.add(new File([text], name)); return d; }"
    )
    visit.page.dispatch_event(
        "body", "drop", {"dataTransfer": visit.page.evaluate_handle(make, [name, content])}
    )


def test_from_a_first_visit_to_a_plan_that_verifies(visit: Visit, tmp_path: Path, capsys) -> None:
    page, network = visit.page, house()
    assert "Share sensor data" in page.inner_text("#welcome")
    page.click("#house")
    visit.shown("#headline", "as well as before")
    # the frontier is drawn as its points are found, and what is still to come can be done without
    page.wait_for_function(
        "document.querySelector('#frontier svg') && document.querySelector('.job[data-job=trace]')"
    )
    page.click(".job[data-job=trace] button")
    page.wait_for_function("!document.querySelector('.job[data-job=trace]')")
    # drag: the figures are those of a plan that keeps what was asked
    page.wait_for_selector("#private-2")
    visit.drag("#private-2", 500)
    command = visit.shown("#command", r"--private-error")
    asked = float(re.search(r"gait=([0-9.]+)", command).group(1))  # type: ignore[union-attr]
    visit.shown("#headline", r"error on (?!.*as well as before)")
    # the first figures are called what they are, and the search for better ones can be ended
    visit.shown("#working", "A first plan: it keeps what it promises, and what it costs is an upper bound")
    visit.shown("#public-words", "at most")
    page.click(".job[data-job=refine] button")
    visit.shown("#working", "was ended")
    # take it away: the command line confirms it, and its figures are those on the page
    with page.expect_download() as download:
        page.click("a[href='download/plan.zip']")
    download.value.save_as(tmp_path / "plan.zip")
    with zipfile.ZipFile(tmp_path / "plan.zip") as archive:
        archive.extractall(tmp_path)
    assert cli.run(["verify", str(tmp_path / "plan")]) == 0
    capsys.readouterr()
    plan = vn.Plan.load(tmp_path / "plan")
    assert plan.privacy["gait"] >= (asked**2 - 1) * (1 - 1e-4)
    errors = typical_errors(network, plan.sanitizers)
    words = visit.shown("#private-words-2", "steps/min")
    sent = float(re.search(r"±([0-9.]+)", words).group(1))  # type: ignore[union-attr]
    assert sent == pytest.approx(errors["gait"].sent, rel=0.02)
    # silence an agent: the changed figure is the library's
    page.check("#agents-if input[data-kind=silent][value='bedroom']")
    shown = visit.shown("#what-if", "error then")
    quiet = {**plan.sanitizers, "bedroom": vn.Sanitizer(np.zeros((0, 4)))}
    expected = typical_errors(network, quiet)["heat loss"]
    assert f"±{expected.sent:.3g} {expected.unit}" in shown
    assert visit.heard == []


def test_a_secret_is_dragged_by_its_auc(visit: Visit, tmp_path: Path) -> None:
    network = small_network().replace(resolution=0)
    secret = vn.Secret(network.private["when"], 3.0, unit="people")
    network.replace(private={**network.private, "when": secret}).save(tmp_path / "room.toml")
    upload(visit, "room.toml", (tmp_path / "room.toml").read_bytes())
    visit.page.wait_for_selector("#private-1")
    assert "3 people" in visit.page.inner_text("label[for=private-1]")
    visit.drag("#private-1", 500)
    command = visit.shown("#command", "when=auc:")
    asked = float(re.search(r"auc:([0-9.]+)", command).group(1))  # type: ignore[union-attr]
    words = visit.shown("#private-words-1", f"AUC {asked:.3f}")
    assert "false alarms" in words
    assert f"AUC {asked:.3f}" in visit.page.inner_text("#headline")
    upload(visit, "plain.toml", template_text().encode())
    visit.shown("label[for=private-1]", "error on")
    assert visit.heard == []


def test_a_dropped_table_becomes_a_network(visit: Visit) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((300, 2)) * [5.0, 2.0]
    readings = x @ rng.standard_normal((2, 3)) + 0.3 * rng.standard_normal((300, 3))
    rows = [",".join(f"{v:.6f}" for v in row) for row in np.hstack([x, readings])]
    columns = ["T_out", "people", "kitchen_1", "kitchen_2", "hall_1"]
    page, content = visit.page, "\n".join([",".join(columns), *rows])
    drop(visit, "log.csv", content)
    page.wait_for_selector("tr[data-column='people']")
    for column, role in zip(columns, ["public", "private", "reading", "reading", "reading"], strict=True):
        page.select_option(f"tr[data-column='{column}'] select", role)
    page.click("#fit")
    headline = visit.shown("#headline", "people")
    table = dict(zip(columns, np.round(np.hstack([x, readings]), 6).T, strict=True))
    agents = {"kitchen": ["kitchen_1", "kitchen_2"], "hall": ["hall_1"]}
    expected = vn.design(vn.fit(table, agents=agents, public="T_out", private="people"))
    assert "T_out as well as before" in headline
    words = visit.shown("#private-words-0", "raw")
    sent = float(re.search(r"±([0-9.]+)", words).group(1))  # type: ignore[union-attr]
    assert sent == pytest.approx(
        typical_errors(expected.network, expected.sanitizers)["people"].sent, rel=0.02
    )
    # attack it on rows of one's own; what those of the fit are worth is said
    page.check("#audit-rows input[value='fitted to']")
    visit.shown("#audit-note", "fitted to these rows")
    kept_aside = {"name": "other day.csv", "mimeType": "text/csv", "buffer": content.encode()}
    page.set_input_files("#held-out", kept_aside)
    visit.shown("#audit-command", "veilnet audit plan --data 'other day.csv'")
    assert page.is_checked("#audit-rows input[value='held out']")
    page.click("#audit-now")
    page.click(".job[data-job=audit] button")
    page.wait_for_function("!document.querySelector('.job[data-job=audit]')")
    assert visit.heard == []


HOSTILE = "<img src=x onerror=alert(1)>"


def test_more_can_be_said_than_sliders_say(visit: Visit, tmp_path: Path) -> None:
    """What is given up and how far the model may be off, of a network whose names are hostile."""
    network, page = small_network(), visit.page
    private = {HOSTILE if name == "who" else name: rows for name, rows in network.private.items()}
    network.replace(private=private).save(tmp_path / "n.json")
    page.set_input_files("#file", tmp_path / "n.json")
    visit.shown("#headline", "warmth as well as before")
    visit.drag("#private-0", 300)
    visit.shown("#command", "--private-error")
    page.get_by_text("More on when").click()
    page.get_by_label("Give up what is free").last.check()
    visit.shown("#command", "--give-up when --out plan$")
    page.fill("#model-error", "10")
    page.press("#model-error", "Enter")
    visit.shown("#command", "--model-error 0.1 --private-error")
    assert page.locator("#desk img").count() == 0
    assert HOSTILE in page.inner_text("#private")
    # what is open stays open, and asked for, while a table is looked at; and no table is too large to be told so
    drop(visit, "next.csv", "a,b\n1,2\n")
    page.wait_for_selector("tr[data-column='b']")
    with (tmp_path / "huge.csv").open("wb") as huge:
        huge.truncate(100_000_000)
    page.set_input_files("#file", tmp_path / "huge.csv")
    visit.shown("#trouble", "at most 50 MB")
    visit.look_on()
    assert page.is_visible("#columns")
    assert visit.heard == []


def test_a_broken_file_gives_the_message_of_the_command_line(
    visit: Visit, tmp_path: Path, monkeypatch, capsys
) -> None:
    text = template_text().replace("[public]", "[publick]")
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text, encoding="utf-8")
    assert cli.run(["check", "mine.toml"]) == 2
    said = " ".join(capsys.readouterr().err.removeprefix("veilnet: error: ").split())
    upload(visit, "mine.toml", text.encode())
    assert " ".join(visit.shown("#trouble", "publick").split()) == said
    assert [
        each for each in visit.heard if "400" not in each
    ] == []  # the browser tells of the refusal, nothing else


def test_a_box_stays_as_the_hand_left_it(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the answer to an earlier question arrives; and that question is asked on, with the box."""
    small_network().save(tmp_path / "n.json")
    page = visit.page
    page.set_input_files("#file", tmp_path / "n.json")
    visit.shown("#headline", "warmth as well as before")
    page.get_by_text("More on when").click()
    answers = {False: threading.Event(), True: threading.Event()}

    def held(bench: Workbench) -> Any:
        asked = bench.now.ask
        assert not asked.privacy or answers["when" in asked.give_up].wait(PATIENCE / 1000)
        return view(bench)

    monkeypatch.setattr(app, "view", held)
    visit.drag("#private-0", 300)
    box = page.get_by_label("Give up what is free").last
    box.check()
    answers[False].set()
    visit.shown("#command", "--private-error who=[0-9.]+x --out plan$")
    assert box.is_checked()
    answers[True].set()
    visit.shown("#command", "--private-error who=[0-9.]+x --give-up when --out plan$")
    assert box.is_checked()


def test_the_command_serves_it_at_the_address_it_prints(opened: Any) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "veilnet", "studio"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            address = next(
                found.group(0) for line in process.stdout if (found := re.search(r"http://\S+", line))
            )
            with visiting(opened, address) as visit:
                visit.page.click("#house")
                visit.shown("#headline", "as well as before")
                assert visit.heard == []
        finally:
            process.terminate()


def test_nothing_can_be_clicked_before_it_is_known_what_is_open(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was left open comes back as it was: its first page would vanish under the hand."""
    page = visit.page
    page.click("#house")
    visit.shown("#headline", "as well as before")
    asked, answer = threading.Event(), threading.Event()

    def held(bench: Workbench) -> Any:
        asked.set()
        assert answer.wait(PATIENCE / 1000)
        return view(bench)

    monkeypatch.setattr(app, "view", held)
    page.goto(visit.origin)
    assert asked.wait(PATIENCE / 1000)
    assert not page.is_visible("#welcome")
    assert not page.is_visible("#another")
    answer.set()
    visit.shown("#headline", "as well as before")
    assert not page.is_visible("#welcome")
    # and where it was left for the first page on purpose, nothing that was open before takes it away
    page.click("#another")
    visit.look_on()
    assert page.is_visible("#house")


@pytest.mark.parametrize("screen", ["light", "dark", "phone"])
def test_it_is_accessible(visit: Visit, screen: str) -> None:
    page = visit.page
    if screen == "phone":
        page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark" if screen == "dark" else "light")
    assert serious_violations(page, axe()) == []
    page.click("#house")
    visit.shown("#headline", "mean temperature.*as well as before")
    page.evaluate("document.querySelectorAll('#controls details').forEach(each => each.open = true)")
    assert serious_violations(page, axe()) == []
    width, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= room, "the page scrolls sideways"
    # every slider has a name and says in words where it stands
    for place in range(3):
        slider = page.locator(f"#private-{place}")
        assert "prior only" in slider.get_attribute("aria-valuetext")
    page.focus("#private-2")
    page.keyboard.press("PageUp")
    visit.shown("#command", "--private-error gait=")


def test_symbols_are_learned_from_a_table_and_a_plan_is_chosen(opened: Any, tmp_path: Path) -> None:
    """Columns are guessed by name, several are set at once, and every point of the curve is a certified plan."""
    log = symbol_table(240)
    names = {"a": "hall_x", "b": "hall_y", "c": "attic_x", "d": "attic_y"}
    kept = {
        names.get(name, name): log[name] for name in ("activity", "person", "session", "a", "b", "c", "d")
    }
    write_symbol_table(tmp_path / "log.csv", kept)
    with studio_served() as address, visiting(opened, address) as visit:
        page = visit.page
        page.set_input_files("#file", tmp_path / "log.csv")
        page.wait_for_selector("#columns")
        guessed = page.eval_on_selector_all("#roles select", "each => each.map((one) => one.value)")
        assert guessed == ["", "", "", "", "reading", "reading", "reading", "reading"]
        agents = page.eval_on_selector_all("#roles input", "each => each.map((one) => one.value)")
        assert agents[4:] == ["hall", "hall", "attic", "attic"]
        page.click("#learn")
        assert "none is public" in visit.shown("#trouble", "none is")
        page.fill("#match", "person")
        page.select_option("#match-role", "private")
        page.click("#match-set")
        page.fill("#match", "attic_")
        page.select_option("#match-role", "reading")
        page.fill("#match-agent", "loft")
        page.click("#match-set")
        page.select_option("select[aria-label='What is activity?']", "public")
        page.click("#learn")
        visit.shown("#symbols-headline", "The centre learns activity")
        plans = page.locator("#symbols-plans input").count()
        assert plans == page.locator("#symbols-curve circle").count() > 1
        page.check(f"#symbols-plans label:nth-child({plans}) input")
        page.wait_for_function(
            "() => document.querySelector('#symbols-plans label:last-child input').checked"
        )
        with page.expect_download() as taken:
            page.click("#symbols a[href='download/symbols.zip']")
        with zipfile.ZipFile(taken.value.path()) as archive:
            archive.extractall(tmp_path)
        plan = vn.SymbolPlan.load(tmp_path / "plan")
        promise = plan.certificate["person"]
        assert 1 - promise.confidence == pytest.approx(0.05 / plans), "all hold together"
        assert list(plan.agents) == ["hall", "loft"]
        assert f"{plan.score:.3g}" in visit.shown("#symbols-headline", f"{plan.score:.3g}")
        for agent in plan.agents.values():
            for meaning in agent.meanings:
                assert meaning in page.inner_text("#symbols-says")
        assert not serious_violations(page, axe())
        assert not [each for each in visit.heard if "400" not in each]
