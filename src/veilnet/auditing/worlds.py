"""The world that a network describes: rows by themselves, or rows that follow one another."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet._core.words import direction_in_words
from veilnet.auditing.attack.simulation import LinearCentre, draw_readings, draw_x
from veilnet.auditing.measures import Compared, growth, in_units
from veilnet.auditing.statistics import SquareSum
from veilnet.auditing.streams.world import StreamTrial, StreamWorld
from veilnet.auditing.what_if.variants import simulated
from veilnet.auditing.world import EstimatedRows, Growth, KnownWorld, Sanitizers, Streams, asked_now
from veilnet.bounds.knowledge import Knowledge, bits_revealed, knowledge, knowledge_of_factor, message_factor
from veilnet.model.network import Network


class RowWorld(KnownWorld):
    """Each row by itself."""

    @property
    def learnable(self) -> RowWorld:
        """The world with a full prior, which attackers need who learn: nobody knows less than a wide one says."""
        return RowWorld(simulated(self.network))

    def known(self, sanitizers: Sanitizers, within: Network | None = None) -> Growth:
        found = knowledge_of_factor(self.network, message_factor(within or self.network, sanitizers))
        return lambda rows, _: growth(found, rows)

    def raw_error(self, each: EstimatedRows) -> float:
        """The mean square error that raw readings leave, by the model."""
        return float(np.trace(knowledge(self.network).error_covariance(each.rows)))

    def asked(self) -> list[EstimatedRows]:
        """What the plan promises an error of."""
        return asked_now(self.network) + [
            EstimatedRows(f"attack on {name}", name, rows, public=False)
            for name, rows in self.network.private.items()
        ]

    def beside(self, each: EstimatedRows) -> Compared:
        """What raw readings and guessing leave of it."""
        return self._units[each.name]

    @cached_property
    def _units(self) -> dict[str, Compared]:
        return in_units(self.network)

    def trial(self, sanitizers: Sanitizers) -> RowTrial:
        """Draws, and the best estimator from what these sanitizers send."""
        return RowTrial(self.network, sanitizers)

    def exposed(self, sanitizers: Sanitizers, name: str) -> tuple[float, str]:
        """By how much the error variance grows along the most exposed direction of a parameter, and that in words."""
        rows = self.network.private[name]
        known = knowledge(self.network, sanitizers)
        return known.worst_growth(rows), most_exposed_direction(self.network, known, name)

    def bits(self, sanitizers: Sanitizers) -> dict[str, float]:
        """Bits that messages reveal of each private parameter in each row; none where the prior is not full."""
        full = self.network.prior is not None and self.network.prior.full
        return dict(bits_revealed(self.network, sanitizers)) if full else {}


class RowTrial:
    """Single rows, and the posterior mean from their messages (BLUE where nothing is known before).

    at:      the rows of each draw that are judged.
    at_once: so many draws are made at a time.
    """

    at: Integers = np.zeros(1, dtype=np.intp)
    at_once = 2048

    def __init__(self, network: Network, sanitizers: Sanitizers) -> None:
        self.network = network
        self._centre = LinearCentre(network, sanitizers)
        self._ends = np.cumsum([sanitizers[agent].sent for agent in network.agents])[:-1]

    def draw(self, count: int, rng: np.random.Generator) -> Streams:
        """So many draws."""
        x = draw_x(self.network, rng, count)
        return Streams(x[:, None], draw_readings(self.network, x, rng)[:, None])

    def squares(self, drawn: Streams, messages: Array, each: EstimatedRows) -> float:
        """The squared errors, summed over draws, of which the mean over judged rows is taken."""
        parts = np.split(messages[:, 0], self._ends, axis=1)
        found = self._centre.estimate(dict(zip(self.network.agents, parts, strict=True)), each.rows)
        return float(np.sum((found - drawn.x[:, 0] @ each.rows.T) ** 2))

    def law(self, each: EstimatedRows, count: int) -> SquareSum:
        """The law of their mean: errors are normal with covariance A P̃ A', whatever x is; infinite without bound."""
        known = self._centre.knowledge
        if np.isinf(known.growth(each.rows)):
            return SquareSum(np.array([np.inf]), count)
        return SquareSum(np.maximum(np.linalg.eigvalsh(known.error_covariance(each.rows)), 0.0), count)

    def features(self, values: Array) -> Array:
        """(draws * judged rows, k): what an attacker is shown of messages or readings (draws, rows, numbers)."""
        return values[:, 0]


def most_exposed_direction(network: Network, known: Knowledge, name: str) -> str:
    """The most exposed combination of the rows of G_j, by their own names; empty where there is no one."""
    matrix = network.private[name]
    if matrix.shape[0] == 1 or not np.isfinite(known.growth(matrix)):
        return ""
    raw = knowledge(network).error_covariance(matrix)
    scale = 1.0 / np.sqrt(np.diag(raw))
    left = known.error_covariance(matrix) * scale[:, None] * scale
    values, vectors = np.linalg.eigh(raw * scale[:, None] * scale)
    if values[0] < 1e-10 * values[-1]:
        return ""
    half = vectors / np.sqrt(values)
    _, inner = np.linalg.eigh(half.T @ left @ half)
    names = [f"{name}[{k + 1}]" for k in range(matrix.shape[0])]
    return direction_in_words(half @ inner[:, 0] * scale, names)


World = RowWorld | StreamWorld
Trial = RowTrial | StreamTrial


def world_of(network: Network) -> World:
    """The world a network describes: a stream where it has dynamics."""
    return StreamWorld(network) if network.is_stream else RowWorld(network)
