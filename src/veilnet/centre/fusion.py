"""At the centre: estimates of the public parameters from whatever arrived.

The estimate is the posterior mean where there is a prior and the best linear unbiased one where there is
none, in information form, for each set of agents that sent (mathematics, section 1): its error covariance is
U P̃ U', P̃ computed from those agents alone. What they do not determine is not estimated: it is not a number,
and says so. (The rounding of messages to their grids adds less than 1e-6 of the covariance.)

Of a stream, whose rows follow one another, it filters (:mod:`veilnet.centre.streams`): the estimate of a row is the
best one from all that arrived up to it, or up to some rows later for those who can wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidReading, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.validation import refuse_unknown, unknown
from veilnet.centre.estimates import Estimate
from veilnet.centre.messages import CentreModel, View
from veilnet.centre.streams.fusing import Follower, PublicRows, StreamFusion, read_lag
from veilnet.centre.streams.model import StreamModel

__all__ = ["Fusion"]

_ROWS_AT_ONCE = 8192
_ROWS_WORTH_A_PRODUCT = 64  # fewer are put side by side first: one product for all agents
_VIEWS_KEPT = 256  # sets of agents whose gains are remembered


@runtime_checkable
class Planned(Protocol):
    """Something that knows the model of its messages: a :class:`veilnet.Plan`."""

    @property
    def messages(self) -> CentreModel | StreamModel:
        """The model of what the agents send."""


class Fusion:
    """Estimates the public parameters of a plan from sanitized messages.

    plan:    a :class:`veilnet.Plan`, or the model of its messages. At the centre, :meth:`load` reads that model from
             the file ``plan/center.json``.
    history: of a stream, how many rows back a message may come late to :meth:`update`.
    """

    def __init__(self, plan: Planned | CentreModel | StreamModel, *, history: int = 64) -> None:
        if not isinstance(plan, Planned | CentreModel | StreamModel):
            raise InvalidPlan(
                f"plan: expected a veilnet.Plan, found {type(plan).__name__}; "
                "use Plan.load(folder), or Fusion.load(plan/center.json)"
            )
        self.model = plan if isinstance(plan, CentreModel | StreamModel) else plan.messages
        self._known = frozenset(self.model.agents)
        self._stream = StreamFusion(self.model, history) if isinstance(self.model, StreamModel) else None
        if isinstance(self.model, StreamModel):
            return
        self._messages = self.model
        self._views: dict[bytes, View] = {}
        complete = self._messages.complete
        self._gain = np.ascontiguousarray(complete.gain.T)
        self._gains = np.split(self._gain, self._messages.blocks.starts[1:])
        constant = self._messages.public_expected - complete.gain @ self._messages.expected
        constant[~complete.estimable] = np.nan
        self._constants = np.tile(constant, _ROWS_AT_ONCE)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Fusion:
        """A fusion from its file; a truncated or changed one is refused.

        path: ``center.json`` in the folder of a saved plan.
        """
        from veilnet.io.centre_files import load_centre

        return cls(load_centre(path))

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in sending order."""
        return self.model.agents

    @property
    def sent(self) -> dict[str, int]:
        """How many numbers each agent sends."""
        return {a: int(n) for a, n in zip(self.agents, self.model.blocks.sizes, strict=True)}

    def estimate(self, messages: Mapping[str, Any] | Any) -> Estimate:
        """The public parameters, estimated from whatever arrived.

        messages: agent -> message, (M_i,) for one row or (T, M_i) for many, all of the same length; or one array,
                  (M,) or (T, M), with the numbers of all agents side by side in sending order.

        An agent that is left out, or whose numbers in a row are not all finite, is missing in that row. Of a stream,
        rows begin with row 1; not a number is a message that did not arrive, infinite in every number one in which
        the agent said that its reading was missed (as :meth:`veilnet.agent.stream.Stream.sanitize` gives it).
        """
        if self._stream is not None:
            return self._of_stream(*self._stacked_rows(messages), lag=0)
        parts, count = self._read(messages) if isinstance(messages, Mapping) else self._read_stacked(messages)
        rows = 1 if count is None else count
        absent = np.array([part is None for part in parts]) & (np.asarray(self._sizes(parts)) > 0)
        public = np.empty((rows, len(self._messages.labels)))
        gaps: list[tuple[Integers, Booleans]] = []
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, rows, _ROWS_AT_ONCE):
                chunk = public[start : start + _ROWS_AT_ONCE]
                if not absent.any() and self._all_sent(parts, start, chunk):
                    continue
                stacked = self._stacked(parts, start, start + len(chunk))
                silent = self._silent(stacked)
                where = np.flatnonzero(silent.any(axis=1))
                gaps.append((where + start, silent[where]))
                chunk[where] = self._by_set(stacked[where], silent[where])
        return self._result(public, gaps, single=count is None)

    def smooth(self, messages: Mapping[str, Any] | Any, *, lag: int | None = None) -> Estimate:
        """Of a stream, the public parameters in each row, estimated from what arrived up to some rows later.

        messages: as in :meth:`estimate`.
        lag:      how many rows later; all there are when left out.
        """
        self._require_stream("smooth")
        return self._of_stream(*self._stacked_rows(messages), lag=read_lag(lag))

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
        return self._as_estimate(stream.update(stacked[0], None if row is None else int(row)), single=True)

    def follow(self, *, lag: int | None = 0) -> Follower:
        """Of a stream, something that takes in blocks of rows one after another, in constant memory.

        lag: how many later rows an estimate waits for; None for all of them, which takes memory for each.
        """
        return Follower(self._require_stream("follow").gains, read_lag(lag))

    def _require_stream(self, what: str) -> StreamFusion:
        if self._stream is None:
            raise InvalidRequest(
                f"{what}: the plan is for rows that have nothing to do with one another; use estimate, or give the "
                "network dynamics= and design again"
            )
        return self._stream

    def _stacked_rows(self, messages: Mapping[str, Any] | Any) -> tuple[Array, int | None]:
        """All numbers of a row side by side, and the number of rows (None: one, as vectors)."""
        parts, count = self._read(messages) if isinstance(messages, Mapping) else self._read_stacked(messages)
        return self._stacked(parts, 0, 1 if count is None else count).copy(), count

    def _of_stream(self, stacked: Array, count: int | None, *, lag: int | None) -> Estimate:
        assert self._stream is not None
        return self._as_estimate(self._stream.estimate(stacked, lag), single=count is None)

    def _as_estimate(self, rows: PublicRows, *, single: bool) -> Estimate:
        silent = [tuple(self.agents[place] for place in np.flatnonzero(kind)) for kind in rows.silent]
        return Estimate(
            public=rows.public[0] if single else rows.public,
            labels=self.model.labels,
            units=self.model.units,
            set_of_row=rows.kind,
            set_covariance=rows.covariance,
            set_estimable=rows.estimable,
            set_missing=tuple(silent),
        )

    def _read(self, messages: Mapping[str, Any]) -> tuple[list[Array | None], int | None]:
        """The messages in sending order, None where absent, and the number of rows (None: one, as vectors)."""
        strangers = [str(name) for name in messages if name not in self._known]
        if strangers:
            raise InvalidReading(str(unknown(strangers, self.agents, "messages")))
        parts: list[Array | None] = [None] * len(self.agents)
        shapes: dict[tuple[int, ...], str] = {}
        for place, (agent, size) in enumerate(self.sent.items()):
            if agent not in messages:
                continue
            part = _as_message(messages[agent], f"messages[{agent!r}]", size)
            parts[place] = part
            shapes.setdefault(part.shape[:-1], agent)
        if len(shapes) > 1:
            found = ", ".join(f"{agent!r} {_rows_in_words(shape)}" for shape, agent in shapes.items())
            raise InvalidReading(
                f"messages: expected the same number of rows from every agent, found {found}; "
                "fill rows that did not arrive with nan"
            )
        shape = next(iter(shapes), ())
        return parts, shape[0] if shape else None

    def _read_stacked(self, messages: Any) -> tuple[list[Array | None], int | None]:
        stacked = _as_message(messages, "messages", self.model.blocks.total)
        return [stacked], len(stacked) if stacked.ndim == 2 else None

    def _all_sent(self, parts: list[Array | None], start: int, public: Array) -> bool:
        """Estimate rows in which everybody sent; False if there are others, whose estimates are of no use."""
        pieces = parts
        if len(public) < _ROWS_WORTH_A_PRODUCT and len(parts) > 1:
            pieces = [self._stacked(parts, start, start + len(public))]
        gains = self._gains if len(pieces) == len(self._gains) else [self._gain]
        checked, begun = 0.0, False
        for part, gain in zip(pieces, gains, strict=True):
            if part is None or len(gain) == 0:
                continue
            piece = part[start : start + len(public)] if pieces is parts and part.ndim == 2 else part
            piece = piece.reshape(len(public), -1)
            if begun:
                public += piece @ gain
            else:
                np.matmul(piece, gain, out=public)
                begun = True
            # a sum of squares is finite only if every number is: the cheapest look at all of them
            checked += float(np.vdot(piece, piece))
        if not begun:
            public[:] = 0.0
        # flat, since adding a short row to each of many rows costs more than the product
        flat = public.reshape(-1)
        flat += self._constants[: flat.size]
        return bool(np.isfinite(checked))

    def _stacked(self, parts: list[Array | None], start: int, stop: int) -> Array:
        filled = [
            np.full((stop - start, size), np.nan) if part is None else np.atleast_2d(part)[start:stop]
            for part, size in zip(parts, self._sizes(parts), strict=True)
        ]
        return filled[0] if len(filled) == 1 else np.concatenate(filled, axis=1)

    def _sizes(self, parts: list[Array | None]) -> Any:
        """Numbers in each part: all of them in one where they were given side by side."""
        return self.model.blocks.sizes if len(parts) == len(self.agents) else [self.model.blocks.total]

    def _silent(self, stacked: Array) -> Booleans:
        """(rows, agents): who did not send all its numbers."""
        bad = ~np.isfinite(stacked)
        sizes, starts = self._messages.blocks.sizes, self._messages.blocks.starts
        silent = np.zeros((len(stacked), len(sizes)), bool)
        sending = np.flatnonzero(sizes)
        if sending.size:
            silent[:, sending] = np.logical_or.reduceat(bad, starts[sending], axis=1)
        return silent

    def _by_set(self, stacked: Array, silent: Booleans) -> Array:
        """Estimates from whoever sent, all rows with the same agents at once."""
        public = np.empty((len(stacked), len(self._messages.labels)))
        for pattern, members in _by_pattern(silent):
            view = self._view(pattern)
            columns = np.flatnonzero(np.repeat(~pattern, self._messages.blocks.sizes))
            arrived = stacked[members][:, columns] - self._messages.expected[columns]
            estimates = arrived @ view.gain.T + self._messages.public_expected
            estimates[:, ~view.estimable] = np.nan  # the gain says so too, unless it has no column to say it
            public[members] = estimates
        return public

    def _view(self, silent: Booleans) -> View:
        if not silent.any():
            return self._messages.complete
        key = np.packbits(silent).tobytes()
        view = self._views.get(key)
        if view is None:
            while len(self._views) >= _VIEWS_KEPT:
                self._views.pop(next(iter(self._views)), None)
            view = self._views[key] = self._messages.view(~silent)
        return view

    def _result(self, public: Array, gaps: list[tuple[Integers, Booleans]], *, single: bool) -> Estimate:
        set_of_row = np.zeros(len(public), dtype=np.intp)
        patterns: list[Booleans] = []
        if sum(len(where) for where, _ in gaps) < len(public) or not gaps:
            patterns.append(np.zeros(len(self.agents), bool))
        if gaps:
            where = np.concatenate([rows for rows, _ in gaps])
            for pattern, members in _by_pattern(np.concatenate([silent for _, silent in gaps])):
                set_of_row[where[members]] = len(patterns)
                patterns.append(pattern)
        views = [self._view(pattern) for pattern in patterns]
        return Estimate(
            public=public[0] if single else public,
            labels=self._messages.labels,
            units=self._messages.units,
            set_of_row=set_of_row,
            set_covariance=np.stack([view.covariance for view in views]),
            set_estimable=np.stack([view.estimable for view in views]),
            set_missing=tuple(
                tuple(self.agents[place] for place in np.flatnonzero(pattern)) for pattern in patterns
            ),
        )

    def __repr__(self) -> str:
        return f"Fusion({len(self.agents)} agents, {self.model.blocks.total} numbers -> {list(self.model.labels)})"


