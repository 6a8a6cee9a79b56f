"""How well a fitted model describes its data: the numbers of the report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.linalg import condition_of_triangle
from veilnet._core.types import Array, Integers
from veilnet.calibration.checks import (
    curvature,
    explained_by,
    held_out,
    ljung_box,
    normality,
    skewness_and_kurtosis,
    unequal_noise,
)
from veilnet.calibration.intervals import FreePrivacy
from veilnet.calibration.linear_model import LinearModel
from veilnet.calibration.outliers import Outlier, far_from_explained, outliers, stays_at_one_value
from veilnet.calibration.predictive import Widening
from veilnet.calibration.promises import over_groups
from veilnet.calibration.report import CalibrationReport, ParameterReport, ReadingReport
from veilnet.calibration.roles import Roles
from veilnet.calibration.rows import Rows
from veilnet.calibration.shrinkage import effective_rows, lag_one, worth_of_groups
from veilnet.calibration.stream_report import StreamReport
from veilnet.model.lattice import step_of
from veilnet.model.network import Network


def assess(
    roles: Roles,
    network: Network,
    model: LinearModel,
    rows: Rows,
    left_out: tuple[Outlier, ...],
    stream: StreamReport | None,
    wider: Widening,
    promises: Mapping[str, FreePrivacy],
) -> CalibrationReport:
    """The report on a model fitted to rows, as it is stated, and on the network made of it.

    left_out: outliers that are not among the rows; stream: what is known of how rows follow one another; wider: what
    the model was widened by; promises: what the network promises.
    """
    readings, parameters = rows.readings, rows.parameters
    residuals = model.residuals
    persistence = lag_one(residuals, rows.segments)
    effective = effective_rows(len(rows), persistence)
    if rows.groups is not None:
        effective = np.minimum(effective, worth_of_groups(residuals, rows.groups))
    if stream is not None:
        effective = np.minimum(effective, _worth(len(rows), stream))
    unseen, drift, folds = held_out(readings, parameters, rows.groups)
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
        "widened": wider.noise**2,
        "lowest": network.stacked_limits[0],
        "highest": network.stacked_limits[1],
        "resolution": np.array([step_of(column) for column in readings.T]),
        "skewness": skewness,
        "kurtosis": kurtosis,
        "normality": normality(skewness, kurtosis, effective),
        "persistence": persistence,
        "independence": ljung_box(residuals, rows.segments),
        "curvature": curved,
        "curvature_chance": curved_chance,
        "unequal": unequal,
        "unequal_chance": unequal_chance,
    }
    owners = [agent for agent, named in roles.agents.items() for _ in named]
    return CalibrationReport(
        rows=len(rows),
        dropped=rows.dropped,
        time=rows.time,
        stream=stream,
        promises=promises,
        effective_rows=float(np.min(effective)),
        groups=None if rows.groups is None else int(rows.groups.max()) + 1,
        over_groups={}
        if rows.groups is None
        else over_groups(network, int(np.median(np.bincount(rows.groups)))),
        folds=folds,
        noise_shrinkage=model.noise_shrinkage,
        prior_shrinkage=model.prior_shrinkage,
        conditions={
            "parameters": float(np.linalg.cond(np.corrcoef(parameters, rowvar=False)))
            if network.L > 1
            else 1.0,
            "noise": _correlation_condition(model.noise),
            "raw information": condition_of_triangle(network.raw_triangle) ** 2,
        },
        outliers=(
            *left_out,
            *outliers(residuals, far_from_explained(residuals), roles.readings, rows.numbers, kept=True),
        ),
        readings=tuple(
            ReadingReport(name, owners[k], **{key: float(values[k]) for key, values in numbers.items()})
            for k, name in enumerate(roles.readings)
        ),
        parameters=_parameter_reports(roles, parameters, rows.segments),
        notes=rows.notes,
        repeated=tuple(stays_at_one_value(readings, roles.readings, rows.segments)),
    )


def _worth(rows: int, stream: StreamReport) -> Array:
    """What rows are worth as independent ones for a mean when part of the noise carries over and part does not."""
    memory = np.array([one.memory for one in stream.readings.values()])
    floor = np.array([one.floor for one in stream.readings.values()])
    return np.asarray(np.maximum(rows / (1.0 + 2.0 * (1.0 - floor) * memory / (1.0 - memory)), 1.0))


def _parameter_reports(roles: Roles, parameters: Array, segments: Integers) -> tuple[ParameterReport, ...]:
    rows = parameters.shape[0]
    mean = np.mean(parameters, axis=0)
    centred = parameters - mean
    persistence = lag_one(centred, segments)
    skewness, kurtosis = skewness_and_kurtosis(centred)
    improbable = normality(skewness, kurtosis, effective_rows(rows, persistence))
    is_public = np.array([name in roles.public_columns for name in roles.parameters])
    by_public = explained_by(parameters, parameters[:, is_public])
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
            explained_by_public=float(by_public[k]) if not is_public[k] else 1.0,
        )
        for k, name in enumerate(roles.parameters)
    )


def _correlation_condition(covariance: Array) -> float:
    deviation = np.sqrt(np.diag(covariance))
    values = np.linalg.eigvalsh(covariance / np.outer(deviation, deviation))
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf
