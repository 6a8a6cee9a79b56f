"""A network that is designed for in a second: two agents, one public number, a private pair and a private number."""

from __future__ import annotations

import numpy as np

import veilnet as vn


def small_network(**observe: list[list[float]]) -> vn.Network:
    """Every plan beyond the free one is a search, but a short one.

    observe: agent -> its two rows, in place of those drawn.
    """
    rng = np.random.default_rng(11)
    drawn = {agent: rng.standard_normal((2, 4)).round(2) for agent in ("hall", "attic")}
    return vn.Network(
        observe={agent: observe.get(agent, rows) for agent, rows in drawn.items()},
        noise=1.0,
        public={"warmth": [[1, 0, 0, 0]]},
        private={"who": [[0, 1, 0, 0], [0, 0, 1, 0]], "when": [[0, 0, 0, 1]]},
        prior=vn.Prior(covariance=4 * np.eye(4)),
    )
