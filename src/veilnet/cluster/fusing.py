"""At the centre of a network in parts: estimates of the public parameters from a folder of messages.

Agent i's message is z_i = C_i H_i x + e_i around the prior mean, e_i of covariance M_i = C_i R_i C_i' + Θ_i. With
W_i M_i W_i' = I and A_i = W_i C_i H_i, all messages of a row come down to b = Σ A_i'W_i z_i and J = Σ A_i'A_i, over
those who sent. Both are sums over agents, so parts of the network answer with theirs. x is taken in coordinates where
the raw readings and the prior have the identity as information, as in one piece (:mod:`veilnet.centre.messages`): J
then has eigenvalues of at most one, and what is known at all is distinguished from rounding.

Where agents are missing in a row, J is summed up anew from those who are there, by blocks: nothing is ever
subtracted, so that one agent who knew much and fell silent costs no digits of what the others tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from os import PathLike
from typing import Any, overload

import numpy as np

from veilnet._core.linalg import EPS
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.words import counted
from veilnet.agent.mechanisms import Mechanisms
from veilnet.auditing.what_if.variants import prior_mean
from veilnet.bounds.knowledge import Knowledge, least_sharpness
from veilnet.centre.estimates import Estimate
from veilnet.centre.messages import View, whitened_messages
from veilnet.cluster.messages import Messages, messages_of, read_message_part
from veilnet.cluster.parts import PartFile, Parts, opened
from veilnet.cluster.plans import promise_of, senders_of, sent_by, silent_in
from veilnet.cluster.running import over_parts
from veilnet.model.network import Network

_NUMBERS_AT_ONCE = 2**22  # of the information in rows with gaps, that a task may answer with
_BLOCK = 16  # agents whose information is summed together, at least


def fuse(
    parts: Parts | str | PathLike[str],
    messages: Messages | str | PathLike[str],
    *,
    client: Any = None,
    progress: Progress | None = None,
) -> Estimate:
    """The public parameters in every row of a folder of messages, estimated from whatever arrived.

    parts:    the network, or its folder; it was designed.
    messages: a folder of parts, as :func:`veilnet.cluster.save_messages` or :func:`veilnet.cluster.sanitize` wrote
              it.

    The other arguments are those of :func:`veilnet.cluster.check`. The estimate is that of :class:`veilnet.Fusion`
    for the same network in one piece. ``missing`` has for every row a :class:`MissingAgents`: its length is how many
    did not send, and names are read when somebody asks for them.
    """
    network = opened(parts)
    found = messages_of(network, messages)
    _, whole = promise_of(network)
    at_once = max(1, _NUMBERS_AT_ONCE // network.length**2)
    expected = whole.U @ prior_mean(whole)
    public, set_of_row = np.empty((found.rows, len(expected))), np.zeros(found.rows, dtype=np.intp)
    views: list[View] = []
    missing: list[MissingAgents] = []
    for start in range(0, max(found.rows, 1), at_once):
        sums: Arrived = over_parts(
            arrived_sums, network, found, slice(start, start + at_once), whole,
            client=client, progress=progress, what="fusing",
        )  # fmt: skip
        for rows, information in sums.sets():
            with one_thread():
                view = view_of(whole, information, whole.U)
                public[start + rows] = expected + sums.vectors[rows] @ view.gain.T
            set_of_row[start + rows] = len(views)
            count = int(sums.missing[rows[0]]) if rows.size else 0
            views.append(view)
            missing.append(MissingAgents(network, found, start + int(rows[0]) if rows.size else 0, count))
    return Estimate(
        public, whole.public_rows, ("",) * len(expected), set_of_row, np.stack([view.covariance for view in views]),
        np.stack([view.estimable for view in views]), tuple(missing),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MessageWeights:
    """How messages are turned into b and J.

    rows:     A, (M, L), one row for each number sent.
    weights:  W'A, (M, L): b is (z - expected) @ weights.
    expected: (M,), messages at the prior mean.
    """

    rows: Array
    weights: Array
    expected: Array


def weights_of(sent: Mechanisms, whole: Network) -> MessageWeights:
    """What the messages of some agents of a network tell."""
    whiten, rows, expected = whitened_messages(sent, prior_mean(whole), whole)
    return MessageWeights(rows, np.ascontiguousarray(whiten.applied(rows.T).T), expected)


@dataclass(frozen=True, eq=False)
class Arrived:
    """What some messages tell, in T rows, of a part or of several together.

    vectors:         b, (T, L).
    information:     J in rows in which nobody of the parts that are there is missing, (L, L).
    gaps:            the other rows, ascending, and
    gap_information: J in each of them, (gaps, L, L).
    missing:         how many agents are missing in each row, (T,).
    """

    vectors: Array
    information: Array
    gaps: Integers
    gap_information: Array
    missing: Integers

    def __add__(self, other: Arrived) -> Arrived:
        gaps = np.union1d(self.gaps, other.gaps)
        present = np.zeros((len(gaps), *self.information.shape))
        for each in (self, other):
            own = np.isin(gaps, each.gaps)
            present[own] += each.gap_information
            present[~own] += each.information
        vectors, information = self.vectors + other.vectors, self.information + other.information
        return Arrived(vectors, information, gaps, present, self.missing + other.missing)

    def sets(self) -> Iterator[tuple[Integers, Array]]:
        """Rows that share their information, and that: those without gaps, then each other one."""
        count = len(self.vectors)
        complete = np.setdiff1d(np.arange(count), self.gaps)
        if complete.size or not count:
            yield complete, self.information
        yield from zip(self.gaps[:, None], self.gap_information, strict=True)


def arrived_sums(part: PartFile, messages: Messages, rows: slice, whole: Network) -> Arrived:
    """A task: what the messages of a part tell in some rows; those that are not finite did not arrive."""
    sent = sent_by(part)
    given, length = read_message_part(messages, part.name, sent.blocks.total), whole.L
    if given is None:
        count, nobody = len(range(*rows.indices(messages.rows))), len(senders_of(sent))
        nothing = np.zeros((count, length)), np.zeros((length, length)), np.zeros(0, np.intp)
        return Arrived(*nothing, np.zeros((0, length, length)), np.full(count, nobody, dtype=np.intp))
    found, numbers = weights_of(sent, whole), given[rows]
    silent = silent_in(sent, numbers)
    gaps = np.flatnonzero(silent.any(axis=1))
    deviations = numbers - found.expected
    present = np.zeros((0, length, length))
    if gaps.size:
        owners = np.repeat(np.arange(silent.shape[1]), sent.blocks.sizes[senders_of(sent)])
        deviations[gaps] = np.where(silent[gaps][:, owners], 0.0, deviations[gaps])
        present = _information_of_present(found.rows, owners, silent[gaps])
    information = found.rows.T @ found.rows
    return Arrived(deviations @ found.weights, information, gaps, present, silent.sum(axis=1).astype(np.intp))


def _information_of_present(rows: Array, owners: Integers, silent: Booleans) -> Array:
    """Σ A_i'A_i over the senders that are not silent, for each of some rows, (gaps, L, L)."""
    length = rows.shape[1]
    senders = silent.shape[1]
    size = max(_BLOCK, length // 2)  # the sums of blocks then take no more room than what agents observe
    starts = np.arange(0, senders, size)
    firsts = np.searchsorted(owners, np.append(starts, senders))
    sums = np.stack([rows[a:b].T @ rows[a:b] for a, b in pairwise(firsts.tolist())])
    broken = np.logical_or.reduceat(silent, starts, axis=1)
    found = ((~broken).astype(np.float64) @ sums.reshape(len(sums), -1)).reshape(-1, length, length)
    for place in range(len(silent)):
        some = rows[(broken[place].repeat(size)[:senders] & ~silent[place])[owners]]
        found[place] += some.T @ some
    return np.asarray(found)


def known_from(whole: Network, information: Array) -> Knowledge:
    """What messages of this information, in raw coordinates, tell beside the prior of a network."""
    root = whole.in_raw_coordinates(whole.prior_root)
    values, directions = np.linalg.eigh(root.T @ root + information)
    values, directions = values[::-1], directions[:, ::-1]
    known = values > max(least_sharpness(whole) ** 2, 64 * EPS * len(values))
    return Knowledge(whole, np.sqrt(np.maximum(values, 0.0)), directions, known)


def view_of(whole: Network, information: Array, wanted: Array) -> View:
    """What messages of this information say about some rows of x; the gain is that of b, (rows, L)."""
    found = known_from(whole, information)
    directions, sharpness = found.directions[:, found.known].T, found.sharpness[found.known]
    return View.through(
        whole.in_raw_coordinates(wanted), directions, sharpness, least_sharpness(whole),
        lambda half: (half / sharpness) @ directions,
    )  # fmt: skip


class MissingAgents(Sequence[str]):
    """The agents that did not send in a row: how many is known, names are read from the folders when asked for.

    ``len(missing)`` costs nothing, ``missing[:10]`` reads as many parts as it takes to name ten.
    """

    def __init__(self, parts: Parts, messages: Messages, row: int, count: int) -> None:
        self._parts, self._messages, self._row, self._count = parts, messages, row, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(()) if not self._count else self._read()

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        wanted = range(self._count)[place]
        if isinstance(wanted, int):
            return next(islice(self, wanted, None))
        named = dict(zip(range(max(wanted, default=-1) + 1), self, strict=False))
        return tuple(named[k] for k in wanted)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MissingAgents | tuple) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it equals the tuple of its names, which are not known without reading

    def __repr__(self) -> str:
        return f"<{counted(self._count, 'agent')} missing>"

    def _read(self) -> Iterator[str]:
        for name in self._parts.before:
            sent = sent_by(self._parts.file(name))
            numbers = read_message_part(self._messages, name, sent.blocks.total)
            silent = senders_of(sent)
            if numbers is not None:
                silent = silent[silent_in(sent, numbers[self._row : self._row + 1])[0]]
            for place in silent.tolist():
                yield sent.network.agents[place]
