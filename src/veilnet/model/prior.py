"""What the fusion centre knows of x before any reading arrives."""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.frozen import Frozen, derived
from veilnet._core.linalg import EPS, cholesky, positive_root, solve_lower
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_square, as_vector, lowest_relative_eigenvalue, semidefinite


class Prior(Frozen):
    """Gaussian prior information J0 ⪰ 0 on x, with a mean.

    covariance:  P0; then J0 = P0^-1 is of full rank. Give this or ``information``.
    information: J0, which may be singular where nothing is known.
    mean:        of x; zero when left out.
    """

    def __init__(self, covariance: Any = None, *, information: Any = None, mean: Any = None) -> None:
        if (covariance is None) == (information is None):
            raise InvalidNetwork("prior: give either covariance= or information= (exactly one of them)")
        given, name = (
            (covariance, "prior covariance") if information is None else (information, "prior information")
        )
        array = as_array(given, name)
        if array.ndim == 1 or array.size == 0:
            raise InvalidNetwork(
                f"{name}: expected an L x L matrix, found shape {array.shape}; use np.diag for variances"
            )
        size = array.shape[0] if array.ndim else 1
        matrix = as_square(array, name, size)
        self.size = size
        self.mean: Array = np.zeros(size) if mean is None else as_vector(mean, "prior mean", size)
        if information is None:
            self._read_covariance(matrix)
        else:
            self.root: Array = positive_root(semidefinite(matrix, name))
            self.information: Array = matrix
            self.given = "information"
        self._freeze()

    def _read_covariance(self, matrix: Array) -> None:
        lowest = lowest_relative_eigenvalue(matrix)
        if lowest <= 4 * EPS * self.size:
            raise InvalidNetwork(
                f"prior covariance: expected a positive definite matrix, found the relative eigenvalue "
                f"{lowest:.3g}; a parameter known exactly does not belong in x"
            )
        lower = cholesky(matrix)
        self.root = solve_lower(lower, np.eye(self.size))
        with np.errstate(over="ignore", invalid="ignore"):
            information = self.root.T @ self.root
        if not np.all(np.isfinite(information)):
            raise InvalidNetwork(
                "prior covariance: its inverse exceeds what floating point can hold; "
                "give parameters in units that make it moderate"
            )
        self.information = (information + information.T) / 2
        self.given = "covariance"
        self.__dict__["covariance"] = matrix

    @property
    def full(self) -> bool:
        """Whether the prior says something about every direction of x."""
        return bool(self.root.shape[0] == self.size)

    @derived
    def covariance(self) -> Array | None:
        """P0 = J0^-1, or None where the information is singular."""
        if not self.full:
            return None
        scale = np.sqrt(np.diag(self.information))
        values, vectors = np.linalg.eigh(self.information / scale[:, None] / scale[None, :])
        half = vectors / np.sqrt(values) / scale[:, None]
        return np.asarray(half @ half.T)

    def __repr__(self) -> str:
        kind = "full" if self.full else f"singular, rank {self.root.shape[0]}"
        return f"Prior({self.given}, {self.size} parameters, {kind})"
