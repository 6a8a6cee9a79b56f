"""At the centre: estimates of the public parameters from whatever arrived.

The estimate is the posterior mean where there is a prior and the best linear unbiased one where there is
none, in information form, for each set of agents that sent (mathematics, section 1): its error covariance is
U P̃ U', P̃ computed from those agents alone. What they do not determine is not estimated: it is not a number,
and says so. (The rounding of messages to their grids adds less than 1e-6 of the covariance.)

Of a stream, whose rows follow one another, it filters (:mod:`veilnet.centre.streams`): the estimate of a row is the
best one from all that arrived up to it, or up to some rows later for those who can wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from veilnet._core.bounded import Bounded
from veilnet._core.errors import InvalidPlan, InvalidReading, InvalidRequest
from veilnet._core.labelled import labels_of, picked
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans
from veilnet._core.validation import refuse_unknown, unknown
from veilnet.centre.estimates import Estimate
from veilnet.centre.gate import by_who_sent
from veilnet.centre.messages import CentreModel
from veilnet.centre.models import Messages
from veilnet.centre.rows import RowFusion
from veilnet.centre.streams.adding_up import Adder, SumFusion
from veilnet.centre.streams.fusing import Follower, StreamFusion
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SumModel
from veilnet.centre.sum_parts import SumParts
from veilnet.centre.summing import added_up, without

_SETS_KEPT = 16  # sets of members that a sum lacks, whose fusions are kept


@runtime_checkable
class HasMessages(Protocol):
    """Something that knows the model of its messages: a :class:`veilnet.Plan`."""

    @property
    def messages(self) -> Messages:
        """The model of what the agents send."""


_Fuser: TypeAlias = RowFusion | StreamFusion | SumFusion


def _fuser(model: Messages, gate: float | None, history: int, *, keep: bool) -> _Fuser:
    if isinstance(model, SumModel):
        return SumFusion(model, gate, keep=keep)
    if keep and gate is None:
        raise InvalidRequest("keep: without a gate nothing is left out; give gate=1e-6 as well")
    if isinstance(model, StreamModel):
        return StreamFusion(model, gate, keep=keep, history=history)
    return RowFusion(model, gate, keep=keep)


class Fusion:
    """Estimates the public parameters of a plan from sanitized messages.

    plan:    a :class:`veilnet.Plan`, or the model of its messages. At the centre, :meth:`load` reads that model from
             the file ``plan/center.json``.
    gate:    test every row against the model at this false-alarm rate, such as 1e-6, and leave out messages that
             contradict it (:mod:`veilnet.centre.gate`; of a stream, given the rows before,
             :mod:`veilnet.centre.streams.tracking`). None: estimate from whatever arrived.
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
        self._fuser = _fuser(self.model, gate, history, keep=keep)
        self.gate = self._fuser.gate
        self.keep = keep
        self._rate = gate
        self._sums: Mapping[str, SumParts] = {} if isinstance(self.model, SumModel) else self.model.sums
        self._fuser_without = Bounded[_Fuser](_SETS_KEPT)

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
        return self._fuser.is_stream

    @property
    def sent(self) -> dict[str, int]:
        """How many numbers each agent sends."""
        return {a: int(n) for a, n in zip(self.agents, self.model.blocks.sizes, strict=True)}

    @property
    def sums(self) -> Mapping[str, SumParts]:
        """group -> who adds up in it, where agents are groups."""
        return self._sums

    def estimate(self, messages: Mapping[str, Any] | Any, *, missing: Collection[str] = ()) -> Estimate:
        """The public parameters, estimated from whatever arrived.

        messages: agent -> message, (M_i,) for one row or (T, M_i) for many, all of the same length; or one array,
                  (M,) or (T, M), with the numbers of all agents side by side in sending order. Columns with names,
                  of a pandas or polars frame, must be called z1, z2, ..., or side by side kitchen_1, kitchen_2, ...
                  Where agents add up their messages: group -> sum; or member -> message, which are added up here, as
                  a simulation.
        missing:  members that are not in the sums: the estimate uses what the others add, with the error of that.

        An agent that is left out, or whose numbers in a row are not all finite, is missing in that row. Of a stream,
        rows begin with row 1; not a number is a message that did not arrive, infinite in every number one in which
        the agent said that its reading was missed (as :meth:`veilnet.agent.stream.Stream.sanitize` gives it).
        """
        return self._estimate(messages, 0, missing)

    def stacked(self, messages: Mapping[str, Any] | Any) -> Array:
        """Messages as one array (T, M), agent after agent in sending order.

        messages: as for :meth:`estimate`; not a number where an agent sent none, or where a sum lacks a member.
        """
        if self._sums and isinstance(messages, Mapping):
            messages, members, absent = added_up(self._sums, messages, (), follows=self.is_stream)
            stacked = np.array(np.atleast_2d(self._read(messages)))
            for name, parts in self._sums.items():
                lacks = np.any(absent[[members.index(agent) for agent in parts.members]], axis=0)
                mine = self.model.blocks.rows(self.agents.index(name))
                stacked[np.ix_(lacks & ~np.isinf(stacked[:, mine]).all(axis=1), np.r_[mine])] = np.nan
            return stacked
        return np.atleast_2d(self._read(messages))

    def _estimate(
        self, messages: Mapping[str, Any] | Any, lag: int | None, missing: Collection[str] = ()
    ) -> Estimate:
        if missing and not (self._sums and isinstance(messages, Mapping)):
            raise InvalidRequest(
                "missing: goes with sums of members, by name; leave agents that sent nothing out"
            )
        absent: Booleans = np.zeros((0, 1), bool)
        members: tuple[str, ...] = ()
        if self._sums and isinstance(messages, Mapping):
            messages, members, absent = added_up(self._sums, messages, missing, follows=self.is_stream)
        stacked = self._read(messages)
        rows = np.atleast_2d(stacked)
        if not np.any(absent):
            found = self._fuser.estimate(rows, lag)
        else:
            found = self._estimate_survivors(rows, lag, members, absent)
        return found.one_row() if stacked.ndim == 1 else found

    def _estimate_survivors(
        self, rows: Array, lag: int | None, members: Sequence[str], absent: Booleans
    ) -> Estimate:
        """The estimates of sums that lack some members: those with the same ones together."""
        if self.is_stream:  # which follows all rows, and does not use such sums
            return self._fuser.estimate(rows, lag)
        order, patterns = by_who_sent(np.broadcast_to(absent, (len(absent), len(rows))))
        found = []
        for pattern, some in patterns:
            names = tuple(members[place] for place in np.flatnonzero(pattern).tolist())
            fuser = self._fuser_without.get(names, partial(self._without, names))
            found.append((order[some], fuser.estimate(rows[order[some]], lag).lacking(names)))
        return Estimate.joined(found)

    def _without(self, names: tuple[str, ...]) -> _Fuser:
        return _fuser(without(self.model, names), self._rate, 0, keep=self.keep)

    def smooth(self, messages: Mapping[str, Any] | Any, *, lag: int | None = None) -> Estimate:
        """Of a stream, the public parameters in each row, estimated from what arrived up to some rows later.

        messages: as in :meth:`estimate`.
        lag:      how many rows later; all there are when left out.
        """
        self._followed("smooth")
        return self._estimate(messages, _read_lag(lag))

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
        stream = self._followed("update")
        refuse_unknown(missed, self.agents, "missed", error=InvalidRequest)
        both = [agent for agent in missed if agent in messages]
        if both:
            raise InvalidReading(f"missed: {both[0]!r} sent a message too; it is either one or the other")
        numbers = np.array(self._read(messages))
        if numbers.ndim > 1:
            raise InvalidReading(
                "messages: expected one row of each agent, found many; use estimate for a block"
            )
        for agent in missed:
            numbers[self.model.blocks.rows(self.agents.index(agent))] = MISSED
        if row is not None and (not isinstance(row, int | np.integer) or isinstance(row, bool) or row < 1):
            raise InvalidRequest(f"row: expected a whole number from 1 on, found {row!r}")
        return stream.update(numbers, None if row is None else int(row))

    def follow(self, *, lag: int | None = 0) -> Follower | Adder:
        """Of a stream, something that takes in blocks of rows one after another, in constant memory.

        lag: how many later rows an estimate waits for; None for all of them, which takes memory for each.
        """
        return self._followed("follow").follow(_read_lag(lag))

    def _followed(self, what: str) -> StreamFusion | SumFusion:
        if not isinstance(self._fuser, StreamFusion | SumFusion):
            raise InvalidRequest(
                f"{what}: the plan is for independent rows; use estimate, or give the network dynamics= and "
                f"design again"
            )
        return self._fuser

    def _read(self, messages: Mapping[str, Any] | Any) -> Array:
        """All numbers side by side in sending order, (M,) or (T, M); not a number where an agent sent none."""
        sent, blocks = self.sent, self.model.blocks
        if not isinstance(messages, Mapping):
            return as_message(
                messages,
                "messages",
                blocks.total,
                lambda: [name for agent, size in sent.items() for name in numbered(f"{agent}_", size)],
            )
        strangers = [str(name) for name in messages if name not in sent]
        if strangers:
            raise InvalidReading(str(unknown(strangers, self.model.agents, "messages")))
        parts = {
            place: as_message(messages[agent], f"messages[{agent!r}]", size, partial(numbered, "z", size))
            for place, (agent, size) in enumerate(sent.items())
            if agent in messages
        }
        shapes = {part.shape[:-1]: self.agents[place] for place, part in reversed(parts.items())}
        if len(shapes) > 1:
            found = ", ".join(
                f"{agent!r} {f'{shape[0]} rows' if shape else 'one row as a vector'}"
                for shape, agent in reversed(shapes.items())
            )
            raise InvalidReading(
                f"messages: expected the same number of rows from every agent, found {found}; "
                "fill rows that did not arrive with nan"
            )
        # number after number, each with all its rows: short rows are copied slowly
        stacked = np.empty((blocks.total, *next(iter(shapes), ())))
        for place in range(blocks.count):
            stacked[blocks.rows(place)] = parts[place].T if place in parts else np.nan
        return stacked.T

    def __repr__(self) -> str:
        return f"Fusion({len(self.agents)} agents, {self.model.blocks.total} numbers -> {list(self.model.labels)})"


def _read_lag(lag: object) -> int | None:
    """A number of rows to wait for; None for all of them."""
    if lag is None:
        return None
    if not isinstance(lag, int | np.integer) or isinstance(lag, bool) or lag < 0:
        raise InvalidRequest(
            f"lag: expected a whole number of rows to wait for, or None for all, found {lag!r}"
        )
    return int(lag)


def as_message(value: Any, name: str, size: int, columns: Callable[[], Sequence[str]]) -> Array:
    """Numbers (size,) of one row or (T, size) of many; not a number where something is missing.

    name:    what the value is called in an error.
    columns: what its columns have to be called, where they have names.
    """
    if labels_of(value) is not None:
        value = picked(value, columns(), name, InvalidReading)
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


def numbered(stem: str, count: int) -> list[str]:
    """z1, z2, ... for the stem z."""
    return [f"{stem}{k + 1}" for k in range(count)]
