"""The filter at work: from messages, row after row, to estimates of the state.

Rows in which everybody sent, once errors have settled, are taken many at a time by the steady filter, others some at
a time by :mod:`veilnet.centre.streams.together`. A row in which a reading was missed or a message contradicts the
model is taken for itself, and so are all where the state is large or somebody looks back.

Messages that contradict the model are found before they enter the filter. What is new in a row, the numbers that
arrived less what the rows before make of them, is Gaussian with the covariance ``news`` of its
:class:`veilnet.centre.streams.gains.Step`. With news = LL', q = L^-1 (what is new) is standard normal and |q|² the
joint distance. Leaving agent i out lowers it by |a_i|², a_i the part of q in the span of that agent's columns of
L^-1: how far its message is from what the rows before and the others say. These are the tests of
:mod:`veilnet.centre.contradictions`, with the past in the place of the prior.

A message that fails may be the truth about a change that the model holds for impossible: a front, a window opened,
the sun on a sensor. A filter that left it out would stay convinced of what was, and leave out all that follow. So the
row is tested once more as one of a sudden change, in which x and the noises moved as far as the long run and twice
the limit of the test leave room for (:meth:`veilnet.centre.streams.gains.Gains.sudden`). Who passes then is
contradicted by the past alone and by nobody who sent in the same row: the message is used with the gain of that row,
and named.

An agent that fails this too is silent in the row, as if its message had been lost: its memory went on, the filter
knows that, and its errors stay true. So an agent whose memory is wrong is left out row after row until it agrees
again, and one false number shuts nobody out for longer than its row. Of an agent that has many sudden changes one
after another none are believed until it has been quiet for a while: that is a fault, or a lie.
"""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from veilnet._core.linalg import whitener
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans
from veilnet.agent.stream import Filter
from veilnet.centre.contradictions import (
    Contradiction,
    DoubtedMessage,
    Redundancy,
    Tests,
    least_limit,
    limit_of,
    read_rate,
)
from veilnet.centre.streams.gains import Gains
from veilnet.centre.streams.model import FilterRow, Pattern, StreamModel
from veilnet.centre.streams.steps import CarriedError, Stated, Step
from veilnet.centre.streams.sum_model import SumModel

_FEWEST_AT_ONCE, _ROWS_AT_ONCE = 16, 2048
_FEW_ROWS = 4  # for which a loop costs less
_ROOM = 2.0  # of the limit of a test: what is farther off in one row is no change of x or of noises
# contradictions of an agent that may be sudden changes, without so many quiet rows between two of them
_BELIEVED = 8
_QUIET = 64
_NUMBERS_TOGETHER = 160  # of some rows, that are worth a Cholesky factor
_LARGE_STATE = 256  # above it, errors that change little are carried on as changes of the steady one
_SMALL_STATE = 48  # above it, a product per row costs less than doubling over rows


@dataclass(frozen=True, eq=False)
class Tracked:
    """What a block of rows gave.

    public: (T, public rows), the estimate of these after each row, counted from what is expected.
    states: (T, n), that of X, for looking back; empty where nobody asked.
    steps:  what is said of each row; its step where somebody looks back.
    pulls:  (T, n), observe' news^-1 times what was new, likewise.
    doubts: what contradicted the model, rows counted from the first of the block.
    """

    public: Array
    states: Array
    steps: list[Stated]
    pulls: Array
    doubts: list[Contradiction]


