"""The report of plans of every kind: a page that needs nothing else, and whose figures are the library's.

Oracles: figures are read back from the page (tables, and the geometry of the pictures) and compared with the bounds
computed here from ``vn.crlb``, ``vn.privacy``, ``vn.check`` and the sanitizers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import veilnet as vn
from helpers.pages import Node, read_page
from helpers.said import says
from helpers.shown_plans import HOSTILE, KINDS, curve_for, hostile_plan, house, plan_of
from veilnet._core.errors import InvalidRequest, NotObservable
from veilnet._core.words import times
from veilnet.bounds.typical_errors import typical_errors
from veilnet.centre.contributions import growth_when_silent
from veilnet.io.template import house as bundled_house
from veilnet.report.agents_section import share_picture, share_table
from veilnet.report.building import traced_frontier
from veilnet.report.doubts_section import doubts_section
from veilnet.report.html import Cell, shown, table
from veilnet.report.words import headline
from veilnet.studio.nearby import Nearby

pytestmark = pytest.mark.small_search

SMALL = 500_000  # bytes


@cache
def text_of(kind: str) -> str:
    return str(plan_of(kind).report().html)


@cache
def page_of(kind: str) -> Node:
    return read_page(text_of(kind))


def figure_in(text: str) -> float:
    """The number in a cell: ``±0.51 people``, ``2.91x``, ``41 % larger``, ``without bound``."""
    if "without bound" in text or text == "∞":
        return np.inf
    if text in ("unchanged", "-∞"):
        return 1.0 if text == "unchanged" else -np.inf
    found = re.search(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", text)
    assert found, text
    value = float(found.group())
    return 1 + value / 100 if "% larger" in text else value


def deviation(rows: np.ndarray, bound: np.ndarray) -> float:
    return float(np.sqrt(np.trace(rows @ bound @ rows.T) / len(rows)))


def expected_errors(plan: vn.Plan) -> dict[str, tuple[float, float, float]]:
    """name -> raw, sent, guessing; by the bounds on all of x where there is one, else by the ratios."""
    network = plan.network
    found = {}
    for name, rows in (*network.public.items(), *network.private.items()):
        private = name in network.private
        when = {"when": "hindsight" if private else "now"} if network.is_stream else {}
        raw = deviation(rows, vn.crlb(network, **when))
        try:
            sent = deviation(rows, vn.crlb(network, plan, **when))
        except NotObservable:
            grown = plan.privacy[name] if private else -plan.utility
            sent = raw * np.sqrt(1 + grown)
        found[name] = raw, sent, _guessing(network, rows)
    return found


def _guessing(network: vn.Network, rows: np.ndarray) -> float:
    """From the prior; of a stream, from the sum of all that was ever new, where it has an end."""
    if network.dynamics is not None:
        step, total, sizes = network.dynamics.transition, np.zeros((network.L, network.L)), []
        for row in range(4000):
            total = network.dynamics.noise + step @ total @ step.T
            if row % 2000 == 1999:
                sizes.append(deviation(rows, total))
        return sizes[1] if sizes[1] < 1.001 * sizes[0] else np.inf
    if network.prior is None:
        return np.inf
    assert network.prior.covariance is not None
    return deviation(rows, network.prior.covariance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_needs_nothing_else(kind: str) -> None:
    text, page = text_of(kind), page_of(kind)
    assert len(text.encode()) < SMALL
    assert "://" not in text
    assert not re.search(r"url\(|@import", text)
    for each in page.everything():
        assert each.tag not in ("link", "img", "iframe", "object", "embed", "form", "base")
        for name, value in each.attributes.items():
            assert name not in ("src", "srcset", "action", "data", "xlink:href"), each.tag
            assert not name.startswith("on"), f"{each.tag} {name}"
            assert name != "href" or value.startswith("#"), value
    targets = {each.attributes["href"][1:] for each in page.all("a")}
    names = {each.attributes["id"] for each in page.everything() if "id" in each.attributes}
    assert targets <= names
    assert len(page.all("script")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_picture_has_a_title_and_a_table(kind: str) -> None:
    page = page_of(kind)
    pictures = page.all("svg")
    assert len(pictures) >= 3
    for each in pictures:
        assert each.attributes["role"] == "img"
        title = each.one("title")
        assert title.attributes["id"] == each.attributes["aria-labelledby"]
        assert len(title.text) > 20
    for figure in page.all("figure"):
        assert figure.one("details").one("table").cells()
    for section in page.all("section"):
        assert page.by_id(section.attributes["aria-labelledby"]).tag == "h2"


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_those_of_the_bounds(kind: str) -> None:
    plan = plan_of(kind)
    expected = expected_errors(plan)
    cells = {row[0]: row for row in page_of(kind).one("table", "errors").cells()}
    assert set(cells) == set(expected)
    for name, figures in expected.items():
        rounding = 0.06 * min(figures)
        for cell, figure in zip(cells[name][2:5], figures, strict=True):
            assert figure_in(cell) == pytest.approx(figure, abs=rounding), (name, cell)
            assert np.isinf(figure) == (cell == "without bound")
            assert np.isinf(figure) or plan.network.unit(name) in cell
        assert figure_in(cells[name][5]) == pytest.approx(figures[1] / figures[0], rel=6e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_bars_are_as_long_as_the_errors(kind: str) -> None:
    """Three stems from one origin for each parameter, in proportion; an arrow where nothing bounds an error."""
    expected = expected_errors(plan_of(kind))
    cards = page_of(kind).by_id("known").all("div", "card")
    assert len(cards) == len(expected)
    for card in cards:
        name = card.one("h3").text.rpartition(" (")[0]
        stems = card.all("line", "stem")
        lengths = [float(each.attributes["x2"]) - float(each.attributes["x1"]) for each in stems]
        figures = expected[name]
        for length, figure in zip(lengths, figures, strict=True):
            if np.isfinite(figure):
                assert length / lengths[0] == pytest.approx(figure / figures[0], rel=0.03)
        assert len(card.all("path", "stem")) == sum(map(np.isinf, figures))


@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_is_that_of_check(kind: str) -> None:
    verdict = vn.check(plan_of(kind).network)
    assert "in the way" not in page_of(kind).by_id("verdict").text
    for row in page_of(kind).by_id("verdict").one("table", "verdict").cells():
        name = row[0]
        assert figure_in(row[1]) == pytest.approx(np.sqrt(1 + verdict.ceiling[name]), rel=6e-3)
        assert figure_in(row[2]) == pytest.approx(np.sqrt(1 + verdict.limit[name]), rel=6e-3)
        assert row[3] == ("no" if name in verdict.blocked else "yes")
        assert row[4] == "–" or row[4].startswith(next(iter(verdict.blocking[name])))


@pytest.mark.parametrize("kind", KINDS)
def test_agents_and_certificate_are_those_of_the_plan(kind: str) -> None:
    plan, page = plan_of(kind), page_of(kind)
    rows = page.one("table", "agents").cells()
    assert [row[0] for row in rows] == list(plan.sanitizers)
    for row, (agent, sanitizer) in zip(rows, plan.sanitizers.items(), strict=True):
        sent, noisy = sanitizer.normal
        withheld = plan.kept[agent] if plan.network.is_stream else sanitizer.readings - len(sent)
        expected = [sanitizer.readings, int(np.sum(~noisy)), int(np.sum(noisy)), withheld]
        assert [int(cell) for cell in row[1:5]] == expected
    certificate = page.one("table", "certificate").cells()
    assert len(certificate) == len(plan.certificate.findings)
    for row, finding in zip(certificate, plan.certificate.findings, strict=True):
        assert row[3] == "yes"
        assert figure_in(row[1]) == pytest.approx(finding.promised, rel=6e-3, abs=1e-9)
        assert figure_in(row[2]) == pytest.approx(finding.found, rel=6e-3, abs=1e-9)
    promises = page.by_id("certificate").one("table", "promises").cells()
    assert not page.by_id("certificate").one("details").all("table", "promises"), "in words, and not folded"
    for row, finding in zip(promises, plan.certificate.findings, strict=True):
        if finding.what.startswith("privacy of "):
            assert row[0] == f"standard error of {finding.what.removeprefix('privacy of ')} grows"
            assert row[1] == row[2] == times(1 + finding.promised)
    symbols = {row[0]: row[2] for row in page.one("table", "symbols").cells()}
    for name, value in plan.privacy.items():
        key = next(each for each in symbols if each.startswith(f"p({name})"))
        assert figure_in(symbols[key]) == pytest.approx(value, rel=6e-3)


def test_squares_are_as_large_as_their_part_of_a_number() -> None:
    """In the kitchen's card: area in proportion to coefficient times deviation, filled or hollow by its sign."""
    plan = plan_of("trade-off")
    (card,) = [
        each
        for each in page_of("trade-off").by_id("agents").all("div", "card")
        if each.one("h4").text == "kitchen"
    ]
    squares = card.one("svg").all("rect")
    network = plan.network
    assert network.prior is not None
    assert network.prior.covariance is not None
    observe = network.observe["kitchen"]
    spread = np.sqrt(0.25 + np.diag(observe @ network.prior.covariance @ observe.T))
    moved = plan.sanitizers["kitchen"].compression * spread
    expected = (np.abs(moved) / np.max(np.abs(moved), axis=1, keepdims=True)).T.ravel()
    kinds = [each.attributes["class"] for each in squares]
    assert kinds == ["plus" if value > 0 else "minus" for value in moved.T.ravel()]
    sides = [
        float(each.attributes["width"]) + (0 if kind == "plus" else 2)
        for each, kind in zip(squares, kinds, strict=True)
    ]
    assert (np.array(sides) / max(sides)) ** 2 == pytest.approx(expected, rel=0.02)
    words = [each.text for each in card.all("text")]
    assert {"no. 1", "exact", "no. 2", "noisy", "T1", "CO2", "plug"} <= set(words)


