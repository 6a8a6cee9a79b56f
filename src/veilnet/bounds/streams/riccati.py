"""The steady state of a centre that filters messages for ever: errors now and with hindsight.

With X_t = A X_{t-1} + N(0, Q) and z_t = C X_t + N(0, R), the error covariance P of X_t before its row is a fixed
point of

    Ric(P) = A (P - P C'(C P C' + R)^-1 C P) A' + Q.

Three things make it delicate here. Messages may be exact (R singular or zero: share filters), so that inverses of P
or R do not exist; several exact numbers may be driven by fewer readings, so that part of the state becomes known
exactly and numbers repeat one another; and the error wanted is the one that *lasts*, the largest fixed point: an
agent's filter started at a known zero could be run backwards by a centre of unlimited precision, which rounding
undoes after some rows.

So we count from a covariance P0 that is above every later one (the stationary one where A is stable), and compute
what the messages *tell*, Y = P0 - P >= 0, which grows from zero. With N = A P0 C', V = C P0 C' + R (the covariance
of one row of messages), it follows Y -> Y0 + A0 Y (I - W0 Y)^-1 A0' with

    A0 = A - N V^-1 C,    W0 = C' V^-1 C,    Y0 = P0 - Ric(P0),

whose 2^k-fold step is had by structured doubling. V is regular once numbers that repeat others are left out: which
they are is decided by subspaces alone (:func:`_lasting_range`), before any covariance is formed. With hindsight the
error is P - P Λ P, Λ = Φ'ΛΦ + C'(C P C' + R)^-1 C, Φ = A (I - K C): the form of Bryson and Frazier, which inverts
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import EPS
from veilnet._core.lyapunov import (
    NOT_DYING,
    complement,
    spectral_radius,
    stationary_covariance,
    undetectable_directions,
)
from veilnet._core.types import Array
from veilnet.bounds.streams.steady import ROUNDING, SMALLEST_PART, MessageSystem, RowUpdate, Steady, updated

_MOST_DOUBLINGS = 60  # 2^60 rows: what has not settled by then never does
_DOUBLED = 4 * EPS  # of a sum: a round that adds less only moves rounding
_DIVERGED = 1e200
# A fixed point is believed when one more row changes it by less than this, in deviations of the state squared.
_RESIDUAL = 1e-8
_ROWS_ONE_BY_ONE = 3  # sharp messages bring the error from the size of x to its own within so many
_NEWTON_STEPS = 3  # each doubles the digits: from half of them on, one or two are enough
_ENOUGH = 1e-11  # of the largest variance: a step that changes less only moves rounding
_NOT_COMPUTED = (
    "sanitizers: the steady state of a filter on these messages cannot be computed to any accuracy: numbers sent "
    "without noise nearly repeat one another from row to row; leave some out, or give them noise"
)


def steady_state(messages: MessageSystem) -> Steady:
    """The steady state of the filter on these messages; InvalidRequest where rounding leaves none."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return _steady_state(messages)
    except np.linalg.LinAlgError:
        raise InvalidRequest(_NOT_COMPUTED) from None


def _steady_state(messages: MessageSystem) -> Steady:
    unbounded = undetectable_directions(messages.transition, messages.observe)
    quotient = complement(unbounded.T, len(messages.transition))
    reduced = MessageSystem(
        quotient.T @ messages.transition @ quotient,
        quotient.T @ messages.noise @ quotient,
        messages.observe @ quotient,
        messages.floor,
    )
    # What is never seen may be all that does not die away.
    stable = spectral_radius(reduced.transition) < NOT_DYING
    scaled, sizes, above = _in_unit_sizes(reduced, stable=stable)
    system, mix = _split_exact(scaled, above)
    basis = quotient * sizes
    lasting = _lasting_range(system)
    if lasting is not None:
        system, above, within, kept = _reduced(system, above, lasting)
        basis, mix = basis @ within, kept @ mix
    before = _confirmed(system, _largest_fixed_point(system, above), above)
    half = messages.observe @ basis
    news = half @ before @ half.T + messages.floor
    return _settled(messages, system, before, basis, unbounded, mix, (news + news.T) / 2)


