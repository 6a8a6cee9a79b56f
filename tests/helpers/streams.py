"""Streams drawn at random, and what their messages tell by one linear solve over a whole window.

The window is written from the definition alone: every x, reading, memory and message is a linear function of all
sources (the first x, what is new in each row, noises, draws), whose covariance is known. No filter is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import veilnet as vn
from helpers.memories import random_memory
from veilnet._core.types import Array, Booleans


def random_stream(
    seed: int,
    *,
    parameters: int = 3,
    agents: int = 3,
    coloured: bool = False,
    joint: bool = False,
    first: bool = False,
) -> vn.Network:
    """A stable stream of two readings an agent, with offsets, means and, where asked, noise that carries over."""
    rng = np.random.default_rng([seed, parameters, agents])
    transition = rng.normal(size=(parameters, parameters))
    transition *= rng.uniform(0.5, 0.95) / np.max(np.abs(np.linalg.eigvals(transition)))
    root = rng.normal(size=(parameters, parameters))
    names = [f"a{k}" for k in range(agents)]
    count = 2 * agents
    mix = np.eye(count) + (0.3 * rng.normal(size=(count, count)) if joint else 0.0)
    white = mix @ np.diag(rng.uniform(0.2, 2.0, count)) @ mix.T
    noise = vn.ColouredNoise(rng.uniform(0.3, 0.9, count), 0.5 * white, 0.3 * white) if coloured else white
    return vn.Network(
        observe={name: rng.normal(size=(2, parameters)) for name in names},
        noise=noise,
        public={"u": rng.normal(size=(1, parameters))},
        private={"g": rng.normal(size=(1, parameters))},
        offset={name: rng.normal(size=2) for name in names},
        dynamics=vn.Dynamics(
            transition, root @ root.T + 0.1 * np.eye(parameters), mean=rng.normal(size=parameters)
        ),
        prior=vn.Prior(np.diag(rng.uniform(1, 5, parameters)), mean=rng.normal(size=parameters))
        if first
        else None,
    )


def random_sanitizers(network: vn.Network, seed: int, *, noise: float = 0.3) -> dict[str, vn.Sanitizer]:
    """Each agent sends one or two numbers of its memory and readings; one has no memory, one begins with none."""
    rng = np.random.default_rng([seed, 99])
    found = {}
    for place, agent in enumerate(network.agents):
        order = 0 if place == 1 else int(rng.integers(1, 4))
        sent = int(rng.integers(1, 3))
        found[agent] = vn.Sanitizer(
            rng.normal(size=(sent, order + 2)),
            noise * np.eye(sent),
            memory=_memory(rng, order, drawn=place > 1) if order else None,
            offset=network.offset[network.blocks.rows(place)] + (0.5 if place == 0 else 0.0),
            grid=2.0**-12,
            agent=agent,
        )
    return found


def _memory(rng: np.random.Generator, order: int, *, drawn: bool) -> vn.Memory:
    memory = random_memory(rng, order, 2, 0.8)
    return memory.with_start(np.diag(rng.uniform(0.5, 4.0, order))) if drawn else memory


@dataclass
class Window:
    """(T, ...) of linear functions of all sources e ~ N(0, covariance), and their means."""

    covariance: Array
    x: Array
    x_mean: Array
    z: Array
    z_mean: Array

    def told(self, rows: Array, times: list[int], heard: Booleans) -> tuple[Array, Array, Array]:
        """(gain, constant, covariance): estimates of rows x_t from the numbers heard, (T, M), for the given times."""
        where = np.flatnonzero(heard.reshape(-1))
        seen = self.z.reshape(-1, len(self.covariance))[where]
        spread = seen @ self.covariance @ seen.T
        wanted = np.concatenate([rows @ self.x[t] for t in times])
        cross = wanted @ self.covariance @ seen.T
        gain: Array = np.asarray(np.linalg.solve(spread, cross.T).T) if where.size else cross
        left = wanted @ self.covariance @ wanted.T - gain @ cross.T
        constant = np.concatenate([rows @ self.x_mean[t] for t in times])
        return gain, constant - gain @ self.z_mean.reshape(-1)[where], left


def window(
    network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer], rows: int, missed: Mapping[str, Booleans]
) -> Window:
    """All of a stream's first rows, written out."""
    L, N, dynamics = network.L, network.N, network.dynamics
    assert dynamics is not None
    assert network.first is not None
    assert network.first.covariance is not None
    colour = network.colour
    white = network.R.matrix() if colour is None else colour.floor
    sent = sum(sanitizer.sent for sanitizer in sanitizers.values())
    blocks = [network.first.covariance, *[dynamics.noise] * (rows - 1)]
    blocks += [np.zeros((N, N)) if colour is None else colour.carried]
    blocks += [np.zeros((N, N)) if colour is None else colour.innovation] * (rows - 1) + [white] * rows
    blocks += [_own_noise(sanitizers)] * rows
    starts = {
        agent: each.memory.start
        for agent, each in sanitizers.items()
        if each.memory is not None and each.memory.start is not None
    }
    blocks += [start for start in starts.values() for _ in range(rows + 1)]
    ends = np.cumsum([len(block) for block in blocks])
    covariance = np.zeros((ends[-1], ends[-1]))
    picks = []
    for block, end in zip(blocks, ends, strict=True):
        start = end - len(block)
        covariance[start:end, start:end] = block
        picks.append(np.eye(ends[-1])[start:end])
    moves, carries, whites, added = (picks[k * rows : (k + 1) * rows] for k in range(4))
    draws = {agent: picks[4 * rows + k * (rows + 1) :] for k, agent in enumerate(starts)}
    x, x_mean = [moves[0]], [network.first.mean]
    carried = [carries[0]]
    for t in range(1, rows):
        x.append(dynamics.transition @ x[-1] + moves[t])
        x_mean.append(dynamics.mean + dynamics.transition @ (x_mean[-1] - dynamics.mean))
        carried.append((0.0 if colour is None else colour.memory @ carried[-1]) + carries[t])
    z, z_mean = np.zeros((rows, sent, ends[-1])), np.zeros((rows, sent))
    start = 0
    for place, agent in enumerate(network.agents):
        sanitizer = sanitizers[agent]
        mine, numbers = network.blocks.rows(place), slice(start, start + sanitizer.sent)
        start += sanitizer.sent
        state, state_mean = np.zeros((sanitizer.order, ends[-1])), np.zeros(sanitizer.order)
        state = draws[agent][0] if agent in draws else state
        for t in range(rows):
            reading = (network.H @ x[t] + carried[t] + whites[t])[mine]
            reading_mean = network.H[mine] @ x_mean[t] + network.offset[mine] - sanitizer.offset
            if sanitizer.memory is not None:
                state, state_mean = (
                    sanitizer.memory.transition @ state,
                    sanitizer.memory.transition @ state_mean,
                )
                if not missed[agent][t]:
                    state = state + sanitizer.memory.gain @ reading
                    state_mean = state_mean + sanitizer.memory.gain @ reading_mean
                elif agent in draws:
                    state, state_mean = draws[agent][t + 1], np.zeros(sanitizer.order)
            z[t, numbers] = sanitizer.compression @ np.concatenate([state, reading]) + added[t][numbers]
            z_mean[t, numbers] = sanitizer.compression @ np.concatenate([state_mean, reading_mean])
    assert len(x_mean[0]) == L
    return Window(covariance, np.array(x), np.array(x_mean), z, z_mean)


