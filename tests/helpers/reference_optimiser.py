"""Trade-offs by another road: every agent's X_i = Q_i diag(d_i) Q_i' by angles and levels, SciPy's SLSQP, many
starts.

It shares no code and no idea with the joint solver, which works on X = sin²(Y) with an augmented Lagrangian of its
own. Here sequential quadratic programming meets the bounds 0 <= d <= 1 and the targets exactly, from starts at
random,
from every pattern of silent agents, and from plans that hide a direction of x from some or all agents. Agents have at
most three readings. What it returns is what it found, not a proof: that nobody has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
from scipy.linalg import null_space, sqrtm
from scipy.optimize import minimize

import veilnet as vn

_PLANES = {size: list(combinations(range(size), 2)) for size in range(1, 7)}
_FLOOR = 1e-13
_TINY = 1e-300


class Reference:
    """Loss and privacies of a network by angles and levels, straight from the formula for J̃."""

    def __init__(self, network: vn.Network) -> None:
        noise = network.R.matrix()
        self.sizes = [rows.shape[0] for rows in network.observe.values()]
        ends = np.cumsum(self.sizes)
        self.blocks = [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        white = np.zeros_like(noise)
        for block in self.blocks:
            white[block, block] = np.linalg.inv(np.real(sqrtm(noise[block, block])))
        length = network.L
        prior = np.zeros((length, length)) if network.prior is None else network.prior.information
        raw = prior + network.H.T @ np.linalg.solve(noise, network.H)
        change = np.linalg.inv(np.linalg.cholesky(raw)).T
        self.prior = change.T @ prior @ change
        self.observe = white @ network.H @ change
        self.coupling = white @ noise @ white.T - np.eye(len(noise))
        for block in self.blocks:
            self.coupling[block, block] = 0.0
        self.wanted = [rows @ change for rows in (network.U, *network.private.values())]
        self.wanted = [rows / np.linalg.norm(rows) for rows in self.wanted]
        self.count = sum(size * (size + 1) // 2 for size in self.sizes)
        self.is_level = np.concatenate([[False] * len(_PLANES[size]) + [True] * size for size in self.sizes])

    def shrink(self, parameters: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """X, block diagonal, and dX/dparameter, one small matrix per parameter in order."""
        whole = np.zeros(self.coupling.shape)
        slopes, place = [], 0
        for size, block in zip(self.sizes, self.blocks, strict=True):
            planes = _PLANES[size]
            angles = parameters[place : place + len(planes)]
            levels = parameters[place + len(planes) : place + len(planes) + size]
            place += len(planes) + size
            turns = [_turn(size, plane, angle) for plane, angle in zip(planes, angles, strict=True)]
            frame = _product(size, [turn for turn, _ in turns])
            whole[block, block] = (frame * levels) @ frame.T
            for k in range(len(planes)):
                rates = [rate if k == other else turn for other, (turn, rate) in enumerate(turns)]
                moved = (_product(size, rates) * levels) @ frame.T
                slopes.append(moved + moved.T)
            slopes.extend(np.outer(column, column) for column in frame.T)
        return whole, slopes

    def evaluate(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(loss, p_1, ...), and their gradients, one row each."""
        x, slopes = self.shrink(parameters)
        size, length = self.observe.shape
        view = np.linalg.solve(np.eye(size) + self.coupling @ x, self.observe)
        information = self.prior + self.observe.T @ x @ view + _FLOOR * np.eye(length)
        spread = np.linalg.inv((information + information.T) / 2)
        values = np.array([np.sum((rows @ spread) * rows) - 1 for rows in self.wanted])
        gradients = np.zeros((len(values), parameters.size))
        owner = np.repeat(np.arange(len(self.sizes)), [s * (s + 1) // 2 for s in self.sizes])
        for row, rows in enumerate(self.wanted):
            seen = view @ (spread @ rows.T)
            outers = [seen[block] @ seen[block].T for block in self.blocks]
            for k, slope in enumerate(slopes):
                gradients[row, k] = -np.sum(slope * outers[owner[k]])
        return values, gradients


def _turn(size: int, plane: tuple[int, int], angle: float) -> tuple[np.ndarray, np.ndarray]:
    """A rotation in one plane and its derivative by the angle."""
    turn, rate = np.eye(size), np.zeros((size, size))
    a, b = plane
    turn[a, a] = turn[b, b] = rate[b, a] = np.cos(angle)
    turn[b, a] = np.sin(angle)
    turn[a, b] = -np.sin(angle)
    rate[a, a] = rate[b, b] = -np.sin(angle)
    rate[a, b] = -np.cos(angle)
    return turn, rate


def _product(size: int, factors: list[np.ndarray]) -> np.ndarray:
    product = np.eye(size)
    for factor in factors:
        product = product @ factor
    return product


def best_loss(network: vn.Network, level: float, *, starts: int = 40, seed: int = 0) -> float:
    """The least utility loss found with every p_j at least ``level``."""
    reference = Reference(network)
    rng = np.random.default_rng([seed, 99])
    return min(
        (_solve(reference, level, start, quiet) for start, quiet in _starts(reference, starts, rng)),
        default=np.inf,
    )


def _solve(reference: Reference, level: float, start: np.ndarray, quiet: np.ndarray) -> float:
    """One SLSQP run; levels of quiet agents stay 0. Infinite where no point that reaches the level was found."""
    best = np.inf

    def judged(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal best
        values, gradients = reference.evaluate(parameters)
        if np.all(values[1:] >= level * (1 - 1e-7)):
            best = min(best, max(float(values[0]), 0.0))
        return values, gradients

    last: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def remembered(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = parameters.tobytes()
        if key not in last:
            last.clear()
            last[key] = judged(parameters)
        return last[key]

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = remembered(parameters)
        loss = max(float(values[0]), 1e-9)
        return float(np.log(loss)), gradients[0] / loss

    def reached(parameters: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(np.maximum(remembered(parameters)[0][1:], _TINY) / level))

    def slopes(parameters: np.ndarray) -> np.ndarray:
        values, gradients = remembered(parameters)
        return np.asarray(gradients[1:] / np.maximum(values[1:], _TINY)[:, None])

    bounds = [
        (0.0, 0.0) if silent else (0.0, 1.0) if is_level else (None, None)
        for is_level, silent in zip(reference.is_level, quiet, strict=True)
    ]
    start = np.where(quiet, 0.0, start)
    with np.errstate(all="ignore"):
        try:
            minimize(  # type: ignore[call-overload]  # the stubs know no mapping of constraints
                objective, start, jac=True, bounds=bounds, method="SLSQP",
                constraints={"type": "ineq", "fun": reached, "jac": slopes},
                options={"maxiter": 150, "ftol": 1e-9},
            )  # fmt: skip
        except (np.linalg.LinAlgError, ValueError):
            return best
    return best


def _starts(
    reference: Reference, count: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(parameters, which levels stay 0): random ones, silent agents, hidden directions."""
    agents = len(reference.sizes)
    owner = np.repeat(np.arange(agents), [size * (size + 1) // 2 for size in reference.sizes])
    heard = np.zeros(reference.count, bool)

    def angles() -> np.ndarray:
        return np.asarray(rng.uniform(-np.pi, np.pi, reference.count))

    for number in range(count):
        levels = rng.uniform(0, 1, reference.count)
        if number % 2:
            levels = np.clip(np.round(levels), 0.03, 0.97)
        yield np.where(reference.is_level, levels, angles()), heard
    subsets = list(chain.from_iterable(combinations(range(agents), k) for k in range(1, agents)))
    rng.shuffle(subsets)
    for subset in subsets[:count]:
        quiet = reference.is_level & np.isin(owner, subset)
        yield np.where(reference.is_level, rng.uniform(0.3, 1, reference.count), angles()), quiet
    patterns = [(), *subsets]
    for number in range(count):
        start = _hiding(reference, patterns[number % len(patterns)], rng)
        if start is not None:
            yield start, heard


def _hiding(reference: Reference, spared: tuple[int, ...], rng: np.random.Generator) -> np.ndarray | None:
    """Parameters near the plan that hides a random z with Uz = 0, one that the spared agents do not see."""
    rows = [reference.wanted[0], *(reference.observe[reference.blocks[agent]] for agent in spared)]
    blind = null_space(np.vstack(rows), rcond=1e-9)
    if blind.shape[1] == 0:
        return None
    direction = blind @ rng.standard_normal(blind.shape[1])
    parts = []
    for size, block in zip(reference.sizes, reference.blocks, strict=True):
        shown = reference.observe[block] @ direction
        length = np.linalg.norm(shown)
        parts.append(_toward(shown / length if length > 1e-9 else None, size))
    return np.concatenate(parts)


def _toward(shown: np.ndarray | None, size: int) -> np.ndarray:
    """Angles whose first column is the direction shown, withheld, and the rest sent."""
    high, low = 0.98, 0.02
    if shown is None:
        return np.array([0.0] * len(_PLANES[size]) + [high] * size)
    if size == 1:
        return np.array([low])
    if size == 2:
        return np.array([np.arctan2(shown[1], shown[0]), low, high])
    # The first column of R01(a) R02(b) R12(c) is (cos a cos b, sin a cos b, sin b).
    b = np.arcsin(np.clip(shown[2], -1, 1))
    return np.array([np.arctan2(shown[1], shown[0]), b, 0.0, low, high, high])
