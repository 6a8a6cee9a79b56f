"""The lattice attack as part of the audit: simulated readings on their lattice, or the lattice found in data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.agent.mechanisms import Sanitizers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.held_out import Samples, simulate
from veilnet.auditing.attack.lattice import (
    Eavesdropper,
    closest_points,
    eavesdropper,
    knowing_the_dither,
    linear_posterior,
)
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.measures import InUnit
from veilnet.auditing.row import Judgement, LeftOut, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import CONFIDENCE, SquareSum
from veilnet.auditing.what_if.variants import changed, simulated
from veilnet.bounds.knowledge import knowledge
from veilnet.bounds.typical_errors import unit_of
from veilnet.calibration.dependence import mean_of, ratio_of
from veilnet.model.lattice import lattice_of, on_lattice
from veilnet.model.network import Network, Prior

SECTION = Section.LATTICE.heading
_MOST_READINGS = 300  # beyond, the attack would take minutes
_MOST_ROWS = 4000
# Of the promised variance: what the lattice may tell beyond it, where steps are up to two deviations of the noise.
_MOST_GAIN = 0.01


def lattice_rows(
    deployment: Deployment,
    samples: Samples | None,
    count: int,
    chance: float,
    seed: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """Whether readings can be found from their lattice, and what that reveals of every private parameter.

    samples: rows from the world; ``count`` simulated ones when there are none.
    """
    network = deployment.network
    if network.is_stream:
        if any(s.dithers or s.resolution is not None for s in deployment.planned.values()):
            raise LeftOut(
                "it looks for readings behind one row of exact numbers, and a memory adds up many rows"
            )
        return []
    if samples is None:
        samples = simulate(simulated(network), count, seed)
    steps, phase, rows = _lattice(deployment, samples)
    if not np.any(steps):
        return rows or [_nothing_to_attack(network)]
    if network.N > _MOST_READINGS:
        raise LeftOut(f"{network.N} readings; the attack is made for up to {_MOST_READINGS}")
    model = _model_of(network, samples)
    some = slice(0, min(len(samples), _MOST_ROWS))
    readings = samples.readings[some]
    sent = deployment.release_all(readings)
    messages = np.concatenate([sent[agent] for agent in network.agents], axis=1)
    advance(0.1)
    if not messages.shape[1]:
        return rows
    known = eavesdropper(model, _running(deployment), steps, phase, _quiet(network, samples, steps, phase))
    attacks = _attacks(known, messages, seed)
    advance(0.9)
    truth = {name: values[some] for name, values in samples.private.items()}
    recovered, drawn = _recovered(known, attacks["closest points"][1], readings), samples.model is not None
    return rows + [
        _attacked(model, deployment.planned, name, each, attacks, recovered, chance / len(truth), drawn=drawn)
        for name, each in truth.items()
    ]


def _model_of(network: Network, samples: Samples) -> Network:
    """The network with a full prior: the one the rows were drawn from, its own, or what the data themselves show."""
    if samples.model is not None:
        return samples.model
    if network.prior is not None and network.prior.full:
        return network
    error = np.linalg.inv(network.raw_triangle)
    shown = network.R.whiten((samples.readings - network.offset).T)
    x = (error @ (error.T @ (network.white_observe.T @ shown))).T
    return changed(network, prior=Prior(covariance=np.atleast_2d(np.cov(x.T)), mean=np.mean(x, axis=0)))


def _running(deployment: Deployment) -> dict[str, Sanitizer]:
    """The sanitizers as the attacker knows them: those that run where they can be read, the plan's otherwise."""
    return {
        agent: mechanism if isinstance(mechanism, Sanitizer) else deployment.planned[agent]
        for agent, mechanism in deployment.deployed.items()
    }


def _attacks(known: Eavesdropper, messages: Array, seed: int) -> dict[str, tuple[Array, Array]]:
    """name -> (posterior mean of the readings, the readings named); also as if nobody dithered."""
    linear, _ = linear_posterior(known, messages)
    undithered = closest_points(known.undithered(), messages)
    found = {"linear": (linear, linear), "closest points": (undithered.mean, undithered.nearest)}
    if np.any(known.spread):
        dithered = closest_points(known, messages)
        found["closest points, dither allowed for"] = dithered.mean, dithered.nearest
        weighed = knowing_the_dither(known, messages, seed)
        found["weighted draws"] = weighed, weighed
    return found


def _quiet(network: Network, samples: Samples, steps: Array, phase: Array) -> dict[str, float]:
    """agent -> the part of its rows that lies on the lattice."""
    on = on_lattice(samples.readings, steps, phase)
    return {
        agent: float(np.mean(np.all(on[:, network.blocks.rows(place)], axis=1)))
        for place, agent in enumerate(network.agents)
    }


def _recovered(known: Eavesdropper, named: Array, readings: Array) -> dict[str, float]:
    """agent -> the part of rows in which all its readings with steps were named to within a tenth of one."""
    close = np.abs(named - readings) <= 0.1 * np.where(known.steps > 0, known.steps, np.inf)
    return {
        agent: float(np.mean(np.all(close[:, mine], axis=1)))
        for agent, mine in known.owners.items()
        if np.any(known.steps[mine] > 0)
    }