def _own_noise(sanitizers: Mapping[str, vn.Sanitizer]) -> Array:
    """What the agents add to their numbers: noise, and the rounding to their grids."""
    parts = []
    for sanitizer in sanitizers.values():
        rounding = np.zeros(sanitizer.sent) if sanitizer.grid is None else sanitizer.grid**2
        parts.append(
            sanitizer.noise + np.diag(rounding / np.where(np.diag(sanitizer.noise) < rounding, 6.0, 12.0))
        )
    found = np.zeros((sum(map(len, parts)),) * 2)
    end = 0
    for part in parts:
        start, end = end, end + len(part)
        found[start:end, start:end] = part
    return found


def simulated(network: vn.Network, rows: int, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    """(x, agent -> readings) of a stream."""
    dynamics, colour = network.dynamics, network.colour
    assert dynamics is not None
    assert network.first is not None
    assert network.first.covariance is not None
    x = np.empty((rows, network.L))
    x[0] = rng.multivariate_normal(network.first.mean, network.first.covariance)
    new = rng.multivariate_normal(np.zeros(network.L), dynamics.noise, rows)
    for t in range(1, rows):
        x[t] = dynamics.mean + dynamics.transition @ (x[t - 1] - dynamics.mean) + new[t]
    zero = np.zeros(network.N)
    noise = rng.multivariate_normal(
        zero, network.sensor_noise.matrix() if colour is None else colour.floor, rows
    )
    if colour is not None:
        carried = rng.multivariate_normal(zero, colour.carried)
        fresh = rng.multivariate_normal(zero, colour.innovation, rows)
        for t in range(rows):
            noise[t] += carried
            carried = colour.memory @ carried + fresh[t]
    y = x @ network.H.T + network.offset + noise
    return x, {a: y[:, network.blocks.rows(place)] for place, a in enumerate(network.agents)}
