"""The draws of the paper's section VII, exactly as printed, each from a seed of its own.

N = 72 readings, N_i = N/S each, L = 12, R = AA' with A uniform on ±0.5, H, U and G uniform on ±0.5, G with 3 rows
shared by all agents, P0 = AA' with A uniform on ±10. One draw serves every figure, every number of agents (which
only cut its readings into more pieces) and every number of public rows (its first ones): points of one curve
differ by what they are about and not by chance. Draw k of a seed is the same alone as among a hundred.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from veilnet import __version__
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.model.network import Network, Prior

# Raised whenever the same settings would give other numbers: results of two versions are never mixed.
VERSION = 2
PRIVATE = "g"


@dataclass(frozen=True)
class Settings:
    """What is drawn and measured. The defaults are the paper's where it says, and ours where it does not.

    The paper's: readings, parameters, private_rows, draws, sweep_threshold, tradeoff_agents.
    Ours: agents and public_rows of figures 1 and 2; of figures 3 and 4 the public rows, the prior (always
    there: Algorithm 3's start does not exist without one), thresholds and sweeps.

    long_draws: so many of the first draws run Algorithm 3 for long_sweeps too, in figures 3 and 4.
    starts:     of the joint solver's own, where it does not begin from a neighbour.
    """

    draws: int = 100
    seed: int = 0
    readings: int = 72
    parameters: int = 12
    private_rows: int = 3
    agents: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 9, 12, 18, 24)
    public_rows: tuple[int, ...] = (1, 2, 3)
    tradeoff_agents: tuple[int, ...] = (9, 12, 18)
    tradeoff_public_rows: int = 3
    thresholds: tuple[float, ...] = (10.0, 30.0, 100.0)
    tradeoff_sweeps: int = 20
    sweep_threshold: float = 10.0
    sweeps: int = 40
    long_sweeps: int = 200
    long_draws: int = 8
    starts: int = 1

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InvalidRequest(f"draws: expected at least 1, found {self.draws}")
        if self.seed < 0:
            raise InvalidRequest(f"seed: expected a whole number of at least 0, found {self.seed}")
        for count in (*self.agents, *self.tradeoff_agents):
            if count < 1 or self.readings % count:
                raise InvalidRequest(f"agents: expected divisors of {self.readings} readings, found {count}")

    def as_document(self) -> dict[str, Any]:
        """Everything the numbers depend on, to be stored beside them."""
        values = {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }
        return {"settings_version": VERSION, "veilnet": __version__, **values}


class Draw(NamedTuple):
    """One draw of everything random: H, R, P0, U with all its rows, G."""

    observe: Array
    noise: Array
    prior_covariance: Array
    public: Array
    private: Array


def draw(settings: Settings, number: int) -> Draw:
    """Draw ``number`` of these settings; depends on the seed, the number and the sizes alone."""
    rng = np.random.default_rng([settings.seed, number])
    readings, parameters = settings.readings, settings.parameters
    noise_root = rng.uniform(-0.5, 0.5, (readings, readings))
    observe = rng.uniform(-0.5, 0.5, (readings, parameters))
    prior_root = rng.uniform(-10.0, 10.0, (parameters, parameters))
    private = rng.uniform(-0.5, 0.5, (settings.private_rows, parameters))
    public_rows = max(*settings.public_rows, settings.tradeoff_public_rows)
    public = rng.uniform(-0.5, 0.5, (public_rows, parameters))
    return Draw(observe, noise_root @ noise_root.T, prior_root @ prior_root.T, public, private)


def network_of(drawn: Draw, agents: int, public_rows: int, *, prior: bool) -> Network:
    """The draw as a network of so many equal agents, with the first so many public rows."""
    pieces = np.split(drawn.observe, agents)
    return Network(
        observe={f"agent{place}": rows for place, rows in enumerate(pieces, 1)},
        noise=drawn.noise,
        public=drawn.public[:public_rows],
        private={PRIVATE: drawn.private},
        prior=Prior(covariance=drawn.prior_covariance) if prior else None,
    )
