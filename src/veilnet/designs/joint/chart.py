"""A smooth chart of the shrinkages: X = sin²(Y), Y any symmetric matrix per agent.

Every symmetric Y gives eigenvalues in [0, 1], and both ends are reached at finite Y, so that a shrinkage
with exact zeros and ones is an ordinary point of an unconstrained problem. Where an eigenvalue rests at an
end the chart hides the derivative along it; `toward_vertex` of the multipliers looks there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.blocks import Group
from veilnet._core.stacks import parts
from veilnet._core.types import Array

_SMALLEST = float(np.finfo(np.float64).eps)


def divided_differences(angles: Array) -> Array:
    """(sin²a - sin²b) / (a - b) for every two of an agent's angles, its derivative where they are one: (..., n, n).

    Closed form: sin²a - sin²b = sin(a + b) sin(a - b). The second factor is ``np.sinc``, which on a few numbers
    takes several times as long to find out what they are.
    """
    left, right = angles[..., :, None], angles[..., None, :]
    apart = np.pi * ((left - right) / np.pi)
    apart = np.where(apart, apart, _SMALLEST)
    made: Array = np.sin(left + right) * (np.sin(apart) / apart)
    return made


class SineChart:
    """Flat vectors of Y against lists of X, one (count, n, n) array per size group."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._shapes = [(group.count, group.size, group.size) for group in groups]
        self._parts = [list(parts(*shape)) for shape in self._shapes]
        self._edges = np.cumsum([0, *(count * size * size for count, size, _ in self._shapes)]).tolist()

    def shrink(self, flat: Array) -> tuple[list[Array], list[tuple[Array, Array]]]:
        """X at Y, and the eigenvalues and eigenvectors of Y that `pull_back` needs."""
        shrinks, frames = [], []
        for start, end, shape, runs in zip(
            self._edges[:-1], self._edges[1:], self._shapes, self._parts, strict=True
        ):
            given = flat[start:end].reshape(shape)
            if len(runs) == 1:
                angles, vectors = np.linalg.eigh(given)
                half = vectors * np.sin(angles)[:, None, :]
                shrinks.append(half @ half.transpose(0, 2, 1))
                frames.append((angles, vectors))
                continue
            angles, vectors, made = np.empty(shape[:2]), np.empty(shape), np.empty(shape)
            for part in runs:
                angles[part], vectors[part] = np.linalg.eigh(given[part])
                half = vectors[part] * np.sin(angles[part])[:, None, :]
                np.matmul(half, half.transpose(0, 2, 1), out=made[part])
            shrinks.append(made)
            frames.append((angles, vectors))
        return shrinks, frames

    def pull_back(self, frames: list[tuple[Array, Array]], gradients: Sequence[Array]) -> Array:
        """Gradient with respect to Y from the gradient with respect to X."""
        pulled = np.empty(int(self._edges[-1]))
        for start, end, (angles, vectors), gradient, runs in zip(
            self._edges[:-1], self._edges[1:], frames, gradients, self._parts, strict=True
        ):
            mine = pulled[start:end].reshape(vectors.shape)
            for part in runs:
                frame = vectors[part]
                inverse = frame.transpose(0, 2, 1)
                inner = divided_differences(angles[part])
                inner *= inverse @ gradient[part] @ frame
                np.matmul(frame @ inner, inverse, out=mine[part])
        return pulled

    def flat(self, shrinks: Sequence[Array], margin: float) -> Array:
        """Y of given X, eigenvalues first drawn into [margin, 1 - margin] so that every derivative shows."""
        made = []
        for shrink in shrinks:
            values, vectors = np.linalg.eigh(shrink)
            angles = np.arcsin(np.sqrt(np.clip(values, margin, 1 - margin)))
            made.append(((vectors * angles[:, None, :]) @ vectors.transpose(0, 2, 1)).reshape(-1))
        return np.concatenate(made)
