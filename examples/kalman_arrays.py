"""A plan in any Kalman filter: z, H and R of what arrived, here with the textbook's four lines.

    python examples/kalman_arrays.py

A house warms up slowly, and the centre has a filter of its own. The plan was made row by row, for the network's x;
what the rooms send goes into the filter as it arrives, and a room that is silent is left out. (A plan made row by row
promises nothing about a centre that remembers: for such a promise give the network dynamics=, as in
stone_soup_tracker.py.)
"""

from __future__ import annotations

import numpy as np

import veilnet as vn
from veilnet.adapters.kalman import kalman_arrays

network = vn.Network(
    observe={
        "kitchen": [[1.0, 0.3, 0.8], [0.0, 1.0, 0.5]],
        "hall": [[0.9, 0.8, 0.1], [0.2, 0.1, 1.0]],
    },
    noise=0.25,
    public={"temperature": [1, 0, 0]},
    private={"gait": [0, 1, 0], "presence": [0, 0, 1]},
    prior=vn.Prior(covariance=np.diag([4.0, 1.0, 1.0]), mean=[20.0, 0.0, 1.0]),
)
plan = vn.design(network)
arrays = kalman_arrays(plan)
rng = np.random.default_rng(1)

drift = np.diag([0.05, 0.5, 0.5])  # what is new in x each minute
x, P = arrays.x0, arrays.P0
truth = rng.multivariate_normal(x, P)
for minute in range(5):
    if minute:
        truth = truth + rng.multivariate_normal(np.zeros(3), drift)
        P = P + drift
    readings = {agent: rows @ truth + rng.normal(0, 0.5, 2) for agent, rows in network.observe.items()}
    sent = {agent: plan.sanitizers[agent].sanitize(y) for agent, y in readings.items()}
    if minute == 3:
        del sent["hall"]
    row = arrays.measurement(sent)
    S = row.H @ P @ row.H.T + row.R
    K = np.linalg.solve(S, row.H @ P).T
    x = x + K @ (row.z - row.H @ x)
    P = P - K @ S @ K.T
    estimate, covariance = arrays.public(x, P)
    print(
        f"minute {minute}: {len(row.z)} numbers, temperature {estimate[0]:.2f} ± {covariance[0, 0] ** 0.5:.2f}, "
        f"in truth {truth[0]:.2f}"
    )
