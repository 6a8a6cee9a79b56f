"""Random stream networks, and two oracles for them: a whole window as one Gaussian, and a simulated stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

import veilnet as vn
from helpers.networks import well_conditioned
from veilnet._core.types import Array

NOISES = ("white", "coloured", "coloured without floor")


def random_transition(rng: np.random.Generator, size: int, radius: float) -> Array:
    """A full matrix whose largest root is ``radius``."""
    matrix = rng.standard_normal((size, size))
    return np.asarray(matrix * (radius / np.max(np.abs(np.linalg.eigvals(matrix)))))


def random_stream(
    seed: int,
    *,
    noise: str = "white",
    joint: bool = False,
    sizes: Sequence[int] = (2, 3, 2),
    parameters: int = 4,
    public_rows: int = 1,
    private_rows: Sequence[int] = (1, 2),
    radius: float = 0.8,
    mean: bool = False,
) -> vn.Network:
    """A stream of agents a0, a1, ... and private parameters g0, g1, ..., its largest root as given."""
    rng = np.random.default_rng([seed, NOISES.index(noise), int(joint), *sizes])
    total = sum(sizes)
    white = well_conditioned(rng, total) if joint else np.diag(rng.uniform(0.5, 2.0, total))
    coloured = vn.ColouredNoise(
        memory=rng.uniform(0.2, radius, total),
        innovation=white,
        floor=0.2 * white if noise == "coloured" else None,
    )
    return vn.Network(
        observe={f"a{k}": rng.standard_normal((size, parameters)) for k, size in enumerate(sizes)},
        noise=white if noise == "white" else coloured,
        public=rng.standard_normal((public_rows, parameters)),
        private={f"g{k}": rng.standard_normal((rows, parameters)) for k, rows in enumerate(private_rows)},
        dynamics=vn.Dynamics(
            random_transition(rng, parameters, radius),
            well_conditioned(rng, parameters),
            mean=rng.standard_normal(parameters) if mean else None,
        ),
        offset=rng.standard_normal(total) if mean else None,
    )


def leaky_stream(seed: int) -> vn.Network:
    """One agent with five readings of four parameters, of very different sizes: much hangs on what masks what."""
    rng = np.random.default_rng(seed)
    return vn.Network(
        observe={"a": rng.standard_normal((5, 4)) * 10 ** rng.uniform(-2, 1, 4)},
        noise=10 ** rng.uniform(-2, 1, 5),
        public={"u": rng.standard_normal(4)},
        private={"g": rng.standard_normal(4)},
        dynamics=vn.Dynamics(random_transition(rng, 4, 0.95), np.diag(10 ** rng.uniform(-1.5, 1.5, 4))),
    )


Agents = Collection[str]
NOBODY: Mapping[int, Agents] = {}


def window_errors(
    network: vn.Network,
    sanitizers: Mapping[str, vn.Sanitizer],
    rows: Array,
    window: int,
    place: int,
    missed: Mapping[int, Agents] | None = None,
) -> tuple[Array, Array]:
    """(now, with hindsight): error covariances of rows of x at ``place`` in a window, by one linear solve.

    Every number in the window is written as a combination of independent unit noises, by running the definition of
    the model and of the agents row by row on all of them at once; nothing of veilnet's evaluation is used. Memories
    begin at zero. ``missed`` are the agents without a reading in some rows.
    """
    x, messages = unrolled(network, sanitizers, window, missed or {}, {})
    target = rows @ x[place]
    return tuple(  # type: ignore[return-value]
        _error(target, np.concatenate(messages[: place + 1 if now else window])) for now in (True, False)
    )


def window_joint_errors(
    network: vn.Network,
    sanitizers: Mapping[str, vn.Sanitizer],
    rows: Array,
    window: int,
    places: Collection[int],
) -> tuple[Array, Array]:
    """Covariances of rows of x at all these places together: beforehand, and given every message of the window."""
    x, messages = unrolled(network, sanitizers, window)
    target = np.concatenate([rows @ x[place] for place in places])
    return np.asarray(target @ target.T), _error(target, np.concatenate(messages))


def least_window_error(
    network: vn.Network,
    sanitizers: Mapping[str, vn.Sanitizer],
    rows: Array,
    *,
    missed: Mapping[int, Agents] | None = None,
    anew: Mapping[int, Agents] | None = None,
    window: int = 60,
    places: Collection[int] = range(15, 45),
) -> float:
    """The least tr(A P A') with hindsight over some places of such a window.

    ``anew`` are the agents whose memory begins anew after some rows, in which they did send.
    """
    x, messages = unrolled(network, sanitizers, window, missed or {}, anew or {})
    told = np.concatenate(messages)
    return min(float(np.trace(_error(rows @ x[place], told))) for place in places)


def _error(target: Array, told: Array) -> Array:
    covariance = told @ told.T
    sizes = np.sqrt(np.diag(covariance))
    keep = sizes > 0
    told, covariance = told[keep] / sizes[keep][:, None], covariance[np.ix_(keep, keep)]
    covariance = covariance / np.outer(sizes[keep], sizes[keep])
    gain = np.linalg.solve(covariance + 1e-13 * np.eye(len(covariance)), told @ target.T)
    left = target - gain.T @ told
    return np.asarray(left @ left.T)


def unrolled(
    network: vn.Network,
    sanitizers: Mapping[str, vn.Sanitizer],
    window: int,
    missed: Mapping[int, Agents] = NOBODY,
    anew: Mapping[int, Agents] = NOBODY,
) -> tuple[list[Array], list[Array]]:
    """(x, messages) row by row, each a combination of the unit noises of the whole window."""
    dynamics, colour = network.dynamics, network.colour
    assert dynamics is not None
    assert dynamics.stationary is not None
    L, N = network.L, network.N
    white = network.R.matrix() if colour is None else network.R.matrix() - colour.carried
    per_row = L + N + N + sum(s.sent + s.order for s in sanitizers.values())
    total = window * per_row
    x_states, messages = [], []
    x, carried = np.zeros((L, total)), np.zeros((N, total))
    memories = {name: np.zeros((s.order, total)) for name, s in sanitizers.items()}
    for t in range(window):
        start = t * per_row
        new_x, new_v = _root(dynamics.noise), _root(white)
        if t == 0:
            new_x = _root(dynamics.stationary)
        x = dynamics.transition @ x
        x[:, start : start + L] += new_x
        reading = network.H @ x
        if colour is not None:
            carried = colour.memory @ carried
            carried[:, start + L : start + L + N] += _root(colour.carried if t == 0 else colour.innovation)
            reading = reading + carried
        reading[:, start + L + N : start + L + 2 * N] += new_v
        sent, end = [], start + L + 2 * N
        for place, name in enumerate(network.agents):
            mine = reading[network.blocks.rows(place)]
            sanitizer = sanitizers.get(name)
            if sanitizer is None:
                sent.append(mine)
                continue
            absent, memory = name in missed.get(t, ()), sanitizer.memory
            if memory is not None:
                memories[name] = memory.transition @ memories[name]
                memories[name] += 0.0 if absent else memory.gain @ mine
            number = sanitizer.compression @ np.concatenate([memories[name], mine])
            number[:, end : end + sanitizer.sent] += _root(sanitizer.noise)
            end += sanitizer.sent
            if not absent:
                sent.append(number)
            if memory is not None and memory.start is not None and (absent or name in anew.get(t, ())):
                memories[name] = np.zeros((memory.order, total))
                memories[name][:, end : end + memory.order] = _root(memory.start)
            end += sanitizer.order
        x_states.append(x)
        messages.append(np.concatenate(sent) if sent else np.zeros((0, total)))
    return x_states, messages


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def simulated_stream(network: vn.Network, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """(x, readings): ``count`` rows of a stationary stream, dither included in the readings' noise."""
    dynamics, colour = network.dynamics, network.colour
    assert dynamics is not None
    assert dynamics.stationary is not None
    white = network.R.matrix() if colour is None else network.R.matrix() - colour.carried
    moves = rng.standard_normal((count, network.L)) @ _root(dynamics.noise).T
    x = np.empty((count, network.L))
    x[0] = _root(dynamics.stationary) @ rng.standard_normal(network.L)
    for t in range(1, count):
        x[t] = dynamics.transition @ x[t - 1] + moves[t]
    noise = rng.standard_normal((count, network.N)) @ _root(white).T
    if colour is not None:
        news = rng.standard_normal((count, network.N)) @ _root(colour.innovation).T
        carried = _root(colour.carried) @ rng.standard_normal(network.N)
        for t in range(count):
            noise[t] += carried
            carried = colour.memory @ carried + news[t]
    return x + dynamics.mean, network.offset + (x + dynamics.mean) @ network.H.T + noise
