"""The paper's Theorems 1 and 2 exactly as printed, to compare with the exact test.

Theorem 1 (no prior): ASUP iff for each G_j ≠ 0 some agent i has (i) N_i > rank(Ξ_i), Ξ_i = [UΨ_i; Φ_ii], and
(ii) no P with PΞ_i = G_jΨ_i; that is, Null(Ξ_i) ⊄ Null(G_jΨ_i). Sufficient, but not necessary: see
``docs/explanation/when-is-privacy-free.md``.

Theorem 2 (J0 ≻ 0): ASUP iff UΨ_i H_i P0 G' = 0 for every agent; correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import EPS, orthonormal_rows
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.bounds.knowledge import residual_information, share_of_estimate
from veilnet.model.network import Network

_TOLERANCE = 1e-9  # of a deviation, as for shares


@dataclass(frozen=True, eq=False)
class PrintedTheorem:
    """What the paper's theorem says of a network.

    number:     1 without a prior, 2 with a full one, None for a singular prior, which the paper leaves out.
    achievable: its verdict, None where it has none.
    agents:     agent -> private parameter -> whether the agent meets the theorem's condition for it.
    """

    number: int | None
    achievable: bool | None
    agents: Mapping[str, Mapping[str, bool]]

    def compared_with(self, exact: bool) -> str:
        """One sentence: what the printed theorem says, and whether that is right."""
        if self.number is None:
            return "The paper has no theorem for a singular prior."
        verdict = "achievable" if self.achievable else "not achievable"
        says = f"The paper's Theorem {self.number}, as printed, says that arbitrarily strong privacy is {verdict}"
        if self.achievable == exact:
            return f"{says}, as the exact test does."
        if self.number == 1 and exact:
            return f"{says}: it is wrong here, since agents can hide together what none can hide alone."
        # Theorem 1 is sufficient and Theorem 2 exact: only the line drawn for rounding can part them from the test.
        return f"{says}: the network is too close to the edge for the two tests to agree."

    def __str__(self) -> str:
        if self.number is None:
            return "The paper has no theorem for a singular prior."
        meets = [agent for agent, each in self.agents.items() if all(each.values())]
        who = join_names(meets) if meets else "no agent"
        return f"Theorem {self.number} as printed: {self.achievable}; the condition is met in full by {who}."


def printed_theorem(network: Network) -> PrintedTheorem:
    """Evaluate Theorem 1 or 2 as printed."""
    if network.prior is None:
        return _theorem_1(network)
    if network.prior.full:
        return _theorem_2(network)
    return PrintedTheorem(None, None, {})


def _theorem_1(network: Network) -> PrintedTheorem:
    public = _white_shares(network, orthonormal_rows(network.in_raw_coordinates(network.U)))
    private = {
        name: _white_shares(network, orthonormal_rows(network.in_raw_coordinates(rows)))
        for name, rows in network.private.items()
    }
    residual = _own_residual_information(network)
    tolerance = max(_TOLERANCE, 64 * EPS * network.conditioning * float(np.sqrt(network.N)))
    agents: dict[str, dict[str, bool]] = {}
    for place, agent in enumerate(network.agents):
        # Null(Φ_ii) enters through a square root's worth of precision: Φ_ii is semidefinite.
        stacked = np.concatenate([public[place], residual[place]])
        _, singular, basis = np.linalg.svd(stacked, full_matrices=True)
        hidden = basis[int(np.sum(singular > tolerance)) :]
        agents[agent] = {
            name: bool(hidden.shape[0] and np.linalg.norm(rows[place] @ hidden.T) > 1e3 * tolerance)
            for name, rows in private.items()
        }
    achievable = all(any(agents[agent][name] for agent in network.agents) for name in network.private)
    return PrintedTheorem(1, achievable, agents)


def _theorem_2(network: Network) -> PrintedTheorem:
    public = share_of_estimate(network, orthonormal_rows(network.in_raw_coordinates(network.U)))
    prior = network.in_raw_coordinates(network.prior_root)
    observed = network.in_raw_coordinates(network.H)
    # Both sides in units of their own deviation: rows of U by the raw error, rows of G by the prior error.
    back = np.linalg.pinv(prior)
    agents: dict[str, dict[str, bool]] = {agent: {} for agent in network.agents}
    for name, rows in network.private.items():
        known_before = orthonormal_rows(network.in_raw_coordinates(rows) @ back)
        spread = back @ known_before.T
        for place, agent in enumerate(network.agents):
            mine = network.blocks.rows(place)
            seen = observed[mine] @ spread
            leak = np.linalg.norm(public[:, mine] @ seen)
            size = np.linalg.norm(public[:, mine]) * np.linalg.norm(observed[mine] @ back)
            tolerance = max(_TOLERANCE, 64 * EPS * network.conditioning)
            agents[agent][name] = bool(leak <= tolerance * size)
    return PrintedTheorem(2, all(all(each.values()) for each in agents.values()), agents)


def _white_shares(network: Network, raw_rows: Array) -> list[Array]:
    """A Ψ_i R_ii^½ for each agent."""
    estimate = np.ascontiguousarray(share_of_estimate(network, raw_rows).T)
    parts: list[Array] = [np.empty(0)] * network.S
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        for agent, rows, root in zip(group.agents, group.take(estimate), roots, strict=True):
            parts[int(agent)] = rows.T @ root
    return parts


def _own_residual_information(network: Network) -> list[Array]:
    """R_ii^½' Φ_ii R_ii^½ for each agent."""
    blocks: list[Array] = [np.empty(0)] * network.S
    network = network.common_apart
    if network.R.independent:
        white = network.in_raw_coordinates(network.white_observe)
        for group in network.blocks.groups:
            for agent, rows in zip(group.agents, group.take(white), strict=True):
                blocks[int(agent)] = np.eye(group.size) - rows @ rows.T
        return blocks
    whole = residual_information(network)
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        for agent, block, root in zip(group.agents, group.diagonal_blocks(whole), roots, strict=True):
            blocks[int(agent)] = root.T @ block @ root
    return blocks
