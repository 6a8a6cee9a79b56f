"""What an agent does to its readings: compression plus noise, and nothing else leaves.

Agent i sends z_i = C_i (y_i + d_i - offset_i) + ξ_i with ξ_i ~ N(0, Θ_i) and d_i the dither of readings that lie on
a lattice (:mod:`veilnet.agent.dither`), none where they are continuous or sent whole. Noise and compression are one
thing (the paper's Proposition 1, mended): for invertible A, J̃(AC, Θ) = J̃(C, A^-1 Θ A^-T). Hence every mechanism
has a normal form in which each row sent carries noise of variance 0 or 1 and withheld directions have no row.

With a memory (:mod:`veilnet.agent.memory`) C_i acts on (s_i, y_i + d_i - offset_i), what the agent keeps of its past
beside its reading; the normal form is that of these k + n numbers.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.durations import read_step
from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.frozen import Frozen, derived
from veilnet._core.linalg import positive_root
from veilnet._core.types import AnyArray, Array, Booleans
from veilnet._core.validation import as_covariance, as_name, as_number, as_vector
from veilnet.agent.arguments import (
    read_compression,
    read_grid,
    read_lattice,
    read_memory,
    read_reading_count,
    readings_of_columns,
)
from veilnet.agent.membership import Membership
from veilnet.agent.memory import Memory
from veilnet.agent.normal_form import normal_form, right_inverse
from veilnet.agent.randomness import NoiseSource, noise_source
from veilnet.agent.recipe import Recipe, prepare
from veilnet.agent.release import Released, release, release_valid
from veilnet.agent.stream import Stream
from veilnet.model.readings import (
    MOST_DRAWS,
    chances_beyond,
    dither_variance,
    read_dither,
    read_limits,
    read_reading_names,
    read_usual,
)

if TYPE_CHECKING:  # for an annotation alone: an agent has no use for the model
    from veilnet.model.network import Network

_ROUNDING = 1e-6  # of a law: what another machine may make of the same sums, far below what a reader sees


class Sanitizer(Frozen):
    """One agent's sanitization: z = C (y + d - offset) + ξ, ξ ~ N(0, Θ).

    compression: C, rows are the numbers sent; identity when left out. With a memory of order k it has k + n columns
                 and acts on the memory and the readings: z = C (s, y + d - offset) + ξ.
    noise:       Θ, a covariance, a vector of variances or one variance; none when left out.
    offset:      what the readings show at x = 0, subtracted before anything else.
    grid:        step of the public grid each sent number is rounded to (see :mod:`veilnet.agent.grid`).
    limits:      (lowest, highest) credible reading, each a number or one per reading; a reading beyond them
                 counts as the limit.
    resolution:  step of the lattice each reading lies on, a number or one per reading. 0 for continuous readings;
                 None where nothing is known.
    dither:      how many uniform draws of one step make up d, which moves each reading before it is combined: 0, 1 or
                 2, one number or one per reading; two where it is left out. Continuous readings have none.
    memory:      what is kept from row to row, a :class:`veilnet.agent.memory.Memory`; none when left out.
    agent:       whose sanitizer it is.
    names:       names of the readings, in order, to check columns against; none when left out.
    step:        how long a row takes, such as "15min", or seconds: where readings carry times, a live agent sends at
                 most one in each. Seconds in the attribute; None where nobody said.
    usual:       (means, deviations) of the readings by the model, for its owner to tell what limits mean; None where
                 the model does not say.
    summed:      with whom its messages are added up, a :class:`veilnet.agent.membership.Membership`: none of them is
                 sent bare then. None for an agent that sends its own.
    """

    _left_behind = frozenset({"recipe"})

    def __init__(
        self,
        compression: Any = None,
        noise: Any = None,
        *,
        offset: Any = None,
        grid: Any = None,
        limits: Any = None,
        resolution: Any = None,
        dither: Any = None,
        memory: Memory | None = None,
        agent: str = "",
        names: Sequence[str] = (),
        step: Any = None,
        usual: Any = None,
        summed: Membership | None = None,
    ) -> None:
        if compression is None and noise is None:
            raise InvalidNetwork(
                "sanitizer: expected compression=, noise= or both, found neither; "
                "use Sanitizer.raw(n) to send readings as they are, Sanitizer.silent(n) to send nothing"
            )
        self.memory = read_memory(memory, compression)
        self.compression: Array = read_compression(compression, noise)
        self.sent, columns = self.compression.shape
        self.readings = columns if memory is None else readings_of_columns(columns, memory)
        self.noise: Array = as_covariance(0.0 if noise is None else noise, "noise", self.sent)
        self.offset: Array = (
            np.zeros(self.readings) if offset is None else as_vector(offset, "offset", self.readings)
        )
        self.grid: Array | None = None if grid is None else read_grid(grid, self.sent)
        self.limits: tuple[Array, Array] | None = (
            None if limits is None else read_limits(limits, self.readings)
        )
        self.resolution: Array | None = (
            None if resolution is None else read_lattice(resolution, self.readings)
        )
        self.dither: Array = self._draws(read_dither(dither, self.readings))
        self.agent = agent if agent == "" else as_name(agent, "agent")
        self.names: tuple[str, ...] = read_reading_names(names, self.readings)
        self.step = read_step(step)
        self.usual: tuple[Array, Array] | None = None if usual is None else read_usual(usual, self.readings)
        self.summed: Membership | None = summed
        if summed is not None and (self.grid is None or self.agent not in summed.members):
            raise InvalidNetwork(
                f"summed: expected a grid and an agent among {list(summed.members)}, found {self.agent!r}"
            )
        self._freeze()

    @classmethod
    def silent(cls, readings: int, *, agent: str = "") -> Sanitizer:
        """Sends nothing at all.

        readings: how many readings the agent has.
        agent:    whose sanitizer it is.
        """
        return cls(np.zeros((0, read_reading_count(readings))), agent=agent)

    @classmethod
    def raw(cls, readings: int, *, agent: str = "") -> Sanitizer:
        """Sends the readings as they are.

        readings: how many readings the agent has.
        agent:    whose sanitizer it is.
        """
        return cls(np.eye(read_reading_count(readings)), agent=agent)

    @classmethod
    def exact(cls, rows: Array, *, offset: Array, agent: str = "") -> Sanitizer:
        """Sends independent combinations of readings without noise; for callers that made the rows.

        rows:   the combinations, linearly independent.
        offset: what the readings show at x = 0.
        agent:  whose sanitizer it is.

        Skips the checks of the constructor: with many agents they would cost more than the design.
        """
        sent, readings = rows.shape
        return cls._unchecked(
            compression=rows, sent=sent, readings=readings, noise=np.zeros((sent, sent)), offset=offset,
            grid=None, limits=None, resolution=None, dither=np.zeros(readings), memory=None, agent=agent,
            names=(), step=None, usual=None, summed=None, normal=(rows, np.zeros(sent, bool)),
        )  # fmt: skip

    def with_grid(self, grid: Array) -> Sanitizer:
        """The same sanitizer, releasing on a grid.

        grid: the step of each number sent, a power of two.
        """
        return self._changed(grid=read_grid(grid, self.sent))

    def for_agent(self, agent: str, network: Network) -> Sanitizer:
        """The same sanitizer, with the names, limits, resolution, dither, step and law of that agent's readings.

        agent:   whose sanitizer it becomes.
        network: what it takes them from. The dither is the network's alone: its promises count it.
        """
        mine = network.blocks.rows(network.position[agent])
        return self._changed(
            agent=agent,
            usual=None if network.usual is None else (network.usual[0][mine], network.usual[1][mine]),
            names=network.reading_names.get(agent, self.names),
            limits=network.limits.get(agent, self.limits),
            resolution=network.resolution.get(agent),
            dither=self._draws_in(agent, network),
            step=network.step,
        )

    def _draws_in(self, agent: str, network: Network) -> Array:
        """By how many draws that agent's readings are moved: as the network says, by two where nobody decided."""
        mine = network.blocks.rows(network.position[agent])
        many = MOST_DRAWS if network.dither is None else network.dither[mine]
        return np.where(network.steps[mine] > 0, many, 0.0)

    @property
    def order(self) -> int:
        """How many numbers the agent keeps from row to row; 0 without a memory."""
        return 0 if self.memory is None else self.memory.order

    @derived
    def memory_key(self) -> str:
        """What its memory is, empty without one: of the same key, one goes on where the other left off.

        A hash of the memory and of what enters it: which readings, their offset, limits and dither.
        """
        if self.memory is None:
            return ""
        found = hashlib.sha256(self.memory.digest.encode())
        found.update(json.dumps([self.readings, self.names]).encode())
        for array in (self.offset, *self.edges, self.steps, self.dither):
            found.update((np.asarray(array, dtype="<f8") + 0.0).tobytes())
        return found.hexdigest()[:32]

    @property
    def dithers(self) -> bool:
        """Whether any reading is dithered before it is combined."""
        return bool(np.any(self.dither))

    @property
    def dither_width(self) -> Array:
        """How wide the dither of each reading is, from end to end; 0 where there is none."""
        return self.steps * self.dither

    @property
    def dither_variance(self) -> Array:
        """The variance of each reading's dither."""
        return dither_variance(self.steps, self.dither)

    @property
    def steps(self) -> Array:
        """The step of each reading; 0 where it is continuous, or where nothing was said."""
        return np.zeros(self.readings) if self.resolution is None else self.resolution

    @property
    def edges(self) -> tuple[Array, Array]:
        """The limits of each reading, infinite where there are none."""
        return self.limits or (np.full(self.readings, -np.inf), np.full(self.readings, np.inf))

    @property
    def labels(self) -> list[str]:
        """What each reading is called in words: its name, or which one it is."""
        return list(self.names) or [f"reading {k + 1}" for k in range(self.readings)]

    def _draws(self, dither: Array | None) -> Array:
        return np.where(self.steps > 0, MOST_DRAWS if dither is None else dither, 0.0)

    # --- the normal form

    @derived
    def normal(self) -> tuple[Array, Booleans]:
        """(C', noisy): rows sent in normal form, and which of them carry noise of variance one."""
        return normal_form(self.compression, self.noise)

    @property
    def is_normal(self) -> bool:
        """Whether each row sent already carries noise of variance 0 or 1 and no row is redundant."""
        variances = np.diag(self.noise)
        return (
            self.normal[0].shape[0] == self.sent
            and bool(np.all((variances == 0) | (variances == 1)))
            and not np.any(self.noise - np.diag(variances))
        )

    def normalized(self) -> Sanitizer:
        """The same information in normal form: rows carry noise of variance 0 or 1, none is redundant."""
        rows, noisy = self.normal
        noise = np.diag(noisy.astype(float))
        return self._changed(
            compression=rows,
            sent=len(rows),
            noise=noise,
            noise_root=noise[noisy],
            grid=None,
            normal=self.normal,
        )

    def as_noise(self, power: float) -> Sanitizer:
        """Noise alone (C = I), the withheld directions sharing the power that the noisy rows leave.

        power: the total, tr Θ.

        Proposition 1 of the paper, mended: Θ = A^-1 Λ A^-T with A the sent rows completed by the withheld
        ones. Withholding is the limit of power without bound; the bound on x converges like 1 / power.
        """
        if self.memory is not None:
            raise InvalidNetwork("sanitizer: noise alone on every reading is for one without a memory")
        rows, noisy = self.normal
        back, null = right_inverse(rows)
        carried = back[:, noisy] @ back[:, noisy].T
        count = null.shape[1]
        left = as_number(power, "power") - float(np.trace(carried))
        if left < 0 or (count and left == 0):
            raise InvalidNetwork(
                f"power: expected over {np.trace(carried):.6g}, needed by the noisy rows, found {power:g}"
            )
        if count:
            carried = carried + left / count * (null @ null.T)
        noise = (carried + carried.T) / 2
        return self.replace(compression=np.eye(self.readings), noise=noise, grid=None)

    # --- running it

    def sanitize(self, readings: Any, *, rng: np.random.Generator | int | None = None) -> AnyArray:
        """What the agent sends of its readings; see :mod:`veilnet.agent.release`.

        readings: one row (N_i,) or a block (T, N_i). Of a pandas or polars frame, or anything else with named
                  columns, those that the sanitizer knows by name (:mod:`veilnet.adapters.frames` gives frames back).
        rng:      a generator or seed, for simulation: it replaces the operating system's entropy, from which noise
                  comes otherwise, and the result is a :class:`veilnet.agent.release.NotPrivate` array.

        A reading beyond its limits counts as the limit (:attr:`reach`). Raises InvalidReading, naming the row, where
        one is not a number: nothing of the block is sent then. Warns when there is no grid: the low bits of what is
        sent are then not protected. What a sanitizer with a memory sends depends on the rows before, so it refuses:
        use :meth:`stream`.
        """
        if self.memory is not None:
            raise InvalidRequest(
                f"{self.agent or 'sanitizer'}: what it sends depends on the rows before; nothing was sent: begin a "
                "stream once with stream(), and give every row to that"
            )
        if self.summed is not None and rng is None:
            raise InvalidRequest(
                f"{self.agent}: its messages are for the sum of {self.summed.group!r} alone, and an unmasked "
                f"one reveals more; nothing was sent: run veilnet agent, or give rng= to simulate"
            )
        return release(self.recipe, readings, rng)

    def release(self, rows: Array, source: NoiseSource) -> Released:
        """What may be sent of rows, and of each other one why not.

        rows:   readings (T, N_i); not a number where one is missing.
        source: where noise comes from.
        """
        return release_valid(self.recipe, rows, source)

    def stream(self, *, state: Any = None, rng: np.random.Generator | int | None = None) -> Stream:
        """A stream of rows, which remembers: the agent at work, from its first row on.

        state: where an interrupted stream goes on: its ``state`` after the last row that was sent. Keep it as you
               keep the readings; ``veilnet sanitize`` does so by itself, durably.
        rng:   as in :meth:`sanitize`, for simulation alone.

        Without a memory every row is for itself, as with :meth:`sanitize`.
        """
        return Stream(self.recipe, noise_source(rng), state)

    @cached_property
    def recipe(self) -> Recipe:
        """What runs: prepared once, since that costs more than releasing one row."""
        return prepare(
            agent=self.agent,
            compression=self.compression,
            noise=self.noise,
            noise_root=self.noise_root,
            offset=self.offset,
            grid_step=self.grid,
            limits=self.edges,
            steps=self.steps,
            draws=self.dither,
            names=self.names,
            memory=self.memory,
        )

    @property
    def reach(self) -> tuple[Array, Array]:
        """(lowest, highest) that each reading counts as: its limits, as far as its grid can hide rounding errors."""
        low, high = self.recipe.limits
        return low.vector, high.vector

    @property
    def beyond(self) -> Array | None:
        """The probability, by the model, that each reading is beyond its reach; None where the model does not say."""
        return None if self.usual is None else chances_beyond(self.usual, self.reach)

    def save(self, path: str | PathLike[str]) -> None:
        """Write what this agent needs to one file.

        path: a JSON file.
        """
        from veilnet.io.sanitizer_files import save_sanitizer

        save_sanitizer(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Sanitizer:
        """Read a sanitizer from its file; a truncated or changed one is refused.

        path: what :meth:`save` wrote, or an agent's file in the folder of a plan.
        """
        from veilnet.io.sanitizer_files import load_sanitizer

        return load_sanitizer(path)

    @derived
    def noise_root(self) -> Array:
        """B with Θ = B'B; no rows where nothing is added."""
        return positive_root(self.noise)

    def replace(self, **changes: Any) -> Sanitizer:
        """A copy with some arguments of the constructor changed.

        changes: those arguments by name; a name that the constructor does not know is a TypeError.
        """
        if "resolution" in changes:  # another lattice asks for other dither
            changes = {"dither": None} | changes
        return Sanitizer(**(self._arguments() | changes))

    def same_as(self, other: Sanitizer) -> bool:
        """Whether another one does the same to the last bit, for the same agent.

        other: the sanitizer to compare with.
        """
        return _same(self._arguments(), other._arguments())

    def same_readings_as(self, other: Sanitizer) -> bool:
        """Whether another one takes the same readings: names, limits, resolution, dither, step; law up to rounding.

        other: the sanitizer to compare with.
        """
        mine, theirs = self._arguments(), other._arguments()
        what = ("agent", "names", "limits", "resolution", "dither", "step")
        return _same_law(self.usual, other.usual) and all(_same(mine[name], theirs[name]) for name in what)

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _ARGUMENTS}

    def __repr__(self) -> str:
        rows, noisy = self.normal
        who = f"{self.agent}: " if self.agent else ""
        if rows.shape[0] == 0:
            return f"Sanitizer({who}{self.readings} readings, sends nothing)"
        clear = int(np.sum(~noisy))
        withheld = self.readings - rows.shape[0]
        keeps = (
            f"keeps {self.order} number{'s' if self.order > 1 else ''} of the past; " if self.order else ""
        )
        parts = [f"{keeps}sends {rows.shape[0]} number{'s' if rows.shape[0] > 1 else ''}"]
        parts.append(f"{clear} exact, {rows.shape[0] - clear} with noise")
        if self.memory is None:
            parts.append(f"{withheld} direction{'s' if withheld != 1 else ''} withheld")
        return f"Sanitizer({who}{self.readings} readings, {'; '.join(parts)})"


def _same_law(mine: tuple[Array, Array] | None, theirs: tuple[Array, Array] | None) -> bool:
    """Whether means and deviations agree but for what another machine makes of the same sums."""
    if mine is None or theirs is None:
        return mine is theirs
    close = _ROUNDING * (np.abs(mine[0]) + mine[1])
    return all(bool(np.all(np.abs(one - other) <= close)) for one, other in zip(mine, theirs, strict=True))


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, dict):
        return all(_same(mine[name], theirs[name]) for name in mine)
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return len(mine) == len(theirs) and all(map(_same, mine, theirs))
    if isinstance(mine, Memory):
        return isinstance(theirs, Memory) and mine.same_as(theirs)
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return np.array_equal(mine, theirs)
    return bool(type(mine) is type(theirs) and mine == theirs)


_ARGUMENTS = tuple(inspect.signature(Sanitizer).parameters)
