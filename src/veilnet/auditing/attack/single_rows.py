"""What a plan for single rows makes of a log by its own model, and whether the log contradicts that model.

Where held-out data do not follow the model, a promise can be missed although every agent does what was planned: it
was for other conditions. Raw readings show it, whatever is sent: their level and spread against what the model
states, and the errors of the model's own estimates from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.error_rows import slices_of
from veilnet.auditing.attack.held_out import Samples, labels
from veilnet.auditing.attack.on_data import SECTION, ByTheModel
from veilnet.auditing.attack.simulation import LinearCentre, raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.row import Judgement, Row
from veilnet.auditing.what_if.variants import prior_mean
from veilnet.calibration.dependence import independent_rows, mean_of, ratio_of
from veilnet.model.network import Network

_ENOUGH = 100.0  # independent rows, to see a level that is off by half a deviation
_TENTH = 1.1  # a mean square error has to be larger than stated by more than this to be worth a word


def model_row(
    section: str, network: Network, samples: Samples, raw: Mapping[str, tuple[Array, float]], chance: float
) -> Row:
    """Whether these data contradict the model, and in what.

    raw: what the model estimates from raw readings, by name: squared errors (T,) and the error that it states.
    """
    tests = 2 * network.N + len(raw)
    found = [*_readings(network, samples, chance / tests), *_errors(raw, chance / tests)]
    what = "the model against these data"
    worth = min(independent_rows(samples.readings[:, place]) for place in range(network.N))
    verdict: Judgement = "warn" if found else "ok" if worth >= _ENOUGH else "cannot tell"
    why = ""
    if found:
        why = (
            f"{join_names(found)}. Either conditions have changed since the fit (drift), or the model never "
            f"described them; refit on recent rows and design again."
        )
    elif verdict == "cannot tell":
        why = f"The readings change so slowly that {worth:.0f} independent rows are too few to detect drift."
    shown = {
        "guessing": "",
        "raw": "contradict it" if found else "agree" if verdict == "ok" else "too few",
        "promised": "",
        "sent": "",
    }
    figures = {"contradictions": found, "independent rows": worth}
    outcome = "contradict" if found else "agree"
    return Row(section, what, "agree", outcome, verdict, why, None, figures, shown)


def _readings(network: Network, samples: Samples, chance: float) -> list[str]:
    """Level and spread of every reading, where a full prior states them."""
    prior = network.prior
    if prior is None or not prior.full or prior.covariance is None:
        return []
    level = network.H @ prior_mean(network) + network.offset
    # These readings are as they were measured: what an agent adds by its dither is not in them yet.
    noise = network.undithered_noise.matrix()
    spread = np.sqrt(np.diag(network.H @ prior.covariance @ network.H.T + noise))
    sizes = zip(network.agents, network.blocks.sizes.tolist(), strict=True)
    names = [
        each for agent, size in sizes for each in network.reading_names.get(agent) or labels(agent, size)
    ]
    found = []
    for place, name in enumerate(names):
        moved = (samples.readings[:, place] - level[place]) / spread[place]
        mean = mean_of(moved)
        if 2 * min(mean.chance_below(0.0), mean.chance_above(0.0)) < chance:
            found.append(
                f"{name} lies {abs(mean.value):.2g} deviations {'above' if mean.value > 0 else 'below'}"
            )
        squares = (moved - mean.value) ** 2
        size = ratio_of(squares, np.ones(len(squares)))
        if 2 * min(size.chance_below(1.0), size.chance_above(1.0)) < chance:
            found.append(f"{name} is spread {np.sqrt(size.value):.2g} times as wide as stated")
    return found


def _errors(raw: Mapping[str, tuple[Array, float]], chance: float) -> list[str]:
    found = []
    for name, (squares, stated) in raw.items():
        error = ratio_of(squares, np.full(len(squares), stated))
        if error.chance_above(_TENTH) < chance:
            found.append(
                f"its estimate of {name} from raw readings errs {np.sqrt(error.value):.2g} times as much as stated"
            )
    return found


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
