"""What a plan for single rows makes of a log by its own model, and whether the log contradicts that model."""

from __future__ import annotations

from functools import partial

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.error_rows import slices_of
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.model_fit import model_row
from veilnet.auditing.attack.on_data import SECTION, ByTheModel
from veilnet.auditing.attack.simulation import LinearCentre, raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment


def rows_by_the_model(deployment: Deployment, samples: Samples, messages: Array) -> ByTheModel:
    """Estimates from the messages (T, sent) and readings of each row by itself."""
    network, planned = deployment.network, deployment.planned
    centre, raw_centre = (LinearCentre(network, each) for each in (planned, raw_sanitizers(network)))
    ends = np.cumsum([planned[agent].sent for agent in network.agents])[:-1]
    sent = dict(zip(network.agents, np.split(messages, ends, axis=1), strict=True))
    moved = samples.readings - network.offset
    readings = {agent: moved[:, network.blocks.rows(k)] for k, agent in enumerate(network.agents)}
    public = {
        name: (centre.estimate(sent, rows), float(np.trace(centre.knowledge.error_covariance(rows))))
        for name, rows in network.public.items()
        if np.isfinite(centre.knowledge.growth(rows))
    }
    private = {
        name: (centre.estimate(sent, rows), raw_centre.estimate(readings, rows))
        for name, rows in network.private.items()
        if np.isfinite(centre.knowledge.growth(rows))
    }
    truths = {name: (network.private[name], values) for name, values in samples.private.items()}
    if samples.public is not None:
        truths |= {
            name: (network.U[part], samples.public[:, part])
            for name, part in slices_of(network.public).items()
        }
    errors = {
        name: (
            np.sum((raw_centre.estimate(readings, rows) - values) ** 2, axis=1),
            float(np.trace(raw_centre.knowledge.error_covariance(rows))),
        )
        for name, (rows, values) in truths.items()
        if np.isfinite(raw_centre.knowledge.growth(rows))
    }
    checked = partial(model_row, SECTION, network, samples, errors)
    return ByTheModel(np.arange(len(samples)), Promises(network, planned), public, private, checked)
