"""How good a calibrated model is: one line per reading and per parameter, and a few numbers for the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from veilnet._core.words import in_columns, plus_minus
from veilnet.calibration.intervals import FreePrivacy
from veilnet.calibration.outliers import Outlier, worst_of_each
from veilnet.calibration.stream_report import StreamReport
from veilnet.calibration.timeline import TimeReport

_One = TypeVar("_One")


@dataclass(frozen=True)
class ReadingReport:
    """One reading against the model.

    name:            its column in the table.
    agent:           who reads it.
    explained:       R² in the fit: the part of the reading's variance that x explains.
    held_out:        R² on contiguous blocks of rows the fit had not seen; may be negative.
    drift:           mean square error on those blocks against the fitted noise variance; 1 is steady.
    noise:           deviation of the reading given x, from R.
    widened:         by how much its noise variance was raised for what so few rows leave uncertain; 1 is not at all.
    lowest, highest: credible limits proposed for it (infinite where none were asked for).
    resolution:      step of the lattice its values lie on; 0 where there is none.
    skewness, kurtosis, normality: of the residuals; excess kurtosis; probability under normality.
    persistence, independence:     lag-1 correlation of the residuals; probability under independent rows.
    curvature:       part of the noise variance that squares and products of parameters explain.
    curvature_chance, unequal_chance: how probable such a part is by chance.
    unequal:         part of the variance of squared residuals that the parameters explain.
    """

    name: str
    agent: str
    explained: float
    held_out: float
    drift: float
    noise: float
    widened: float
    lowest: float
    highest: float
    resolution: float
    skewness: float
    kurtosis: float
    normality: float
    persistence: float
    independence: float
    curvature: float
    curvature_chance: float
    unequal: float
    unequal_chance: float


@dataclass(frozen=True)
class ParameterReport:
    """One entry of x.

    name:        its column in the table.
    role:        "public" or "private".
    mean, deviation: of the column.
    values:      how many different values the column takes.
    skewness, kurtosis, normality: of the column; excess kurtosis; probability under normality.
    persistence: its lag-1 correlation.
    explained_by_public: for a private parameter, the part of its variance that the public ones explain.
    """

    name: str
    role: str
    mean: float
    deviation: float
    values: int
    skewness: float
    kurtosis: float
    normality: float
    persistence: float
    explained_by_public: float


@dataclass(frozen=True)
class CalibrationReport:
    """Everything :func:`veilnet.calibration.fitting.fit_report` found out about its model.

    rows, dropped:  rows of the fit, and rows left out for missing values.
    time:           what the times of the rows show, None where no column of times was given.
    stream:         how rows follow one another, None where that is not known.
    promises:       private name -> the privacy that is free, with an interval for it.
    effective_rows: what the rows are worth as independent ones, by the most persistent residual.
    repeated:       readings that have one value suspiciously often or long, a sentence each.
    groups:         how many groups the rows fall into, None where nobody said.
    over_groups:    private name -> the error that the messages of one row leave, and those of a whole group in which
                    it stays constant, when agents send what is free.
    folds:          contiguous blocks of the held-out test.
    noise_shrinkage, prior_shrinkage: how far correlations were moved to zero, 0 to 1.
    conditions:     condition numbers, units removed, of the parameters' correlation, of the noise
                    correlation, and of the raw information.
    outliers:       values that stand alone: those left out of the fit with their rows, and those that stayed.
    readings:       one report for each reading, agent by agent.
    parameters:     one report for each entry of x.
    notes:          how columns were read that were not plain numbers: categories, decimal commas.
    """

    rows: int
    dropped: int
    time: TimeReport | None
    stream: StreamReport | None
    promises: Mapping[str, FreePrivacy]
    effective_rows: float
    folds: int
    noise_shrinkage: float
    prior_shrinkage: float
    conditions: Mapping[str, float]
    outliers: tuple[Outlier, ...]
    readings: tuple[ReadingReport, ...]
    parameters: tuple[ParameterReport, ...]
    notes: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    groups: int | None = None
    over_groups: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        left_out = f" ({self.dropped} left out for missing values)" if self.dropped else ""
        lines = [
            f"{self.rows} rows{left_out}{'' if self.groups is None else f' in {self.groups} groups'}, worth about "
            f"{self.effective_rows:.0f} independent ones; cross-validated on {self.folds} "
            f"{'contiguous blocks' if self.groups is None else 'blocks of whole groups'}.",
            *self._promised(),
            *([] if self.time is None else [str(self.time)]),
            *(f"{note}." for note in self.notes),
            "",
            *_table(_OF_READINGS, self.readings),
            "",
            *_table(_OF_PARAMETERS, self.parameters),
            *([] if self.stream is None else ["", str(self.stream)]),
        ]
        doubtful = [*worst_of_each(self.outliers), *self.repeated]
        return "\n".join([*lines, "", *doubtful] if doubtful else lines)

    def details(self) -> str:
        """How well conditioned the fit is, what was shrunk, and by how much noise was raised."""
        return "\n".join(
            [
                "Condition numbers: "
                + ", ".join(f"{name} {value:.3g}" for name, value in self.conditions.items())
                + ".",
                "Shrinkage of correlations (0 none, 1 complete): "
                f"noise {self.noise_shrinkage:.2g}, prior {self.prior_shrinkage:.2g}.",
                f"Noise variances include {_span([r.widened for r in self.readings])} for the sampling error of "
                f"{self.effective_rows:.0f} effective rows.",
            ]
        )

    def _promised(self) -> list[str]:
        """What is free of each private parameter; and of rows in groups, for a row and for a whole group."""
        of_groups = [
            f"{name}: the free plan leaves {plus_minus(once)} in one row, and {plus_minus(often)} over a whole group "
            "of constant x."
            for name, (once, often) in self.over_groups.items()
        ]
        # Of two values an error says little: plans tell how surely they are distinguished.
        two_valued = {each.name for each in self.parameters if each.values == 2}
        free = {name: one for name, one in self.promises.items() if name not in two_valued}
        return [*(f"{name}: standard error {one}." for name, one in free.items()), *of_groups]


# heading -> what stands below it
_OF_READINGS: dict[str, Callable[[ReadingReport], str]] = {
    "reading": lambda r: r.name,
    "agent": lambda r: r.agent,
    "R²": lambda r: f"{r.explained:.3f}",
    "held out": lambda r: f"{r.held_out:.3f}",
    "noise": lambda r: f"{r.noise:.3g}",
    "credible": lambda r: f"{r.lowest:.4g}..{r.highest:.4g}" if np.isfinite(r.lowest) else "any",
    "step": lambda r: f"{r.resolution:.3g}" if r.resolution else "none",
    "skew": lambda r: _signed(r.skewness),
    "kurtosis": lambda r: _signed(r.kurtosis),
    "lag 1": lambda r: _signed(r.persistence),
}
_OF_PARAMETERS: dict[str, Callable[[ParameterReport], str]] = {
    "parameter": lambda p: p.name,
    "role": lambda p: p.role,
    "mean": lambda p: f"{p.mean:.4g}",
    "deviation": lambda p: f"{p.deviation:.3g}",
    "values": lambda p: str(p.values),
    "kurtosis": lambda p: _signed(p.kurtosis),
    "lag 1": lambda p: _signed(p.persistence),
    "from public": lambda p: f"{100 * p.explained_by_public:.0f} %" if p.role == "private" else "",
}


def _table(columns: Mapping[str, Callable[[_One], str]], rows: Sequence[_One]) -> list[str]:
    return in_columns(
        [tuple(columns), *(tuple(cell(row) for cell in columns.values()) for row in rows)], left=2
    )


def _span(factors: Sequence[float]) -> str:
    least, most = (f"{100 * (end(factors) - 1):.2g} %" for end in (min, max))
    return least if least == most else f"{least} to {most}"


def _signed(value: float) -> str:
    return f"{value + 0.0:.2f}"