def _by_pattern(silent: Booleans) -> list[tuple[Booleans, Integers]]:
    """The distinct rows, each with where it occurs."""
    if len(silent) == 0:
        return []
    packed = np.packbits(silent, axis=1)
    width = 8 if packed.shape[1] <= 8 else packed.shape[1]
    packed = np.pad(packed, ((0, 0), (0, width - packed.shape[1])))
    kind = np.dtype(np.uint64) if width == 8 else np.dtype((np.void, width))  # numbers sort faster
    _, first, inverse = np.unique(packed.view(kind).reshape(-1), return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    cuts = np.searchsorted(inverse[order], np.arange(1, len(first)))
    return [(silent[row], members) for row, members in zip(first, np.split(order, cuts), strict=True)]


def _as_message(value: Any, name: str, size: int) -> Array:
    try:
        raw = np.ma.filled(value, np.nan) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        part = np.asarray(raw, dtype=np.float64) if raw.dtype.kind in "fiubO" else None
    except (TypeError, ValueError, OverflowError):
        part = None
    if part is None:
        raise InvalidReading(f"{name}: expected numbers, found something else; nan means missing")
    if part.ndim not in (1, 2) or part.shape[-1] != size:
        advice = "; write z[:, None] for a column of single numbers" if size == 1 and part.ndim == 1 else ""
        raise InvalidReading(f"{name}: expected shape ({size},) or (T, {size}), found {part.shape}{advice}")
    return part


def _rows_in_words(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} rows" if shape else "one row as a vector"
