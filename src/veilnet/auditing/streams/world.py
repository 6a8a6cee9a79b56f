"""The world of rows that follow one another: utility now, privacy with hindsight, attackers with memory.

Many streams of the same length are drawn from the model and run through what is deployed. Errors in the rows of one
stream are jointly normal with a covariance that :class:`Window` knows, streams are independent of each other, so the
mean of the squares strays no farther than :class:`SquareSum` allows. An attacker that has learned is in the same
position: given the messages, what is left of g over all rows is normal with the covariance of the best estimate with
hindsight, and whatever an attacker answers can only add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from veilnet._core.types import Array, Integers
from veilnet._core.words import alike
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.memory import around, spans_for
from veilnet.auditing.measures import Compared
from veilnet.auditing.row import Judgement, LeftOut, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import SquareSum
from veilnet.auditing.streams.window import Window, draw_streams
from veilnet.auditing.world import EstimatedRows, Growth, KnownWorld, Sanitizers, Streams, When, asked_now
from veilnet.bounds.streams.knowledge import silent_stream, stream_bits, stream_knowledge
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.share_sums import raw_where_determined
from veilnet.bounds.streams.state_space import message_model
from veilnet.bounds.streams.steady import MessageSystem, Steady
from veilnet.bounds.typical_errors import unit_of
from veilnet.model.network import Network

_FEWEST, _SHORTEST, _LONGEST = 4, 16, 256
_MOST_NUMBERS = 2400  # readings in a window: one linear solve of this size takes a second or two
_SETTLED = 0.002  # a window is long enough when twice its rows change the error in its middle by less
# A window tells as much as the whole stream but for this part of the error, once it is long enough.
_CLOSE = 0.01
# No window tells more than the whole stream, but for rounding and what memories have from before their beginning.
_NOT_LESS = 1e-4


@dataclass(frozen=True, eq=False)
class Filtered:
    """What a centre knows of x_t in the long run, x being the first L numbers of the state."""

    network: Network
    steady: Steady

    def error(self, rows: Array, when: When) -> float:
        """tr(A P A') now or with hindsight; inf where the messages never bound it."""
        padded = np.zeros((len(rows), len(self.steady.basis)))
        padded[:, : self.network.L] = rows
        if not np.all(self.steady.bounded(padded)):
            return np.inf
        return float(np.trace(self.steady.error(padded, hindsight=when == "hindsight")))


def filtered(network: Network, sanitizers: Mapping[str, Sanitizer] | None = None) -> Filtered:
    """What the messages of these sanitizers tell; agents without one send their readings raw.

    A memory that tells its readings exactly is taken for the readings: they tell the same, and a filter on numbers
    without noise that repeat one another from row to row has no steady state that could be computed.
    """
    model = message_model(network, raw_where_determined(sanitizers or {}))
    system = MessageSystem(model.transition, model.noise, model.observe, model.floor)
    return Filtered(network, steady_state(system))


class StreamWorld(KnownWorld):
    """The world of a network with dynamics; its methods are those of rows by themselves."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._trials: list[tuple[Sanitizers, StreamTrial]] = []

    @property
    def learnable(self) -> StreamWorld:
        """The same: of a stream attackers know the law of the long run."""
        return self

    @cached_property
    def raw(self) -> Filtered:
        """What raw streams tell."""
        return filtered(self.network)

    def known(self, sanitizers: Sanitizers, within: Network | None = None) -> Growth:
        """By all rows of messages, under the same rule as raw streams."""
        return self.growth_of(filtered(within or self.network, sanitizers))

    def growth_of(self, found: Filtered) -> Growth:
        """Of what messages of any kind tell."""
        return lambda rows, when: found.error(rows, when) / self.raw.error(rows, when) - 1.0

    def raw_error(self, each: EstimatedRows) -> float:
        """From raw streams by the same rule."""
        return self.raw.error(each.rows, each.when)

    def asked(self) -> list[EstimatedRows]:
        """Public parameters now, private ones with hindsight and now."""
        found = asked_now(self.network, ", now")
        for name, rows in self.network.private.items():
            found.append(EstimatedRows(f"attack on {name}, with hindsight", name, rows, public=False))
            found.append(EstimatedRows(f"attack on {name}, now", name, rows, public=False, when="now"))
        return found

    def beside(self, each: EstimatedRows) -> Compared:
        """From raw streams and from none, each by its own rule: now, or with hindsight."""
        left = np.sqrt(self.raw_error(each) / len(each.rows))
        grown = 1.0 + silent_stream(self.network).growth(each.rows, hindsight=each.when == "hindsight")
        unit = unit_of(self.network, each.name)
        return Compared(unit, len(each.rows), raw=float(left), guessing=float(left * np.sqrt(grown)))

    def trial(self, sanitizers: Sanitizers) -> StreamTrial:
        """Streams with a window that is long enough; made once for the same sanitizers."""
        for given, trial in self._trials:
            if given is sanitizers:
                return trial
        self._trials.append((sanitizers, StreamTrial(long_enough(self.network, sanitizers))))
        return self._trials[-1][1]

    def exposed(self, sanitizers: Sanitizers, name: str) -> tuple[float, str]:
        """With hindsight; which combination it is has no words."""
        known = stream_knowledge(self.network, sanitizers)
        return known.worst_growth(self.network.private[name], hindsight=True), ""

    def bits(self, sanitizers: Sanitizers) -> dict[str, float]:
        """Of each row with hindsight, where x returns to its mean."""
        stable = self.network.dynamics is not None and self.network.dynamics.stable
        return stream_bits(self.network, sanitizers, hindsight=True) if stable else {}


class StreamTrial:
    """Streams, and the best linear estimator with memory, solved over a window out of their middle.

    at: the rows that are judged, those with a quarter of the window before and after them.
    """

    at_once = 32

    def __init__(self, window: Window) -> None:
        self.window = window
        self._middle: Integers = np.arange(window.rows // 4, window.rows - window.rows // 4)
        self.at: Integers = window.lead + self._middle

    def draw(self, count: int, rng: np.random.Generator) -> Streams:
        """So many streams, each with as many rows before the window as it has."""
        return draw_streams(self.window.network, count, self.window.lead + self.window.rows, rng)

    def squares(self, drawn: Streams, messages: Array, each: EstimatedRows) -> float:
        """The best linear attacker who knows the plan, in the middle rows of all streams."""
        estimates = self.window.estimate(messages[:, self.window.lead :], each.rows, self._middle, each.when)
        errors = estimates - drawn.x[:, self.at] @ each.rows.T
        return len(errors) * float(np.mean(np.sum(errors**2, axis=2)))

    def law(self, each: EstimatedRows, count: int) -> SquareSum:
        """The eigenvalues of the joint covariance over all judged rows take the place of independent rows."""
        covariance = self.window.error_covariance(each.rows, self._middle, each.when)
        return SquareSum(np.maximum(np.linalg.eigvalsh(covariance), 0.0) / len(self.at), count)

    def features(self, values: Array) -> Array:
        """The values of some rows before and after, and of the row itself."""
        spans = spans_for(self.window.rows // 4, values.shape[2])
        shown = around(values, np.arange(values.shape[1]), spans)[:, self.at]
        return shown.reshape(-1, shown.shape[2])


@dataclass(frozen=True, eq=False)
class WindowCentre:
    """A centre that goes on filtering by the plan's model, over a window.

    weights: of every message of the window in the estimate of u in its middle row, now.
    """

    window: Window
    sanitizers: Sanitizers
    weights: Array

    @classmethod
    def like(cls, window: Window, sanitizers: Sanitizers) -> WindowCentre:
        """For other sanitizers, over as many rows as a window has."""
        own = Window(window.network, sanitizers, window.rows, window.lead)
        return cls(own, sanitizers, own.filter(window.network.measured, window.rows // 2, "now"))

    def error(self, truth: Network) -> float:
        """Its mean square error where another network is true."""
        true = Window(truth, self.sanitizers, self.window.rows, self.window.lead)
        return true.error_of(self.weights, truth.measured, self.window.rows // 2)


def long_enough(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Window:
    """A window out of the middle of a stream, in whose own middle the errors have settled, as far as affordable.

    As many rows come before it as it has, so that memories are in full swing when it begins.
    """
    rows = min(_SHORTEST, _MOST_NUMBERS // (2 * network.N))
    if rows < _FEWEST:
        raise LeftOut(
            f"a window of {_FEWEST} rows of {network.N} readings is more than can be solved at once "
            f"(up to {_MOST_NUMBERS // (2 * _FEWEST)} readings)"
        )
    window = Window(network, sanitizers, rows, lead=rows)
    while 4 * rows * network.N <= _MOST_NUMBERS and 2 * rows <= _LONGEST:
        longer = Window(network, sanitizers, 2 * rows, lead=2 * rows)
        settled = _change(window, longer) < _SETTLED
        rows, window = 2 * rows, longer
        if settled:
            break
    return window


def _change(short: Window, long: Window) -> float:
    changes = []
    for matrix in (short.network.U, *short.network.private.values()):
        errors = [w.error(matrix, w.rows // 2, "hindsight") for w in (short, long)]
        changes.append(abs(errors[0] - errors[1]) / max(errors[1], np.finfo(float).tiny))
    return max(changes)


def forgotten(window: Window) -> float:
    """How much of what an agent sends is older than the window's lead, as a part of its deviation: the largest.

    Readings count by the deviation of their noise. Σ_j |C_s F^j K|² over j >= lead is tr(K'F^lead'X F^lead K) with
    X = F'X F + C_s'C_s.
    """
    deviations = np.sqrt(np.diag(window.network.R.matrix()))
    parts = [0.0]
    for place, sanitizer in enumerate(window.sanitizers):
        memory = sanitizer.memory
        if memory is None or not sanitizer.sent:
            continue
        kept, direct = np.split(sanitizer.compression, [memory.order], axis=1)
        gain = memory.gain * deviations[window.network.blocks.rows(place)]
        energy = solve_discrete_lyapunov(memory.transition.T, kept.T @ kept)
        at_once = kept @ gain + direct * deviations[window.network.blocks.rows(place)]
        later = memory.transition @ gain
        old = np.linalg.matrix_power(memory.transition, max(1, window.lead)) @ gain
        whole = float(np.sum(at_once**2) + np.trace(later.T @ energy @ later))
        parts.append(float(np.trace(old.T @ energy @ old)) / whole if whole > 0 else 0.0)
    return float(np.sqrt(max(0.0, *parts)))


def window_rows(world: StreamWorld, planned: Sanitizers) -> list[Row]:
    """Whether the steady errors that were promised are those of a window written out and solved at once."""
    window = world.trial(planned).window
    older, known = forgotten(window), filtered(world.network, planned)
    figures = {"window": window.rows, "rows before it": window.lead, "older part": older}
    rows = []
    for each in world.asked():
        beside = world.beside(each)
        promised = known.error(each.rows, each.when)
        found = window.error(each.rows, window.rows // 2, each.when)
        shown = alike(
            {
                "guessing": beside.guessing,
                "raw streams": beside.raw,
                "promised": beside.typical(promised),
                f"solved over {window.rows} rows": beside.typical(found),
            },
            beside.unit,
        )
        verdict: Judgement = "ok"
        why = ""
        if np.isinf(promised):
            verdict, why = "info", "A window cannot show an error without bound."
        elif found < promised * (1 - _NOT_LESS - 2 * older):
            verdict = "fail"
            why = f"{window.rows} rows already tell more than was promised for a whole stream."
        elif older > _CLOSE and abs(found - promised) > _CLOSE * promised:
            verdict = "warn"
            why = f"Some memories are longer than the {window.lead} rows before that can be afforded."
        elif found > promised * (1 + _CLOSE):
            verdict = "warn"
            why = f"No more than {window.rows} rows could be afforded: the whole stream tells more."
        what = f"window of {window.rows} rows: {each.what}"
        section = Section.PROMISE.heading
        rows.append(Row(section, what, promised, found, verdict, why, None, figures, shown))
    return rows
