"""At the centre: estimates of the public parameters from whatever arrived.

The estimate is the posterior mean where there is a prior and the best linear unbiased one where there is
none, in information form, for each set of agents that sent (mathematics, section 1): its error covariance is
U P̃ U', P̃ computed from those agents alone. What they do not determine is not estimated: it is not a number,
and says so. (The rounding of messages to their grids adds less than 1e-6 of the covariance.)

Of a stream, whose rows follow one another, it filters (:mod:`veilnet.centre.streams`): the estimate of a row is the
best one from all that arrived up to it, or up to some rows later for those who can wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidReading, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.validation import refuse_unknown, unknown
from veilnet.centre.arrivals import as_message, numbered, rows_in_words
from veilnet.centre.estimates import Estimate
from veilnet.centre.gate import Gate
from veilnet.centre.grouping import by_who_sent
from veilnet.centre.messages import CentreModel
from veilnet.centre.models import Messages
from veilnet.centre.streams.adding_up import Adder, SumFusion
from veilnet.centre.streams.fusing import Follower, StreamFusion, read_lag
from veilnet.centre.streams.gate import StreamGate
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SumModel
from veilnet.centre.weights import ROWS_AT_ONCE, Weights, weights_for

__all__ = ["Fusion"]

_ROWS_HELD = 65536  # with gaps, before they are estimated
_SETS_KEPT = 256  # sets of agents whose gains are remembered


@runtime_checkable
class HasMessages(Protocol):
    """Something that knows the model of its messages: a :class:`veilnet.Plan`."""

    @property
    def messages(self) -> Messages:
        """The model of what the agents send."""


class Fusion:
    """Estimates the public parameters of a plan from sanitized messages.

    plan:    a :class:`veilnet.Plan`, or the model of its messages. At the centre, :meth:`load` reads that model from
             the file ``plan/center.json``.
    gate:    test every row against the model at this false-alarm rate, such as 1e-6, and leave out messages that
             contradict it (:mod:`veilnet.centre.gate`; of a stream, given the rows before,
             :mod:`veilnet.centre.streams.gate`). None: estimate from whatever arrived.
    keep:    name such messages and use them all the same.
    history: of a stream, how many rows back a message may come late to :meth:`update`.

    Of a stream of very many agents the centre adds up their shares (:mod:`veilnet.centre.streams.adding_up`): late
    messages and looking back are not built for those.
    """

    def __init__(
        self,
        plan: HasMessages | Messages,
        *,
        gate: float | None = None,
        keep: bool = False,
        history: int = 64,
    ) -> None:
        if not isinstance(plan, HasMessages | CentreModel | StreamModel | SumModel):
            raise InvalidPlan(
                f"plan: expected a veilnet.Plan, found {type(plan).__name__}; "
                "use Plan.load(folder), or Fusion.load(plan/center.json)"
            )
        self.model: Any = plan if isinstance(plan, CentreModel | StreamModel | SumModel) else plan.messages
        if keep and gate is None and not isinstance(self.model, SumModel):
            raise InvalidRequest("keep: without a gate nothing is left out; give gate=1e-6 as well")
        self.gate: Gate | StreamGate | None = None
        self._rows_gate: Gate | None = None
        self._stream: StreamFusion | SumFusion | None = None
        if isinstance(self.model, SumModel):
            if gate is not None or keep:
                raise InvalidRequest(
                    f"{'keep' if gate is None else 'gate'}: messages of a stream of so many agents are added up, and "
                    "not tested against the model; leave it out"
                )
            self._stream = SumFusion(self.model)
        elif isinstance(self.model, StreamModel):
            stream_gate = None if gate is None else StreamGate(self.model, gate, keep=keep)
            self.gate = stream_gate
            self._stream = StreamFusion(self.model, history, stream_gate)
        elif gate is not None:
            self.gate = self._rows_gate = Gate(self.model, gate)
        self.keep = keep
        self._known = frozenset(self.model.agents)
        self._weights_of: dict[bytes, Weights] = {}

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, gate: float | None = None, keep: bool = False, history: int = 64
    ) -> Fusion:
        """A fusion from its file; a truncated or changed one is refused.

        path: ``center.json`` in the folder of a saved plan.
        gate, keep, history: see the class.
        """
        from veilnet.io.centre_files import load_centre

        return cls(load_centre(path), gate=gate, keep=keep, history=history)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in sending order."""
        return tuple(self.model.agents)

    @property
    def is_stream(self) -> bool:
        """Whether rows follow one another, so that the centre filters."""
        return self._stream is not None

    @property
    def sent(self) -> dict[str, int]:
        """How many numbers each agent sends."""
        return {a: int(n) for a, n in zip(self.agents, self.model.blocks.sizes, strict=True)}

    def estimate(self, messages: Mapping[str, Any] | Any) -> Estimate:
        """The public parameters, estimated from whatever arrived.

        messages: agent -> message, (M_i,) for one row or (T, M_i) for many, all of the same length; or one array,
                  (M,) or (T, M), with the numbers of all agents side by side in sending order. Columns with names,
                  of a pandas or polars frame, must be called z1, z2, ..., or side by side kitchen_1, kitchen_2, ...

        An agent that is left out, or whose numbers in a row are not all finite, is missing in that row. Of a stream,
        rows begin with row 1; not a number is a message that did not arrive, infinite in every number one in which
        the agent said that its reading was missed (as :meth:`veilnet.agent.stream.Stream.sanitize` gives it).
        """
        if self._stream is not None:
            return self._stream.estimate(*self._stacked_rows(messages), lag=0)
        parts, count = self._read(messages) if isinstance(messages, Mapping) else self._read_stacked(messages)
        rows = 1 if count is None else count
        if self._rows_gate is None:
            return self._estimate(parts, rows, single=count is None)
        stacked = self._stacked(parts, rows)
        doubts = self._rows_gate.doubts(stacked)
        if not self.keep:
            for doubt in doubts:
                stacked[doubt.row, self.model.blocks.rows(self.agents.index(doubt.agent))] = np.nan
        return replace(self._estimate([stacked], rows, single=count is None), contradictions=tuple(doubts))

    def stacked(self, messages: Mapping[str, Any] | Any) -> Array:
        """Messages as one array (T, M), agent after agent in sending order.

        messages: as for :meth:`estimate`; not a number where an agent sent none.
        """
        return self._stacked_rows(messages)[0]

    def _stacked(self, parts: list[Array | None], rows: int) -> Array:
        """A copy of all numbers side by side, nan where an agent sent none."""
        if len(parts) == 1 and parts[0] is not None:
            return np.array(np.atleast_2d(parts[0]))
        stacked = np.full((rows, self.model.blocks.total), np.nan)
        for place, part in enumerate(parts):
            if part is not None:
                stacked[:, self.model.blocks.rows(place)] = part
        return stacked

    def _estimate(self, parts: list[Array | None], rows: int, *, single: bool) -> Estimate:
        public = np.empty((rows, len(self.model.labels)))
        absent = np.zeros(len(self.agents), bool)
        if len(parts) == len(self.agents):
            absent = np.array([part is None for part in parts]) & (self.model.blocks.sizes > 0)
        usual = self._weights(absent)
        groups: dict[bytes, list[Integers]] = {}
        held: list[tuple[Integers, Array]] = []
        with np.errstate(invalid="ignore", over="ignore"):
            for start, stacked in self._side_by_side(parts, rows):
                estimates = public[start : start + len(stacked)]
                if _apply(usual, stacked, estimates):
                    odd = _odd_rows(usual, stacked, estimates)
                    held.append((odd + start, _turned(stacked, odd)))
                if sum(len(where) for where, _ in held) > _ROWS_HELD:
                    self._with_gaps(held, absent, public, groups)
            self._with_gaps(held, absent, public, groups)
        return self._result(public, usual, groups, single=single)

    def smooth(self, messages: Mapping[str, Any] | Any, *, lag: int | None = None) -> Estimate:
        """Of a stream, the public parameters in each row, estimated from what arrived up to some rows later.

        messages: as in :meth:`estimate`.
        lag:      how many rows later; all there are when left out.
        """
        stream = self._require_stream("smooth")
        return stream.estimate(*self._stacked_rows(messages), lag=read_lag(lag))

    def update(
        self, messages: Mapping[str, Any], *, missed: Collection[str] = (), row: int | None = None
    ) -> Estimate:
        """Of a stream, take in what arrived of one row; the estimate of the newest row from all that arrived so far.

        messages: agent -> message, (M_i,). An agent that is left out sent something that did not arrive (yet).
        missed:   agents that said that they had no reading in the row.
        row:      its number, counted from 1; the next one when left out. A number further on passes rows in which
                  nothing arrived. An earlier one is a late message: everything since is worked out anew, as if it had
                  come in time, as far back as ``history`` rows.
        """
        stream = self._require_stream("update")
        refuse_unknown(missed, self.agents, "missed", error=InvalidRequest)
        both = [agent for agent in missed if agent in messages]
        if both:
            raise InvalidReading(f"missed: {both[0]!r} sent a message too; it is either one or the other")
        stacked, count = self._stacked_rows(messages)
        if count is not None:
            raise InvalidReading(
                "messages: expected one row of each agent, found many; use estimate for a block"
            )
        for agent in missed:
            stacked[0, self.model.blocks.rows(self.agents.index(agent))] = MISSED
        if row is not None and (not isinstance(row, int | np.integer) or isinstance(row, bool) or row < 1):
            raise InvalidRequest(f"row: expected a whole number from 1 on, found {row!r}")
        return stream.update(stacked[0], None if row is None else int(row))

    def follow(self, *, lag: int | None = 0) -> Follower | Adder:
        """Of a stream, something that takes in blocks of rows one after another, in constant memory.

        lag: how many later rows an estimate waits for; None for all of them, which takes memory for each.
        """
        return self._require_stream("follow").follow(read_lag(lag))

    def _require_stream(self, what: str) -> StreamFusion | SumFusion:
        if self._stream is None:
            raise InvalidRequest(
                f"{what}: the plan is for rows that have nothing to do with one another; use estimate, or give the "
                "network dynamics= and design again"
            )
        return self._stream

    def _stacked_rows(self, messages: Mapping[str, Any] | Any) -> tuple[Array, int | None]:
        """All numbers of a row side by side, and the number of rows (None: one, as vectors)."""
        parts, count = self._read(messages) if isinstance(messages, Mapping) else self._read_stacked(messages)
        return self._stacked(parts, 1 if count is None else count), count

    def _read(self, messages: Mapping[str, Any]) -> tuple[list[Array | None], int | None]:
        """The messages in sending order, None where absent, and the number of rows (None: one, as vectors)."""
        strangers = [str(name) for name in messages if name not in self._known]
        if strangers:
            raise InvalidReading(str(unknown(strangers, self.model.agents, "messages")))
        parts: list[Array | None] = [None] * len(self.agents)
        shapes: dict[tuple[int, ...], str] = {}
        for place, (agent, size) in enumerate(self.sent.items()):
            if agent not in messages:
                continue
            part = as_message(messages[agent], f"messages[{agent!r}]", size, partial(numbered, "z", size))
            parts[place] = part
            shapes.setdefault(part.shape[:-1], agent)
        if len(shapes) > 1:
            found = ", ".join(f"{agent!r} {rows_in_words(shape)}" for shape, agent in shapes.items())
            raise InvalidReading(
                f"messages: expected the same number of rows from every agent, found {found}; "
                "fill rows that did not arrive with nan"
            )
        shape = next(iter(shapes), ())
        return parts, shape[0] if shape else None

    def _read_stacked(self, messages: Any) -> tuple[list[Array | None], int | None]:
        stacked = as_message(
            messages,
            "messages",
            self.model.blocks.total,
            lambda: [name for agent, size in self.sent.items() for name in numbered(f"{agent}_", size)],
        )
        return [stacked], len(stacked) if stacked.ndim == 2 else None

    def _side_by_side(self, parts: list[Array | None], rows: int) -> Iterator[tuple[int, Array]]:
        """Some rows at a time, from which on, with the numbers of all agents; 0 for agents that never sent."""
        if len(parts) == 1 and parts[0] is not None:
            whole = np.atleast_2d(parts[0])
            for start in range(0, rows, ROWS_AT_ONCE):
                yield start, whole[start : start + ROWS_AT_ONCE]
            return
        given = [
            (np.atleast_2d(part), self.model.blocks.rows(place))
            for place, part in enumerate(parts)
            if part is not None
        ]
        # column by column: short rows are copied slowly
        buffer = np.zeros((self.model.blocks.total, min(rows, ROWS_AT_ONCE)))
        for start in range(0, rows, ROWS_AT_ONCE):
            columns = buffer[:, : rows - start]
            stop = start + columns.shape[1]
            for part, place in given:
                for own, column in enumerate(range(place.start, place.stop)):
                    columns[column] = part[start:stop, own]
            yield start, columns.T

    def _with_gaps(
        self,
        held: list[tuple[Integers, Array]],
        absent: Booleans,
        public: Array,
        found: dict[bytes, list[Integers]],
    ) -> None:
        """Estimate the rows that are held anew, each from whoever sent, all rows with the same agents at once."""
        if not held:
            return
        rows = np.concatenate([where for where, _ in held])
        columns = np.concatenate([numbers for _, numbers in held], axis=1)
        held.clear()
        sizes = self.model.blocks.sizes
        silent = np.zeros((len(sizes), len(rows)), bool)
        for owner, column in zip(np.repeat(np.arange(len(sizes)), sizes), columns, strict=True):
            silent[owner] |= ~np.isfinite(column)
        silent[absent] = True
        order, groups = by_who_sent(silent)
        if len(groups) > 1:
            rows, columns = rows[order], np.take(columns, order, axis=1)
        for pattern, members in groups:
            weights = self._weights(pattern)
            arrived, where = columns[:, members], rows[members]
            arrived[~weights.present] = 0.0
            estimates = weights.gain.T @ arrived
            estimates += weights.constants[: public.shape[1], None]
            for column, values in zip(public.T, estimates, strict=True):
                column[where] = values
            found.setdefault(weights.key, []).append(where)

    def _weights(self, silent: Booleans) -> Weights:
        key = np.packbits(silent).tobytes()
        found = self._weights_of.get(key)
        if found is None:
            while len(self._weights_of) >= _SETS_KEPT:
                self._weights_of.pop(next(iter(self._weights_of)), None)
            found = self._weights_of[key] = weights_for(self.model, silent, key)
        return found

    def _result(
        self, public: Array, usual: Weights, groups: dict[bytes, list[Integers]], *, single: bool
    ) -> Estimate:
        set_of_row = np.zeros(len(public), dtype=np.intp)
        rest = len(public) - sum(len(where) for found in groups.values() for where in found)
        sets = [usual.key] if rest or not groups else []
        for key, found in groups.items():
            if key not in sets:
                sets.append(key)
            set_of_row[np.concatenate(found)] = sets.index(key)
        patterns = [
            np.unpackbits(np.frombuffer(key, np.uint8), count=len(self.agents)).astype(bool) for key in sets
        ]
        views = [self._weights(pattern).view for pattern in patterns]
        return Estimate(
            public=public[0] if single else public,
            labels=self.model.labels,
            units=self.model.units,
            set_of_row=set_of_row,
            set_covariance=np.stack([view.covariance for view in views]),
            set_estimable=np.stack([view.estimable for view in views]),
            set_missing=tuple(
                tuple(self.agents[place] for place in np.flatnonzero(pattern)) for pattern in patterns
            ),
        )

    def __repr__(self) -> str:
        return f"Fusion({len(self.agents)} agents, {self.model.blocks.total} numbers -> {list(self.model.labels)})"


