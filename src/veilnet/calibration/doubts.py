"""Where the linear Gaussian picture is doubtful, in plain words: what was seen, what it means, what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from veilnet._core.words import join_names
from veilnet.calibration.outliers import Outlier
from veilnet.calibration.report import CalibrationReport, ParameterReport, ReadingReport
from veilnet.model.doubts import Doubt

_One = TypeVar("_One")

# A finding needs both: an effect large enough to matter, and one that chance hardly makes. The probability is
# divided by the number of columns looked at.
_CHANCE = 1e-3
_SKEWED = 0.5
_TAILED = 1.0
_PERSISTENT = 0.2
_SLOW = 0.5
_CURVED = 0.1
_UNEQUAL = 0.1
_DRIFTING = 1.5
_FEW_ROWS_PER_PARAMETER = 10
_FEW_ROWS_PER_READING = 5
_SHRUNK = 0.1
_FEW_VALUES = 5
_EXPLAINED = 0.5
_ILL_CONDITIONED = 1e6
_COARSE = 1.0  # of the noise deviation: up to it, dither of one step was seen to leave the bounds true


def doubts(report: CalibrationReport) -> tuple[Doubt, ...]:
    """A doubt of each kind that was found, empty where there is none."""
    readings, parameters = report.readings, report.parameters
    chance = _CHANCE / max(len(readings), 1)
    found = [
        *_about_outliers(report.outliers),
        *_about_rows(report),
        _about(
            "changing",
            [r for r in readings if r.drift > _DRIFTING],
            lambda r: f"{r.name} ({r.drift:.2g}-fold)",
            "Errors on held-out rows are larger than the fitted noise: {}. Either the relation changes over "
            "time, or rows are too few; promises hold only while it stays as fitted. Calibrate longer, and "
            "again after changes.",
        ),
        _about(
            "not-linear",
            [r for r in readings if r.curvature > _CURVED and r.curvature_chance < chance],
            lambda r: f"{r.name} ({100 * r.curvature:.0f} % of its noise)",
            "Not linear: squares and products of the parameters explain part of the residuals: {}. "
            "An attacker who knows the curve can remove that noise: transform the reading (a logarithm, say), or "
            "calibrate on a smaller range.",
        ),
        _about(
            "unequal-noise",
            [r for r in readings if r.unequal > _UNEQUAL and r.unequal_chance < chance],
            lambda r: r.name,
            "The noise is larger at some values of the parameters than at others: {}. The noise level then "
            "carries information on the parameters, which the bounds ignore.",
        ),
        _about(
            "noise-law",
            [r for r in readings if _far_from_normal(r, chance)],
            lambda r: f"{r.name} (excess kurtosis {r.kurtosis:.2g}, skewness {r.skewness:.2g})",
            "The noise is not Gaussian: {}. For a given covariance, Gaussian noise hides most: an attacker who "
            "knows the true distribution can beat the bounds.",
        ),
        _about(
            "noise-memory",
            [
                r
                for r in readings
                if abs(r.persistence) > _PERSISTENT and r.independence < chance and not _carried(report, r)
            ],
            lambda r: f"{r.name} ({r.persistence:.2f})",
            "The noise is autocorrelated (lag-1 correlation): {}. Promises are for one row and do not hold over "
            "sequences; the effective number of rows is smaller.",
        ),
        *_about_resolution(readings),
        *_about_parameters(parameters, of_streams=_of_streams(report)),
    ]
    return tuple(Doubt(name, sentence) for name, sentence in found if sentence)


def _of_streams(report: CalibrationReport) -> bool:
    return report.stream is not None and report.stream.used


def _carried(report: CalibrationReport, reading: ReadingReport) -> bool:
    """Whether the network is of a stream in which this reading's noise carries over: then promises count it."""
    streams = report.stream if _of_streams(report) else None
    return streams is not None and streams.readings[reading.name].memory > 0


def _about_outliers(outliers: Sequence[Outlier]) -> list[tuple[str, str]]:
    left_out = [one for one in outliers if not one.kept]
    stayed = [one for one in outliers if one.kept]
    return [
        _about(
            "outliers-left-out",
            list(Counter(one.column for one in left_out).items()),
            _counted,
            "Outliers, far beyond everything else in their columns: {}. Their rows were left out of the fit, "
            "and agents clip such readings. If they are real, fit without limits (limits=False, "
            "--no-limits).",
        ),
        _about(
            "outliers-kept",
            list(Counter(one.column for one in stayed).items()),
            _counted,
            "Outliers, credible as readings but far from what the parameters explain: {}. They stayed in the "
            "fit, as noise; inspect these rows (fit shows them) and remove wrong ones.",
        ),
    ]


