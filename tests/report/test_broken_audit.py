"""The report of a plan whose audit found it broken shows what was measured, first of all."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.pages import read_page
from helpers.shown_plans import plan_of
from veilnet.auditing.report import AuditReport, Row
from veilnet.io._json import plain
from veilnet.report.audit_picture import attacks_on

pytestmark = pytest.mark.small_search

PRIOR = vn.Prior(covariance=np.eye(2))


def attack(label: str, name: str, promised: float, found: float, verdict: str) -> Row:
    """A finding as :func:`veilnet.auditing.attack.error_rows.error_row` makes it, guessing 4 and raw readings 1."""
    figures = {"parameter": name, "guessing": 4.0, "from raw readings": 1.0}
    shown = {
        "guessing": "±2",
        "raw": "±1",
        "promised": f"±{np.sqrt(promised):.3g}",
        "sent": f"±{np.sqrt(found):.3g}",
    }
    return Row(
        "attackers on your data",
        f"{label} on {name}",
        promised,
        found,
        verdict,
        "",
        None,
        figures,
        shown,  # type: ignore[arg-type]
    )


HOLDS = attack("ridge", "gait", 3.24, 3.3, "ok")
SLIGHTLY = attack("ridge with memory", "gait", 3.24, 2.9, "fail")
WORST = attack("boosting with memory", "gait", 3.24, 1.96, "fail")


def test_headline_and_card_say_what_was_measured() -> None:
    plan = plan_of("trade-off")
    sound = read_page(plan.report(audit=AuditReport((HOLDS,), 1e-6)).html)
    assert "BROKEN" not in sound.one("h1").text
    page = read_page(plan.report(audit=AuditReport((HOLDS, SLIGHTLY, WORST), 1e-6)).html)
    headline = page.one("h1").text
    for fact in ("BROKEN", "boosting with memory", "±1.4", "±1.8", "promised"):
        assert fact in headline
    assert sound.one("h1").text in page.one("p", "lead").text  # what was promised is not lost
    alarms = [each.text for each in page.by_id("known").all("p", "alarm")]
    assert any("boosting with memory on gait" in each and "±1.4" in each for each in alarms)
    pictures = [each.text for each in page.by_id("known").all("title")]
    assert any("1.4" in each and "found" in each and "promised" in each for each in pictures)


def test_attackers_stand_on_one_scale_the_best_first() -> None:
    other = Row("promise", "gait", 2.0, 1.9, "ok")
    found = attacks_on((other, HOLDS, SLIGHTLY, WORST))
    assert found == {"gait": [WORST, SLIGHTLY, HOLDS]}
    page = read_page(plan_of("perfect").report(audit=AuditReport((HOLDS, WORST), 1e-6)).html)
    title = next(each.text for each in page.by_id("audit").all("title"))
    for fact in ("gait", "70 %", "90 %"):  # the roots of 1.96 / 4 and 3.24 / 4
        assert fact in title


def test_public_estimates_are_drawn_beside_the_truth_of_the_users_rows() -> None:
    """From an audit, and from its file, where a row without an estimate is a text."""
    plan = vn.design(
        vn.Network({"a": np.eye(2)}, 0.2, {"u": [1, 0]}, {"g": [0, 1]}, PRIOR, units={"u": "°C"})
    )
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 2))
    log = {"a": x + np.sqrt(0.2) * rng.standard_normal(x.shape), "x": x}
    audit = vn.audit(plan, log, only=["attackers"], trials=vn.Trials(attackers=("ridge",)))
    row = next(each for each in audit.rows if each.figures.get("estimated") == "u")
    off = np.array(row.figures["estimate"]) - row.figures["truth"]
    assert np.array_equal(row.figures["truth"], x[:, 0])
    assert np.mean(off**2) == pytest.approx(row.found)
    file = plain(audit.to_dict())
    next(each for each in file["rows"] if "estimate" in each["figures"])["figures"]["estimate"][3] = "nan"
    for given in (audit, file):
        titles = [each.text for each in read_page(plan.report(audit=given).html).by_id("audit").all("title")]
        [title] = [each for each in titles if each.startswith("u in your rows")]
        assert "°C" in title
    off = np.delete(off, 3)
    assert f"±{np.sqrt(np.mean(off**2)):.2g}" in title
