"""The model: agents, noise, what may be known and what must not. Frozen, validated once, at the door.

Agents i = 1..S observe y_i = H_i x + n_i (+ a known offset), n ~ N(0, R). The fusion centre may know
u = U x; the private parameters g_j = G_j x must stay hard to estimate (mathematics, section 1).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np

from veilnet._core.durations import RowStep, read_step
from veilnet._core.errors import InvalidNetwork, NotObservable
from veilnet._core.frozen import Frozen, derived
from veilnet._core.linalg import EPS, condition_of_triangle, solve_upper, triangle
from veilnet._core.names import RowsByAgent, places_of
from veilnet._core.spelling import names_keywords
from veilnet._core.stacks import fits_at_once, joined_triangle, parts
from veilnet._core.stacks import raw_triangle as stack_triangle
from veilnet._core.types import Array
from veilnet._core.words import direction_in_words
from veilnet.model.arguments import (
    per_agent,
    read_noise_colour,
    read_observe,
    read_offset,
    read_parameters,
    read_prior,
    read_private,
    read_public,
    read_scales,
    read_steps,
    read_units,
)
from veilnet.model.coloured import ColouredNoise
from veilnet.model.common import SharedNoise, names_apart, padded, prior_apart, read_noise
from veilnet.model.doubts import Doubt, accepted, read_doubts
from veilnet.model.dynamics import Dynamics, read_dynamics, refuse_undetectable
from veilnet.model.fitted import HeldOut, LogAuc, read_held_out, read_log_aucs, read_marks
from veilnet.model.members import Members, read_members
from veilnet.model.model_error import model_error_variance, read_model_error
from veilnet.model.noise import NoiseModel, dithered
from veilnet.model.prior import Prior
from veilnet.model.readings import read_dither, read_limits, read_reading_names, usual_of
from veilnet.model.secret import Secret, secrets_among, with_units

__all__ = ["Network", "Prior"]


class Network(Frozen):
    """A sensor network and what its fusion centre may and must not learn.

    observe:    agent -> H_i, an N_i x L matrix, in sending order; or a stack (S, n, L) of many agents, or a list of
                stacks where their sizes differ. Of stacks no object is made for each agent.
    noise:      covariance of the readings: N x N joint, agent -> N_i x N_i, N variances, a stack (S, n, n), a list of
                stacks, or one variance for all; a CommonNoise where agents share disturbances, a ColouredNoise where
                it carries over from row to row.
    public:     rows of U, or name -> row(s).
    private:    name -> rows of G_j, or a Secret where a change of g_j must stay hidden (``secrets`` has those).
    prior:      a Prior, or None where nothing is known beforehand.
    offset:     what readings show at x = 0: agent -> vector, N numbers, or of agents with n readings each one row of
                n for all, or (S, n); zero when left out.
    parameters: names of the L entries of x, for messages.
    public_scales: public name -> the error of it that counts as one in the utility; 1 when left out, as in the paper,
                which adds up error variances whatever their units. ``fit`` gives errors from raw readings: the loss
                is then the mean growth of all public error variances.
    units:      unit of a public, private or parameter name, for reports.
    agents:     names for a stack; generated when left out.
    reading_names: agent -> names of its readings, to check the columns an agent is fed; none when left out.
    limits:     agent -> (lowest, highest) credible reading, numbers or one per reading: a reading beyond
                them counts as the limit. A design refuses limits within what readings do by the model.
    resolution: agent -> step of its readings, one number or one per reading; or one step for everyone; or of agents
                with n readings each one row of n for all, or (S, n). 0 says that they are continuous.
                Where nothing is said, exact numbers protect only continuous readings.
    dither:     by how many uniform draws of one step each of the N readings is moved before anything else: 0, 1 or
                2. Leave it to :func:`veilnet.design`, which decides by what is sent (:mod:`veilnet.agent.dither`):
                raw readings need none. The network of a plan has it.
    dynamics:   how x moves from row to row, a Dynamics; None where every row is a new x. With it, a prior is the
                distribution of the first x, and the stationary one when left out.
    model_error: by which fraction the entries of H may be off, 0.05 for 5 %: what that does to the readings on
                average counts as noise (:mod:`veilnet.model.model_error`). Needs a full prior.
    step:       how long a row takes, such as "15min", or seconds: an agent with a clock sends at most one reading in
                each, and the rows of a stream are so far apart. Seconds in the attribute, None where nobody said.
    doubts:     what is doubtful about the model, a Doubt each; ``fit`` says so, and so do all who use it.
    fitted_rows: hashes of runs of the rows that ``fit`` used, so that an audit notices when it is given them again.
    held_out:   public row -> how far off the centre was on rows that ``fit`` had not seen, which its stated errors
                count; a public name of one row, or name[1], name[2].
    log_aucs:   private name -> "raw" and "free" -> how surely learned detectors saw its values in those rows.
    members:    agents that are groups -> whose readings theirs are. ``design(..., summed=...)`` makes such networks:
                members add up their messages, and nobody sees one of them alone (:mod:`veilnet.sums`).

    ``public`` and ``private`` are name -> rows; ``U`` is all public rows stacked, as ``H`` is all readings.
    ``noise`` is as it was given: of the readings as an agent gets them, their rounding included; ``sensor_noise`` is
    that of one row. ``undithered_noise`` adds what an uncertain model does. ``R`` is what every bound, design and
    promise uses: that of the readings as they are combined, the dither included, with m draws of a step q each
    diag(m q²/12). ``sensor_noise`` and ``R`` are one object where there is neither.

    With dynamics the network is a *stream* (``is_stream``). ``R``, ``sensor_noise`` and ``prior`` then describe
    one row by itself, out of the middle of the stream; ``colour`` is the noise that carries over (None where it is
    white), ``first`` the distribution of the first x, and ``one_row`` the network of one row.
    """

    _left_behind = frozenset({"observe", "position", "common_apart"})

    @names_keywords
    def __init__(
        self,
        observe: Mapping[str, Any] | Any,
        noise: Any,
        public: Mapping[str, Any] | Any,
        private: Mapping[str, Any],
        prior: Prior | None = None,
        *,
        offset: Mapping[str, Any] | Any = None,
        parameters: Sequence[str] | None = None,
        public_scales: Mapping[str, float] | None = None,
        units: Mapping[str, str] | None = None,
        agents: Sequence[str] | None = None,
        reading_names: Mapping[str, Sequence[str]] | None = None,
        limits: Mapping[str, Any] | None = None,
        resolution: Mapping[str, Any] | Any = None,
        dither: Any = None,
        dynamics: Dynamics | None = None,
        model_error: float = 0.0,
        step: Any = None,
        doubts: Sequence[Doubt] = (),
        fitted_rows: Sequence[str] = (),
        held_out: Mapping[str, HeldOut] | None = None,
        log_aucs: Mapping[str, Mapping[str, LogAuc]] | None = None,
        members: Mapping[str, Members] | None = None,
    ) -> None:
        self.agents, self.H, self.blocks = read_observe(observe, agents)
        self.L = self.H.shape[1]
        self.parameters = read_parameters(parameters, self.L)
        self.dynamics = read_dynamics(dynamics, self.parameters)
        self.colour = read_noise_colour(noise, self.agents, self.blocks, self.dynamics)
        self.sensor_noise: NoiseModel = read_noise(
            noise if self.colour is None else self.colour.marginal, self.agents, self.blocks
        )
        self.noise: NoiseModel | ColouredNoise = self.colour or self.sensor_noise
        self.resolution: Mapping[str, Array] = read_steps(resolution, self.agents, self.blocks)
        self.public: Mapping[str, Array]
        self.U: Array
        self.public, self.U = read_public(public, self.L)
        self.public_scales: dict[str, float] = read_scales(public_scales, self.public)
        rows_of_private, secrets = secrets_among(private)
        self.private: Mapping[str, Array] = MappingProxyType(read_private(rows_of_private, self.L))
        self.secrets: Mapping[str, Secret] = MappingProxyType(secrets)
        self.first = read_prior(prior, self.L)
        self.first_given = self.first is not None
        self.prior = self.first
        if self.dynamics is not None and self.dynamics.stationary is not None:
            self.prior = Prior(covariance=self.dynamics.stationary, mean=self.dynamics.mean)
            self.first = self.first or self.prior
        self.model_error = read_model_error(model_error, self.dynamics)
        self.undithered_noise: NoiseModel = self.sensor_noise
        if self.model_error:
            added = model_error_variance(self.H, self.prior, self.model_error)
            self.undithered_noise = self.sensor_noise.plus(added)
        self.dither = read_dither(dither, self.N)
        self.R: NoiseModel = dithered(self.undithered_noise, self.steps, self.draws, self.agents)
        self.offset: Array = read_offset(offset, self.agents, self.blocks)
        self.reading_names: Mapping[str, tuple[str, ...]] = MappingProxyType(
            per_agent(reading_names, self.agents, self.blocks, "reading_names", read_reading_names)
        )
        self.limits: Mapping[str, tuple[Array, Array]] = MappingProxyType(
            per_agent(limits, self.agents, self.blocks, "limits", read_limits)
        )
        self.units: Mapping[str, str] = MappingProxyType(
            read_units(with_units(units, secrets), (*self.public, *self.private, *self.parameters))
        )
        self.step: RowStep | None = read_step(step)
        for secret in secrets.values():
            secret.rows_it_lasts(self.step)
        self.doubts: tuple[Doubt, ...] = read_doubts(doubts)
        self.fitted_rows: tuple[str, ...] = read_marks(fitted_rows)
        self.held_out: dict[str, HeldOut] = read_held_out(held_out, self.public_rows)
        self.log_aucs: dict[str, dict[str, LogAuc]] = read_log_aucs(log_aucs, self.private)
        self.members: Mapping[str, Members] = read_members(members, self.agents, self.blocks)
        if self.dynamics is None:
            self._refuse_unobservable()
        else:
            refuse_undetectable(self.dynamics, self.H, self.parameters)
        self._freeze()

    # --- what is in it

    @property
    def S(self) -> int:
        """Number of agents."""
        return self.blocks.count

    @property
    def N(self) -> int:
        """Number of readings, all agents together."""
        return self.blocks.total

    @cached_property
    def observe(self) -> Mapping[str, Array]:
        """agent -> H_i, views into the stacked H."""
        return RowsByAgent(self.agents, self.position, self.blocks, self.H)

    @derived
    def public_rows(self) -> tuple[str, ...]:
        """One label per row of U."""
        return tuple(
            name if rows.shape[0] == 1 else f"{name}[{k + 1}]"
            for name, rows in self.public.items()
            for k in range(rows.shape[0])
        )

    @derived
    def measured(self) -> Array:
        """U as the utility counts it: the rows of a public parameter over its scale and the root of their number."""
        if not self.public_scales:
            return self.U
        scales = {name: self.public_scales.get(name, 1.0) for name in self.public}
        return np.concatenate(
            [each / (scales[name] * len(each) ** 0.5) for name, each in self.public.items()]
        )

    @property
    def public_units(self) -> tuple[str, ...]:
        """The unit of each row of U, empty where none was given."""
        return tuple(self.unit(name) for name, rows in self.public.items() for _ in rows)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """agent -> place in sending order."""
        return places_of(self.agents)

    @property
    def is_stream(self) -> bool:
        """Whether its rows follow one another in time."""
        return self.dynamics is not None

    @derived
    def one_row(self) -> Network:
        """The network of one row by itself: without dynamics, its prior the stationary distribution of x."""
        if self.dynamics is None:
            return self
        return self.replace(noise=self.sensor_noise, prior=self.prior, dynamics=None)

    @derived
    def common_apart(self) -> Network:
        """The same network with common disturbances as parameters of x (:mod:`veilnet.model.common`)."""
        if not isinstance(self.R, SharedNoise):
            return self
        spread = self.R.spread
        count = spread.shape[1]
        length = self.L + count
        rows = np.concatenate([self.H, spread], axis=1)
        return Network(
            RowsByAgent(self.agents, self.position, self.blocks, rows),
            self.R.own,
            {name: padded(each, length) for name, each in self.public.items()},
            {name: padded(each, length) for name, each in self.private.items()},
            prior_apart(self.prior, self.L, count),
            parameters=names_apart(self.parameters, count),
            offset=self.offset,
            public_scales=self.public_scales,
            units=self.units,
            step=self.step,
        )

    def unit(self, name: str) -> str:
        """The unit of something that has a name, empty when none was given.

        name: of a public or private parameter, or of an entry of x.
        """
        return self.units.get(name, "")

    @derived
    def steps(self) -> Array:
        """The step of each of the N readings; 0 where it is continuous, or where nothing was said."""
        if isinstance(self.resolution, RowsByAgent):
            return self.resolution.stacked
        found = np.zeros(self.N)
        for agent, steps in self.resolution.items():
            found[self.blocks.rows(self.position[agent])] = steps
        return found

    @derived
    def stacked_limits(self) -> tuple[Array, Array]:
        """(lowest, highest) of each of the N readings; infinite where nothing was said."""
        low, high = np.full(self.N, -np.inf), np.full(self.N, np.inf)
        for agent, edges in self.limits.items():
            mine = self.blocks.rows(self.position[agent])
            low[mine], high[mine] = edges
        return low, high

    @derived
    def usual(self) -> tuple[Array, Array] | None:
        """(mean, deviation) of each of the N readings by the model; None where no prior says what x usually is."""
        settled = self.dynamics is None or self.dynamics.stationary is not None
        return usual_of(
            self.prior if settled else None, self.H, self.undithered_noise.variances(), self.offset
        )

    @derived
    def draws(self) -> Array:
        """By how many uniform draws of its step each of the N readings is dithered, 0 while nobody decided."""
        return np.where(self.steps > 0, 0.0 if self.dither is None else self.dither, 0.0)

    @derived
    def offset_at_mean(self) -> Array:
        """What the N readings show where x is zero or, of a stream, at its mean: what agents subtract."""
        if self.dynamics is None or not np.any(self.dynamics.mean):
            return self.offset
        return np.asarray(self.offset + np.sum(self.H * self.dynamics.mean, axis=1))

    # --- quantities every bound needs, computed once

    @derived
    def white_observe(self) -> Array:
        """root^-1 H, (N, L): its Gram matrix is the information of the raw readings."""
        return self.R.whiten(self.H)

    @derived
    def prior_root(self) -> Array:
        """F0 with F0'F0 = J0; no rows without a prior."""
        return np.zeros((0, self.L)) if self.prior is None else self.prior.root

    @derived
    def raw_triangle(self) -> Array:
        """Upper triangular T with T'T = J0 + H'R^-1 H, the raw information."""
        whole = not self.R.independent or fits_at_once(self.N * self.L)
        shown = self.white_observe if whole else self.readings_triangle
        return triangle(np.concatenate([self.prior_root, shown]))

    @property
    def readings_triangle(self) -> Array:
        """T with T'T = Σ H_i'R_i^-1 H_i, (L, L), of independent noise: what one row of raw readings tells."""
        triangles = (
            stack_triangle(self.blocks.take(self.H, group.agents[part]), roots[part])
            for group, roots in zip(self.blocks.groups, self.R.own_roots(), strict=True)
            for part in parts(group.count, group.size * self.L)
        )
        return joined_triangle(triangles, self.L)

    @derived
    def conditioning(self) -> float:
        """How much rounding the model amplifies, units removed (1 is best)."""
        return max(condition_of_triangle(self.raw_triangle), self.R.condition())

    def in_raw_coordinates(self, rows: Array) -> Array:
        """A T^-1: coordinates of x in which the raw information is the identity.

        rows: A, (rows, L).
        """
        return np.ascontiguousarray(solve_upper(self.raw_triangle, rows.T, transposed=True).T)

    def _refuse_unobservable(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            upper = self.raw_triangle
            norms = np.linalg.norm(upper, axis=0)
        if not np.all(np.isfinite(norms)):
            raise InvalidNetwork(
                "observe: the readings' information on x exceeds what floating point can hold; "
                "give readings, noise and parameters in units that make their numbers moderate"
            )
        scaled = upper / np.where(norms > 0, norms, 1.0)
        _, singular, directions = np.linalg.svd(scaled)
        if singular[-1] > 16 * EPS * max(self.L, 8) * self.R.condition() * singular[0]:
            return
        direction = directions[-1] / np.where(norms > 0, norms, 1.0)
        with_prior = "" if self.prior is None else " and the prior"
        raise NotObservable(
            f"observe: the readings{with_prior} do not determine x: nothing depends on "
            f"{direction_in_words(direction, self.parameters)}; add an agent that sees it, give a prior, or "
            f"remove it from x"
        )

    # --- other ways in and out

    def replace(self, **changes: Any) -> Network:
        """A copy with some arguments of the constructor changed.

        changes: those arguments by name; a name that the constructor does not know is a TypeError.
        """
        known = {name: getattr(self, name) for name in _ARGUMENTS}
        private = {**self.private, **self.secrets}
        known |= {"private": private, "prior": self.first if self.first_given else None}
        if "resolution" in changes:  # another lattice asks for other dither
            changes = {"dither": None} | changes
        return Network(**(known | changes))

    def accepting(self, names: str | Sequence[str]) -> Network:
        """A copy in which some doubts are accepted: named from now on, and not repeated.

        names: one name, or a list of them; one that the network does not have is an error.
        """
        return self.replace(doubts=accepted(self.doubts, names))

    @classmethod
    def from_complex(
        cls,
        observe: Mapping[str, Any],
        noise: Any,
        public: Mapping[str, Any] | Any,
        private: Mapping[str, Any],
        prior: Prior | None = None,
        *,
        offset: Mapping[str, Any] | None = None,
        parameters: Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
        resolution: Mapping[str, Any] | float | None = None,
    ) -> Network:
        """The equivalent real network of a complex one with circular noise (the paper's Example 1).

        observe, public, private: as in :class:`Network`, of complex numbers; agents by name.
        noise:      the Hermitian covariance E[n n^H], joint or by agent, variances, or one variance for all.
        prior:      of the real and then the imaginary parts of x (:func:`veilnet.model.complex.circular_prior`).
        offset:     what readings show at x = 0: agent -> complex vector.
        parameters: names of the entries of x; their parts are called "Re name" and "Im name".
        units:      of names in the real network.
        resolution: as in :class:`Network`, of real and imaginary parts alike.
        """
        from veilnet.model.complex import real_arguments

        real = real_arguments(observe, noise, public, private, offset, parameters, resolution)
        return cls(**real, prior=prior, units=units)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Network:
        """Read a network from a file; nothing is ever unpickled.

        path: a file that ends in .toml, .json or .npz.
        """
        from veilnet.io.network_files import load_network

        return load_network(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to a file; reading it back gives the same numbers to the last bit.

        path: a file that ends in .toml, .json or .npz.
        """
        from veilnet.io.network_files import save_network

        save_network(self, path)

    def _repr_html_(self) -> str:
        from veilnet.report.cards import network_card

        return network_card(self)

    def __repr__(self) -> str:
        prior = "no prior" if self.prior is None else repr(self.prior)
        noise = "independent" if self.R.independent else "correlated"
        if self.colour is not None:
            noise = f"coloured {noise}"
        kind = "stream of " if self.is_stream else ""
        return (
            f"Network({kind}{self.S} agents, {self.N} readings, {self.L} parameters, {noise} noise, "
            f"public {list(self.public)}, private {list(self.private)}, {prior})"
        )


# names of the agents are those of observe
_ARGUMENTS = frozenset(inspect.signature(Network).parameters) - {"agents"}