def test_parts_of_knowledge_add_up() -> None:
    for kind in ("perfect", "correlated", "trade-off"):
        for card in page_of(kind).by_id("agents").all("div", "card"):
            if card.all("h4") and card.one("h4").text.endswith(("(public)", "(private)")):
                parts = [figure_in(row[1]) for row in card.one("table").cells()]
                assert sum(parts) == pytest.approx(100, abs=1.5)


def test_guessing_without_a_prior_is_without_bound_and_says_so() -> None:
    page = page_of("no prior")
    assert "can no longer estimate gait" in page.one("h1").text
    assert all(row[4] == "without bound" for row in page.one("table", "errors").cells())
    assert page_of("hidden").by_id("verdict").all("td")


def in_part() -> vn.Plan:
    """The mean over g = (x1, x2) grows without bound, and x1, which is public, is sent as sharply as it was read."""
    return vn.design(
        vn.Network(
            {"a": np.eye(2), "b": [[1.0, 0.0]]}, 1.0, {"u": [1.0, 0.0]}, {"g": np.eye(2)}, resolution=0.0
        )
    )


def test_a_mean_without_bound_does_not_say_that_nothing_is_told() -> None:
    plan = in_part()
    assert np.isinf(plan.privacy["g"])
    assert plan.worst_direction["g"] == pytest.approx(0.0, abs=1e-9)
    assert "the least protected combination of its 2 numbers grows not at all" in str(plan)
    page = read_page(plan.report().html)
    assert "a part of g" in page.one("h1").text
    [alarm] = page.by_id("known").all("p", "alarm")
    assert "NOT protected" in alarm.text
    whole = vn.design(plan.network.replace(private={"g": [0.0, 1.0]}))
    assert "cannot be estimated" in str(whole)
    assert "cannot be estimated from the messages alone" in read_page(whole.report().html).by_id("known").text


