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
from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.linalg import condition_of_triangle
from veilnet._core.types import Array
from veilnet._core.validation import as_names
from veilnet.calibration.checks import (
    curvature,
    held_out,
    ljung_box,
    normality,
    skewness_and_kurtosis,
    told_by,
    unequal_noise,
)
from veilnet.calibration.coarseness import found_resolution, with_rounding
from veilnet.calibration.doubts import doubts
from veilnet.calibration.linear_model import LinearModel, fit_linear, refuse_degenerate
from veilnet.calibration.report import CalibrationReport, ParameterReport, ReadingReport
from veilnet.calibration.shrinkage import effective_rows, lag_one
from veilnet.io.tables import read_columns
from veilnet.model.lattice import step_of
from veilnet.model.network import Network, Prior

__all__ = ["Calibration", "DoubtfulModel", "fit", "fit_report"]

Missing = Literal["refuse", "drop"]
Noise = Literal["joint", "independent"]
Columns = Mapping[str, Sequence[str] | str] | Sequence[str] | str


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
    missing: Missing = "refuse",
    noise: Noise = "joint",
    prior: bool = True,
) -> Network:
    """A network from calibration data; warns (:class:`DoubtfulModel`) where the model is doubtful.

    table:   name -> column, a pandas or polars frame, a structured array, or the path of a CSV file.
             Rows are taken to be in time order; without one, nothing is lost but the checks on it.
    agents:  agent -> the columns it reads.
    public:  columns that may be known; or name -> columns, to give several one name.
    private: columns that must not, likewise.
    missing: "refuse" a table with missing values, or "drop" the rows that have any.
    noise:   "joint", or "independent" where agents are known to share no noise.
    prior:   whether the centre knows mean and covariance of x beforehand.

    Correlations are shrunk where rows are few (:mod:`veilnet.calibration.shrinkage`). :func:`fit_report` returns
    the same network with the numbers behind the warnings.
    """
    made = fit_report(table, agents, public, private, missing=missing, noise=noise, prior=prior)
    for sentence in made.warnings:
        warnings.warn(sentence, DoubtfulModel, stacklevel=2)
    return made.network


def fit_report(
    table: Any,
    agents: Mapping[str, Sequence[str] | str],
    public: Columns,
    private: Columns,
    *,
    missing: Missing = "refuse",
    noise: Noise = "joint",
    prior: bool = True,
) -> Calibration:
    """What :func:`fit` does, with the report; the doubts are listed instead of warned about.

    table:   name -> column, a frame, a structured array or a CSV file, rows in time order.
    agents:  agent -> the columns it reads.
    public:  columns that may be known; or name -> columns, to give several one name.
    private: columns that must not, likewise.
    missing: "refuse" a table with missing values, or "drop" the rows that have any.
    noise:   "joint", or "independent" where agents are known to share no noise.
    prior:   whether the centre knows mean and covariance of x beforehand.
    """
    _refuse_other(missing, Missing, "missing")
    _refuse_other(noise, Noise, "noise")
    roles = _Roles(agents, public, private)
    columns = read_columns(table, [*roles.parameters, *roles.readings])
    readings = np.stack([columns[name] for name in roles.readings], axis=1)
    parameters = np.stack([columns[name] for name in roles.parameters], axis=1)
    complete = _complete_rows(columns, missing)
    readings, parameters = readings[complete], parameters[complete]
    refuse_degenerate(readings, parameters, roles.readings, roles.parameters)
    model = fit_linear(readings, parameters)
    network = _network(roles, model, readings, noise, prior)
    report = _report(roles, network, model, readings, parameters, int(np.sum(~complete)))
    return Calibration(network, report, doubts(report))


class _Roles:
    """Which column plays which part."""

    def __init__(self, agents: Any, public: Any, private: Any) -> None:
        if not isinstance(agents, Mapping) or not agents:
            raise InvalidRequest(
                f'agents: expected agent -> columns, {{"kitchen": ["T1", "RH_1"]}} say, found {agents!r}'
            )
        self.agents = {
            str(agent): _column_list(named, f"agents[{agent!r}]") for agent, named in agents.items()
        }
        as_names(list(agents), "agents", error=InvalidRequest)
        self.public = _groups(public, "public")
        self.private = _groups(private, "private")
        self.readings = [name for named in self.agents.values() for name in named]
        open_columns = [name for named in self.public.values() for name in named]
        closed_columns = [name for named in self.private.values() for name in named]
        self.parameters = list(dict.fromkeys([*open_columns, *closed_columns]))
        self.public_columns = set(open_columns)
        self._refuse_conflicts(set(closed_columns))

    def _refuse_conflicts(self, closed: set[str]) -> None:
        for name in self.readings:
            owners = [agent for agent, named in self.agents.items() if name in named]
            if self.readings.count(name) > 1:
                twice = " and ".join(owners) if len(owners) > 1 else f"{owners[0]} twice"
                raise InvalidRequest(
                    f"agents: the column {name!r} belongs to {twice}; the same number twice has no noise of its own"
                )
            if name in self.public_columns or name in closed:
                role = "public" if name in self.public_columns else "private"
                raise InvalidRequest(
                    f"agents: the column {name!r} is a reading of {owners[0]} and also {role}; as a reading it would "
                    "show that parameter without any noise. If the sensor is what the parameter is known by, "
                    "calibrate against a better reference; otherwise leave it out of one of them"
                )
        both = self.public_columns & closed
        if both:
            raise InvalidRequest(f"private: the column {min(both)!r} is also public; it cannot be both")

    def rows(self, named: Sequence[str]) -> Array:
        """The rows that pick columns out of x."""
        return np.eye(len(self.parameters))[[self.parameters.index(name) for name in named]]