def _counted(found: tuple[str, int]) -> str:
    """A column and how many values stand alone in it: which and how far is no word for files, since it tells them."""
    column, count = found
    return f"{column} ({count} {'row' if count == 1 else 'rows'})"


def _about_rows(report: CalibrationReport) -> list[tuple[str, str]]:
    found = []
    if report.rows < _FEW_ROWS_PER_PARAMETER * (len(report.parameters) + 1):
        words = (
            f"Few rows: {report.rows} for {len(report.parameters)} parameters. The model, and so every promise, "
            f"is uncertain: calibrate longer."
        )
        found.append(("few-rows", words))
    # noises that are independent are shrunk to be so however many rows there are: no reason to doubt
    if report.noise_shrinkage > _SHRUNK and report.effective_rows < _FEW_ROWS_PER_READING * len(
        report.readings
    ):
        words = (
            "Few rows for so many readings: correlations of the noise were moved "
            f"{100 * report.noise_shrinkage:.0f} % of the way to zero. Shared noise is underestimated: "
            f"calibrate longer."
        )
        found.append(("many-readings", words))
    repeating = [
        f"{name} ({value:.1e})" for name, value in report.conditions.items() if value > _ILL_CONDITIONED
    ]
    found.append(
        _about(
            "ill-conditioned",
            repeating,
            str,
            "Ill-conditioned, with these condition numbers: {}. Some columns are nearly redundant, which "
            "amplifies calibration errors by that much. Leave out redundant ones.",
        )
    )
    return found


def _about_resolution(readings: Sequence[ReadingReport]) -> list[tuple[str, str]]:
    several = {agent for agent, count in Counter(r.agent for r in readings).items() if count > 1}
    # an agent with one reading has no part of it to withhold
    coarse = [r for r in readings if r.agent in several and r.resolution > _COARSE * r.noise]
    return [
        _about(
            "coarse",
            coarse,
            lambda r: f"{r.name} (steps of {r.resolution:.3g}, noise {r.noise:.3g})",
            "Coarse readings: {}. Agents dither each reading by one step, which every promise includes. With "
            "steps larger than the noise this is costly, and an attacker who knows the lattice may learn a few "
            "percent more than the bounds. Use a finer resolution.",
        )
    ]


def _about_parameters(parameters: Sequence[ParameterReport], *, of_streams: bool) -> list[tuple[str, str]]:
    private = [p for p in parameters if p.role == "private"]
    chance = _CHANCE / max(len(parameters), 1)
    return [
        _about(
            "few-values",
            [p for p in parameters if p.values <= _FEW_VALUES],
            lambda p: f"{p.name} ({p.values} values)",
            "Not Gaussian, since it takes only a few values: {}. An attacker who knows the values estimates it, "
            "and correlated parameters, better than promised. Judge such a plan by how often the right value is "
            "guessed, not by an error.",
        ),
        _about(
            "parameter-law",
            [p for p in parameters if p.values > _FEW_VALUES and _far_from_normal(p, chance)],
            lambda p: f"{p.name} (excess kurtosis {p.kurtosis:.2g}, skewness {p.skewness:.2g})",
            "Parameters far from Gaussian: {}. The prior uses mean and variance only; an attacker who knows a "
            "parameter's distribution starts better than the bounds assume.",
        ),
        _about(
            "slow",
            [p for p in parameters if p.persistence > _SLOW and not of_streams],
            lambda p: f"{p.name} ({p.persistence:.2f})",
            "Changes slowly from row to row (lag-1 correlation): {}. An attacker can average over rows; "
            "promises are for one row.",
        ),
        _about(
            "explained-by-public",
            [p for p in private if p.explained_by_public > _EXPLAINED],
            lambda p: f"{p.name} ({100 * p.explained_by_public:.0f} % of its variance)",
            "Private, but the public parameters alone reveal much of it: {}. No sanitization can hide that "
            "part without hiding what is public.",
        ),
    ]


def _far_from_normal(one: ReadingReport | ParameterReport, chance: float) -> bool:
    return one.normality < chance and (abs(one.skewness) > _SKEWED or abs(one.kurtosis) > _TAILED)


def _about(name: str, found: Sequence[_One], shown: Callable[[_One], str], sentence: str) -> tuple[str, str]:
    return name, sentence.format(join_names([shown(one) for one in found])) if found else ""
