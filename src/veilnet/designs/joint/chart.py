"""A smooth chart of the shrinkages: X = sin²(Y), Y any symmetric matrix per agent.

Every symmetric Y gives eigenvalues in [0, 1], and both ends are reached at finite Y, so that a shrinkage
with exact zeros and ones is an ordinary point of an unconstrained problem. Where an eigenvalue rests at an
end the chart hides the derivative along it; `toward_vertex` of the multipliers looks there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.blocks import Group
from veilnet._core.types import Array


class SineChart:
    """Flat vectors of Y against lists of X, one (count, n, n) array per size group."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._shapes = [(group.count, group.size, group.size) for group in groups]
        self._edges = np.cumsum([0, *(count * size * size for count, size, _ in self._shapes)])

    def shrink(self, flat: Array) -> tuple[list[Array], list[tuple[Array, Array]]]:
        """X at Y, and the eigenvalues and eigenvectors of Y that `pull_back` needs."""
        shrinks, frames = [], []
        for start, end, shape in zip(self._edges[:-1], self._edges[1:], self._shapes, strict=True):
            angles, vectors = np.linalg.eigh(flat[start:end].reshape(shape))
            half = vectors * np.sin(angles)[:, None, :]
            shrinks.append(half @ half.transpose(0, 2, 1))
            frames.append((angles, vectors))
        return shrinks, frames

    def pull_back(self, frames: list[tuple[Array, Array]], gradients: Sequence[Array]) -> Array:
        """Gradient with respect to Y from the gradient with respect to X.

        The divided differences of sin² are closed form: sin²a - sin²b = sin(a + b) sin(a - b).
        """
        parts = []
        for (angles, vectors), gradient in zip(frames, gradients, strict=True):
            left, right = angles[:, :, None], angles[:, None, :]
            differences = np.sin(left + right) * np.sinc((left - right) / np.pi)
            inverse = vectors.transpose(0, 2, 1)
            parts.append((vectors @ (differences * (inverse @ gradient @ vectors)) @ inverse).reshape(-1))
        return np.concatenate(parts)

    def flat(self, shrinks: Sequence[Array], margin: float) -> Array:
        """Y of given X, eigenvalues first drawn into [margin, 1 - margin] so that every derivative shows."""
        parts = []
        for shrink in shrinks:
            values, vectors = np.linalg.eigh(shrink)
            angles = np.arcsin(np.sqrt(np.clip(values, margin, 1 - margin)))
            parts.append(((vectors * angles[:, None, :]) @ vectors.transpose(0, 2, 1)).reshape(-1))
        return np.concatenate(parts)
