"""How far off the centre typically is, in the user's units: from raw readings, from what is sent, and by guessing.

The typical error on a parameter A x with r rows is sqrt(tr(A P̃ A') / r): the root mean square over its rows of what
the best estimator leaves. Guessing is what is known without any message. On a stream a public parameter is judged now
and a private one with hindsight, as its promise is. Without dynamics all this is of one row; many rows of an x that
stays constant tell more: T rows have the information J0 + T F'F where one has J0 + F'F.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import NotObservable
from veilnet._core.types import Array
from veilnet._core.words import alike, in_columns, join_names, plus_minus, side_by_side, times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import (
    Knowledge,
    Outlook,
    crlb,
    knowledge_of_factor,
    message_factor,
    outlook,
    silence,
)
from veilnet.model.network import Network

_HEADINGS = ("standard error (1σ)", "raw", "sent", "prior only", "grows")
STREAM_COLUMNS = ("now", "gaps")
"""Further columns for the private parameters of a stream, which :data:`OF_STREAMS` explains."""
OF_STREAMS = (
    "Private errors are stated with hindsight (smoothed, from all messages). 'Now' is before later rows arrive, "
    "'gaps' the least around a missed row and at a start."
)
_NEGLIGIBLE = 0.33  # of the model's error: less makes it 5 % larger, which is not worth a sentence
_HARDLY = 0.05  # an error that falls by less has not fallen, in words
ROWS_OF_CONSTANT = 100
"""Rows of a constant x that are reported beside one."""


@dataclass(frozen=True)
class TypicalError:
    """The centre's typical error on one parameter, as standard deviations in its unit.

    name:     of the parameter.
    private:  whether it is a private one.
    unit:     empty where none was given.
    raw:      from all readings as they are.
    guessing: from nothing but what is known beforehand; inf where that is nothing.
    sent:     from what the agents send; None where no plan was asked about.
    constant: from what they send in 100 rows of a constant x; None on a stream, whose promise covers all rows.
    beyond:   of a public one, what rows held out of the fit add to it, in quadrature.
    """

    name: str
    private: bool
    unit: str
    raw: float
    guessing: float
    sent: float | None = None
    constant: float | None = None
    beyond: float = 0.0

    def __str__(self) -> str:
        return side_by_side(self._shown(), self.unit)

    def _shown(self) -> dict[str, float]:
        shown = {"raw": self.raw, "sent": self.sent, "prior only": self.guessing}
        return {label: value for label, value in shown.items() if value is not None}

    @property
    def in_one_row(self) -> float:
        """From what is sent in one row; from raw readings where no plan was asked about."""
        return self.raw if self.sent is None else self.sent

    @property
    def variances(self) -> float:
        """How many times the error variance from raw readings the one from what is sent is."""
        return 1.0 if self.sent is None or self.sent == self.raw else (self.sent / self.raw) ** 2

    def cells(self, grows: str = "") -> tuple[str, ...]:
        """Its row of :func:`error_lines`.

        grows: what stands in the last column; the growth of the standard error when nothing is given.
        """
        errors = alike(self._shown(), self.unit)
        kind = "private" if self.private else "public"
        return (
            f"{self.name} ({kind})",
            *(errors.get(label, "") for label in _HEADINGS[1:-1]),
            grows or times(self.variances),
        )


def typical_errors(
    network: Network,
    sanitizers: Mapping[str, Sanitizer] | None = None,
    *,
    privacy: Mapping[str, float] | None = None,
) -> dict[str, TypicalError]:
    """The typical error on every public and private parameter, by name, public ones first.

    A name that is both public and private stands once, as private.

    network:    the model.
    sanitizers: agent -> Sanitizer; None to leave out what is sent.
    privacy:    p_j of what is sent where it is known better than by rounding, as a plan's confirmed promise is.
    """
    better = privacy or {}
    silent, known = silence(network), None if sanitizers is None else outlook(network, sanitizers)
    repeated: Knowledge | None = None
    if sanitizers and not network.is_stream:
        factor = message_factor(network, sanitizers)
        repeated = knowledge_of_factor(network, np.sqrt(ROWS_OF_CONSTANT) * factor)
    found = {}
    for private, named in ((False, network.public), (True, network.private)):
        bound = crlb(network, when=("hindsight" if private else "now") if network.is_stream else None)
        for name, rows in named.items():
            raw = float(np.sqrt(max(np.trace(rows @ bound @ rows.T), 0.0) / len(rows)))
            sent = None if known is None else raw * _growth(known, rows, private=private)
            if private and name in better:
                sent = raw * float(np.sqrt(1.0 + better[name]))
            guessing = raw * _growth(silent, rows, private=private)
            constant = None if repeated is None else _left(repeated, rows)
            beyond = 0.0 if private else _beyond(network, name)
            found[name] = TypicalError(
                name, private, unit_of(network, name), raw, guessing, sent, constant, beyond
            )
    return found


def error_lines(rows: Iterable[Sequence[str]], *more: str) -> list[str]:
    """Lines of text, one for each parameter below the headings.

    rows: cells, as :meth:`TypicalError.cells` gives them.
    more: headings of further columns.
    """
    return in_columns([(*_HEADINGS, *more), *rows])


def beside_errors(errors: Iterable[TypicalError]) -> list[str]:
    """What is to be said beside errors: what many rows tell, and what rows that the fit had not seen showed."""
    errors = list(errors)
    seen = [each for each in errors if each.beyond > _NEGLIGIBLE * each.in_one_row]
    said = [_on_unseen_rows(each) for each in seen]
    if not said:
        return in_one_row(errors)
    return [
        *in_one_row(errors),
        f"On rows held out of the fit the error was larger, and the centre states that one: {join_names(said)}.",
    ]


def _on_unseen_rows(error: TypicalError) -> str:
    whole = plus_minus(float(np.hypot(error.in_one_row, error.beyond)), error.unit)
    return f"{error.name} {whole} (model: {plus_minus(error.in_one_row)})"


def _beyond(network: Network, name: str) -> float:
    """What rows held out of the fit add to the typical error on a public parameter."""
    count = len(network.public[name])
    labels = [label for label in network.public_rows if label == name or label.startswith(f"{name}[")]
    held = [network.held_out[label].beyond for label in labels if label in network.held_out]
    return float(np.sqrt(sum(np.square(held)) / count))


def in_one_row(errors: Iterable[TypicalError]) -> list[str]:
    """Errors are of one row; what 100 rows of a constant x leave of each private one; for streams nothing."""
    shown = [error for error in errors if error.private and error.constant is not None]
    if not shown:
        return []
    falls = [each for each in shown if (each.constant or 0.0) < (1 - _HARDLY) * each.in_one_row]
    left = [f"{each.name} {plus_minus(each.constant or 0.0, each.unit)}" for each in falls]
    stay = [each.name for each in shown if each not in falls]
    said = [f"they fall to: {join_names(left)}"] if left else []
    if stay:
        said.append(f"{f'on {join_names(stay)} ' if left else ''}they fall by less than {100 * _HARDLY:g} %")
    return [f"Errors are for one row; over {ROWS_OF_CONSTANT} rows of a constant x {'; '.join(said)}."]


def _left(known: Knowledge, rows: Array) -> float:
    """The typical error that is left of rows of x; inf where they are not estimable."""
    try:
        return float(np.sqrt(max(np.trace(known.error_covariance(rows)), 0.0) / len(rows)))
    except NotObservable:
        return np.inf


def unit_of(network: Network, name: str) -> str:
    """The unit of a public or private parameter: as given, or that of the entries of x which it names as they are."""
    given = network.unit(name)
    if given:
        return given
    rows = network.private[name] if name in network.private else network.public[name]
    units = set()
    for row in rows:
        places = np.flatnonzero(row)
        plain = len(places) == 1 and row[places[0]] == 1.0
        units.add(network.unit(network.parameters[places[0]]) if plain else "")
    return units.pop() if len(units) == 1 else ""


def _growth(known: Outlook, rows: Array, *, private: bool) -> float:
    """How many-fold the deviation is of what raw readings leave."""
    return float(np.sqrt(1.0 + known.growth(rows, hindsight=private)))
