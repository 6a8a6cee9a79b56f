"""Noise with common disturbances, R = blockdiag(own_i) + B Φ B': correlated, and never an N x N matrix.

A lamp that flickers or a supply that sags reaches every reading at once, each by its own loading. A handful of such
disturbances correlates all readings, and still everything is as cheap as with independent noise: with
D = blockdiag(own_i) = E E', W = B Φ^½, and E^-1 W = Q T (Q with orthonormal columns),

    R = root root',    root = E (I - Q Q' + Q K Q'),    K K' = I + T T',

so that R^-1 is applied by blocks and a k x k triangle (Woodbury's identity). Compression keeps the form: C R C' + Θ
is blockdiag(C_i own_i C_i' + Θ_i) plus (C W)(C W)'. And the disturbances can be seen as more parameters of x, with a
known prior and read by nobody: the noise is then independent, and every bound the same.

y = H x + B c + own noise, c ~ N(0, Φ): whether c is called noise or a parameter with a prior that nobody asks for is
a matter of words. With W = B Φ^½ and c of unit covariance, x' = (x, c), H' = (H, W), J0' = blockdiag(J0, I), and
a row a of U or G_j becomes (a, 0): eliminating c from any sanitized information J̃' leaves J̃, so that errors, shares
U Ψ_i, limits tr(G J0^+ G') and observability are the same, while the noise is independent between agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks, Group
from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.frozen import Frozen, derived
from veilnet._core.linalg import positive_root, solve_lower, triangle
from veilnet._core.types import Array
from veilnet._core.validation import are_stacks, as_array, as_covariance, refuse_unknown
from veilnet.model import noise as plain
from veilnet.model.noise import IndependentNoise, NoiseModel
from veilnet.model.prior import Prior

# R as one matrix beyond this many readings no longer fits the memory of an ordinary machine.
_MOST_DENSE = 20_000


class CommonNoise(Frozen):
    """Noise of the readings with disturbances that several agents share, R = blockdiag(own_i) + B Φ B'.

    own:      each agent's own noise, in every form that ``noise`` of a network takes for independent agents: agent ->
              covariance, N variances, a stack (S, n, n), a list of stacks, or one variance for all.
    loadings: B, how much of each of k disturbances every reading gets: agent -> N_i x k (agents left out get
              nothing of any), an N x k matrix, or a stack (S, n, k). With one disturbance, vectors do.
    common:   Φ, the k x k covariance of the disturbances, or their k variances; the identity when left out.
    """

    def __init__(self, own: Any, loadings: Any, common: Any = None) -> None:
        self.own = own
        self.loadings = loadings
        self.common = common
        self._freeze()


class SharedNoise(NoiseModel):
    """The noise that a CommonNoise gives the N readings of a network, checked.

    own: D;  loadings: B, (N, k);  common: Φ, (k, k);  spread: W = B Φ^½, (N, rank Φ), so that R = D + W W'.
    """

    independent = False

    def __init__(self, own: IndependentNoise, loadings: Array, common: Array) -> None:
        self.blocks = own.blocks
        self.own = own
        self.loadings = loadings
        self.common = common
        with np.errstate(over="ignore", invalid="ignore"):
            self.spread: Array = np.ascontiguousarray(loadings @ positive_root(common).T)
            shared = np.einsum("nk,nk->n", self.spread, self.spread)
        if not np.all(np.isfinite(shared)):
            raise InvalidNetwork(
                "noise loadings: the variance of the common disturbances exceeds what floating point can hold; give "
                "readings in units that make their numbers moderate"
            )
        self._freeze()

    def block(self, agent: int) -> Array:
        mine = self.spread[self.blocks.rows(agent)]
        return np.asarray(self.own.block(agent) + mine @ mine.T)

    def stack(self, group: Group) -> Array:
        mine = group.take(self.spread)
        return np.asarray(self.own.stack(group) + mine @ np.swapaxes(mine, 1, 2))

    def matrix(self) -> Array:
        if self.blocks.total > _MOST_DENSE:
            raise InvalidRequest(
                f"noise: this needs the covariance of all readings as one matrix, {self.blocks.total} x "
                f"{self.blocks.total}, and common disturbances are kept apart so that it is never formed; above "
                f"{_MOST_DENSE} readings, ask of a part of the network (design, certificate and fusion do without it)"
            )
        return self.own.matrix() + self.spread @ self.spread.T

    def whiten(self, stacked: Array) -> Array:
        white = self.own.whiten(stacked)
        orthonormal, lower = self._turned
        along = orthonormal.T @ white
        return np.asarray(white + orthonormal @ (solve_lower(lower, along) - along))

    def whiten_back(self, stacked: Array) -> Array:
        orthonormal, lower = self._turned
        along = orthonormal.T @ stacked
        return self.own.whiten_back(
            stacked + orthonormal @ (solve_lower(lower, along, transposed=True) - along)
        )

    def own_roots(self) -> tuple[Array, ...]:
        """Cholesky factors of the own_i: what an agent's noise is once the disturbances are known."""
        return self.own.own_roots()

    def condition(self) -> float:
        _, lower = self._turned
        return self.own.condition() * max(1.0, float(np.linalg.norm(lower, 2)))

    def variances(self) -> Array:
        return np.asarray(self.own.variances() + np.einsum("nk,nk->n", self.spread, self.spread))

    def rounding_room(self) -> Array:
        return self.own.variances()

    def plus(self, variances: Array) -> SharedNoise:
        return SharedNoise(self.own.plus(variances), self.loadings, self.common)

    @derived
    def _turned(self) -> tuple[Array, Array]:
        """(Q, K) of the module's first lines."""
        return common_root(self.own.whiten(self.spread))


