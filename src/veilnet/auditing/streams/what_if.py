"""What could happen to a stream plan: agents that collude, agents that fall silent, rows that repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from veilnet._core.words import times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.in_units import in_units
from veilnet.auditing.report import LEFT_OUT, Row
from veilnet.auditing.streams.steady import Measured, filtered
from veilnet.auditing.what_if import collusion, dropout, repetition
from veilnet.auditing.what_if.collusion import Betrayal
from veilnet.auditing.what_if.subsets import MOST_SETS_STREAM, MOST_SINGLE, DirectErrors, worst_set
from veilnet.model.network import Network


def collusion_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    colluding: int,
    least_privacy: Mapping[str, float],
    advance: Callable[[float], None],
) -> list[Row]:
    """Privacy with hindsight when agents hand the centre all their raw readings, or all their noise."""
    measured = Measured(network)
    promised = measured.privacies(filtered(network, sanitizers))
    noisy = any(np.any(s.noise) or s.dithers for s in sanitizers.values())
    kinds: tuple[Betrayal, ...] = ("readings", "noise") if noisy else ("readings",)
    sizes = range(1, min(colluding, network.S) + 1)
    rows, done = [], 0
    units, bare = in_units(network), _Left(measured, {}, "readings")
    for betrays in kinds:
        left = _Left(measured, sanitizers, betrays)
        for size in sizes:
            for name in network.private:
                errors = DirectErrors(partial(left.privacy, name), network.S)
                worst = worst_set(errors, network.S, size, MOST_SETS_STREAM)
                figures: dict[str, object] = {"exact": worst.exact}
                if size == 1 and network.S <= MOST_SINGLE:
                    figures["single agents"] = {
                        agent: left.of((place,))[name] for place, agent in enumerate(network.agents)
                    }
                colluders = tuple(network.agents[k] for k in worst.agents)
                growths = collusion.Growths(
                    promised[name], left.of(worst.agents)[name], bare.of(worst.agents)[name]
                )
                row = collusion.collusion_row(
                    units[name], colluders, betrays, growths, least_privacy.get(name), figures
                )
                rows.append(row)
            done += 1
            advance(done / (len(kinds) * len(sizes)))
    return rows


class _Left:
    """p_j of every private parameter with hindsight when some agents collude; each set is evaluated once."""

    def __init__(self, measured: Measured, sanitizers: Mapping[str, Sanitizer], betrays: Betrayal) -> None:
        self.measured, self.sanitizers, self.betrays = measured, sanitizers, betrays
        self._known: dict[tuple[int, ...], dict[str, float]] = {}

    def privacy(self, name: str, places: tuple[int, ...]) -> float:
        """Of one parameter."""
        return self.of(places)[name]

    def of(self, places: tuple[int, ...]) -> dict[str, float]:
        """For these agents, by their places."""
        if places not in self._known:
            network = self.measured.network
            who = tuple(network.agents[k] for k in places)
            seen = collusion.with_colluders(network, self.sanitizers, who, self.betrays)
            told = filtered(collusion.without_dither(network, who), seen)
            self._known[places] = self.measured.privacies(told)
        return self._known[places]


def dropout_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    silent_at_most: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """What the public estimate loses, now, when agents are silent for good."""
    measured = Measured(network)
    rows = []
    sizes = range(1, min(silent_at_most, network.S) + 1)
    for size in sizes:
        errors = DirectErrors(lambda places: _loss_without(measured, sanitizers, places), network.S)
        found = worst_set(errors, network.S, size, MOST_SETS_STREAM, largest=True)
        silent = tuple(network.agents[k] for k in found.agents)
        loss = _loss_without(measured, sanitizers, found.agents)
        raw = _loss_without(measured, {}, found.agents)
        figures: dict[str, object] = {
            "exact": found.exact,
            "who": list(silent),
            "all sending": _loss_without(measured, sanitizers, ()),
        }
        rows.append(dropout.dropout_row(silent, loss, raw, figures, lasting=" for good"))
        advance(size / len(sizes))
    return rows


def _loss_without(measured: Measured, sanitizers: Mapping[str, Sanitizer], places: tuple[int, ...]) -> float:
    network = measured.network
    quiet = {network.agents[k]: Sanitizer.silent(int(network.blocks.sizes[k])) for k in places}
    return measured.loss(filtered(network, {**sanitizers, **quiet}))


def repetition_rows(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Row]:
    """Every row of a stream is one more release, and privacy with hindsight counts them all: it is told once more."""
    measured = Measured(network)
    known = filtered(network, sanitizers)
    rows = []
    for name, matrix in network.private.items():
        late, now = (measured.growth(known, matrix, when) for when in ("hindsight", "now"))
        sentence = (
            f"{name}: every row is one more release, and all of them are counted: the variance of the error with "
            f"hindsight grows {times(1 + late)}, from messages up to now {times(1 + now)}, against raw streams "
            "by the same rule."
        )
        shown = {
            "error variance grows: with hindsight (promised)": times(1 + late),
            "from messages up to now": times(1 + now),
        }
        what = f"{name}, all rows released"
        figures = {"with hindsight": late, "now": now}
        rows.append(Row(repetition.SECTION, what, late, late, "info", sentence, figures=figures, shown=shown))
    return rows


def not_on_streams(section: str, why: str) -> list[Row]:
    """A section that has no meaning, or no proof, for streams."""
    sentence = f"{section}: left out for streams: {why}."
    return [Row(section, "on streams", None, LEFT_OUT, "info", sentence, shown={"outcome": LEFT_OUT})]
