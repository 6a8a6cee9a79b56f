"""What gaps and starts change: errors of g in the rows around a memory that begins anew (docs, streams, "Gaps").

Earlier readings in an agent's memory mask what it sends. At a start and after a missed row they are missing, so the
agent draws its memory s from N(0, c Σ), Σ the covariance of s in the long run.

**Theorem.** The error of g, at every row and after any restart, does not fall as c grows. As c grows without bound
it is at least the error of a stream without gaps, for every pattern of gaps.
*Proof.* A larger draw is the smaller one plus independent noise, so the messages tell less (data processing). Without
bound, what the messages tell is what does not depend on the drawn s: a function of the messages that an agent without
the gap would have sent from then on, and so of all messages of the stream without gaps. ∎

**Theorem.** Where one memory begins anew at c, the error is at least c/(c + 1) of that without gaps, where several do
c/(c + κ), κ the largest eigenvalue of their joint covariance against that of each.
*Proof.* An estimate w z' of g from z' = z + A(d - s) errs by g - wz + rs - rd, r = wA. With a² the error without gaps
and b² = r Σ r', Var(rs) ≤ κ b² and Var(rd) = c b²: the square is at least (a - √κ b)² + c b² ≥ a² c/(c + κ). ∎

What remains at a finite c is computed exactly. The messages of a stream in which a row is missed are some of those in
which the memory merely begins anew after that row. So are those of longer gaps, and of a start if all begin anew. The
errors here are those of memories that begin anew between two rows: of each agent, and of all together.

P_t is the error of the state after row t, Λ_t the information about it in all later rows: the error with hindsight is
P_t - P_t Λ_t P_t, with Λ_{t-1} = A'(N + L'Λ_t L)A, L = I - K C, N = C'(C P C' + R)^-1 C (Bryson and Frazier). Both
begin and end in the steady state. All patterns go through the rows side by side.

A plan for a stream promises the least privacy over a start and over missed rows. The memory that an agent draws where
it begins anew is as large as it takes: 1, 4, 16, ... times what it holds in the long run, until the error of every
private parameter is at least the part asked for of that without gaps. A larger draw only hides more, and costs the
public estimate a little for a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.lyapunov import stationary_covariance, undetectable_directions
from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.knowledge import StreamKnowledge
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.state_space import StateSpace, message_model
from veilnet.bounds.streams.steady import SMALLEST_PART, Steady, updated
from veilnet.model.common import padded
from veilnet.model.network import Network

# a filter that has not returned by then forgets too slowly for its gaps to be judged row by row
_MOST_ROWS = 2000
_SETTLED = 1e-7  # of a deviation squared: an error so near the steady one has returned to it
_ROUNDING = 1e-14  # of its deviation squared: exact numbers count as rounded by so much, as at the centre


@dataclass(frozen=True, eq=False)
class Gaps:
    """What memories that begin anew do, at their worst.

    least:  for each group of rows A of x the least tr(A P A') with hindsight, over all rows and patterns.
    public: (one, all): by how much the error variance of u grows at most after a missed row of one agent, of all.
    """

    least: tuple[float, ...]
    public: tuple[float, float]


def with_starts(
    network: Network, sanitizers: Mapping[str, Sanitizer], size: float = 1.0
) -> dict[str, Sanitizer]:
    """The sanitizers, each memory with the law N(0, size Σ) that it is drawn from where it begins anew.

    size: c of the theorem above.
    """
    if not any(each.memory is not None for each in sanitizers.values()):
        return dict(sanitizers)
    model = message_model(network, sanitizers)
    assert network.dynamics is not None
    if network.dynamics.stable:
        spread = stationary_covariance(model.transition, model.noise)
    else:  # x wanders off: what memories hold after as many rows as reach every direction they can hold
        spread = model.noise
        for _ in range(max(each.order for each in sanitizers.values())):
            spread = model.transition @ spread @ model.transition.T + model.noise
    found = {}
    for agent, sanitizer in sanitizers.items():
        if sanitizer.memory is not None:
            mine = model.memories[agent]
            start = size * (spread[mine, mine] + spread[mine, mine].T) / 2
            sanitizer = sanitizer.replace(memory=sanitizer.memory.with_start(start))
        found[agent] = sanitizer
    return found


def gaps_of(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    rows: Sequence[Array],
    patterns: Sequence[Sequence[str]] | None = None,
) -> Gaps:
    """The least errors of rows of x over memories that begin anew, and what a missed row costs u.

    network:    the model, with dynamics.
    sanitizers: agent -> Sanitizer, memories with their starts.
    rows:       groups of rows A of x, each bounded by the messages.
    patterns:   who begins anew together; each agent with a memory, and all of them, when left out.
    """
    model = message_model(network, sanitizers)
    if patterns is None:
        patterns = [[agent] for agent in model.memories]
        patterns += [list(model.memories)] if len(model.memories) > 1 else []
    steady = steady_state(model)
    path = _Path(model, steady)
    if not patterns:
        return Gaps(tuple(path.undisturbed(each) for each in rows), (0.0, 0.0))
    costs = path.costs(network.measured, [[agent] for agent in model.agents] + [list(model.agents)])
    return Gaps(tuple(path.least(patterns, rows)), (max(costs[:-1]), costs[-1]))


class _Path:
    """The rows around a begin anew; arrays have a leading axis of patterns."""

    def __init__(self, model: StateSpace, steady: Steady) -> None:
        self._model = model
        self._now = steady.basis @ steady.now @ steady.basis.T
        move, new = model.transition, model.noise
        before = move @ self._now @ move.T + new
        sizes = np.sum((model.observe @ before) * model.observe, axis=1) + np.diag(model.floor)
        self._floor = model.floor + _ROUNDING * np.diag(sizes)
        self._scale = np.sqrt(np.maximum(np.diag(before), np.finfo(float).tiny))
        self._left, self._information, self._now = self._row(before, slice(None))
        closed = self._left @ move
        gained = move.T @ self._information @ move
        self._later = stationary_covariance(closed.T, gained)

    def undisturbed(self, rows: Array) -> float:
        """tr(A P A') with hindsight where nothing happens."""
        return float(self._errors(rows, self._now[None], self._later[None])[0])

    def least(self, patterns: Sequence[Sequence[str]], rows: Sequence[Array]) -> list[float]:
        """For each group of rows the least error with hindsight over all patterns and rows of the stream."""
        model = self._model
        anew = [model.anew(agents) for agents in patterns]
        kept, drawn = np.stack([each[0] for each in anew]), np.stack([each[1] for each in anew])
        first = model.transition @ kept
        before = (
            first @ self._now @ _turned(first) + model.transition @ drawn @ model.transition.T + model.noise
        )
        path = [self._row(before, slice(None))]
        while len(path) < _MOST_ROWS and self._away(path[-1][2]):
            path.append(self._row(self._next(path[-1][2]), slice(None)))
        least = [np.inf] * len(rows)
        later = np.broadcast_to(self._later, kept.shape)
        for place in range(len(path) - 1, -1, -1):
            left, information, now = path[place]
            least = [
                min(known, float(np.min(self._errors(each, now, later))))
                for known, each in zip(least, rows, strict=True)
            ]
            move = model.transition if place else first
            later = _turned(move) @ (information + _turned(left) @ later @ left) @ move
        return self._before(least, rows, later)

    def costs(self, public: Array, patterns: Sequence[Sequence[str]]) -> list[float]:
        """By how much tr(U P U') now grows at most, for each pattern of agents that miss a row."""
        model, found = self._model, []
        wide = padded(public, self._model.size)
        usual = float(np.trace(wide @ self._now @ wide.T))
        for agents in patterns:
            silent = [model.agents.index(agent) for agent in agents]
            arrived = np.flatnonzero(
                ~np.isin(np.repeat(np.arange(len(model.agents)), model.blocks.sizes), silent)
            )
            kept, drawn = model.anew(agents)
            now = kept @ self._row(self._next(self._now), arrived)[2] @ kept.T + drawn
            most, row = float(np.trace(wide @ now @ wide.T)), 0
            while self._away(now) and row < _MOST_ROWS:
                now, row = self._row(self._next(now), slice(None))[2], row + 1
                most = max(most, float(np.trace(wide @ now @ wide.T)))
            found.append(most / usual - 1.0)
        return found

    def _before(self, least: list[float], rows: Sequence[Array], later: Array) -> list[float]:
        """The same over the rows before, which later messages inform about, too: of k rows before more than usual by
        q_k' (Λ - usual Λ) q_k, q_k = F^k P a' with the filter's F = L A.
        """
        closed, apart = self._left @ self._model.transition, later - self._later
        most = float(np.max(np.linalg.norm(apart * np.outer(self._scale, self._scale), axis=(-2, -1))))
        found = []
        for known, each in zip(least, rows, strict=True):
            usual, seen = self.undisturbed(each), self._now @ padded(each, self._model.size).T
            for _ in range(_MOST_ROWS):
                gained = np.sum((apart @ seen) * seen, axis=(-2, -1))
                known = min(known, usual - float(np.max(gained)))
                seen = closed @ seen
                if most * np.sum((seen / self._scale[:, None]) ** 2) <= _SETTLED * usual:
                    break
            found.append(known)
        return found

    def _errors(self, rows: Array, now: Array, later: Array) -> Array:
        """tr(A (P - P Λ P) A') of each pattern."""
        half = padded(rows, self._model.size) @ now
        own = np.sum(half[..., : rows.shape[1]] * rows, axis=(-2, -1))
        return np.asarray(own - np.sum((half @ later) * half, axis=(-2, -1)))

    def _row(self, before: Array, arrived: Integers | slice) -> tuple[Array, Array, Array]:
        """(L, N, P) of a row in which these numbers arrive, from the error before it."""
        observe, floor = self._model.observe[arrived], self._floor[arrived][:, arrived]
        row = updated(before, observe, floor)
        wide = np.broadcast_to(observe, (*row.news.shape[:-1], observe.shape[1]))
        information = np.asarray(observe.T @ np.linalg.solve(row.news, wide), np.float64)
        return row.left, (information + _turned(information)) / 2, row.error

    def _next(self, now: Array) -> Array:
        return np.asarray(self._model.transition @ now @ self._model.transition.T + self._model.noise)

    def _away(self, now: Array) -> bool:
        """Whether an error has not yet returned to the steady one."""
        return bool(np.max(np.abs(now - self._now) / np.outer(self._scale, self._scale)) > _SETTLED)


def _turned(matrices: Array) -> Array:
    return np.swapaxes(matrices, -1, -2)


GAP_PRIVACY = 0.99  # the part of the error without gaps that is left around one, unless another is asked for
_SIZES = tuple(4.0**k for k in range(8))


@dataclass(frozen=True, eq=False)
class GapPromise:
    """Sanitizers whose memories begin anew by themselves, and what is promised of them.

    sanitizers: with the starts of their memories.
    privacy:    the least p_j over memories that begin anew, per private parameter.
    size:       of the drawn memories, as a multiple of what they hold in the long run.
    public:     (one, all): by how much the public error variance grows at most after a missed row.
    """

    sanitizers: Mapping[str, Sanitizer]
    privacy: Mapping[str, float]
    size: float
    public: tuple[float, float]


def read_gap_privacy(part: float) -> float:
    """The part of the error without gaps that has to be left around one, checked."""
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part < 1:
        raise InvalidRequest(
            f"gap_privacy: expected a part of the error without gaps, from 0 to below 1, found {part!r}; the default "
            f"is {GAP_PRIVACY}"
        )
    return float(part)


def promise_with_gaps(
    network: Network, sanitizers: Mapping[str, Sanitizer], known: StreamKnowledge, part: float = GAP_PRIVACY
) -> GapPromise:
    """Give every memory its start, as large as it takes for ``part`` of each error without gaps."""
    privacy = known.privacy
    names = [name for name, each in privacy.items() if np.isfinite(each)]
    rows = [network.private[name] for name in names]
    usual = np.array([float(np.trace(known.error(each, hindsight=True))) for each in rows])
    chosen: tuple[dict[str, Sanitizer], Gaps, float] | None = None
    for size in _SIZES:
        made = with_starts(network, sanitizers, size)
        try:
            for each in made.values():
                _ = each.recipe  # refuses a draw too large for the grid
        except InvalidNetwork:
            if chosen is None:
                raise
            break
        chosen = made, gaps_of(network, made, rows), size
        if np.all(np.array(chosen[1].least) >= part * usual):
            break
    assert chosen is not None
    made, gaps, size = chosen
    left = np.minimum(np.array(gaps.least) / usual, 1.0)
    parts = dict(zip(names, left.tolist(), strict=True))
    with_gaps = {
        name: max(0.0, (1.0 + each) * parts[name] - 1.0)
        if name in parts
        else (0.0 if _shown_anew(network, made, network.private[name]) else np.inf)
        for name, each in privacy.items()
    }
    return GapPromise(made, with_gaps, size, gaps.public)


def _shown_anew(network: Network, sanitizers: Mapping[str, Sanitizer], rows: Array) -> bool:
    """Whether a memory holds what the messages never bound of A x: one that begins anew does not, and shows it."""
    model = message_model(network, sanitizers)
    hidden = undetectable_directions(model.transition, model.observe)
    moves = np.abs(rows @ hidden[: network.L]) > SMALLEST_PART * np.linalg.norm(rows, axis=1)[:, None]
    held = [np.abs(hidden[mine]) > SMALLEST_PART for mine in model.memories.values()]
    return bool(np.any(moves) and any(np.any(each) for each in held))
