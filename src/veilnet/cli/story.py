"""The bundled house, played through: what the centre knows before, from raw readings, and from what is sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.auditing.attack.simulation import LinearCentre, draw_readings, draw_x
from veilnet.bounds.knowledge import crlb
from veilnet.centre.fusion import Fusion
from veilnet.model.network import Network
from veilnet.plans.plan import Plan


@dataclass(frozen=True)
class StoryLine:
    """One parameter and the deviation of the centre's error on it, in the parameter's unit.

    before: from the prior alone; raw: from raw readings; promised: from what is sent (Cramér–Rao bounds);
    measured: root mean square error of the best estimate from what was really sent.
    """

    name: str
    unit: str
    private: bool
    before: float
    raw: float
    promised: float
    measured: float


def play(plan: Plan, rows: int, seed: int) -> list[StoryLine]:
    """Simulate so many readings, sanitize them in earnest, estimate, and set errors beside promises.

    The house is drawn from the seed; the agents' noise comes from the operating system. The public parameters
    are estimated by the fusion centre, the private ones by the same centre turned curious.
    """
    network = plan.network
    if network.prior is None or network.prior.covariance is None:
        raise InvalidRequest("prior: the story starts from what is known beforehand and needs a full prior")
    rng = np.random.default_rng(seed)
    truth = draw_x(network, rng, rows)
    stacked = draw_readings(network, truth, rng)
    sent = {
        agent: sanitizer.sanitize(stacked[:, network.blocks.rows(network.position[agent])])
        for agent, sanitizer in plan.sanitizers.items()
    }
    private = np.concatenate(list(network.private.values()))
    estimate = np.concatenate(
        [Fusion(plan).estimate(sent).public, LinearCentre(network, plan.sanitizers).estimate(sent, private)],
        axis=1,
    )
    wanted = np.concatenate([network.U, private])
    measured = np.sqrt(np.mean((estimate - truth @ wanted.T) ** 2, axis=0))
    columns = [
        deviations(wanted, network.prior.covariance),
        deviations(wanted, crlb(network)),
        deviations(wanted, crlb(network, plan.sanitizers)),
        measured,
    ]
    return [
        StoryLine(label, network.unit(name), hidden, *(float(column[k]) for column in columns))
        for k, (label, name, hidden) in enumerate(rows_in_words(network))
    ]


def rows_in_words(network: Network) -> list[tuple[str, str, bool]]:
    """(label of the row, name of its parameter, whether it is private), public rows first."""
    found = []
    for hidden, named in ((False, network.public), (True, network.private)):
        for name, rows in named.items():
            for row in rows:
                parts = " and ".join(network.parameters[k] for k in np.flatnonzero(row)[:2])
                found.append((name if len(rows) == 1 else f"{name}: {parts}", name, hidden))
    return found


def deviations(rows: Array, covariance: Array) -> Array:
    return np.asarray(np.sqrt(np.sum((rows @ covariance) * rows, axis=1)))
