"""The error of u now from raw readings, which utility is measured against."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.recheck.stream_agents import agent_filters, white_noise
from veilnet.recheck.stream_window import RowWindow
from veilnet.recheck.stream_witness import error_now

__all__ = ["error_of_raw_filter"]


def error_of_raw_filter(network: Network, rows: Array) -> float:
    """tr(A P A') now, from raw readings: by a generalised Schur form where every reading has white noise."""
    from scipy.linalg import solve_discrete_are

    dynamics = network.dynamics
    assert dynamics is not None
    raw = RowWindow(network, agent_filters(network, None))
    base = network.L + (0 if network.colour is None else network.N)
    white = white_noise(network)
    scale = np.sqrt(np.diag(network.R.matrix()))
    white = white / np.outer(scale, scale)
    if np.linalg.eigvalsh(white)[0] < 1e-9:
        return error_now(raw, rows)
    read = np.concatenate([network.H, np.eye(network.N)[:, : base - network.L]], axis=1)
    read = read * raw.units[:base] / scale[:, None]
    rows = rows * raw.units[: network.L]
    before = solve_discrete_are(raw.moves[:base, :base].T, read.T, raw.news[:base, :base], white)
    half = read @ before[:, : network.L] @ rows.T
    best = rows @ before[: network.L, : network.L] @ rows.T
    return float(np.trace(best - half.T @ np.linalg.solve(read @ before @ read.T + white, half)))
