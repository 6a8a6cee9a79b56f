"""A network from calibration data: a table of readings beside what they depend on.

x is the public and the private columns. What each reading shows of them (H), what it shows at x = 0 (the
offset) and the joint noise R come from least squares; mean and covariance of x become the prior. The lattice that
the values of a reading lie on is its resolution. The report says how far the data are from the linear Gaussian
picture on which every promise rests.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.calibration.assessment import assess
from veilnet.calibration.coarseness import found_resolution, with_rounding
from veilnet.calibration.doubts import doubts
from veilnet.calibration.limits import proposed_limits
from veilnet.calibration.linear_model import LinearModel, fit_linear, refuse_degenerate
from veilnet.calibration.outliers import Outlier, beyond_limits, outliers
from veilnet.calibration.report import CalibrationReport
from veilnet.calibration.roles import Roles
from veilnet.calibration.rows import Missing, Rows, read_rows, unused_time_column
from veilnet.model.network import Network, Prior

__all__ = ["Calibration", "DoubtfulModel", "fit", "fit_report"]

Noise = Literal["joint", "independent"]
Columns = Mapping[str, Sequence[str] | str] | Sequence[str] | str


_NOT_IN_ORDER = (
    "The column {0!r} looks like a time, but was not used: rows were taken to be in order, without gaps. "
    "Say time={0!r} (on the command line: --time {0})."
)


class DoubtfulModel(UserWarning):
    """The data do not look as the linear Gaussian model says; the message tells how, and what it means."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A network made from data, how good it is, and where it is doubtful.

    network:  the model.
    report:   how well it describes the data, reading by reading and parameter by parameter.
    warnings: what is doubtful about it, a sentence each.
    """

    network: Network
    report: CalibrationReport
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([str(self.report), *(f"\n- {sentence}" for sentence in self.warnings)])


def fit(
    table: Any,
    agents: Mapping[str, Sequence[str] | str],
    public: Columns,
    private: Columns,
    *,
    time: str | None = None,
    missing: Missing = "refuse",
    noise: Noise = "joint",
    prior: bool = True,
    limits: bool = True,
) -> Network:
    """A network from calibration data; warns (:class:`DoubtfulModel`) where the model is doubtful.

    table:   name -> column, a pandas or polars frame, a structured array, or the path of a CSV file.
    agents:  agent -> the columns it reads.
    public:  columns that may be known; or name -> columns, to give several one name.
    private: columns that must not, likewise.
    time:    the column that tells when a row was measured: dates and times of day, or seconds. Rows are put in its
             order, and only rows one step apart count as neighbours. Without it rows are taken to be in order.
    missing: "refuse" a table with missing values, or "drop" the rows that have any.
    noise:   "joint", or "independent" where agents are known to share no noise.
    prior:   whether the centre knows mean and covariance of x beforehand.
    limits:  whether to propose credible limits of the readings (:mod:`veilnet.calibration.limits`), beyond which an
             agent sends nothing. Rows with a value beyond them are named, and left out of the fit.

    Correlations are shrunk where rows are few (:mod:`veilnet.calibration.shrinkage`). :func:`fit_report` returns
    the same network with the numbers behind the warnings.
    """
    made = fit_report(
        table, agents, public, private, time=time, missing=missing, noise=noise, prior=prior, limits=limits
    )
    for sentence in made.warnings:
        warnings.warn(sentence, DoubtfulModel, stacklevel=2)
    return made.network


def fit_report(
    table: Any,
    agents: Mapping[str, Sequence[str] | str],
    public: Columns,
    private: Columns,
    *,
    time: str | None = None,
    missing: Missing = "refuse",
    noise: Noise = "joint",
    prior: bool = True,
    limits: bool = True,
) -> Calibration:
    """What :func:`fit` does, with the report; the doubts are listed instead of warned about.

    table:   name -> column, a frame, a structured array or a CSV file.
    agents:  agent -> the columns it reads.
    public:  columns that may be known; or name -> columns, to give several one name.
    private: columns that must not, likewise.
    time:    the column that tells when a row was measured: dates and times of day, or seconds. Rows are put in its
             order, and only rows one step apart count as neighbours. Without it rows are taken to be in order.
    missing: "refuse" a table with missing values, or "drop" the rows that have any.
    noise:   "joint", or "independent" where agents are known to share no noise.
    prior:   whether the centre knows mean and covariance of x beforehand.
    limits:  whether to propose credible limits of the readings (:mod:`veilnet.calibration.limits`), beyond which an
             agent sends nothing. Rows with a value beyond them are named, and left out of the fit.
    """
    _refuse_other(missing, Missing, "missing")
    _refuse_other(noise, Noise, "noise")
    roles = Roles(agents, public, private)
    rows = read_rows(table, roles, missing, time)
    refuse_degenerate(rows.readings, rows.parameters, roles.readings, roles.parameters)
    left_out: tuple[Outlier, ...] = ()
    if limits:
        rows, left_out = _credible(rows, roles)
        refuse_degenerate(rows.readings, rows.parameters, roles.readings, roles.parameters)
    model = fit_linear(rows.readings, rows.parameters)
    network = _network(roles, model, rows.readings, noise, prior=prior, limits=limits)
    report = assess(roles, network, model, rows, left_out)
    found = doubts(report)
    unused = None if time is not None else unused_time_column(table, roles)
    if unused is not None:
        found = (_NOT_IN_ORDER.format(unused), *found)
    return Calibration(network, report, found)


def _credible(rows: Rows, roles: Roles) -> tuple[Rows, tuple[Outlier, ...]]:
    """The rows in which everything is credible, and what was not in the others."""
    columns = np.concatenate([rows.readings, rows.parameters], axis=1)
    alone = beyond_limits(columns)
    named = [*roles.readings, *roles.parameters]
    return rows.take(~np.any(alone, axis=1)), outliers(columns, alone, named, rows.numbers, kept=False)


def _network(
    roles: Roles, model: LinearModel, readings: Array, noise: Noise, *, prior: bool, limits: bool
) -> Network:
    blocks = Blocks([len(named) for named in roles.agents.values()])
    rows = {agent: blocks.rows(place) for place, agent in enumerate(roles.agents)}
    resolution = found_resolution(readings, rows)
    covariance = with_rounding(model.noise, resolution, rows)
    return Network(
        observe={agent: model.observe[mine] for agent, mine in rows.items()},
        noise=covariance
        if noise == "joint"
        else {agent: covariance[mine, mine] for agent, mine in rows.items()},
        public={name: roles.rows(named) for name, named in roles.public.items()},
        private={name: roles.rows(named) for name, named in roles.private.items()},
        prior=Prior(covariance=model.covariance, mean=model.mean) if prior else None,
        offset=model.offset,
        parameters=roles.parameters,
        reading_names=roles.agents,
        limits=proposed_limits(readings, rows) if limits else None,
        resolution=resolution,
    )


def _refuse_other(value: Any, allowed: Any, what: str) -> None:
    if value not in get_args(allowed):
        raise InvalidRequest(
            f"{what}: expected one of {', '.join(map(repr, get_args(allowed)))}, found {value!r}"
        )
