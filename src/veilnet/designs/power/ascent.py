"""The estimate that the noise of all agents disturbs most: a concave search in L x r numbers.

In coordinates in which the raw information is the identity, the information left is J̃ = I - Δ, and

    tr(G J̃^-1 G') = max_E  2<G', E> - <E, J̃ E>.

For a given E the agents do not see one another: each takes the noise that disturbs E most. What is left,

    φ(E) = |G|² - |E - G'|² + <E, Δ(E) E>,      ∇φ = 2 (G' - J̃(E) E),

is concave in E alone, as the whole is concave in (E, X). The best E for the noise that answered is E⁺ = J̃^-1 G':
going there never makes φ smaller, and more steps of a limited-memory BFGS, with J̃^-1 for the curvature to begin
with, bring the rest in few passes. What the noise reaches is f(X) = tr(G Δ J̃^-1 G') + |G|², and no noise within the
powers exceeds f(X) + Σ_i (λ_max(∇_i) - <∇_i, X_i>), as f is concave.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import EPS
from veilnet._core.progress import Progress, Stopped, Teller
from veilnet._core.stacks import Summing
from veilnet._core.types import Array
from veilnet.designs.power.free import left_open, withheld

RELATIVE_GAP = 1e-7
MOST_PASSES = 300
_MEMORY = 20
_ASCENT = 1e-4  # the part of the slope that a step has to keep
_EVIDENCE = 0.1  # of the gap wanted: what E may still gain before it is worth a pass to bound it
_ROUNDING = 1e-15
_STATED = 0.1  # by what part rounding may change a bound that is still stated


@dataclass(frozen=True, eq=False)
class Reached:
    """Where the noise of all agents is after one pass.

    estimate: E, (L, r), which it answers.
    best:     E⁺, the best estimate when it is there.
    privacy:  Σ_j p_j.
    value:    φ(E) - |G|².
    gradient: J̃ E - G', half the downhill gradient of φ.
    slack:    f(X) - φ(E) = <E⁺ - E, J̃ (E⁺ - E)>.
    spectrum: eigenvalues and eigenvectors of J̃.
    """

    estimate: Array
    best: Array
    privacy: float
    value: float
    gradient: Array
    slack: float
    spectrum: tuple[Array, Array]

    def curved(self, gradient: Array) -> Array:
        """J̃^-1 times a gradient."""
        values, vectors = self.spectrum
        return np.asarray(vectors @ ((vectors.T @ gradient) / values[:, None]))


@dataclass(frozen=True, eq=False)
class PowerResult:
    """How the best noise was found.

    value:       Σ_j p_j, which it reaches.
    upper_bound: what no noise within the powers exceeds.
    iterations:  passes over all agents, or rounds of a dense problem.
    interrupted: whether the caller asked to stop: the noise is the best so far, and the bound holds as ever.
    """

    value: float
    upper_bound: float
    iterations: int
    interrupted: bool

    @property
    def relative_gap(self) -> float:
        """How far, relative to the value, the optimum can still be."""
        return relative_gap(self.value, self.upper_bound)


@dataclass(frozen=True, eq=False)
class Ascent(PowerResult):
    """The best noise of many agents: what answers an ``estimate`` E."""

    estimate: Array


def relative_gap(value: float, upper_bound: float) -> float:
    """How far, relative to what is reached, the best can still be."""
    if upper_bound <= value:
        return 0.0
    return (upper_bound - value) / value if value > 0 else float("inf")


class AscentSearch:
    """The search among all agents.

    summed: one pass over all that may add noise, in stacks, each a :class:`FreeStack`; nothing where there is none.
    wanted: G', (L, r), the private rows, each parameter's divided by the root of its raw error.
    """

    def __init__(self, summed: Summing, wanted: Array, progress: Progress | None = None) -> None:
        self._summed, self._wanted, self._tell = summed, wanted, Teller(progress)
        self._passes, self._upper = 0, float("inf")

    def run(self, relative_gap: float = RELATIVE_GAP, most_passes: int = MOST_PASSES) -> Ascent:
        """Ascend until the bounds meet, nothing is gained any more, or the caller asks to stop."""
        if self._wanted.shape[1] == 0:
            return Ascent(0.0, 0.0, 0, False, self._wanted)  # all that is private is public
        memory: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY)
        best = here = self._reach(self._wanted)
        bounded: Reached | None = None
        asked, interrupted, enough = _EVIDENCE * relative_gap, False, False
        try:
            while not enough and self._passes < most_passes:
                self._tell(*self._how_far(here, relative_gap))
                if here.slack <= asked * here.privacy:
                    bounded = best if best.privacy > here.privacy else here
                    enough = self._bound(bounded) <= relative_gap * bounded.privacy
                    asked = min(asked, here.slack / max(here.privacy, _TINY)) / 10
                    if enough or here.slack <= _ROUNDING * here.privacy:
                        break
                here = self._step(here, memory)
                best = here if here.privacy >= best.privacy else best
        except Stopped:
            interrupted = True
        if bounded is not best:
            self._bound(best)
        # Rounding of sums is a part of the largest eigenvalue of J̃, which is 1, and privacy one of the least.
        rounding = 64 * EPS / float(best.spectrum[0][0])
        upper = max(self._upper, best.privacy) * (1 + rounding) if rounding < _STATED else float("inf")
        return Ascent(best.privacy, upper, self._passes, interrupted, best.estimate)

    def _reach(self, estimate: Array) -> Reached:
        length = len(estimate)
        delta = sum(self._summed(withheld, estimate), np.zeros((length, length)))
        self._passes += 1
        values, vectors = np.linalg.eigh(np.eye(length) - (delta + delta.T) / 2)
        values = np.maximum(values, _ROUNDING)
        kept = estimate - delta @ estimate
        best = vectors @ ((vectors.T @ self._wanted) / values[:, None])
        beyond = best - estimate
        return Reached(
            estimate,
            best,
            privacy=float(np.sum((delta @ self._wanted) * best)),
            value=float(np.sum(estimate * (estimate - kept)) - np.sum((estimate - self._wanted) ** 2)),
            gradient=kept - self._wanted,
            slack=float(np.sum(values[:, None] * (vectors.T @ beyond) ** 2)),
            spectrum=(values, vectors),
        )

    def _step(self, here: Reached, memory: deque[tuple[Array, Array]]) -> Reached:
        """The next point: where the curvature learned so far says, or else E⁺, which is never worse."""
        if memory:
            direction = _towards(here, memory)
            there = self._reach(here.estimate + direction)
            memory.append((direction, there.gradient - here.gradient))
            promised = -2 * float(np.sum(here.gradient * direction))
            if promised > 0 and there.value >= here.value + _ASCENT * promised:
                return there
        there = self._reach(here.best)
        memory.append((here.best - here.estimate, there.gradient - here.gradient))
        return there

    def _bound(self, there: Reached) -> float:
        """By how much the best noise may exceed what is reached; the least bound is kept."""
        most, present = sum(self._summed(left_open, there.estimate, there.best), np.zeros(2))
        self._passes += 1
        excess = max(0.0, float(most - present))
        self._upper = min(self._upper, there.privacy + excess)
        return self._upper - there.privacy

    def _how_far(self, here: Reached, wanted: float) -> tuple[str, float]:
        left = here.slack / here.privacy if here.privacy > 0 else 1.0
        done = np.log(max(left, wanted)) / np.log(wanted)
        return f"closing the gap, {left:.0e} left", float(np.clip(done, 0.0, 1.0))


_TINY = float(np.finfo(float).tiny)


def _towards(here: Reached, memory: deque[tuple[Array, Array]]) -> Array:
    """Minus the inverse Hessian estimate times the gradient, by the two loops of limited-memory BFGS."""
    direction = -here.gradient
    kept = []
    for step, change in reversed(memory):
        product = float(np.sum(step * change))
        if product > 0:
            part = float(np.sum(step * direction)) / product
            direction = direction - part * change
            kept.append((step, change, part, product))
    direction = here.curved(direction)
    for step, change, part, product in reversed(kept):
        direction = direction + step * (part - float(np.sum(change * direction)) / product)
    return np.asarray(direction)
