"""The filter at work: from messages, row after row, to estimates of the state.

Rows in which everybody sent, once errors have settled, are taken many at a time; every other row for itself.

Looking back, an estimate also uses the rows after its own, up to a lag, or all there are. With q_t = observe' news^-1
(what was new) + (I - gain observe)' r_t and r_{t-1} = transition' q_t, r = 0 at the last row that is used, the
estimate of X_t is that of row t plus P_t r_t, and its error P_t - P_t R_t P_t, where R follows the same recursion
from observe' news^-1 observe (de Jong's form, which inverts no error covariance). Rows whose followers came in the
same patterns go back together.

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

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans, Integers
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
from veilnet.centre.streams.gains import Gains, Step
from veilnet.centre.streams.model import Pattern, StreamModel
from veilnet.centre.streams.sum_model import SumModel

_FEWEST_AT_ONCE, _ROWS_AT_ONCE = 128, 2048
_FEW_ROWS = 4  # for which a loop costs less
_ROOM = 2.0  # of the limit of a test: what is farther off in one row is no change of x or of noises
_BELIEVED = (
    8  # contradictions of an agent that may be sudden changes, without so many quiet rows between two of them
)
_QUIET = 64
_SMALL_STATE = 48  # above it, a product per row costs less than doubling over rows


@dataclass(frozen=True, eq=False)
class Tracked:
    """What a block of rows told.

    states: (T, n), the estimate of X after each row.
    steps:  the step of each row.
    pulls:  (T, n), observe' news^-1 times what was new, for looking back; empty where nobody asked.
    doubts: what contradicted the model, rows counted from the first of the block.
    """

    states: Array
    steps: list[Step]
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
        self.step: Step | None = None
        self.state: Array = np.zeros(model.size)
        self._ahead = _FEWEST_AT_ONCE
        self._fast: tuple[Step, Filter | None] | None = None
        self._refused: dict[int, tuple[int, int]] = {}  # agent -> how often of late, and in which row last

    def copy(self) -> Tracker:
        """Another one that stands where this one does."""
        other = Tracker(self.model, self.gains, self.gate)
        other.rows, other.step, other.state = self.rows, self.step, self.state
        other._refused = dict(self._refused)
        return other

    def advance(self, stacked: Array, *, pulls: bool = False) -> Tracked:
        """Take in some rows (T, M) of all agents' numbers side by side.

        stacked: not a number where a message did not arrive, infinite where an agent said that it missed a reading.
        pulls:   whether somebody is going to look back.
        """
        silent, missed = patterns(self.model, stacked)
        states = np.empty((len(stacked), self.model.size))
        drawn = np.zeros(states.shape if pulls else (0, 0))
        steps: list[Step] = []
        doubts: list[Contradiction] = []
        place = 0
        while place < len(stacked):
            count = self._settled_rows(silent[place:], missed[place:])
            if count:
                rows = slice(place, place + count)
                assert self.step is not None
                left_out = self.gate is not None and not self.gate.keep
                # what is too far off to be added up is left out, with the states after it
                with np.errstate(over="ignore", invalid="ignore") if left_out else nullcontext():
                    taken = self._many(self.step, stacked[rows], states[rows], drawn[rows] if pulls else None)
                # what comes after a row that fails is worked out in vain
                self._ahead = min(2 * self._ahead, _ROWS_AT_ONCE) if taken == count else _FEWEST_AT_ONCE
                count = taken
                steps += [self.step] * count
            if not count:
                count = 1
                pattern = Pattern.of(silent[place], missed[place])
                found = self._one(pattern, stacked[place], drawn[place] if pulls else None)
                doubts += [self._contradiction(place, each) for each in found]
                states[place] = self.state
                assert self.step is not None
                steps.append(self.step)
            place += count
            self.rows += count
        return Tracked(states, steps, drawn, doubts)

    def _settled_rows(self, silent: Booleans, missed: Booleans) -> int:
        """How many of these rows can be taken at once: the filter has settled, and all come in its pattern."""
        step = self.step
        if step is None or not step.settled:
            return 0
        silent, missed = silent[: self._ahead], missed[: self._ahead]
        usual, unread = (
            np.frombuffer(each, dtype=bool) for each in (step.pattern.silent, step.pattern.missed)
        )
        alike = np.asarray(((silent == usual) & (missed == unread)).all(axis=1))
        count = len(alike) if alike.all() else int(np.argmin(alike))
        return count if count >= _FEW_ROWS else 0

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

    def _many(self, step: Step, numbers: Array, states: Array, drawn: Array | None) -> int:
        """Take in rows that everybody sent, up to the first that fails a test; how many they are."""
        row = step.row
        centred = numbers[:, row.arrived] - row.expected
        quick = self._filter_of(step)
        before = self.state
        if quick is None:
            driven = centred @ step.gain.T + step.constant
            for place, moved in enumerate(driven):
                before = states[place] = step.forward @ before + moved
        else:
            # the constant enters as one more number, which is always one
            states[:] = quick.run(before, np.concatenate([centred, np.ones((len(centred), 1))], axis=1))
        if drawn is not None or self.gate is not None:
            earlier = np.concatenate([self.state[None, :], states[:-1]]) @ row.transition.T + row.drive
            new = centred - earlier @ row.observe.T
            if self.gate is not None:
                failing = self.gate.failing(step, new)
                states = states[: failing[0][0]] if failing else states
            if drawn is not None:
                drawn[:] = new @ step.pull.T
        if len(states):
            self.state = states[-1].copy()
        return len(states)

    def _filter_of(self, step: Step) -> Filter | None:
        if self._fast is None or self._fast[0] is not step:
            quick = None
            if len(step.error) <= _SMALL_STATE:
                quick = Filter(step.forward, np.concatenate([step.gain, step.constant[:, None]], axis=1))
            self._fast = step, quick
        return self._fast[1]


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


Smoothed = tuple[Array, list[Array], list[Step]]
"""(states, error covariances, steps) of some rows, the oldest first; rows of one kind share a covariance."""


class Smoother:
    """Holds rows back until ``lag`` later ones have come.

    lag: how many later rows an estimate waits for; None for all of them.
    """

    def __init__(self, lag: int | None) -> None:
        self._lag = lag
        self._states: Array = np.zeros((0, 0))
        self._pulls: Array = np.zeros((0, 0))
        self._steps: list[Step] = []

    @property
    def waiting(self) -> int:
        """How many rows are held back."""
        return len(self._steps)

    def add(self, tracked: Tracked) -> Smoothed:
        """What can be said of after these rows too."""
        if not self._steps:
            self._states, self._pulls = tracked.states, tracked.pulls
        else:
            self._states = np.concatenate([self._states, tracked.states])
            self._pulls = np.concatenate([self._pulls, tracked.pulls])
        self._steps += tracked.steps
        ready = 0 if self._lag is None else max(0, len(self._steps) - self._lag)
        return self._back(ready)

    def end(self) -> Smoothed:
        """The rows that are still held back, as no more come."""
        if self._lag is None or self._lag >= len(self._steps):
            return self._all()
        return self._back(len(self._steps))

    def _back(self, ready: int) -> Smoothed:
        """Look back at the first ``ready`` rows, each from up to ``lag`` rows later."""
        states = self._states[:ready].copy()
        errors: list[Array] = [np.zeros((0, 0))] * ready
        for rows, ahead in self._alike(ready):
            pulled, known = self._recursion(rows, ahead)
            step = self._steps[int(rows[0])]
            states[rows] += pulled @ step.error
            error = step.error - step.error @ known @ step.error
            error = (error + error.T) / 2
            for row in rows.tolist():
                errors[row] = error
        steps = self._steps[:ready]
        self._states, self._pulls, self._steps = (
            self._states[ready:],
            self._pulls[ready:],
            self._steps[ready:],
        )
        return states, errors, steps

    def _alike(self, ready: int) -> Iterator[tuple[Integers, list[Step]]]:
        """Rows with the same step and the same steps after them, and those steps, nearest first."""
        lag = 0 if self._lag is None else self._lag
        groups: dict[tuple[int, ...], list[int]] = {}
        kinds = [id(step) for step in self._steps]
        for row in range(ready):
            groups.setdefault(tuple(kinds[row : row + lag + 1]), []).append(row)
        for rows in groups.values():
            yield np.array(rows), self._steps[rows[0] + 1 : rows[0] + lag + 1]

    def _recursion(self, rows: Integers, ahead: list[Step]) -> tuple[Array, Array]:
        """(r, R) at these rows."""
        size = self._states.shape[1]
        pulled, known = np.zeros((len(rows), size)), np.zeros((size, size))
        for distance in range(len(ahead), 0, -1):
            step = ahead[distance - 1]
            pulled = (self._pulls[rows + distance] + pulled @ step.left) @ step.row.transition
            known = _known_before(step, known)
        return pulled, known

    def _all(self) -> Smoothed:
        """Every row from all later ones: one way back."""
        count, size = len(self._steps), self._states.shape[1]
        states, errors = self._states.copy(), [np.zeros((0, 0))] * count
        pulled, known = np.zeros(size), np.zeros((size, size))
        for row in range(count - 1, -1, -1):
            step = self._steps[row]
            states[row] += step.error @ pulled
            error = step.error - step.error @ known @ step.error
            errors[row] = (error + error.T) / 2
            pulled = (self._pulls[row] + pulled @ step.left) @ step.row.transition
            known = _known_before(step, known)
        steps, self._steps = self._steps, []
        return states, errors, steps


def _known_before(step: Step, known: Array) -> Array:
    """What a row and those after it tell about the state before it, given what those after it tell of the row."""
    told = step.pull @ step.row.observe + step.left.T @ known @ step.left
    found = step.row.transition.T @ told @ step.row.transition
    return np.asarray((found + found.T) / 2)


_SEEN = 1e-12  # of the largest part of what is new, units removed: less is rounding


class StreamGate:
    """Tests what is new in rows of a stream at a false-alarm rate.

    model: of the messages.
    rate:  chance that anything in a row made by the model is doubted.
    keep:  name messages that contradict the model, and use them all the same.
    """

    untested: tuple[str, ...] = ()  # what an agent sent before tells of what it sends

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

    def _surely_passes(self, step: Step, new: Array) -> bool:
        """Whether a row is nearer than the limit of every test: most are, and need no test of each agent."""
        least = self._least.get(step.pattern)
        if least is None:
            freedom = np.bincount(self._owner[step.row.arrived], minlength=len(self.model.agents))
            least = self._least[step.pattern] = least_limit(self.rate, freedom, len(new))
        with np.errstate(over="ignore", invalid="ignore"):
            units = np.sqrt(np.diag(step.news))
            far = new / units
            try:
                return bool(0 <= far @ np.linalg.solve(step.news / np.outer(units, units), far) <= least)
            except np.linalg.LinAlgError:
                return False

    def _redundancy(self, step: Step) -> Redundancy:
        scale = np.sqrt(np.diag(step.news))
        joint = _white(step.news / np.outer(scale, scale)) / scale
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


def _white(news: Array) -> Array:
    """W with W news W' = I, of a covariance whose units were removed; without the directions that are rounding."""
    try:
        return solve_lower(cholesky(news), np.eye(len(news)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(news)
        seen = values > _SEEN * values[-1]
        return np.asarray(vectors[:, seen].T / np.sqrt(values[seen])[:, None])
