"""The report of a plan whose audit found it broken shows what was measured, first of all."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pages import read_page
from helpers.shown_plans import plan_of
from veilnet.auditing.report import AuditReport, Row
from veilnet.report.audit_picture import attacks_on

pytestmark = pytest.mark.small_search


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
