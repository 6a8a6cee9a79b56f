"""Rows of a report about attackers on simulated rows, where the law of the errors is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.dependence import ratio_of
from veilnet.auditing.attack.error_rows import InUnits
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.report import Row
from veilnet.auditing.statistics import SquareSum

SECTION = "learned attackers, simulated rows"


@dataclass(frozen=True, eq=False)
class Attack:
    """What one attacker did on rows it had not seen.

    label, name:            the attacker and the private parameter.
    squares:                squared errors from messages, a row each.
    raw_squares:            the same from raw readings.
    by_guessing:            the same for somebody who knows the mean.
    units:                  how errors are said.
    """

    label: str
    name: str
    squares: Array
    raw_squares: Array
    by_guessing: Array
    units: InUnits


def simulated_row(
    attack: Attack, law: SquareSum, raw_bound: float, chance: float, figures: dict[str, float | str]
) -> Row:
    """The row of an attack: no attacker falls below ``law`` but for the given chance.

    raw_bound: the mean square error that raw readings leave by the model.
    """
    guessing, found, raw = (
        float(np.mean(each)) for each in (attack.by_guessing, attack.squares, attack.raw_squares)
    )
    bound, units = law.mean, attack.units
    noticed = max(0.0, law.lowest(chance) + law.lowest(0.2) - bound)  # four in five fall so low
    evidence = Evidence(
        sent=1.0 - found / guessing,
        raw=1.0 - raw / guessing,
        promised=1.0 - bound / guessing,
        raw_allowed=1.0 - raw_bound / guessing,
        reach=(bound - noticed) / guessing,
        beaten=0.0 if found < law.lowest(chance) else 1.0,
        raw_beats=ratio_of(attack.raw_squares, np.full(len(attack.squares), bound)).chance_below(1.0),
        raw_knows=ratio_of(attack.raw_squares, attack.by_guessing).chance_below(1.0),
    )
    verdict, why = verdict_on(evidence, chance, found_at=f"an error of {units(noticed)} or less")
    figures = figures | {"parameter": attack.name, "from raw readings": raw, "guessing": guessing}
    figures |= {"tested rows": float(len(attack.squares)), "bound": bound, "raw bound": raw_bound}
    figures |= {"error that would have been found": noticed, "why": why}
    lead = f"{attack.label} on {attack.name}, on simulated rows"
    errors = units.said(guessing, raw, bound, found)
    sentence = f"{lead}: {errors}. {why}"
    if verdict == "fail":
        sentence = f"{lead}, learns more from the messages than the bound allows: {errors}."
    shown = units.shown(guessing, raw, bound, found)
    what = f"{attack.label} on {attack.name}, simulated"
    return Row(SECTION, what, bound, found, verdict, sentence, law.interval(found), figures, shown)
