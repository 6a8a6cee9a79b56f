"""Can privacy be free on a stream? The ceiling is what share filters leave, judged with hindsight.

Arbitrarily strong privacy at perfect utility (ASUP) is achievable iff that ceiling equals the limit: the error of g
when nothing at all is sent, which is that of x in the long run, or without bound where x wanders off. What share
filters never let the centre bound stays hidden for ever (``hidden``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.lyapunov import complement
from veilnet._core.types import Array
from veilnet._core.words import direction_in_words, join_names, number, times
from veilnet.agent.dither import with_settled_dither
from veilnet.bounds.streams.gaps import promise_with_gaps
from veilnet.bounds.streams.knowledge import StreamKnowledge, silent_stream, stream_knowledge
from veilnet.bounds.typical_errors import OF_STREAMS, STREAM_COLUMNS
from veilnet.model.network import Network
from veilnet.model.stream_size import NOW_IS_NOT_COMPUTED, by_stacks
from veilnet.verdict.printed_theorems import PrintedTheorem, printed_theorem
from veilnet.verdict.streams.share_filters import ShareFilters, share_filters
from veilnet.verdict.verdict import Verdict

# A ceiling this near its limit, relative, reaches it: two steady states agree to about a tenth of it.
_SHORTFALL = 1e-9
# Agents are searched one by one for who stands in the way; in words only while that takes about a second.
_MOST_WORK = 2e8
_AGENTS_IN_WORDS = 8


@dataclass(frozen=True, eq=False)
class StreamVerdict(Verdict):
    """Whether privacy can be free on a stream: as :class:`veilnet.Verdict`, with hindsight.

    ceiling_now: the same ceiling judged now, from the messages up to a row; empty where agents are so many that it is
                 not computed (the error now is at least that with hindsight).
    ceiling_with_gaps: the least of it around a missed row and at a start, empty likewise.
    """

    shares: ShareFilters  # type: ignore[assignment]  # filters, not rows of readings
    known: StreamKnowledge = field(kw_only=True)

    @property
    def tolerance(self) -> float:
        """The shortfall up to which the ceiling counts as reaching the limit."""
        return _SHORTFALL

    @cached_property
    def ceiling_now(self) -> dict[str, float]:
        if by_stacks(self.network):
            return {}
        return {name: self.known.growth(rows, hindsight=False) for name, rows in self.network.private.items()}

    @cached_property
    def ceiling_with_gaps(self) -> dict[str, float]:
        if by_stacks(self.network):
            return {}
        return dict(promise_with_gaps(self.network, self.shares.sanitizers, self.known).privacy)

    @cached_property
    def hidden(self) -> Array:
        """Directions of x (columns) that share filters keep hidden for ever.

        Of what returns to its mean they tell nothing at all; of what wanders off they never bound the error.
        """
        silent = silent_stream(self.network)
        # Rows of x that return to their mean: those without a part in any direction that does not.
        returning = complement(silent.steady.unbounded.T, self.network.L)
        stationary = silent.error(returning.T, hindsight=True)
        left_of_it = self.known.error(returning.T, hindsight=True)
        root = np.linalg.cholesky(stationary)
        left = np.linalg.solve(root, np.linalg.solve(root, stationary - left_of_it).T)
        values, vectors = np.linalg.eigh((left + left.T) / 2)
        unseen = returning @ np.linalg.solve(root.T, vectors[:, values < _SHORTFALL])
        wandering = self.known.steady.unbounded[: self.network.L]
        columns = np.concatenate([wandering, unseen], axis=1)
        return np.asarray(np.linalg.qr(columns)[0]) if columns.shape[1] else columns

    @cached_property
    def blocking(self) -> Mapping[str, Mapping[str, float]]:
        """Private parameter -> agent -> the ceiling if that agent kept silent, for agents in the way."""
        if self.blocked and by_stacks(self.network):
            raise InvalidRequest(
                f"blocking: who stands in the way is found by silencing one agent after another, which is not done "
                f"for {self.network.S} agents of a stream; ask about a part of the network"
            )
        return super().blocking

    @property
    def printed_theorem(self) -> PrintedTheorem:
        """The paper has no theorem for streams: that of one row by itself."""
        return printed_theorem(self.network.one_row)

    @property
    def names_blocking(self) -> bool:
        """Whether words name who stands in the way: only where trying all agents takes about a second."""
        if by_stacks(self.network):
            return False
        size = float(len(self.known.steady.basis))
        return self.network.S * size**3 <= _MOST_WORK

    @property
    def _further(self) -> Mapping[str, Mapping[str, str]]:
        both = zip(STREAM_COLUMNS, (self.ceiling_now, self.ceiling_with_gaps), strict=True)
        return {
            heading: {
                name: "" if name in self.detectability else times(1 + each) for name, each in grown.items()
            }
            for heading, grown in both
            if grown
        }

    def _footnotes(self) -> list[str]:
        lines = []
        if self.ceiling_now:
            lines.append(OF_STREAMS)
        if by_stacks(self.network):
            lines.append(NOW_IS_NOT_COMPUTED)
        lines.append(in_numbers(self.network, self.shares))
        hidden = self.hidden
        if hidden.shape[1]:
            words = [direction_in_words(column, self.network.parameters) for column in _plain(hidden).T]
            lines.append(f"Never revealed by share filters, without loss: {join_names(words)}.")
        return lines

    def _explanation(self) -> list[str]:
        kept = "none" if np.isinf(self.shares.kept) else number(self.shares.kept)
        return [
            "Each agent's filter keeps what the public estimate depends on. The smallest part kept moves it "
            f"by {kept} of the public standard error, the largest part dropped by "
            f"{number(self.shares.dropped)} (threshold {number(self.shares.tolerance)})."
        ]


def check_stream(network: Network) -> StreamVerdict:
    """The exact test of a stream network."""
    network = with_settled_dither(network, lambda tried: share_filters(tried).sanitizers)
    mine = share_filters(network)
    known = stream_knowledge(network, mine.sanitizers)
    limit = silent_stream(network).privacy
    return StreamVerdict(network, ceiling=known.privacy, limit=limit, shares=mine, known=known)


def in_numbers(network: Network, shares: ShareFilters) -> str:
    """How much each agent sends in a row and keeps from row to row, in words."""
    parts, orders = [], shares.orders
    for place, agent in enumerate(network.agents[:_AGENTS_IN_WORDS]):
        parts.append(f"{agent} {int(shares.ranks[place])} ({orders[agent]})")
    more = network.S - len(parts)
    return f"Numbers sent per row (and kept in memory): {', '.join(parts)}" + (
        f", and {more} more agents." if more else "."
    )


def _plain(columns: Array) -> Array:
    """A basis of the same space as plain as can be: its reduced column echelon form."""
    basis, leading = np.array(columns), []
    for place in range(basis.shape[1]):
        row, offset = divmod(int(np.argmax(np.abs(basis[:, place:]))), basis.shape[1] - place)
        basis[:, [place, place + offset]] = basis[:, [place + offset, place]]
        basis[:, place] /= basis[row, place]
        leading.append(row)
        others = np.arange(basis.shape[1]) != place
        basis[:, others] -= np.outer(basis[:, place], basis[row, others])
    return np.where(np.abs(basis) < 1e-9, 0.0, basis)[:, np.argsort(leading)]