def test_what_a_note_hides_is_marked() -> None:
    plan = SimpleNamespace(
        network=plan_of("perfect").network, notes=lambda: ["Doubtful: \x1b[2J\u202eabc" + "d" * 90]
    )
    item = read_page(str(doubts_section(plan))).one("li").text  # type: ignore[arg-type]
    assert item == "Doubtful: \ufffd[2J\ufffdabc" + "d" * 90


def test_doubts_are_counted_above_and_told_below() -> None:
    doubt = vn.Doubt("few-values", "<lamp> takes only a few values.")
    page = read_page(vn.design(house(doubts=(doubt,))).report().html)
    assert "1 doubt about the model" in page.one("ul", "facts").text
    says(page.by_id("doubts").text, "<lamp>")
    accepted = vn.design(house(doubts=(doubt,)).accepting(["few-values"])).report().html
    assert "doubt about the model" not in accepted


def test_a_silent_agent_is_named_and_has_no_picture() -> None:
    section = page_of("silent").by_id("agents")
    says(section.text, "hall", "nothing")
    assert "hall" not in [each.text for each in section.all("h4")]


def test_streams_are_simulated_and_say_so() -> None:
    plan = plan_of("stream")
    section = page_of("stream").by_id("stream")
    assert "Simulated, not measured" in section.text
    assert text_of("stream") == plan.report().html
    (track,) = [each for each in section.all("svg") if "Simulated rows of g:" in each.one("title").text]
    for kind in ("truth", "from-raw", "from-sent"):
        points = track.one("path", kind).attributes["d"].count("L") + 1
        assert points == 96
    title = track.one("title").text
    measured = [float(each) for each in re.findall(r"([\d.]+) from", title)]
    expected = expected_errors(plan)["g"][:2]
    # 96 rows that tell of each other: a factor of 1.6 either way is never left by chance.
    assert all(1 / 1.6 < found / promised < 1.6 for found, promised in zip(measured, expected, strict=True))


