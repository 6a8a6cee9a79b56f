"""A plan as the plain arrays of a Kalman filter, for any library that takes z, H and R.

What all agents send of one row is one linear measurement, z - z0 = H x + v with v ~ N(0, R). For rows that have
nothing to do with one another x is the network's own x, so that a filter may give it dynamics of its own. For a
stream x is the state that the plan was made with (:mod:`veilnet.centre.streams.model`): the network's x counted from
its mean, then noises that carry over and the agents' memories; it moves by x' = F x + b + w, w ~ N(0, Q).

Numbers are also rounded to their grids. Of rows that adds less than 1e-6 of the covariance and is left out, as
:class:`veilnet.Fusion` does; for streams R counts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidReading, InvalidRequest
from veilnet._core.types import Array
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import message_covariance
from veilnet.centre.fusion import Fusion
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.sum_model import SumModel
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

__all__ = ["KalmanArrays", "Measurement", "kalman_arrays"]

_MOST_NUMBERS = 20_000  # R is dense: beyond that it takes more than 3 GB


@dataclass(frozen=True, eq=False)
class Measurement:
    """What arrived of one row, as a Kalman filter takes it: z = H x + v, v ~ N(0, R).

    z: (m,), what was sent less what is sent at x = 0.
    H: (m, n).
    R: (m, m).
    """

    z: Array
    H: Array
    R: Array


@dataclass(frozen=True, eq=False)
class KalmanArrays:
    """The messages of a plan, M numbers of all agents in sending order, as a linear measurement of n numbers x.

    H:      (M, n), ``R`` (M, M) and ``z0`` (M,): what is sent is z0 + H x + v, v ~ N(0, R).
    x0:     (n,) and ``P0`` (n, n), what is known before the first row; None where the network has no prior, or one
            that says nothing of some direction.
    U:      (rows, n) and ``u0`` (rows,): the public parameters are u0 + U x.
    labels: name of each public row.
    F:      (n, n), ``Q`` (n, n) and ``b`` (n,) of a stream, x' = F x + b + w, w ~ N(0, Q); None for rows that have
            nothing to do with one another. Then x0 and P0 are already those of row 1: update first, then predict.
    fusion: the centre of the same plan, which knows the agents and how their messages look.
    """

    H: Array
    R: Array
    z0: Array
    x0: Array | None
    P0: Array | None
    U: Array
    u0: Array
    labels: tuple[str, ...]
    fusion: Fusion
    F: Array | None = None
    Q: Array | None = None
    b: Array | None = None

    def measurement(self, messages: Mapping[str, Any] | Any) -> Measurement:
        """What arrived of one row.

        messages: as for :meth:`veilnet.Fusion.estimate`, one row. Agents that are left out, or whose numbers are not
                  all finite, are missing: the arrays then have fewer rows, none at all where nobody sent.
        """
        stacked = self.fusion.stacked(messages)
        if len(stacked) != 1:
            raise InvalidReading(
                f"messages: expected one row, found {len(stacked)}; call measurement for each row"
            )
        row = stacked[0]
        if self.F is not None and np.any(np.isinf(row)):
            raise InvalidReading(
                "messages: an agent of a stream said that it missed a reading, and its memory went on without one, "
                "which these arrays do not follow; use veilnet.Fusion for such a stream"
            )
        arrived = self._arrived(row)
        return Measurement(row[arrived] - self.z0[arrived], self.H[arrived], self.R[np.ix_(arrived, arrived)])

    def public(self, x: Any, P: Any) -> tuple[Array, Array]:
        """(estimates, covariance of their errors) of the public parameters.

        x: (n,) or (n, 1), the filter's estimate.
        P: (n, n), its covariance.
        """
        state = np.asarray(x, dtype=np.float64).reshape(-1)
        covariance = np.asarray(P, dtype=np.float64)
        size = self.H.shape[1]
        if state.shape != (size,) or covariance.shape != (size, size):
            raise InvalidRequest(
                f"x, P: expected shapes ({size},) and ({size}, {size}), found {np.shape(x)} and {np.shape(P)}"
            )
        return self.u0 + self.U @ state, np.asarray(self.U @ covariance @ self.U.T)

    def _arrived(self, row: Array) -> Any:
        """Places of the numbers of agents whose numbers are all finite."""
        blocks = self.fusion.model.blocks
        whole = [bool(np.all(np.isfinite(row[blocks.rows(place)]))) for place in range(blocks.count)]
        return np.flatnonzero(np.repeat(whole, blocks.sizes))


def kalman_arrays(plan: Plan) -> KalmanArrays:
    """The messages of a plan as plain arrays.

    plan: what was designed, for rows or a stream.
    """
    if not isinstance(plan, Plan):
        raise InvalidPlan(
            f"plan: expected a veilnet.Plan, found {type(plan).__name__}; use Plan.load(folder)"
        )
    total = sum(plan.sent.values())
    if total > _MOST_NUMBERS:
        raise InvalidRequest(
            f"plan: its agents send {total:,} numbers, and R would have {total:,} x {total:,} entries; at most "
            f"{_MOST_NUMBERS:,} are put into plain arrays: use veilnet.Fusion, which never forms R"
        )
    fusion = Fusion(plan)
    if isinstance(fusion.model, SumModel):
        raise InvalidRequest(
            f"plan: the memories of {plan.network.S} agents of a stream are not put into one state; use "
            "veilnet.Fusion, which adds up their shares"
        )
    if isinstance(fusion.model, StreamModel):
        return _of_stream(fusion.model, fusion)
    return _of_rows(plan.network, plan.sanitizers, fusion)


def _of_rows(network: Network, sanitizers: Mapping[str, Sanitizer], fusion: Fusion) -> KalmanArrays:
    sent = mechanisms(network, sanitizers)
    known = network.prior is not None and network.prior.covariance is not None
    prior = network.prior if known else None
    return KalmanArrays(
        H=sent.compressed(network.H),
        R=message_covariance(network, sent),
        z0=sent.compressed((network.offset - sent.offset)[:, None])[:, 0],
        x0=None if prior is None else prior.mean,
        P0=None if prior is None else prior.covariance,
        U=network.U,
        u0=np.zeros(len(network.U)),
        labels=network.public_rows,
        fusion=fusion,
    )


def _of_stream(model: StreamModel, fusion: Fusion) -> KalmanArrays:
    return KalmanArrays(
        H=model.observe,
        R=model.floor,
        z0=model.expected,
        x0=None if model.vague else model.start_mean,
        P0=None if model.vague else model.start,
        U=model.public,
        u0=model.public_expected,
        labels=model.labels,
        F=model.transition,
        Q=model.noise,
        b=model.drive,
        fusion=fusion,
    )