class Tracker:
    """Goes through the rows of a stream, from row 1 on.

    model: what the agents send.
    gains: worked out once for all who track the same stream.
    gate:  what tests messages before they are used; none are when left out.
    """

    def __init__(self, model: StreamModel, gains: Gains, gate: StreamGate | None = None) -> None:
        self.model, self.gains = model, gains
        self.gate = gate
        self.rows = 0
        self.step: CarriedError | None = None
        self.state: Array = np.zeros(model.size)
        self._ahead = _FEWEST_AT_ONCE
        self._together = 1 << int(np.clip(np.log2(_NUMBERS_TOGETHER / max(1, len(model.observe))), 2, 6))
        self._fast: tuple[Step, Filter | None] | None = None
        self._refused: dict[int, tuple[int, int]] = {}  # agent -> how often of late, and in which row last

    def copy(self) -> Tracker:
        """Another one that stands where this one does."""
        other = copy(self)
        other._refused = dict(self._refused)
        return other

    def advance(self, stacked: Array, *, pulls: bool = False) -> Tracked:
        """Take in some rows (T, M) of all agents' numbers side by side.

        stacked: not a number where a message did not arrive, infinite where an agent said that it missed a reading.
        pulls:   whether somebody is going to look back.
        """
        silent, missed = patterns(self.model, stacked)
        public = np.empty((len(stacked), len(self.model.public)))
        states = np.empty((len(stacked) if pulls else 0, self.model.size))
        drawn = np.zeros(states.shape)
        steps: list[Stated] = []
        doubts: list[Contradiction] = []
        place, singly = 0, 0  # rows that are to be taken one by one
        while place < len(stacked):
            count = 0 if singly else self._rows_alike(silent[place:], missed[place:])
            rows = slice(place, place + count)
            if not count and not singly and not pulls:
                count, singly = self._some(
                    stacked[place:], silent[place:], missed[place:], public[place:], steps
                )
            elif count:
                left_out = self.gate is not None and not self.gate.keep
                # what is too far off to be added up is left out, with the states after it
                with np.errstate(over="ignore", invalid="ignore") if left_out else nullcontext():
                    taken = self._many(
                        stacked[rows], public[rows], steps, (states[rows], drawn[rows]) if pulls else None
                    )
                # what comes after a row that fails is worked out in vain
                singly = int(taken < count)
                self._ahead = _FEWEST_AT_ONCE if singly else min(2 * self._ahead, _ROWS_AT_ONCE)
                count = taken
            if not count:
                count, singly = 1, max(0, singly - 1)
                pattern = Pattern.of(silent[place], missed[place])
                found = self._one(pattern, stacked[place], drawn[place] if pulls else None)
                doubts += [self._contradiction(place, each) for each in found]
                public[place] = self.model.public @ self.state
                if pulls:
                    states[place] = self.state
                assert self.step is not None
                steps.append(self.step)
            place += count
            self.rows += count
        return Tracked(public, states, steps, drawn, doubts)

    def _rows_alike(self, silent: Booleans, missed: Booleans) -> int:
        """How many of these rows can be taken as steady: the filter is, and all come in its pattern."""
        step = self.step
        if step is None or step.near is None or not step.settled:
            return 0
        silent, missed = silent[: self._ahead], missed[: self._ahead]
        pattern = step.near.row.pattern
        usual, unread = (np.frombuffer(each, dtype=bool) for each in (pattern.silent, pattern.missed))
        count = _until(np.all((silent == usual) & (missed == unread), axis=1))
        return count if count >= _FEW_ROWS else 0

    def _some(
        self, stacked: Array, silent: Booleans, missed: Booleans, public: Array, steps: list[Stated]
    ) -> tuple[int, int]:
        """Take in some rows together, whatever arrived; how many, and how many are to be taken one by one then."""
        step = self.step
        if step is None or len(self.state) > _LARGE_STATE:
            return 0, 0
        most = self._together
        while most > _until(~np.any(missed[:most], axis=1)):
            most //= 2
        if most < _FEW_ROWS:
            return 0, 1
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.gains.together(step, self.state, stacked[:most])
        if found is None:
            return 0, most
        unread = self.model.everybody.missed
        rows = [self.gains.row(Pattern(each.tobytes(), unread)) for each in silent[:most]]
        if self.gate is not None:
            passing = _until(found.distances <= [self.gate.least(row) for row in rows])
            if passing < most:
                count = self._some(stacked[:passing], silent[:passing], missed[:passing], public, steps)[0]
                return count, passing - count + 1
        public[:most] = found.public
        steps += [Stated(row, *self.gains.stated(each)) for row, each in zip(rows, found.errors, strict=True)]
        self.state, self.step = found.state, self.gains.carried(step, rows, found)
        return most, 0

    def _one(self, pattern: Pattern, numbers: Array, drawn: Array | None) -> list[DoubtedMessage]:
        """Take in a row; whose messages contradict the model."""
        step, before, new = self._next(pattern, numbers)
        doubts: list[DoubtedMessage] = []
        if self.gate is not None:
            rest, left = step, new
            while found := self.gate.failing(rest, left[None, :]):
                doubts.append(found[0][1])
                if not self.gate.keep and len(doubts) == 1 and self._may_be_sudden(doubts[0].place):
                    moved = self.gains.sudden(_ROOM * self.gate.limit(doubts[0].place), self.model.remembered)
                    changed = self._next(pattern, numbers, moved)
                    if not self.gate.failing(changed[0], changed[2][None, :]):
                        step, before, new = changed
                        doubts[0] = replace(doubts[0], sudden=True)
                        break
                pattern = pattern.without(doubts[-1].place)
                rest, without, left = self._next(pattern, numbers)
                if not self.gate.keep:
                    step, before, new = rest, without, left
        self.state = before + step.gain @ new
        if drawn is not None:
            drawn[:] = step.pull @ new
        self.step = step
        return doubts

    def _may_be_sudden(self, place: int) -> bool:
        """Whether a message that contradicts may be one of a sudden change: few of an agent's are at a time."""
        if self.step is None:
            return False
        count, last = self._refused.get(place, (0, 0))
        count = 1 if self.rows - last > _QUIET else count + 1
        self._refused[place] = count, self.rows
        return count <= _BELIEVED

    def _next(
        self, pattern: Pattern, numbers: Array, moved: Array | None = None
    ) -> tuple[Step, Array, Array]:
        """The step of a row that comes in some pattern, the state expected in it, and what is new."""
        step = self.gains.first(pattern) if self.step is None else self.gains.after(self.step, pattern, moved)
        row = step.row
        before = row.transition @ self.state + row.drive
        return step, before, numbers[row.arrived] - row.expected - row.observe @ before

    def _contradiction(self, row: int, doubt: DoubtedMessage) -> Contradiction:
        agent = self.model.agents[doubt.place]
        return Contradiction(
            row, agent, doubt.distance, doubt.chance, doubt.joint, past=True, sudden=doubt.sudden
        )

    def _many(
        self, numbers: Array, public: Array, steps: list[Stated], back: tuple[Array, Array] | None
    ) -> int:
        """Take in rows of the steady pattern, up to the first that fails a test; how many they are.

        back: where states and pulls go if somebody looks back.
        """
        step = self.step
        assert step is not None
        assert step.near is not None
        steady = step.near.step
        assert steady is not None
        centred = numbers[:, steady.row.arrived] - steady.row.expected
        states = self._steadily(steady, centred)
        public[:] = states @ self.model.public.T
        new = centred[:0]
        if back is not None or self.gate is not None:
            earlier = np.concatenate([self.state[None, :], states[:-1]]) @ steady.ahead.T
            new = centred - earlier - steady.row.observe @ steady.row.drive
        if self.gate is not None:
            failing = self.gate.failing(steady, new)
            states = states[: failing[0][0]] if failing else states
        if back is not None:
            back[0][: len(states)], back[1][:] = states, new @ steady.pull.T
        if len(states):
            self.state, self.step = states[-1].copy(), steady
        steps += [steady] * len(states)
        return len(states)

    def _steadily(self, step: Step, centred: Array) -> Array:
        """The states of the steady filter in these rows."""
        quick = self._filter_of(step)
        if quick is not None:
            # the constant enters as one more number, which is always one
            return quick.run(self.state, np.concatenate([centred, np.ones((len(centred), 1))], axis=1))
        states = centred @ step.gain.T + step.constant
        before = self.state
        for moved in states:
            moved += step.forward @ before
            before = moved
        return np.asarray(states)

    def _filter_of(self, step: Step) -> Filter | None:
        if self._fast is None or self._fast[0] is not step:
            quick = None
            if len(step.error) <= _SMALL_STATE:
                quick = Filter(step.forward, np.concatenate([step.gain, step.constant[:, None]], axis=1))
            self._fast = step, quick
        return self._fast[1]


