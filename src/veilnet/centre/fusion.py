"""At the centre: estimates of the public parameters from whatever arrived.

The estimate is the posterior mean where there is a prior and the best linear unbiased one where there is
none, in information form, for each set of agents that sent (mathematics, section 1): its error covariance is
U P̃ U', P̃ computed from those agents alone. What they do not determine is not estimated: it is not a number,
and says so. (The rounding of messages to their grids adds less than 1e-6 of the covariance.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidReading
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.validation import unknown
from veilnet.centre.messages import CentreModel, View

__all__ = ["Estimate", "Fusion"]

_ROWS_AT_ONCE = 8192
_ROWS_WORTH_A_PRODUCT = 64  # fewer are put side by side first: one product for all agents
_VIEWS_KEPT = 256  # sets of agents whose gains are remembered


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates of the public parameters, one row per row of messages (no rows axis for a single one).

    public:     (T, rows of U) or (rows of U,); not a number where not estimable.
    labels:     name of each public row; ``units`` beside it.
    covariance: (T, rows, rows) or (rows, rows) of the error; where a parameter is not estimable its variance
                is infinite. One set of agents in all rows: a view that takes no memory.
    estimable:  (T, rows) or (rows,).
    missing:    names of the agents that did not send: a tuple, or one per row.

    Rows with the same agents share a covariance. ``set_of_row`` numbers, for each row, the set of agents that sent;
    ``set_covariance``, ``set_estimable`` and ``set_missing`` have what belongs to each set.
    """

    public: Array
    labels: tuple[str, ...]
    units: tuple[str, ...]
    set_of_row: Integers
    set_covariance: Array
    set_estimable: Booleans
    set_missing: tuple[tuple[str, ...], ...]

    @property
    def single(self) -> bool:
        """Whether it was made from one row given as vectors."""
        return self.public.ndim == 1

    @cached_property
    def covariance(self) -> Array:
        """Of the error, per row."""
        return np.asarray(self._per_row(self.set_covariance))

    @cached_property
    def estimable(self) -> Booleans:
        """Which public parameters what arrived determines, per row."""
        return np.asarray(self._per_row(self.set_estimable))

    @cached_property
    def deviation(self) -> Array:
        """Standard deviations of the errors, per row and parameter."""
        return np.asarray(self._per_row(np.sqrt(np.diagonal(self.set_covariance, axis1=1, axis2=2))))

    @cached_property
    def missing(self) -> tuple[Any, ...]:
        """Names of the agents that did not send: a tuple of names, or one such tuple per row."""
        if self.single:
            return self.set_missing[0]
        return tuple(self.set_missing[place] for place in self.set_of_row)

    def _per_row(self, of_set: Any) -> Any:
        if self.single:
            return of_set[0]
        if len(of_set) == 1:
            return np.broadcast_to(of_set[0], (len(self.set_of_row), *of_set.shape[1:]))
        return of_set[self.set_of_row]

    def __repr__(self) -> str:
        rows = "one row" if self.single else f"{len(self.public)} rows"
        gaps = sum(bool(names) for names in self.set_missing)
        unknown_ = "" if self.set_estimable.all() else ", some not estimable"
        return f"Estimate({rows} of {', '.join(self.labels)}; {gaps} sets of agents with gaps{unknown_})"


@runtime_checkable
class Planned(Protocol):
    """Something that knows the model of its messages: a :class:`veilnet.Plan`."""

    @property
    def messages(self) -> CentreModel:
        """The model of what the agents send."""


class Fusion:
    """Estimates the public parameters of a plan from sanitized messages.

    plan: a :class:`veilnet.Plan`, or the model of its messages. At the centre, :meth:`load` reads that model from
          the file ``plan/center.json``.
    """

    def __init__(self, plan: Planned | CentreModel) -> None:
        if not isinstance(plan, Planned | CentreModel):
            raise InvalidPlan(
                f"plan: expected a veilnet.Plan, found {type(plan).__name__}; "
                "use Plan.load(folder), or Fusion.load(plan/center.json)"
            )
        self.model = plan if isinstance(plan, CentreModel) else plan.messages
        self._known = frozenset(self.model.agents)
        self._views: dict[bytes, View] = {}
        complete = self.model.complete
        self._gain = np.ascontiguousarray(complete.gain.T)
        self._gains = np.split(self._gain, self.model.blocks.starts[1:])
        constant = self.model.public_expected - complete.gain @ self.model.expected
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

        An agent that is left out, or whose numbers in a row are not all finite, is missing in that row.
        """
        parts, count = self._read(messages) if isinstance(messages, Mapping) else self._read_stacked(messages)
        rows = 1 if count is None else count
        absent = np.array([part is None for part in parts]) & (np.asarray(self._sizes(parts)) > 0)
        public = np.empty((rows, len(self.model.labels)))
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
        sizes, starts = self.model.blocks.sizes, self.model.blocks.starts
        silent = np.zeros((len(stacked), len(sizes)), bool)
        sending = np.flatnonzero(sizes)
        if sending.size:
            silent[:, sending] = np.logical_or.reduceat(bad, starts[sending], axis=1)
        return silent

    def _by_set(self, stacked: Array, silent: Booleans) -> Array:
        """Estimates from whoever sent, all rows with the same agents at once."""
        public = np.empty((len(stacked), len(self.model.labels)))
        for pattern, members in _by_pattern(silent):
            view = self._view(pattern)
            columns = np.flatnonzero(np.repeat(~pattern, self.model.blocks.sizes))
            arrived = stacked[members][:, columns] - self.model.expected[columns]
            estimates = arrived @ view.gain.T + self.model.public_expected
            estimates[:, ~view.estimable] = np.nan  # the gain says so too, unless it has no column to say it
            public[members] = estimates
        return public

    def _view(self, silent: Booleans) -> View:
        if not silent.any():
            return self.model.complete
        key = np.packbits(silent).tobytes()
        view = self._views.get(key)
        if view is None:
            while len(self._views) >= _VIEWS_KEPT:
                self._views.pop(next(iter(self._views)), None)
            view = self._views[key] = self.model.view(~silent)
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
