"""The network that a fitted model describes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array, Booleans
from veilnet.calibration.coarseness import found_resolution, with_rounding
from veilnet.calibration.limits import proposed_limits
from veilnet.calibration.linear_model import LinearModel
from veilnet.calibration.roles import Roles
from veilnet.calibration.stream_model import FittedStream
from veilnet.model.coloured import ColouredNoise
from veilnet.model.dynamics import Dynamics
from veilnet.model.network import Network, Prior

Noise = Literal["joint", "independent"]


class Builder:
    """What is the same of every network made from one table: roles, resolution, limits.

    readings: (T, N) the rows of the fit; noise: whether agents may share noise; prior: whether the centre knows mean
    and covariance of x beforehand; limits: whether to propose credible ones.
    """

    def __init__(self, roles: Roles, readings: Array, noise: Noise, *, prior: bool, limits: bool) -> None:
        self.roles = roles
        self.blocks = Blocks([len(named) for named in roles.agents.values()])
        self.places = {agent: self.blocks.rows(place) for place, agent in enumerate(roles.agents)}
        self.resolution = found_resolution(readings, self.places)
        self.limits = proposed_limits(readings, roles.readings, self.places) if limits else None
        self.noise = noise
        self.prior = prior

    @property
    def joint(self) -> Booleans:
        """(N, N), which pairs of readings may share noise."""
        same = self.blocks.owner[:, None] == self.blocks.owner[None, :]
        return np.asarray(same | (self.noise == "joint"))

    @property
    def asked(self) -> Array:
        """Every public and private row of x."""
        groups = [*self.roles.public.values(), *self.roles.private.values()]
        return np.concatenate([self.roles.rows(named) for named in groups])

    def rounded(self, model: LinearModel) -> LinearModel:
        """The model, no noise smaller than what the rounding of its reading makes."""
        return replace(model, noise=with_rounding(model.noise, self.resolution, self.places))

    def network(self, model: LinearModel, stream: FittedStream | None = None) -> Network:
        """The network of a model, of a stream where it is given."""
        return Network(
            observe={agent: model.observe[mine] for agent, mine in self.places.items()},
            noise=self._of_readings(model.noise) if stream is None else self._carried(model, stream),
            public={name: self.roles.rows(named) for name, named in self.roles.public.items()},
            private={name: self.roles.rows(named) for name, named in self.roles.private.items()},
            prior=Prior(covariance=model.covariance, mean=model.mean)
            if self.prior and stream is None
            else None,
            offset=model.offset,
            parameters=self.roles.parameters,
            reading_names=self.roles.agents,
            limits=self.limits,
            resolution=self.resolution,
            dynamics=None
            if stream is None
            else Dynamics(transition=stream.transition, noise=stream.renewed, mean=model.mean),
        )

    def _carried(self, model: LinearModel, stream: FittedStream) -> object:
        found = stream.noise
        if found.white:
            return self._of_readings(model.noise)
        memory = {agent: found.memory[mine] for agent, mine in self.places.items()}
        return ColouredNoise(memory, self._of_readings(found.innovation), found.floor)

    def _of_readings(self, covariance: Array) -> object:
        if self.noise == "joint":
            return covariance
        return {agent: covariance[mine, mine] for agent, mine in self.places.items()}
