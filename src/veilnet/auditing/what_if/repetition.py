"""Repeated releases: what T releases of the same x reveal, and how many until too little privacy remains.

Three ways to release again, each the same as one release in a changed network:

    fresh        new readings and new noise each time: the information is J0 + T F'F;
    same reading one reading, new noise and dither each time: the centre averages them, Θ and the dither's
                 variance are divided by T, and C y is known in the end, as if neither had been added (of
                 readings on a lattice it then names the readings);
    one-time     new readings, noise drawn once and kept: R becomes R/T, while Θ stays. (Noise kept for x that
                 changes is no protection of the changes: their differences are sent without any.)

Sending the same message again (a retry) reveals nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from veilnet._core.linalg import triangle
from veilnet._core.types import Array
from veilnet._core.words import times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.measures import Compared, growth, in_units, kept
from veilnet.auditing.row import Row
from veilnet.auditing.sections import Section
from veilnet.auditing.what_if.variants import changed
from veilnet.auditing.worlds import world_of
from veilnet.bounds.knowledge import Knowledge, knowledge_of_factor, message_factor
from veilnet.model.network import Network
from veilnet.model.readings import dither_variance

SECTION = Section.REPETITION.heading
Again = Literal["fresh", "same reading", "one-time"]
_MANY = 2**40  # so many releases are "never"

_IN_WORDS = {
    "fresh": "new readings, new noise",
    "same reading": "one reading, new noise",
    "one-time": "new readings, noise drawn once",
}


def repeated(
    network: Network, sanitizers: Mapping[str, Sanitizer], releases: float, again: Again = "fresh"
) -> Knowledge:
    """What so many releases of the same x tell."""
    if again == "fresh":
        factor = np.sqrt(releases) * message_factor(network, sanitizers)
    elif again == "same reading":
        averaged = {agent: s.replace(noise=s.noise / releases, grid=None) for agent, s in sanitizers.items()}
        left = network.undithered_noise.plus(dither_variance(network.steps, network.draws) / releases)
        factor = message_factor(changed(network, noise=left), averaged)
    else:
        factor = message_factor(changed(network, noise=_divided(network, releases)), sanitizers)
    return knowledge_of_factor(network, factor)


def _divided(network: Network, releases: float) -> dict[str, Array] | Array:
    if network.R.independent:
        return {agent: network.R.block(k) / releases for k, agent in enumerate(network.agents)}
    return np.asarray(network.R.matrix() / releases)


def releases_until(
    network: Network, sanitizers: Mapping[str, Sanitizer], name: str, least: float, again: Again = "fresh"
) -> float:
    """The first number of releases after which p_j of a private parameter is below ``least``; inf: never."""
    rows = network.private[name]
    if again == "fresh":
        once = triangle(message_factor(network, sanitizers))

        def left(count: int) -> float:
            return growth(knowledge_of_factor(network, np.sqrt(count) * once), rows)
    else:

        def left(count: int) -> float:
            return growth(repeated(network, sanitizers, count, again), rows)

    return first_below(left, least)


def first_below(value: Callable[[int], float], level: float) -> float:
    """The first whole number at which a falling function is below a level; inf beyond 2^40."""
    if value(1) < level:
        return 1.0
    high = 2
    while value(high) >= level:
        high *= 2
        if high > _MANY:
            return np.inf
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle) >= level else (low, middle)
    return float(high)


def repetition_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    releases: Sequence[int],
    least_privacy: Mapping[str, float],
) -> list[Row]:
    """For each private parameter: privacy after some releases, and how many until too little privacy remains.

    Of a stream every row is one more release, and privacy with hindsight counts them all: it is said once more.
    """
    if network.is_stream:
        return _counted_already(network, sanitizers)
    noisy = any(np.any(s.noise) or s.dithers for s in sanitizers.values())
    ways: tuple[Again, ...] = get_args(Again) if noisy else ("fresh",)
    units = in_units(network)
    rows, crossings = [], []
    for name, matrix in network.private.items():
        promised = growth(repeated(network, sanitizers, 1), matrix)
        for count in releases:
            after: dict[str, float] = {
                again: growth(repeated(network, sanitizers, count, again), matrix) for again in ways
            }
            raw = growth(repeated(network, {}, count), matrix)
            least = least_privacy.get(name)
            why = "" if least is None else f"{units[name].cells({'': least})['']} has to remain."
            growths = {
                "raw, as often": raw,
                "sent once (promised)": promised,
                "sent so often": after["fresh"],
            }
            verdict, figures = kept(after["fresh"], least), {**after, "as many raw releases": raw}
            what = f"{name}, {count} releases"
            rows.append(units[name].row(SECTION, what, growths, verdict, why, figures=figures))
        least = least_privacy.get(name, promised / 2 if np.isfinite(promised) else 1.0)
        crossed: dict[str, float] = {
            again: releases_until(network, sanitizers, name, least, again) for again in ways
        }
        crossings.append(_crossing(name, units[name], least, crossed))
    return rows + crossings


def _counted_already(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Row]:
    known = world_of(network).known(sanitizers)
    rows = []
    for name, matrix in network.private.items():
        late, now = known(matrix, "hindsight"), known(matrix, "now")
        shown = {
            "standard error grows: with hindsight (promised)": times(1 + late),
            "from messages up to now": times(1 + now),
        }
        figures = {"with hindsight": late, "now": now}
        what = f"{name}, all rows released"
        rows.append(Row(SECTION, what, late, late, "info", figures=figures, shown=shown))
    return rows


def _crossing(name: str, error: Compared, least: float, crossed: Mapping[str, float]) -> Row:
    """How many releases it takes until the error falls below a floor, for each way to release again."""
    floor = error.cells({"": least})[""]
    when = {
        _IN_WORDS[again]: "never" if np.isinf(count) else f"at release {count:.0f}"
        for again, count in crossed.items()
    }
    figures = {"least privacy": least, "floor": error.error(least), "unit": error.unit, **crossed}
    what = f"{name}, error falls below {floor}"
    return Row(SECTION, what, None, crossed["fresh"], "info", figures=figures, shown=when)
