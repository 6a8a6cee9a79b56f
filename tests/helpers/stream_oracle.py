"""Trade-offs on streams by other means: SciPy's Riccati solver and SLSQP over any rows, from many starts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.linalg import solve_discrete_are
from scipy.optimize import minimize

import veilnet as vn
from veilnet._core.types import Array
from veilnet.bounds.streams.state_space import message_model


def loss_and_privacy(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> tuple[float, Array]:
    """Loss now and privacies with hindsight of messages that carry noise: a Riccati equation each way in time."""
    return _growth(_errors(network, sanitizers), _errors(network, {}))


def _growth(told: Array, raw: Array) -> tuple[float, Array]:
    return float(told[0] / raw[0] - 1), told[1:] / raw[1:] - 1


def _errors(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> Array:
    model = message_model(network, sanitizers)
    size = model.size
    values, vectors = np.linalg.eigh(model.noise)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    information = model.observe.T @ np.linalg.solve(model.floor, model.observe)
    before = solve_discrete_are(model.transition.T, model.observe.T, model.noise, model.floor)
    onward = solve_discrete_are(model.transition, root, information, np.eye(size))
    now = np.linalg.solve(np.eye(size) + before @ information, before)
    hindsight = np.linalg.solve(np.eye(size) + before @ onward, before)
    public = np.trace(network.U @ now[: network.L, : network.L] @ network.U.T)
    private = [
        np.trace(rows @ hindsight[: network.L, : network.L] @ rows.T) for rows in network.private.values()
    ]
    return np.array([public, *private])


def best_by_slsqp(
    network: vn.Network,
    memories: Mapping[str, vn.Memory],
    target: float,
    *,
    rows: int,
    starts: int,
    seed: int,
    known: Mapping[str, Array],
) -> float:
    """The least loss at p >= target that SLSQP finds over C (rows of unit noise on (s, y)) from random starts.

    ``known`` are rows worth beginning near, agent -> C; the other starts are drawn by chance.
    """
    rng = np.random.default_rng(seed)
    raw = _errors(network, {})
    agents = list(memories)
    widths = [memories[agent].order + memories[agent].readings for agent in agents]
    edges = np.cumsum([0, *(rows * width for width in widths)])

    def sanitizers(flat: Array) -> dict[str, vn.Sanitizer]:
        return {
            agent: vn.Sanitizer(
                flat[start:end].reshape(rows, width), np.eye(rows), memory=memories[agent], agent=agent
            )
            for agent, start, end, width in zip(agents, edges[:-1], edges[1:], widths, strict=True)
        }

    def evaluate(flat: Array) -> tuple[float, float]:
        key = flat.tobytes()
        if key not in seen:
            seen.clear()
            try:
                loss, privacy = _growth(_errors(network, sanitizers(flat)), raw)
                seen[key] = (loss, float(privacy[0]))
            except (np.linalg.LinAlgError, ValueError):
                seen[key] = (1e3, 0.0)
        return seen[key]

    def log_loss(flat: Array) -> float:
        return float(np.log(max(evaluate(flat)[0], 1e-12)))

    def room(flat: Array) -> float:
        return float(np.log(max(evaluate(flat)[1], 1e-12) / target))

    seen: dict[bytes, tuple[float, float]] = {}
    best = np.inf
    for number in range(starts):
        start = rng.standard_normal(edges[-1])
        if number % 2 == 0:
            shares = [_fitted(known[agent], rows) for agent in agents]
            gain = 10 ** rng.uniform(0.5, 2)
            start = gain * np.concatenate([each.reshape(-1) for each in shares]) + 0.3 * gain * start
        found = minimize(
            log_loss,
            start,
            method="SLSQP",
            constraints={"type": "ineq", "fun": room},
            options={"maxiter": 100, "ftol": 1e-8},
        )
        loss, privacy = evaluate(found.x)
        if privacy >= target * (1 - 1e-6):
            best = min(best, loss)
    return best


def _fitted(known: Array, rows: int) -> Array:
    """As many rows as wanted, zeros where there are fewer."""
    fitted = np.zeros((rows, known.shape[1]))
    count = min(rows, len(known))
    fitted[:count] = known[:count] / max(float(np.linalg.norm(known)), np.finfo(float).tiny)
    return fitted