def test_agents_of_a_stream_sort_by_what_their_silence_does() -> None:
    """The words of a cell begin with numbers of several kinds, so each has a number of its own to sort by."""
    plan = plan_of("stream")
    public, hidden = growth_when_silent(plan.network, plan.sanitizers, list(plan.sanitizers))
    made = page_of("stream").by_id("agents").one("table", "sortable")
    agents = [row[0] for row in made.cells()]
    cells = [each for each in made.all("td") if "data-value" in each.attributes]
    values = iter(float(each.attributes["data-value"]) for each in cells)
    names = [*public, *hidden]
    assert len(cells) == len(agents) * len(names)
    for agent in agents:
        for name in names:
            expected = (public | hidden)[name].get(agent, 1.0)
            assert next(values) == pytest.approx(expected, rel=1e-5)
    endless = table("", ["", "a"], [["x", Cell("without bound", np.inf)]])
    assert 'data-value="Infinity"' in endless


def test_the_frontier_is_drawn_where_it_is() -> None:
    plan = plan_of("trade-off")
    section = read_page(plan.report(frontier=curve_for(plan)).html).by_id("frontier")
    picture = section.one("svg")
    across = {
        each.text: float(each.attributes["x"])
        for each in picture.all("text", "small")
        if each.text[0] in "×a"
    }
    x1, x2 = across["as raw"], across["×2"]

    def private(x: float) -> float:
        return 1 + (x - x1) / (x2 - x1)

    numbers = re.findall(r"([\d.]+) ([\d.]+)", picture.one("path", "curve").attributes["d"])
    expected = [np.sqrt(1 + asked) for asked in (0.0, 1.0, 3.0, 5.0)]
    assert [private(float(x)) for x, _ in numbers] == pytest.approx(expected, rel=0.01)
    heights = [float(y) for _, y in numbers]
    losses = [np.sqrt(1 + loss) - 1 for loss in (0.0, 0.0, 0.2, 1.25)]
    bottom = heights[0]
    assert [(bottom - y) / (bottom - heights[-1]) for y in heights] == pytest.approx(
        [each / losses[-1] for each in losses], abs=0.01
    )
    left = float(picture.one("polygon", "sent").attributes["points"].split(",")[0])
    assert private(left + 8) == pytest.approx(np.sqrt(1 + min(plan.privacy.values())), rel=0.01)
    rows = section.one("table").cells()
    assert len(rows) == 6
    assert [row[2] for row in rows[-2:]] == ["this plan", "free plan"]


def test_an_interrupted_frontier_and_one_without_limit_say_so() -> None:
    plan = plan_of("trade-off")
    stopped = replace(curve_for(plan), interrupted=True)
    assert "stopped for time: 4 points" in plan.report(frontier=stopped).html
    endless = replace(curve_for(plan), limit=np.inf)
    assert "without bound; the curve is cut off" in plan.report(frontier=endless).html


def test_privacy_without_bound_has_no_curve() -> None:
    plan = plan_of("no prior")
    curve = traced_frontier(plan)
    section = read_page(plan.report(frontier=curve).html).by_id("frontier")
    assert "free here without bound" in section.text
    assert section.all("svg") == []


