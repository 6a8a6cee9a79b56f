"""A network from calibration data: a table of readings beside what they depend on.

x is the public and the private columns. What each reading shows of them (H), what it shows at x = 0 (the
offset) and the joint noise R come from least squares; mean and covariance of x become the prior. The lattice that
the values of a reading lie on is its resolution. The report says how far the data are from the linear Gaussian
picture on which every promise rests.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from shlex import quote
from typing import Any, ParamSpec, get_args

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.spelling import names_keywords
from veilnet._core.types import Array
from veilnet.bounds.typical_errors import typical_errors
from veilnet.calibration.assessment import assess
from veilnet.calibration.building import Builder, Noise
from veilnet.calibration.doubts import doubts
from veilnet.calibration.held_out_errors import held_out_errors
from veilnet.calibration.linear_model import LinearModel, fit_linear, refuse_degenerate
from veilnet.calibration.log_detectors import learning_doubts, log_aucs
from veilnet.calibration.outliers import Outlier, beyond_limits, outliers
from veilnet.calibration.predictive import Widening, widening
from veilnet.calibration.promises import fitted_promises
from veilnet.calibration.report import CalibrationReport
from veilnet.calibration.roles import Roles
from veilnet.calibration.rows import Missing, Rows, read_rows, unused_time_column
from veilnet.calibration.secrets import columns_of_classes, with_changes
from veilnet.calibration.stream_model import FittedStream, fit_stream, held_out_gain
from veilnet.calibration.stream_report import StreamReport, stream_report
from veilnet.model.doubts import Doubt
from veilnet.model.fitted import marks_of
from veilnet.model.network import Network

Columns = Mapping[str, Sequence[str] | str] | Sequence[str] | str
_Question = ParamSpec("_Question")


_FEWEST_ROWS = 20  # for each parameter, below which there is no saying how rows follow one another
_NOT_IN_ORDER = (
    "The column {0!r} looks like a time, but was not used: rows were taken to be in order, without gaps. "
    "Say time={0!r} (on the command line: --time {1})."
)


_LONGEST_COLUMN = 60  # characters of a column's name that a doubt repeats


class DoubtfulModel(UserWarning):
    """The data do not look as the linear Gaussian model says; the message tells how, and what it means."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A network made from data, how good it is, and where it is doubtful.

    network:  the model; its ``doubts`` say what is doubtful about it.
    report:   how well it describes the data, reading by reading and parameter by parameter.
    residuals: reading -> (fitted values, residuals in deviations of its noise), for plots.
    """

    network: Network
    report: CalibrationReport
    residuals: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the network, a sentence or two each."""
        return tuple(doubt.words for doubt in self.network.doubts)

    def __str__(self) -> str:
        return "\n".join([str(self.report), *(f"\n- {sentence}" for sentence in self.warnings)])