def common_root(spread: Array) -> tuple[Array, Array]:
    """(Q, K), K lower triangular: I + W W' = M M' with M = I - Q Q' + Q K Q', for W with many rows and few columns.

    Largest columns first, and by orthogonal steps only: a disturbance a million times weaker than another keeps its
    digits.
    """
    order = np.argsort(-np.linalg.norm(spread, axis=0), kind="stable")
    orthonormal, upper = np.linalg.qr(spread[:, order])
    lower = triangle(np.concatenate([np.eye(upper.shape[0]), upper.T])).T
    return orthonormal, np.ascontiguousarray(lower)


def without_common(white: Array, spread: Array) -> Array:
    """M^-1 A for rows A observed in noise I + W W' = M M': the same rows in white noise."""
    if not spread.size:
        return white
    orthonormal, lower = common_root(spread)
    along = orthonormal.T @ white
    return np.asarray(white + orthonormal @ (solve_lower(lower, along) - along))


def read_noise(noise: Any, agents: Sequence[str], blocks: Blocks) -> NoiseModel:
    """Every form of the ``noise`` argument, common disturbances among them."""
    if not isinstance(noise, CommonNoise):
        return plain.read_covariance(noise, agents, blocks)
    own = _read_own(noise.own, agents, blocks)
    loadings = _read_loadings(noise.loadings, agents, blocks)
    count = loadings.shape[1]
    common = np.eye(count) if noise.common is None else as_covariance(noise.common, "noise common", count)
    shared = SharedNoise(own, loadings, common)
    return shared if np.any(shared.spread) else own


def _read_own(own: Any, agents: Sequence[str], blocks: Blocks) -> IndependentNoise:
    shape = (
        () if isinstance(own, Mapping | NoiseModel) or are_stacks(own) else as_array(own, "own noise").shape
    )
    if len(shape) == 2:
        raise InvalidNetwork(
            f"noise own: expected the noise of each agent by itself, found one matrix of shape {shape}; give "
            "agent -> covariance, variances, or a stack (S, n, n)"
        )
    try:
        found = plain.read_covariance(own, agents, blocks)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"own {error}" if str(error).startswith("noise") else str(error)) from error
    if not isinstance(found, IndependentNoise):
        raise InvalidNetwork(
            "noise own: expected noise that is independent between agents; what they share belongs into loadings"
        )
    return found


def _read_loadings(loadings: Any, agents: Sequence[str], blocks: Blocks) -> Array:
    if isinstance(loadings, Mapping):
        return _loadings_by_agent(loadings, agents, blocks)
    array = as_array(loadings, "noise loadings")
    if (
        array.ndim == 3
        and len(blocks.groups) == 1
        and array.shape[:2] == (blocks.count, blocks.groups[0].size)
    ):
        array = array.reshape(blocks.total, -1)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] != blocks.total:
        raise InvalidNetwork(
            f"noise loadings: expected {blocks.total} rows, one per reading and with a column per disturbance, "
            f"agent -> such rows, or a stack of them; found shape {array.shape}"
        )
    return _some(np.array(array))


def _loadings_by_agent(given: Mapping[Any, Any], agents: Sequence[str], blocks: Blocks) -> Array:
    refuse_unknown(given, agents, "noise loadings")
    rows = {}
    for place, agent in enumerate(agents):
        if agent in given:
            name, size = f"noise loadings of {agent!r}", int(blocks.sizes[place])
            array = as_array(given[agent], name)
            array = array[:, None] if array.ndim == 1 else array
            if array.ndim != 2 or array.shape[0] != size:
                raise InvalidNetwork(
                    f"{name}: expected {size} rows, one per reading and with a column per disturbance; found shape "
                    f"{array.shape}"
                )
            rows[agent] = array
    widths = {array.shape[1]: agent for agent, array in rows.items()}
    if len(widths) > 1:
        (one, first), (other, second) = list(widths.items())[:2]
        raise InvalidNetwork(
            f"noise loadings: expected as many disturbances for every agent, found {one} for {first!r} and {other} "
            f"for {second!r}; a disturbance that an agent does not see has the loading 0"
        )
    dense = np.zeros((blocks.total, next(iter(widths), 0)))
    for place, agent in enumerate(agents):
        if agent in rows:
            dense[blocks.rows(place)] = rows[agent]
    return _some(dense)


def _some(loadings: Array) -> Array:
    if loadings.shape[1] == 0:
        raise InvalidNetwork(
            "noise loadings: expected at least one common disturbance, found none; without any, give noise= alone"
        )
    return loadings


def padded(rows: Array, length: int) -> Array:
    """Rows that read nothing of the parameters added behind theirs."""
    wide = np.zeros((rows.shape[0], length))
    wide[:, : rows.shape[1]] = rows
    return wide


def prior_apart(prior: Prior | None, length: int, count: int) -> Prior:
    """The prior of x and of so many disturbances of unit covariance beside it."""
    matrix = np.eye(length + count)
    if prior is None:
        matrix[:length, :length] = 0.0
        return Prior(information=matrix)
    mean = np.concatenate([prior.mean, np.zeros(count)])
    matrix[:length, :length] = getattr(prior, prior.given)
    if prior.given == "covariance":
        return Prior(covariance=matrix, mean=mean)
    return Prior(information=matrix, mean=mean)


def names_apart(taken: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The names of x, and of so many disturbances."""
    what = "common disturbance"
    while any(name.startswith(what) for name in taken):
        what = f"another {what}"
    return (*taken, *(f"{what} {place + 1}" for place in range(count)))
