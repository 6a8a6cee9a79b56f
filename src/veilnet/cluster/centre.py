"""What the messages of a part tell the centre: L numbers for each row, and the L x L information they carry.

Agent i's message is z_i = C_i H_i x + e_i around the prior mean, e_i of covariance M_i = C_i R_i C_i' + Θ_i. With
W_i M_i W_i' = I and A_i = W_i C_i H_i, all messages of a row come down to b = Σ A_i'W_i z_i and J = Σ A_i'A_i, over
those who sent. Both are sums over agents, so parts of the network answer with theirs. x is taken in coordinates where
the raw readings and the prior have the identity as information, as in one piece (:mod:`veilnet.centre.messages`): J
then has eigenvalues of at most one, and what is known at all is told from rounding.

Where agents are missing in a row, J is summed up anew from those who are there, by blocks: nothing is ever
subtracted, so that one agent who knew much and fell silent costs no digits of what the others tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.linalg import EPS
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.mechanisms import SanitizerStack
from veilnet.bounds.knowledge import Knowledge, least_sharpness
from veilnet.centre.whitening import whitening
from veilnet.cluster.parts import LoadedPart
from veilnet.cluster.sending import Sending
from veilnet.model.network import Network

_OUTSIDE = 1e-8  # the part of a row that may lie outside what is known; as in veilnet.bounds.knowledge
_BLOCK = 16  # agents whose information is summed together, at least


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


def told_by(stack: SanitizerStack, part: LoadedPart, change: Array, mean: Array) -> MessageWeights:
    """What the messages of some agents tell.

    change: T^-1 of the raw information T'T of all agents and the prior.
    mean:   of the prior.
    """
    white, differ = whitening(stack.compression, part.roots[stack.places], stack.noise_root)
    if not differ.all():
        raise InvalidPlan(
            "plan: some numbers that an agent sends repeat others of its own; design once more, and verify"
        )
    sent = stack.compression @ part.observe[stack.places]
    rows = (white @ sent) @ change
    weights = np.swapaxes(white, 1, 2) @ rows
    length = rows.shape[2]
    return MessageWeights(rows.reshape(-1, length), weights.reshape(-1, length), (sent @ mean).reshape(-1))


def told_by_all(sending: Sending, part: LoadedPart, change: Array, mean: Array) -> MessageWeights:
    """What the messages of all agents of a part tell, in the order in which they are sent."""
    numbers, length = sending.numbers, part.observe.shape[2]
    rows, weights, expected = np.empty((numbers, length)), np.empty((numbers, length)), np.empty(numbers)
    for stack in sending.stacks():
        few, columns = told_by(stack, part, change, mean), sending.columns(stack)
        rows[columns], weights[columns], expected[columns] = few.rows, few.weights, few.expected
    return MessageWeights(rows, weights, expected)


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


def nothing_arrived(rows: int, length: int, senders: int) -> Arrived:
    """A part that is not there."""
    return Arrived(
        np.zeros((rows, length)),
        np.zeros((length, length)),
        np.zeros(0, dtype=np.intp),
        np.zeros((0, length, length)),
        np.full(rows, senders, dtype=np.intp),
    )


def arrived(sending: Sending, told: MessageWeights, numbers: Array) -> Arrived:
    """What the messages (T, M) of a part tell; those that are not finite did not arrive."""
    silent = sending.silent(numbers)
    gaps = np.flatnonzero(silent.any(axis=1))
    deviations = numbers - told.expected
    length = told.rows.shape[1]
    present = np.zeros((0, length, length))
    if gaps.size:
        owners = np.repeat(np.arange(len(sending.senders)), sending.sent[sending.senders])
        deviations[gaps] = np.where(silent[gaps][:, owners], 0.0, deviations[gaps])
        present = _information_of_present(told.rows, owners, silent[gaps])
    return Arrived(
        deviations @ told.weights,
        told.rows.T @ told.rows,
        gaps,
        present,
        silent.sum(axis=1).astype(np.intp),
    )


def arrived_together(several: Sequence[Arrived]) -> Arrived:
    """Several parts together, in the order given."""
    first = several[0]
    gaps = np.unique(np.concatenate([each.gaps for each in several]))
    information = np.zeros(first.information.shape)
    present = np.zeros((len(gaps), *information.shape))
    vectors, missing = np.zeros(first.vectors.shape), np.zeros(first.missing.shape, dtype=np.intp)
    for each in several:
        vectors += each.vectors
        missing += each.missing
        information += each.information
        own = np.isin(gaps, each.gaps)
        present[own] += each.gap_information
        present[~own] += each.information
    return Arrived(vectors, information, gaps, present, missing)


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


@dataclass(frozen=True, eq=False)
class Solved:
    """The estimate from b in one set of messages: expected + b @ gain.

    gain:       (L, rows); not a number where a parameter is not estimable.
    covariance: of the error; inf on the diagonal and not a number beside it where nothing is known.
    estimable:  which parameters are determined.
    """

    gain: Array
    covariance: Array
    estimable: Booleans


def known_from(whole: Network, information: Array) -> Knowledge:
    """What messages of this information, in raw coordinates, tell beside the prior of a network."""
    root = whole.in_raw_coordinates(whole.prior_root)
    values, directions = np.linalg.eigh(root.T @ root + information)
    values, directions = values[::-1], directions[:, ::-1]
    known = values > max(least_sharpness(whole) ** 2, 64 * EPS * len(values))
    return Knowledge(whole, np.sqrt(np.maximum(values, 0.0)), directions, known)


def solved(whole: Network, information: Array, wanted: Array) -> Solved:
    """What messages of this information tell of some rows of x, given the prior of a network.

    whole:       one imaginary agent in place of all: it gives prior and coordinates.
    information: J of the messages, in raw coordinates.
    wanted:      rows of x to be estimated.
    """
    rows, found = whole.in_raw_coordinates(wanted), known_from(whole, information)
    directions = found.directions[:, found.known]
    half = rows @ directions
    outside = np.linalg.norm(rows - half @ directions.T, axis=1)
    limit = max(_OUTSIDE, least_sharpness(whole))
    estimable = np.asarray(outside <= limit * np.linalg.norm(rows, axis=1))
    sharp = half / found.sharpness[found.known] ** 2
    gain, covariance = directions @ sharp.T, sharp @ half.T
    gain[:, ~estimable] = np.nan
    covariance[~estimable] = np.nan
    covariance[:, ~estimable] = np.nan
    covariance[~estimable, ~estimable] = np.inf
    return Solved(gain, covariance, estimable)