@names_keywords
def fit_report(
    table: Any,
    agents: Mapping[str, Sequence[str] | str],
    public: Columns,
    private: Columns,
    *,
    time: str | None = None,
    stream: bool | None = None,
    missing: Missing = "refuse",
    noise: Noise = "joint",
    prior: bool = True,
    limits: bool = True,
    predictive: bool = True,
    changes: Mapping[str, Any] | None = None,
    group: str | None = None,
) -> Calibration:
    """A network from calibration data, how well it describes them, and where it is doubtful.

    table:   name -> column, a pandas or polars frame, a structured array, or the path of a CSV, Parquet, Feather or
             Excel file.
    agents:  agent -> the columns it reads.
    public:  columns that may be known; or name -> columns, to give several one name.
    private: columns that must not, likewise.
    time:    the column that tells when a row was measured: dates and times of day, or seconds. Rows are put in its
             order, and only rows one step apart count as neighbours; where nine of ten keep to it, the network knows
             the step. Without it rows are taken to be in order.
    stream:  whether the network has dynamics and noise that carries over from row to row
             (:mod:`veilnet.calibration.stream_model`). None: where ``time`` is given and unseen rows favour it
             beyond doubt. False: a network of single rows.
    missing: "refuse" a table with missing values, or "drop" the rows that have any.
    noise:   "joint", or "independent" where agents are known to share no noise.
    prior:   whether the centre knows mean and covariance of x beforehand.
    limits:  whether to propose credible limits of the readings (:mod:`veilnet.calibration.limits`), beyond which an
             agent sends nothing. Rows with a value beyond them are named, and left out of the fit.
    predictive: whether noise and prior are widened by what so many rows leave uncertain
             (:mod:`veilnet.calibration.predictive`), so that stated errors hold on unseen rows, and what blocks
             held out of the fit show beyond the model is kept (:mod:`veilnet.calibration.held_out_errors`).
    changes: private name -> the change of it that must stay hidden, or (change, how long it lasts):
             ``{"people": (1, "1h")}`` makes it a :class:`veilnet.Secret`. A column of two values is one by itself,
             their distance its change. ``{"activity": "classes"}``: a column for each of its values but the last, and
             any move from one to another must stay hidden.
    group:   the column whose values tell which rows belong together (a person, a session, a day): rows of one
             resemble each other, those of different ones do not. Intervals, held-out rows and what rows are worth
             then go by whole groups, and nothing carries over from one to the next.

    Where a private parameter takes a few values, detectors learn to tell them apart in these rows
    (:mod:`veilnet.calibration.log_detectors`), and the network keeps how well (``log_aucs``).
    Correlations are shrunk where rows are few (:mod:`veilnet.calibration.shrinkage`).
    """
    _refuse_other(missing, Missing, "missing")
    _refuse_other(noise, Noise, "noise")
    _refuse_stream_without_time(stream, time, prior=prior)
    roles = Roles(agents, public, columns_of_classes(table, private, changes))
    rows = read_rows(table, roles, missing, time, group)
    refuse_degenerate(rows.readings, rows.parameters, roles.readings, roles.parameters)
    left_out: tuple[Outlier, ...] = ()
    if limits:
        rows, left_out = _credible(rows, roles)
        refuse_degenerate(rows.readings, rows.parameters, roles.readings, roles.parameters)
    builder = Builder(roles, rows.readings, noise, prior=prior, limits=limits)
    model = builder.rounded(fit_linear(rows.readings, rows.parameters))
    moving = fit_stream(model, rows, builder.joint)
    wider = widening(model, moving, builder.asked, prior=prior) if predictive else Widening.none(model)
    stated = wider.of_model(model)
    network, streams = _network(builder, stated, wider.of_stream(moving), rows, stream)
    promises = fitted_promises(builder, network, model, moving, rows)
    report = assess(roles, network, stated, rows, left_out, streams, wider, promises)
    doubtful = doubts(report)
    unused = None if time is not None or group is not None else unused_time_column(table, roles)
    if unused is not None:
        column = unused[:_LONGEST_COLUMN]
        typed = quote(column) if column.isprintable() else repr(column)
        doubtful = (Doubt("time-unused", _NOT_IN_ORDER.format(column, typed)), *doubtful)
    described = network.replace(
        private=with_changes(network.private, rows.parameters, changes),
        step=None if rows.time is None else rows.time.stated,
        doubts=doubtful,
        fitted_rows=marks_of(rows.readings),
        held_out=held_out_errors(builder, network, model, moving, wider, rows) if predictive else None,
    )
    if len(described.public) > 1:  # °C² and kW² do not add up: each counts in its own raw error
        errors = typical_errors(described).values()
        described = described.replace(
            public_scales={each.name: each.raw for each in errors if not each.private}
        )
    found = log_aucs(described, rows)
    doubtful = (*doubtful, *learning_doubts(described, found, rows))
    unit = np.sqrt(np.diag(model.noise))
    residuals = {
        name: (rows.readings[:, k] - model.residuals[:, k], model.residuals[:, k] / unit[k])
        for k, name in enumerate(roles.readings)
    }
    return Calibration(described.replace(log_aucs=found, doubts=doubtful), report, residuals)


def _network_of(report: Callable[_Question, Calibration]) -> Callable[_Question, Network]:
    """The same question, answered by the network alone; what is doubtful is warned about."""

    @wraps(report)
    def fit(*table: _Question.args, **options: _Question.kwargs) -> Network:
        made = report(*table, **options)
        for sentence in made.warnings:
            warnings.warn(sentence, DoubtfulModel, stacklevel=2)
        return made.network

    fit.__name__ = fit.__qualname__ = "fit"
    fit.__signature__ = signature(report).replace(return_annotation="Network")  # type: ignore[attr-defined]
    summary = "A network from calibration data; warns (:class:`DoubtfulModel`) where the model is doubtful."
    fit.__doc__ = summary + str(report.__doc__)[str(report.__doc__).index("\n") :]
    return fit


fit = _network_of(fit_report)
"""A network from calibration data, asked for as of :func:`fit_report`; warns (:class:`DoubtfulModel`) where the model
is doubtful."""


def _credible(rows: Rows, roles: Roles) -> tuple[Rows, tuple[Outlier, ...]]:
    """The rows in which everything is credible, and what was not in the others."""
    columns = np.concatenate([rows.readings, rows.parameters], axis=1)
    alone = beyond_limits(columns)
    named = [*roles.readings, *roles.parameters]
    return rows.take(~np.any(alone, axis=1)), outliers(columns, alone, named, rows.numbers, kept=False)


def _network(
    builder: Builder, model: LinearModel, found: FittedStream, rows: Rows, stream: bool | None
) -> tuple[Network, StreamReport | None]:
    """The network, of a stream where asked for or warranted, and what is to be said about streams."""
    if rows.time is None or not builder.prior or len(rows) < _FEWEST_ROWS * (model.mean.size + 1):
        return builder.network(model), None
    gain = held_out_gain(rows, builder.joint)
    used = gain.warranted if stream is None else stream
    moving = builder.network(model, found)
    return moving if used else builder.network(model), stream_report(moving, found, gain, used=used)


def _refuse_stream_without_time(stream: Any, time: str | None, *, prior: bool) -> None:
    if stream not in (None, True, False):
        raise InvalidRequest(f"stream: expected True, False or None (where warranted), found {stream!r}")
    if stream and (time is None or not prior):
        missing = "time= (on the command line: --time), which tells which rows follow one another"
        raise InvalidRequest(
            f"stream: a stream needs {missing if time is None else 'a prior; leave out prior=False'}"
        )


def _refuse_other(value: Any, allowed: Any, what: str) -> None:
    if value not in get_args(allowed):
        raise InvalidRequest(
            f"{what}: expected one of {', '.join(map(repr, get_args(allowed)))}, found {value!r}"
        )