def _attacked(
    network: Network,
    planned: Sanitizers,
    name: str,
    truth: Array,
    attacks: dict[str, tuple[Array, Array]],
    recovered: dict[str, float],
    chance: float,
    *,
    drawn: bool,
) -> Row:
    """The best of the attacks on one private parameter; ``drawn``: whether the rows were drawn from the network."""
    rows = network.private[name]
    squares = {
        label: np.sum((_estimate(network, rows, mean) - truth) ** 2, axis=1)
        for label, (mean, _) in attacks.items()
    }
    spectrum = np.linalg.eigvalsh(knowledge(network, planned).error_covariance(rows))
    law = SquareSum(np.maximum(spectrum, 0.0), len(truth))
    label = min((one for one in squares if one != "linear"), key=lambda one: np.mean(squares[one]))
    found, linear = float(np.mean(squares[label])), float(np.mean(squares["linear"]))
    each = chance / max(1, len(squares) - 1)
    if drawn:
        # The linear attacker errs as promised: against it, on the same rows, a small gain shows.
        gain = mean_of(squares["linear"] - squares[label] - _MOST_GAIN * law.mean)
        interval = law.interval(found)
        beaten = found < law.lowest(each) or gain.chance_above(0.0) < each
    else:
        # On data the model errs too: the attack has to beat the linear attacker on the very same rows as well.
        interval = mean_of(squares[label]).interval(CONFIDENCE)
        gained = mean_of(squares["linear"] - squares[label]).chance_above(0.0) < each
        promised = np.full(len(truth), law.mean)
        beaten = gained and ratio_of(squares[label], promised).chance_below(1.0) < each
    figures = {f"mean square error, {one}": float(np.mean(values)) for one, values in squares.items()}
    figures |= {f"readings named, {agent}": part for agent, part in recovered.items()}
    figures |= {"rows": float(len(truth)), "of the linear attacker's error": found / linear}
    verdict: Judgement = "fail" if beaten else "ok"
    named = [f"{agent} ({100 * part:.0f} %)" for agent, part in recovered.items() if part > 0.5]
    units = InUnit(unit_of(network, name), len(rows))
    low, high = (units(max(each, 0.0)) for each in interval)
    shown = {
        "promised": units(law.mean),
        "linear attacker": units(linear),
        "lattice attacker": units(found),
        "99 % interval": f"{low} to {high}",
    }
    why = f"By {label}; rows in which all readings were named: {join_names(named)}." if named else ""
    if beaten:
        why += " What is sent names readings or undoes their dither: state the resolution and design again."
    what = f"{name}, from the readings' lattice"
    return Row(SECTION, what, law.mean, found, verdict, why.strip(), interval, figures, shown)


def _estimate(network: Network, rows: Array, readings: Array) -> Array:
    """E[G x | y] at an idea of the readings, y with the noise of the sensors."""
    assert network.prior is not None
    assert network.prior.covariance is not None
    together = network.prior.covariance @ network.H.T
    total = network.H @ together + network.undithered_noise.matrix()
    mean = network.prior.mean
    gain = np.linalg.solve(total, together.T @ rows.T)
    return np.asarray(rows @ mean + (readings - network.H @ mean - network.offset) @ gain)


def _lattice(deployment: Deployment, samples: Samples) -> tuple[Array, Array, list[Row]]:
    """(steps, phase, findings): the network's lattice for simulated rows, the one found in data otherwise."""
    network = deployment.network
    if samples.model is not None:
        return network.steps, np.zeros(network.N), []
    steps, phase = lattice_of(samples.readings)
    dither = np.concatenate([deployment.planned[agent].dither_width for agent in network.agents])
    # A reading sent whole has nothing that dither could protect: a plan that knows its steps says so by no draw.
    needless = (network.steps > 0) & (network.draws == 0)
    short = np.flatnonzero((steps > 0) & ~needless & (dither < steps * (1 - 1e-6)))
    found, why = "dithered by them or more", ""
    verdict: Judgement = "ok"
    if not np.any(steps):
        found = "none"
    elif short.size:
        names = [f"{agent}'s {each}" for agent in network.agents for each in deployment.planned[agent].labels]
        shown = [f"{names[k]} (steps of {steps[k]:.3g})" for k in short]
        found, verdict, why = "not dithered", "warn", f"Their dither does not cover {join_names(shown)}."
    return steps, phase, [Row(SECTION, "steps in the readings", None, found, verdict, why)]


def _nothing_to_attack(network: Network) -> Row:
    unstated = [agent for agent in network.agents if agent not in network.resolution]
    if unstated:
        raise LeftOut(
            f"no resolution was stated for {join_names(unstated)}, so there is no lattice to attack; exact numbers "
            "protect only continuous readings. State it in the network, or give data to look for it"
        )
    return Row(SECTION, "readings on a lattice", "continuous", "continuous", "ok")
