"""How much of a reading's noise carries over to its next row.

The noise of one reading is a part that remembers and a white floor, n_t = s_t + f_t with s_{t+1} = b s_t + e_t. Seen
from outside that is the process n_t - b n_{t-1} = a_t - c a_{t-1} with white a, 0 <= c <= b: for each (b, c) the a_t
come out of one pass of a linear filter, and the most likely pair is the one with the smallest Σ a_t². A memory
costs two parameters and is kept where it gains more likelihood than they do by chance (Schwarz: log T a pair), so
that white noise stays white.

Readings together: innovations E_ij = k_ij √(E_ii E_jj) and floors F_ij = k_ij √(F_ii F_jj), k a correlation matrix
such that one row has the noise covariance R of the row model:

    k_ij = R_ij / (√(E_ii E_jj) / (1 - b_i b_j) + √(F_ii F_jj)).

Memories that differ a lot can ask for a k that is no correlation matrix; it is then moved towards I just as far as
needed: variances stay those of R, correlations are weakened. Where that costs more likelihood than it gains, all
readings get one memory and one part of floor, E and F being multiples of R: no correlation is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

from veilnet._core.types import Array, Booleans, Integers
from veilnet.calibration.likelihood import noise_likelihood

_LONGEST_MEMORY = 0.9999
_SHORT = 8  # rows: a shorter run tells little of a memory
_RUNS = 50  # so many of the longest runs are enough
_MEMORIES = 1.0 - np.concatenate([np.geomspace(1e-3, 0.9, 14), [0.97]])
_FLOORS = np.array([0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95])
_POLISH = 2.0  # nats: more than looking between the pairs of the grid gains
_LEAST_EIGENVALUE = 0.1  # of that of R's correlations: what k keeps of it at least


@dataclass(frozen=True, eq=False)
class NoiseMemory:
    """What carries over of the noise of N readings.

    memory:     (N,) b, 0 where the noise is white.
    part:       (N,) the part of the noise variance that is the white floor beside a memory, 0 where there is none.
    innovation: (N, N) E, covariance of what is new in a row.
    floor:      (N, N) F, covariance of the floor.
    """

    memory: Array
    part: Array
    innovation: Array
    floor: Array

    @property
    def white(self) -> bool:
        """Whether no reading's noise carries over."""
        return not np.any(self.memory)


def fit_memory(residuals: Array, segments: Integers, noise: Array, joint: Booleans) -> NoiseMemory:
    """The memory of the noise, from residuals (T, N) in order of time.

    segments: (T,) the runs of neighbours; noise: R of one row; joint: (N, N), which pairs may share noise.
    """
    runs = _longest_runs(segments)
    each = np.array([_most_likely([column[run] for run in runs]) for column in residuals.T])
    shared = np.where(joint, noise, 0.0)
    one_by_one = with_memories(each[:, 0], each[:, 1], shared)
    if one_by_one.white or np.array_equal(shared, np.diag(np.diag(shared))):
        return one_by_one
    unit = np.linalg.solve(np.linalg.cholesky(shared), residuals.T)
    memory, part = _most_likely([column[run] for column in unit for run in runs])
    size = len(noise)
    in_common = NoiseMemory(
        np.full(size, memory), np.full(size, part), (1 - memory**2) * (1 - part) * shared, part * shared
    )
    gains = [
        float(np.sum(noise_likelihood(residuals, segments, one.memory, one.innovation, one.floor))) - penalty
        for one, penalty in ((one_by_one, size * np.log(len(residuals))), (in_common, np.log(len(residuals))))
    ]
    return one_by_one if gains[0] >= gains[1] else in_common


def _longest_runs(segments: Integers) -> list[slice]:
    edges = np.flatnonzero(np.diff(segments) != 0) + 1
    starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [segments.size]])
    order = np.argsort(starts - ends, kind="stable")[:_RUNS]
    return [slice(int(starts[k]), int(ends[k])) for k in order if ends[k] - starts[k] >= _SHORT]


def _most_likely(runs: list[Array]) -> tuple[float, float]:
    """(b, part of the variance that is floor), (0, 0) where a memory does not pay."""
    count = sum(run.size for run in runs)
    if count < 2 * _SHORT:
        return 0.0, 0.0

    def power(memory: float, part: float) -> float:
        """Mean square of what is new, where c = part · memory."""
        c = part * memory
        return sum(float(np.sum(lfilter([1.0, -memory], [1.0, -c], run) ** 2)) for run in runs) / count

    def cost(at: Array) -> float:
        memory, part = float(at[0]), float(at[1])
        if not (0.0 < memory <= _LONGEST_MEMORY and 0.0 <= part < 1.0):
            return np.inf
        return float(np.log(power(memory, part)))

    best = min(((b, part) for b in _MEMORIES for part in _FLOORS), key=lambda at: cost(np.array(at)))
    white = float(np.log(sum(float(np.sum(run**2)) for run in runs) / count))
    if count / 2 * (white - cost(np.array(best))) <= np.log(count) - _POLISH:
        return 0.0, 0.0
    start = np.array(
        [[best[0], best[1]], [best[0] - 0.3 * (1 - best[0]), best[1]], [best[0], best[1] + 0.04]]
    )
    polished = minimize(
        cost, start[0], method="Nelder-Mead", options={"initial_simplex": start, "xatol": 1e-5, "fatol": 1e-8}
    )
    if count / 2 * (white - polished.fun) <= np.log(count):
        return 0.0, 0.0
    memory, part = float(polished.x[0]), float(polished.x[1])
    # of variance s² of a: the floor is part · s², innovations make up the rest of the moving average
    innovation = 1 + (part * memory) ** 2 - part * (1 + memory**2)
    carried = innovation / (1 - memory**2)
    return memory, part / (part + carried)


def with_memories(memory: Array, part: Array, noise: Array) -> NoiseMemory:
    """A memory and a part of floor for each reading, k as above, for noise covariance R of one row."""
    variances = np.diag(noise)
    floor = part * variances
    renewed = (variances - floor) * (1 - memory**2)
    e_roots, f_roots = np.sqrt(np.outer(renewed, renewed)), np.sqrt(np.outer(floor, floor))
    shared = noise / (e_roots / (1 - np.outer(memory, memory)) + f_roots)
    least = _LEAST_EIGENVALUE * float(np.linalg.eigvalsh(noise / np.sqrt(np.outer(variances, variances)))[0])
    lowest = float(np.linalg.eigvalsh(shared)[0])
    weakened = 0.0 if lowest >= least else (least - lowest) / (1.0 - lowest)
    shared = (1.0 - weakened) * shared + weakened * np.eye(len(noise))
    return NoiseMemory(memory, part, shared * e_roots, shared * f_roots)