def _apply(weights: Weights, stacked: Array, public: Array) -> bool:
    """Estimate rows as if nobody else were missing; whether numbers that are not finite spoiled any.

    A sum of squares is finite only if every number is, and there are fewer estimates than messages: looking at
    those is the cheapest look at all of them.
    """
    np.matmul(stacked, weights.gain, out=public)
    flat = public.reshape(-1)
    squares = float(np.vdot(flat, flat))
    if not weights.all_count:
        squares += float(np.vdot(stacked, stacked))
    # flat, since adding a short row to each of many rows costs more than the product
    flat += weights.constants[: flat.size]
    return not np.isfinite(squares)


def _odd_rows(weights: Weights, stacked: Array, public: Array) -> Integers:
    """Rows with a number that is not finite: it spoils what it is multiplied into."""
    watched = [public[:, k] for k in np.flatnonzero(weights.view.estimable)]
    if not weights.all_count:
        watched += list(stacked.T)
    total = watched[0] if len(watched) == 1 else sum(watched[1:], start=watched[0])
    return np.flatnonzero(~np.isfinite(total))


def _turned(stacked: Array, rows: Integers) -> Array:
    """(M, rows): the numbers of some rows, column after column."""
    columns = stacked.T
    if columns.flags.c_contiguous or columns.strides[1] == columns.itemsize:
        return np.take(columns, rows, axis=1)
    return np.ascontiguousarray(stacked[rows].T)