def _groups(given: Any, what: str) -> dict[str, list[str]]:
    if isinstance(given, Mapping):
        groups = {name: _column_list(named, f"{what}[{name!r}]") for name, named in given.items()}
    else:
        groups = {name: [name] for name in _column_list(given, what)}
    if not groups:
        raise InvalidRequest(f"{what}: expected at least one column, found none")
    return groups


def _column_list(given: Any, what: str) -> list[str]:
    named = [given] if isinstance(given, str) else given
    if isinstance(named, Mapping) or not hasattr(named, "__iter__"):
        raise InvalidRequest(f"{what}: expected column names, found {given!r}")
    names = list(named)
    if not names:
        raise InvalidRequest(f"{what}: expected at least one column, found none")
    return list(as_names(names, what, error=InvalidRequest))


def _complete_rows(columns: Mapping[str, Array], missing: Missing) -> np.ndarray[Any, np.dtype[np.bool_]]:
    gaps = {name: np.isnan(values) for name, values in columns.items()}
    incomplete = np.any(np.stack(list(gaps.values())), axis=0)
    if missing == "refuse" and np.any(incomplete):
        worst = max(gaps, key=lambda name: int(np.sum(gaps[name])))
        raise InvalidNetwork(
            f"table: {int(np.sum(incomplete))} of {incomplete.size} rows have missing values (most in the column "
            f'{worst!r}: {int(np.sum(gaps[worst]))}); fill them in, or leave those rows out with missing="drop" '
            "(on the command line: --missing drop)"
        )
    return np.asarray(~incomplete)


def _network(roles: _Roles, model: LinearModel, readings: Array, noise: Noise, prior: bool) -> Network:
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
        resolution=resolution,
    )


def _report(
    roles: _Roles, network: Network, model: LinearModel, readings: Array, parameters: Array, dropped: int
) -> CalibrationReport:
    rows = readings.shape[0]
    residuals = model.residuals
    persistence = lag_one(residuals)
    effective = effective_rows(rows, persistence)
    unseen, drift, folds = held_out(readings, parameters)
    explained = 1.0 - np.sum(residuals**2, axis=0) / np.sum(
        (readings - np.mean(readings, axis=0)) ** 2, axis=0
    )
    skewness, kurtosis = skewness_and_kurtosis(residuals)
    curved, curved_chance = curvature(residuals, parameters, effective)
    unequal, unequal_chance = unequal_noise(residuals, parameters, effective)
    numbers = {
        "explained": explained,
        "held_out": unseen,
        "drift": drift,
        "noise": np.sqrt(np.diag(model.noise)),
        "resolution": np.array([step_of(column) for column in readings.T]),
        "skewness": skewness,
        "kurtosis": kurtosis,
        "normality": normality(skewness, kurtosis, effective),
        "persistence": persistence,
        "independence": ljung_box(residuals),
        "curvature": curved,
        "curvature_chance": curved_chance,
        "unequal": unequal,
        "unequal_chance": unequal_chance,
    }
    owners = [agent for agent, named in roles.agents.items() for _ in named]
    return CalibrationReport(
        rows=rows,
        dropped=dropped,
        effective_rows=float(np.min(effective)),
        folds=folds,
        noise_shrinkage=model.noise_shrinkage,
        prior_shrinkage=model.prior_shrinkage,
        conditions=_conditions(network, parameters, model),
        readings=tuple(
            ReadingReport(name, owners[k], **{key: float(values[k]) for key, values in numbers.items()})
            for k, name in enumerate(roles.readings)
        ),
        parameters=_parameter_reports(roles, parameters),
    )


def _parameter_reports(roles: _Roles, parameters: Array) -> tuple[ParameterReport, ...]:
    rows = parameters.shape[0]
    mean = np.mean(parameters, axis=0)
    centred = parameters - mean
    persistence = lag_one(centred)
    skewness, kurtosis = skewness_and_kurtosis(centred)
    improbable = normality(skewness, kurtosis, effective_rows(rows, persistence))
    is_public = np.array([name in roles.public_columns for name in roles.parameters])
    told = told_by(parameters, parameters[:, is_public])
    return tuple(
        ParameterReport(
            name=name,
            role="public" if is_public[k] else "private",
            mean=float(mean[k]),
            deviation=float(np.std(parameters[:, k], ddof=1)),
            values=int(np.unique(parameters[:, k]).size),
            skewness=float(skewness[k]),
            kurtosis=float(kurtosis[k]),
            normality=float(improbable[k]),
            persistence=float(persistence[k]),
            told=float(told[k]) if not is_public[k] else 1.0,
        )
        for k, name in enumerate(roles.parameters)
    )


def _conditions(network: Network, parameters: Array, model: LinearModel) -> dict[str, float]:
    return {
        "parameters": float(np.linalg.cond(np.corrcoef(parameters, rowvar=False))) if network.L > 1 else 1.0,
        "noises of the readings": _correlation_condition(model.noise),
        "parameters as the readings show them": condition_of_triangle(network.raw_triangle) ** 2,
    }


def _correlation_condition(covariance: Array) -> float:
    deviation = np.sqrt(np.diag(covariance))
    values = np.linalg.eigvalsh(covariance / np.outer(deviation, deviation))
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def _refuse_other(value: Any, allowed: Any, what: str) -> None:
    if value not in get_args(allowed):
        raise InvalidRequest(
            f"{what}: expected one of {', '.join(map(repr, get_args(allowed)))}, found {value!r}"
        )