def doubled(closed: Array, gained: Array, seen: Array, *, dual: bool = False) -> tuple[Array, Array]:
    """The limit of Y -> Y0 + A0 Y (I - W0 Y)^-1 A0' from Y = 0, by structured doubling; and that of its dual.

    The steps of Y are those of W -> W0 + A0'W (I - Y0 W)^-1 A0 too (Chu, Fan, Lin and Wang, 2004). With W0 = -J <= 0
    they solve the Riccati equation of covariances, and -W is the information about the state from a row on.

    closed: A0, gained: Y0, seen: W0.
    dual:   whether W has to have settled as well; LinAlgError where they do not.
    """
    identity = np.eye(len(gained))
    for _ in range(_MOST_DOUBLINGS):
        both = np.linalg.solve(identity - gained @ seen, np.concatenate([closed, gained], axis=1))
        half, inner = both[:, : len(gained)], both[:, len(gained) :]
        more, ahead = closed @ inner @ closed.T, closed.T @ seen @ half
        gained, seen = gained + (more + more.T) / 2, seen + (ahead + ahead.T) / 2
        if _small(more, gained) and (not dual or _small(ahead, seen)):
            return gained, seen
        if dual and not max(np.max(np.abs(gained)), np.max(np.abs(seen))) < _DIVERGED:
            break
        closed = closed @ half
    if dual:
        raise np.linalg.LinAlgError("no steady state")
    return gained, seen


def _small(change: Array, whole: Array) -> bool:
    return bool(np.max(np.abs(change), initial=0.0) <= _DOUBLED * np.max(np.abs(whole), initial=0.0))


@dataclass(frozen=True, eq=False)
class _System(MessageSystem):
    """Messages in unit coordinates, split: the first ``exact`` numbers carry no noise of their own."""

    exact: int

    def updated(self, error: Array) -> RowUpdate:
        return updated(error, self.observe, self.floor)


def _in_unit_sizes(messages: MessageSystem, *, stable: bool) -> tuple[MessageSystem, Array, Array]:
    """(messages, sizes, P0), each entry of the state counted in its own deviation.

    P0 is the stationary covariance, or, where A is not stable, the error of a filter that takes all noises for larger
    than they are: both only fall as rows arrive.
    """
    A = messages.transition
    above = stationary_covariance(A, messages.noise) if stable else _error_of_noisier(messages)
    sizes = np.sqrt(np.maximum(np.diag(above), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    unit = MessageSystem(
        A / sizes[:, None] * sizes[None, :],
        messages.noise / sizes[:, None] / sizes[None, :],
        messages.observe * sizes[None, :],
        messages.floor,
    )
    return unit, sizes, above / sizes[:, None] / sizes[None, :]


def _error_of_noisier(messages: MessageSystem) -> Array:
    """The error of a filter that believes in larger noises, which always settles: an upper bound to start at."""
    A, C = messages.transition, messages.observe
    level = np.max(np.diag(messages.noise), initial=0.0)
    noise = messages.noise + (level if level > 0 else 1.0) * np.eye(len(A))
    spread = np.diag(C @ noise @ C.T + messages.floor)
    floor = messages.floor + np.diag(np.where(spread > 0, spread, 1.0))
    return doubled(A, noise, -C.T @ np.linalg.solve(floor, C))[0]


def _split_exact(messages: MessageSystem, above: Array) -> tuple[_System, Array]:
    """The numbers combined so that those without noise come first and each has unit spread; and the combinations."""
    signal = np.sum((messages.observe @ above) * messages.observe, axis=1)
    spread = np.sqrt(np.maximum(signal, 0.0) + np.maximum(np.diag(messages.floor), 0.0))
    varying = spread > 0
    unit = np.eye(len(spread))[varying] / spread[varying][:, None]
    floor = unit @ messages.floor @ unit.T
    values, vectors = np.linalg.eigh((floor + floor.T) / 2)
    exact = values <= ROUNDING * max(1, len(values))
    order = np.argsort(~exact, kind="stable")
    mix = vectors[:, order].T @ unit
    variances = np.where(exact[order], 0.0, values[order])
    system = _System(
        messages.transition, messages.noise, mix @ messages.observe, np.diag(variances), int(np.sum(exact))
    )
    return system, mix


def _lasting_range(system: _System) -> list[tuple[Array, Array]] | None:
    """Where the error before a row can lie, row after row, once exact numbers tell parts of the state exactly.

    range(P) follows V -> A (V ∩ Null(C_exact)) + range(Q), from the whole space down. None where every exact number
    is news and nothing becomes known exactly; else the spaces as (V, V ∩ Null(C_exact)), the last of them the one
    that stays.
    """
    size = len(system.transition)
    if system.exact == 0:
        return None
    exact = system.observe[: system.exact]
    values, vectors = np.linalg.eigh(system.noise)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    root = root[:, values > SMALLEST_PART**2]
    space = np.eye(size)
    chain: list[tuple[Array, Array]] = []
    while True:
        _, singular, directions = np.linalg.svd(exact @ space, full_matrices=True)
        rank = int(np.sum(singular > SMALLEST_PART))
        unseen = space @ directions[rank:].T
        chain.append((space, unseen))
        left, sizes, _ = np.linalg.svd(np.concatenate([system.transition @ unseen, root], axis=1))
        following = left[:, : int(np.sum(sizes > SMALLEST_PART))]
        if following.shape[1] >= space.shape[1]:
            break
        space = following
    redundant = rank < system.exact
    return chain if len(chain) > 1 or redundant else None


def _reduced(
    system: _System, above: Array, chain: list[tuple[Array, Array]]
) -> tuple[_System, Array, Array, Array]:
    """The system on the range that lasts, the error it starts at there, the range, and the numbers that are kept."""
    error = above
    for place, (space, unseen) in enumerate(chain):
        within, kept = _without_repetition(system, space)
        inner = space.T @ error @ space
        if place + 1 == len(chain):
            break
        now = within.updated((inner + inner.T) / 2).error
        free = unseen.T @ space
        now = unseen @ (free @ now @ free.T) @ unseen.T
        error = system.transition @ now @ system.transition.T + system.noise
    # After a row the error lies in what its exact numbers do not see: the rest of A never acts.
    acting = space.T @ system.transition @ unseen @ (unseen.T @ space)
    return (
        _System(acting, within.noise, within.observe, within.floor, within.exact),
        (inner + inner.T) / 2,
        space,
        kept,
    )


def _without_repetition(system: _System, space: Array) -> tuple[_System, Array]:
    """The system within a space, without exact numbers that repeat others there; and which combinations are kept."""
    observe = system.observe @ space
    left, singular, _ = np.linalg.svd(observe[: system.exact], full_matrices=True)
    rank = int(np.sum(singular > SMALLEST_PART))
    count = len(observe)
    kept = np.zeros((count - system.exact + rank, count))
    kept[:rank, : system.exact] = left[:, :rank].T
    kept[rank:, system.exact :] = np.eye(count - system.exact)
    return (
        _System(
            space.T @ system.transition @ space,
            space.T @ system.noise @ space,
            kept @ observe,
            kept @ system.floor @ kept.T,
            rank,
        ),
        kept,
    )


def _largest_fixed_point(system: _System, start: Array) -> Array:
    """P, by some rows one by one, doubling from there, and Newton's method.

    The first rows bring sharp messages from the size of x down to the size of its error, and Newton's sums of what is
    positive restore the digits that the difference P0 - Y lost.
    """
    A, C = system.transition, system.observe
    if len(C) == 0:
        return start
    for _ in range(_ROWS_ONE_BY_ONE):
        start = _following(system, start)
    row = system.updated(start)
    gained = start - _following(system, start)
    seen = C.T @ np.linalg.solve(row.news, C)
    error = start - doubled(A @ row.left, gained, (seen + seen.T) / 2)[0]
    for _ in range(_NEWTON_STEPS):
        rough, error = error, _newton(system, (error + error.T) / 2)
        if np.max(np.abs(error - rough)) <= _ENOUGH * np.max(np.diag(error)):
            break
    return error


def _following(system: _System, error: Array) -> Array:
    """Ric(P): the error before the next row."""
    following = system.transition @ system.updated(error).error @ system.transition.T + system.noise
    return np.asarray((following + following.T) / 2)


def _confirmed(system: _System, error: Array, above: Array) -> Array:
    """The fixed point, refused where rounding left none: it is one, it is a covariance, and not above the start."""
    scale = float(np.max(np.diag(above), initial=0.0))
    if np.all(np.isfinite(error)):
        residual = float(np.max(np.abs(_following(system, error) - error), initial=0.0))
        lowest = float(np.min(np.linalg.eigvalsh(error), initial=0.0))
        if residual <= _RESIDUAL * scale and lowest >= -_RESIDUAL * scale:
            return error
    raise InvalidRequest(_NOT_COMPUTED)


def _newton(system: _System, error: Array) -> Array:
    """One step: the error of a filter that keeps the gain of ``error``; that itself where such a filter runs away."""
    row = system.updated(error)
    closed, carried = system.transition @ row.left, system.transition @ row.gain
    better = stationary_covariance(closed, system.noise + carried @ system.floor @ carried.T)
    runs_away = not np.all(np.isfinite(better)) or np.max(better) > 2 * np.max(np.abs(error))
    return error if runs_away else better


def _settled(
    messages: MessageSystem,
    system: _System,
    before: Array,
    basis: Array,
    unbounded: Array,
    mix: Array,
    of_all: Array,
) -> Steady:
    if len(system.observe) == 0:
        gain = np.zeros((len(before), mix.shape[1]))
        return Steady(basis, before, before, before, unbounded, gain, system.transition, of_all, messages)
    row = system.updated(before)
    closed = system.transition @ row.left
    later = stationary_covariance(closed.T, system.observe.T @ np.linalg.solve(row.news, system.observe))
    hindsight = before - before @ later @ before
    return Steady(
        basis=basis,
        before=before,
        now=row.error,
        hindsight=(hindsight + hindsight.T) / 2,
        unbounded=unbounded,
        gain=row.gain @ mix,
        closed=closed,
        news=of_all,
        system=messages,
    )