def _until(alike: Booleans) -> int:
    """How many of these are true before one is not."""
    return len(alike) if alike.all() else int(np.argmin(alike))


def patterns(model: StreamModel | SumModel, stacked: Array) -> tuple[Booleans, Booleans]:
    """(rows, agents) twice: whose numbers did not all arrive, and who said that a reading was missed."""
    sizes, starts = model.blocks.sizes, model.blocks.starts
    silent = np.zeros((len(stacked), len(sizes)), bool)
    missed = np.zeros(silent.shape, bool)
    sending = np.flatnonzero(sizes)
    if sending.size:
        silent[:, sending] = np.logical_or.reduceat(~np.isfinite(stacked), starts[sending], axis=1)
        if silent.any():
            missed[:, sending] = np.logical_and.reduceat(stacked == MISSED, starts[sending], axis=1)
    return silent, missed


_SEEN = 1e-12  # of the largest part of what is new, units removed: less is rounding


class StreamGate:
    """Tests what is new in rows of a stream at a false-alarm rate.

    model: of the messages.
    rate:  chance that anything in a row made by the model is doubted.
    keep:  name messages that contradict the model, and use them all the same.
    """

    untested: tuple[str, ...] = ()  # what an agent sent before says about what it sends

    def __init__(self, model: StreamModel, rate: float, *, keep: bool = False) -> None:
        self.rate = read_rate(rate)
        self.model = model
        self.keep = keep
        self._owner = np.repeat(np.arange(len(model.agents)), model.blocks.sizes)
        self._tests: WeakKeyDictionary[Step, Tests] = WeakKeyDictionary()
        self._least: dict[Pattern, float] = {}

    def failing(self, step: Step, new: Array) -> list[tuple[int, DoubtedMessage]]:
        """(place, whom to doubt) of rows that came by one step and fail a test; new: (rows, numbers that arrived)."""
        if not step.row.arrived.size or (len(new) == 1 and self._surely_passes(step, new[0])):
            return []
        tests = self._tests.get(step)
        if tests is None:
            tests = self._tests[step] = Tests.at(self.rate, self._redundancy(step))
        return tests.failing(new)

    def limit(self, place: int) -> float:
        """Squared deviations beyond which an agent's message fails its own test, where everybody sent."""
        sending = self.model.blocks.sizes > 0
        return limit_of(self.rate / 2 / max(1, int(np.sum(sending))), int(self.model.blocks.sizes[place]))

    def least(self, row: FilterRow) -> float:
        """Squared joint distance below which a row that came in this way passes every test."""
        least = self._least.get(row.pattern)
        if least is None:
            freedom = np.bincount(self._owner[row.arrived], minlength=len(self.model.agents))
            least = self._least[row.pattern] = least_limit(self.rate, freedom, len(row.arrived))
        return least

    def _surely_passes(self, step: Step, new: Array) -> bool:
        """Whether a row is nearer than the limit of every test: most are, and need no test of each agent."""
        least = self.least(step.row)
        with np.errstate(over="ignore", invalid="ignore"):
            if step.inverse is not None:
                return bool(0 <= new @ step.inverse @ new <= least)
            units = np.sqrt(np.diag(step.news))
            far = new / units
            try:
                return bool(0 <= far @ np.linalg.solve(step.news / np.outer(units, units), far) <= least)
            except np.linalg.LinAlgError:
                return False

    def _redundancy(self, step: Step) -> Redundancy:
        scale = np.sqrt(np.diag(step.news))
        joint = whitener(step.news, least=_SEEN)
        joint = joint[np.any(joint, axis=1)]
        owner = self._owner[step.row.arrived]
        freedom = np.zeros(len(self.model.agents), dtype=np.intp)
        agents, owners = [np.zeros((0, len(owner)))], []
        for place in np.unique(owner).tolist():
            mine = owner == place
            basis = np.linalg.qr(joint[:, mine] * scale[mine])[0]
            freedom[place] = basis.shape[1]
            agents.append(basis.T @ joint)
            owners += [place] * basis.shape[1]
        return Redundancy(joint, np.concatenate(agents), np.array(owners, dtype=np.intp), freedom)