def test_privacy_that_is_all_free_says_so() -> None:
    network = house(observe={"kitchen": np.eye(3)}, reading_names=None)
    plan = vn.design(network)
    curve = traced_frontier(plan)
    assert all(point.utility == pytest.approx(0, abs=1e-9) for point in curve.rows)
    says(plan.report(frontier=curve).html, "privacy", "is free here")


def test_a_private_parameter_that_is_not_protected_is_an_alarm() -> None:
    public = {"temperature": [1, 0, 0], "sun": [0, 1, 0]}
    network = house(public=public, private={"gait": [1, 1, 0]})
    page = read_page(vn.design(network).report().html)
    assert "NOT protected" in page.by_id("known").one("p", "alarm").text


@pytest.mark.parametrize(("argument", "value"), [("audit", 3), ("audit", {}), ("frontier", [1.0])])
def test_what_is_neither_audit_nor_frontier_is_refused(argument: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"^{argument}: expected"):
        plan_of("perfect").report(**{argument: value})


def test_hostile_names_are_shown_harmlessly() -> None:
    agent, public, private, _ = HOSTILE
    row = {"section": agent, "what": "y" * 10_000, "verdict": public, "why": private * 500}
    report = hostile_plan().report(audit={"rows": [row]})
    page = read_page(report.html)
    assert not {each.tag for each in page.everything()} & {"img", "b", "iframe"}
    assert len(page.all("script")) == 1
    assert len(report.html.encode()) < SMALL
    assert "y" * 100 not in report.html
    assert page.one("h1").text.startswith(f"The centre learns {public}")
    shown_names = [row[0] for row in page.one("table", "errors").cells()]
    assert shown_names == [shown(each) for each in (public, private, agent)]


def test_500_agents_fit_on_a_page() -> None:
    """Few pictures, one table of all, and everything in less than 500 KB."""
    rng = np.random.default_rng(0)
    network = vn.Network(
        observe={f"meter {k:03d} of the long street": rng.standard_normal((3, 8)) for k in range(500)}, noise=1.0,
        public=rng.standard_normal((2, 8)), private={f"g{j}": rng.standard_normal((1, 8)) for j in range(9)},
        prior=vn.Prior(covariance=np.eye(8)),
    )  # fmt: skip
    plan = vn.design(network)
    text = plan.report().html
    assert len(text.encode()) < SMALL
    section = read_page(text).by_id("agents")
    assert len(section.one("table", "agents").cells()) == 500
    assert len(section.all("svg")) <= 40
    assert "484 agents" in section.text


def test_many_readings_and_many_parameters_are_folded() -> None:
    rng = np.random.default_rng(1)
    network = vn.Network(
        observe={"one": rng.standard_normal((300, 60)), "two": rng.standard_normal((40, 60))}, noise=1.0,
        public={f"u{k}": rng.standard_normal((1, 60)) for k in range(20)},
        private={f"g{k}": rng.standard_normal((1, 60)) for k in range(80)}, prior=vn.Prior(covariance=np.eye(60)),
    )  # fmt: skip
    text = vn.design(network).report().html
    assert len(text.encode()) < SMALL
    page = read_page(text)
    assert "288 more are left out" in page.by_id("agents").text
    assert "88 more parameters" in page.by_id("known").text
    assert len(page.one("table", "errors").cells()) == 100


def test_the_headline_names_what_each_public_parameter_loses() -> None:
    """Added up over °C and kW the public error grows by 2.5 %; that on the temperature by 9 %."""
    plan = Nearby(vn.check(bundled_house())).within(0.05)
    errors = typical_errors(plan.network, plan.sanitizers)
    losses = [errors[name].sent / errors[name].raw - 1 for name in ("mean temperature", "heat loss")]
    said = headline(plan, list(errors.values()))
    first, second = (f"{100 * loss:.2g} %" for loss in losses)
    assert f"(its error on mean temperature grows by {first} and on heat loss by {second})" in said


@pytest.mark.parametrize(("of_silence", "said"), [(False, "200 %"), (True, "2x")])
def test_parts_of_knowledge_and_growths_in_silence_are_written_otherwise(of_silence: bool, said: str) -> None:
    for drawn in (share_picture, share_table):
        shown = drawn("gait", {"hall": 2.0}, of_silence=of_silence)
        assert said in shown
        assert ("silent" in shown) == of_silence
