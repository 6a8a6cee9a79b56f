"""Attackers on simulated rows, where the law of the errors is known: what they learn, and the report's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.error_rows import InUnits, slices_of
from veilnet.auditing.attack.learners import Learner, guesses_of
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.report import Row
from veilnet.auditing.statistics import SquareSum
from veilnet.bounds.typical_errors import unit_of
from veilnet.calibration.dependence import ratio_of
from veilnet.model.network import Network

SECTION = "learned attackers, simulated rows"


@dataclass(frozen=True, eq=False)
class Seen:
    """What attackers learn from and are judged on, a row each.

    messages, readings: features, as sent and raw.
    truth:              all private parameters side by side.
    learned:            so many rows come first, to learn from.
    """

    messages: Array
    readings: Array
    truth: Array
    learned: int


@dataclass(frozen=True, eq=False)
class Limit:
    """What no attacker's error falls below.

    law:     of the mean square error of the best one.
    raw:     the mean square error that raw readings leave by the model.
    figures: more, for machines.
    """

    law: SquareSum
    raw: float
    figures: Mapping[str, float | str]


@dataclass(frozen=True, eq=False)
class _Attack:
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


def simulated_rows(
    network: Network,
    seen: Seen,
    attackers: Mapping[str, Learner],
    limit_of: Callable[[str], Limit],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker against every private parameter, whose limit is given by name."""
    guesses: dict[str, tuple[Array, Array]] = {}
    for done, (label, attacker) in enumerate(attackers.items()):
        from_messages = guesses_of(attacker, seen.messages, seen.truth, seen.learned)
        advance((done + 0.5) / len(attackers))
        guesses[label] = from_messages, guesses_of(attacker, seen.readings, seen.truth, seen.learned)
        advance((done + 1) / len(attackers))
    each = chance / max(1, len(guesses) * len(network.private))
    goal, mean = seen.truth[seen.learned :], np.mean(seen.truth[: seen.learned], axis=0)
    rows = []
    for name, part in slices_of(network.private).items():
        units, limit = InUnits(unit_of(network, name), len(network.private[name])), limit_of(name)
        for label, (sent, raw) in guesses.items():
            squares = [np.sum((guess[..., part] - goal[:, part]) ** 2, axis=1) for guess in (sent, raw, mean)]
            attack = _Attack(label, name, squares[0], squares[1], squares[2], units)
            rows.append(_row(attack, limit, each))
    return rows


def _row(attack: _Attack, limit: Limit, chance: float) -> Row:
    """The row of an attack: no attacker falls below the limit but for the given chance."""
    law = limit.law
    guessing, found, raw = (
        float(np.mean(each)) for each in (attack.by_guessing, attack.squares, attack.raw_squares)
    )
    bound, units = law.mean, attack.units
    noticed = max(0.0, law.lowest(chance) + law.lowest(0.2) - bound)  # four in five fall so low
    evidence = Evidence(
        sent=1.0 - found / guessing,
        raw=1.0 - raw / guessing,
        promised=1.0 - bound / guessing,
        raw_allowed=1.0 - limit.raw / guessing,
        reach=(bound - noticed) / guessing,
        beaten=0.0 if found < law.lowest(chance) else 1.0,
        raw_beats=ratio_of(attack.raw_squares, np.full(len(attack.squares), bound)).chance_below(1.0),
        raw_knows=ratio_of(attack.raw_squares, attack.by_guessing).chance_below(1.0),
    )
    verdict, why = verdict_on(evidence, chance, found_at=f"an error of {units(noticed)} or less")
    figures = {**limit.figures, "parameter": attack.name, "from raw readings": raw, "guessing": guessing}
    figures |= {"tested rows": float(len(attack.squares)), "bound": bound, "raw bound": limit.raw}
    figures |= {"error that would have been found": noticed, "why": why}
    lead = f"{attack.label} on {attack.name}, on simulated rows"
    errors = units.said(guessing, raw, bound, found)
    sentence = f"{lead}: {errors}. {why}"
    if verdict == "fail":
        sentence = f"{lead}, learns more from the messages than the bound allows: {errors}."
    shown = units.shown(guessing, raw, bound, found)
    what = f"{attack.label} on {attack.name}, simulated"
    return Row(SECTION, what, bound, found, verdict, sentence, law.interval(found), figures, shown)
