"""The noise that one agent's answers carry, as the plan says: what is left of them once the response is taken off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from veilnet._core.linalg import positive_root
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.deployed.response import reach_of_dither


@dataclass(frozen=True, eq=False)
class Noise:
    """The plan's noise ξ B at one agent, with Θ + C D C' = B'B and ξ white, and the rounding of each number.

    D has the variances of the dither. Uniform draws are sub-Gaussian with their own variance, and so is ξ therefore;
    where there is dither it is not normal, and ``normal`` is false. Dither that goes into a memory comes back in
    later rows: what is left is then not white, so that D is not counted (Θ = B'B) and only its ``reach`` is known.
    """

    sanitizer: Sanitizer
    noisy: Array  # (sent, k): ξ = noise @ noisy
    swelling: Array  # (k,): what rounding adds to its variance, at most (for one value: step²/4)
    exact: Array  # (sent, m): combinations to which no noise is added
    step: Array
    covariance: Array  # Θ + C D C'
    reach: Array  # (sent,): |C| w/2, w the dither's width, how far dither alone may move each number
    normal: bool

    @classmethod
    def of(cls, sanitizer: Sanitizer) -> Noise:
        step = np.zeros(sanitizer.sent) if sanitizer.grid is None else sanitizer.grid
        covariance = sanitizer.noise
        if sanitizer.memory is None and sanitizer.dithers:
            dithered = sanitizer.compression * np.sqrt(sanitizer.dither_variance)
            covariance = covariance + dithered @ dithered.T
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        some = deviations > 0
        if np.any(covariance - np.diag(np.diag(covariance))):
            scale = np.where(some, deviations, 1.0)
            root = positive_root(covariance) / scale
            left, singular, right = np.linalg.svd(root, full_matrices=True)
            rank = singular.size
            noisy = (right[:rank].T / singular) @ left.T / scale[:, None]
            exact = right[rank:].T / scale[:, None]
        else:
            noisy, exact = np.diag(deviations)[:, some], np.eye(sanitizer.sent)[:, ~some]
            noisy = noisy / np.where(noisy > 0, deviations[some] ** 2, 1.0)
        return cls(
            sanitizer,
            noisy,
            (step**2 / 4.0) @ noisy**2,
            exact,
            step,
            covariance,
            reach_of_dither(sanitizer),
            not sanitizer.dithers,
        )

    @property
    def rounding(self) -> Array:
        """How far rounding and dither can move each of the draws ξ, in deviations."""
        return np.asarray((self.step + self.reach) @ np.abs(self.noisy))

    @property
    def lingers(self) -> bool:
        """Whether dither of one row is still felt in later ones."""
        return self.sanitizer.memory is not None and not self.normal

    def without_dither(self) -> Noise:
        """The noise ξ B with Θ = B'B alone: normal, and moved by dither no farther than it reaches."""
        if self.normal or self.lingers:
            return self
        return replace(Noise.of(self.sanitizer.replace(resolution=None)), reach=self.reach)

    def white(self, rest: Array) -> Array:
        """The draws ξ behind some noise."""
        return np.asarray(rest @ self.noisy)

    def calm(self, white: Array) -> Array:
        """The draws, shrunk by what rounding adds to them, so that they are 1-sub-Gaussian.

        A sum of them weighted by a unit vector is, too, where dither lingers: a filter whose weights sum to w makes
        of independent draws one that is at most w times as wide, and uniform draws on ±q/2 are q/√12 wide.
        """
        shrunk = 1.0 + np.sqrt(self.swelling)
        if self.lingers:
            shrunk = np.hypot(shrunk, (self.reach @ np.abs(self.noisy)) / np.sqrt(3.0))
        return np.asarray(white / shrunk)
