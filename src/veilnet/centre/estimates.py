"""What a centre has to say of the public parameters, row by row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.contradictions import Contradiction
from veilnet.model.fitted import HeldOut

if TYPE_CHECKING:
    from veilnet.centre.models import Messages

Known = tuple[Array, Booleans, Integers]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates of the public parameters, one row per row of messages (no rows axis for a single one).

    public:     (T, rows of U) or (rows of U,); not a number where not estimable.
    labels:     name of each public row; ``units`` beside it.
    covariance: (T, rows, rows) or (rows, rows) of the error; where a parameter is not estimable its variance
                is infinite. One set of agents in all rows: a view that takes no memory. Of a network that was fitted
                it counts what rows held out of the fit showed beyond the model (``held_out``), and so does
                ``deviation``; ``model_deviation`` is the model's alone.
    outside:    (T, rows) or (rows,), where an estimate lies beyond what was calibrated.
    estimable:  (T, rows) or (rows,).
    missing:    names of the agents that did not send: a tuple, or one per row.
    contradicting: names of the agents whose messages contradict the model, likewise; they are left out unless the
                fusion keeps them. ``contradictions`` says why, and names those that a sudden change explains too:
                these are used.

    Rows with the same agents share a covariance. ``set_of_row`` numbers, for each row, the set of agents it was
    estimated from; ``set_covariance``, ``set_estimable`` and ``set_missing`` (the agents that were not used) have
    what belongs to each set.
    """

    public: Array
    labels: tuple[str, ...]
    units: tuple[str, ...]
    set_of_row: Integers
    set_covariance: Array
    set_estimable: Booleans
    set_missing: tuple[Sequence[str], ...]
    contradictions: tuple[Contradiction, ...] = ()
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls, model: Messages, public: Array, keys: Sequence[Hashable], known: Callable[[int], Known]
    ) -> Estimate:
        """Estimates of rows of which those with the same key share what is known of their errors.

        model:  of the messages.
        public: the estimates, (T, rows of U).
        keys:   one for each row.
        known:  of one row, by its number: (covariance, estimable, places of the agents that were not used).
        """
        kinds: dict[Hashable, int] = {}
        set_of_row = np.array([kinds.setdefault(key, len(kinds)) for key in keys], dtype=np.intp)
        sets = [known(int(row)) for row in np.unique(set_of_row, return_index=True)[1]]
        rows = len(model.labels)
        return cls(
            public,
            model.labels,
            model.units,
            set_of_row,
            np.array([covariance for covariance, _, _ in sets]).reshape(len(sets), rows, rows),
            np.array([estimable for _, estimable, _ in sets], bool).reshape(len(sets), rows),
            tuple(tuple(model.agents[place] for place in silent.tolist()) for _, _, silent in sets),
            held_out=model.held_out,
        )

    @classmethod
    def joined(cls, parts: Sequence[tuple[Integers, Estimate]]) -> Estimate:
        """One estimate of all rows, from estimates of some of them each.

        parts: (which rows, their estimate), every row in one of them.
        """
        first = parts[0][1]
        rows = sum(len(mine) for mine, _ in parts)
        public, set_of_row = np.empty((rows, len(first.labels))), np.empty(rows, np.intp)
        before, doubts = 0, []
        for mine, each in parts:
            public[mine] = each.public
            set_of_row[mine] = each.set_of_row + before
            before += len(each.set_missing)
            doubts += [replace(doubt, row=int(mine[doubt.row])) for doubt in each.contradictions]
        return replace(
            first,
            public=public,
            set_of_row=set_of_row,
            set_covariance=np.concatenate([each.set_covariance for _, each in parts]),
            set_estimable=np.concatenate([each.set_estimable for _, each in parts]),
            set_missing=tuple(names for _, each in parts for names in each.set_missing),
            contradictions=tuple(sorted(doubts, key=lambda doubt: doubt.row)),
        )

    def lacking(self, names: Sequence[str]) -> Estimate:
        """The same, which says that these agents too were not used.

        names: who they are.
        """
        return replace(self, set_missing=tuple((*names, *each) for each in self.set_missing))

    def one_row(self) -> Estimate:
        """That of the first row by itself, without an axis for rows."""
        return replace(self, public=self.public[0])

    @property
    def single(self) -> bool:
        """Whether it was made from one row given as vectors."""
        return self.public.ndim == 1

    @cached_property
    def covariance(self) -> Array:
        """Of the error, per row."""
        if not self.held_out:
            return np.asarray(self._per_row(self.set_covariance))
        return np.asarray(self._per_row(self.set_covariance + np.diag(self._beyond)))

    @cached_property
    def estimable(self) -> Booleans:
        """Which public parameters what arrived determines, per row."""
        return np.asarray(self._per_row(self.set_estimable))

    @cached_property
    def deviation(self) -> Array:
        """Standard deviations of the errors, per row and parameter."""
        variances = np.diagonal(self.set_covariance, axis1=1, axis2=2)
        return np.asarray(self._per_row(np.sqrt(variances + self._beyond if self.held_out else variances)))

    @cached_property
    def model_deviation(self) -> Array:
        """The same if rows followed the model that was fitted."""
        return np.asarray(self._per_row(np.sqrt(np.diagonal(self.set_covariance, axis1=1, axis2=2))))

    @cached_property
    def outside(self) -> Booleans:
        """Which estimates lie beyond what the parameter was in the rows of the fit, where there was one."""
        found = np.zeros(self.public.shape, bool)
        for place, label in enumerate(self.labels):
            seen = self.held_out.get(label)
            if seen is not None:
                values = self.public[..., place]
                found[..., place] = (values < seen.lowest) | (values > seen.highest)
        return found

    @property
    def _beyond(self) -> Array:
        """(rows,) variances that rows held out of the fit add."""
        held = [self.held_out[label].beyond if label in self.held_out else 0.0 for label in self.labels]
        return np.square(held)

    @cached_property
    def missing(self) -> tuple[Any, ...]:
        """Names of the agents that did not send: a tuple of names, or one such tuple per row."""
        unused = [self.set_missing[place] for place in self.set_of_row]
        for doubt in self.contradictions:
            unused[doubt.row] = tuple(name for name in unused[doubt.row] if name != doubt.agent)
        return unused[0] if self.single else tuple(unused)

    @cached_property
    def contradicting(self) -> tuple[Any, ...]:
        """Names of the agents whose messages contradict the model: a tuple of names, or one such tuple per row."""
        doubted: list[tuple[str, ...]] = [()] * len(self.set_of_row)
        for doubt in self.contradictions:
            if not doubt.sudden:
                doubted[doubt.row] = (*doubted[doubt.row], doubt.agent)
        return doubted[0] if self.single else tuple(doubted)

    def _per_row(self, of_set: Any) -> Any:
        if self.single:
            return of_set[0]
        if len(of_set) == 1:
            return np.broadcast_to(of_set[0], (len(self.set_of_row), *of_set.shape[1:]))
        return of_set[self.set_of_row]

    def _repr_html_(self) -> str:
        from veilnet.report.cards import estimate_card

        return estimate_card(self)

    def __repr__(self) -> str:
        rows = "one row" if self.single else f"{len(self.public)} rows"
        gaps = sum(bool(names) for names in self.set_missing)
        unknown_ = "" if self.set_estimable.all() else ", some not estimable"
        return f"Estimate({rows} of {', '.join(self.labels)}; {gaps} sets of agents with gaps{unknown_})"
