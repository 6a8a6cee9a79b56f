"""Where the centre's knowledge comes from: the parts add up, and are those of the definition.

Oracle: dense matrices, the definition w' H̃_i' M^-1 H̃_i w written with inverses.
"""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import direct_information, random_network
from helpers.streams import random_stream
from veilnet.centre.contributions import growth_when_silent, shares_of_knowledge


@pytest.mark.parametrize("noise", ["per agent", "joint"])
@pytest.mark.parametrize("seed", [1, 2])
def test_shares_are_those_of_the_definition(seed: int, noise: str) -> None:
    network = random_network(seed, prior="covariance", noise=noise)
    plan = vn.design(network)
    public, private = shares_of_knowledge(network, plan.sanitizers)
    bound = np.linalg.inv(direct_information(network, plan.sanitizers))
    compressions = [plan.sanitizers[agent].compression for agent in network.agents]
    sizes = [len(rows) for rows in compressions]
    whole = np.zeros((sum(sizes), network.N))
    added = np.zeros((sum(sizes), sum(sizes)))
    ends = np.cumsum(sizes)
    for place, rows in enumerate(compressions):
        mine = slice(ends[place] - sizes[place], ends[place])
        whole[mine, network.blocks.rows(place)] = rows
        added[mine, mine] = plan.sanitizers[network.agents[place]].noise
    information = np.linalg.inv(whole @ network.R.matrix() @ whole.T + added)
    observed = whole @ network.H
    for named, found in ((network.public, public), (network.private, private)):
        for name, rows in named.items():
            weights = bound @ rows.T
            parts = (observed @ weights) * (information @ observed @ weights)
            error = np.trace(rows @ bound @ rows.T)
            expected = [np.sum(parts[ends[k] - sizes[k] : ends[k]]) / error for k in range(network.S)]
            shares = found[name]
            assert shares is not None
            assert list(shares.agents.values()) == pytest.approx(expected, rel=1e-6, abs=1e-9)
            assert sum(shares.agents.values()) + shares.beforehand == pytest.approx(1.0, rel=1e-9)


def test_what_nobody_can_estimate_has_no_shares() -> None:
    network = vn.Network(
        observe={"a": [[1.0, 1.0], [0.0, 1.0]], "b": [[1.0, -1.0]]}, noise=1.0,
        public=[[1.0, 0.0]], private={"g": [0.0, 1.0]},
    )  # fmt: skip
    silent = {"a": vn.Sanitizer([[1.0, -1.0]]), "b": vn.Sanitizer.silent(1)}
    public, private = shares_of_knowledge(network, silent)
    assert private["g"] is None
    told = public["public"]
    assert told is not None
    assert told.agents == pytest.approx({"a": 1.0, "b": 0.0})


def test_a_silent_agent_of_a_stream_is_missed() -> None:
    network = random_stream(4)
    sanitizers = dict(vn.design(network).sanitizers)
    public, private = growth_when_silent(network, sanitizers, network.agents)
    for agent in network.agents:
        without = sanitizers | {agent: vn.Sanitizer.silent(2)}
        loss = (1 - vn.utility(network, without)) / (1 - vn.utility(network, sanitizers))
        hidden = (1 + vn.privacy(network, without)["g"]) / (1 + vn.privacy(network, sanitizers)["g"])
        assert public["u"][agent] ** 2 == pytest.approx(loss, rel=1e-9)
        assert private["g"][agent] ** 2 == pytest.approx(hidden, rel=1e-9)
    assert max(public["u"].values()) > 1.0
