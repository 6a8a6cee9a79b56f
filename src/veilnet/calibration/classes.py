"""A parameter with few values: how well do messages tell them apart?

A mean square error says little about somebody being there or not: with presence in a fifth of the rows, an error that
is 4 % below guessing can mean that seven of ten pairs of moments are distinguished. Three measures are taken instead,
on the probabilities an attacker gives to each value:

* *AUC*: of two moments of the same stretch of time, one with the value and one without, how often the one with it
  gets the higher probability; the mean over values. 0.5 is guessing. Comparing within a stretch leaves out slow
  drifts of level.
* *balanced accuracy*: how often the value is named, the mean over values; guessing names one in as many as there are.
* *bits*: by how many bits a row the truth is less surprising than to somebody who knows only how frequent values are.

The plan promises a mean square error m, of a model in which everything is normal. There, messages say as much about a
g with variance S as one number g + e does, e normal with variance Sm/(S - m); :func:`allowed_measures` reads the
promise as the measures of that number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from veilnet._core.types import Array, Booleans, Integers
from veilnet.calibration.dependence import Mean, independent_rows, mean_of
from veilnet.calibration.stretches import Stretch

MOST_VALUES = 6
_FEWEST_ROWS = 20  # of each value
_LEAST = 1e-3  # probability; less counts as this
MEASURES = ("AUC", "balanced accuracy", "bits")
RATES = ("AUC", "balanced accuracy")  # lie between 0 and 1
SHARES = {"AUC": 0.5, "balanced accuracy": 0.25, "bits": 0.25}  # of a row's chance of a false alarm


@dataclass(frozen=True, eq=False)
class Classes:
    """The values of a parameter: ``values`` in order, and which one each row has."""

    values: Array
    rows: Integers

    @property
    def parts(self) -> Array:
        """Which part of the rows has each value."""
        return np.asarray(np.bincount(self.rows, minlength=len(self.values)) / len(self.rows))


def classes_of(truth: Array) -> Classes | None:
    """The values of a parameter with one row of 2 to 6 values, each seen often enough; None for any other."""
    if truth.shape[1] != 1:
        return None
    values, rows, counts = np.unique(truth[:, 0], return_inverse=True, return_counts=True)
    if not 2 <= len(values) <= MOST_VALUES or np.min(counts) < _FEWEST_ROWS:
        return None
    return Classes(values, np.asarray(rows))


def measured(classes: Classes, probabilities: Array, stretches: list[Stretch]) -> dict[str, Mean]:
    """The three measures of an attacker's probabilities (T, values), each with its error.

    A value that comes in a few long spells is worth as few rows, however often an attacker is right within each. How
    many that is, autocorrelations overrate now and then where spells are few: it is never more than how often the
    value comes or goes.
    """
    present = [(classes.rows == value).astype(float) for value in range(len(classes.values))]
    worth = min(min(independent_rows(each), 1.0 + np.count_nonzero(np.diff(each))) for each in present)
    return {
        "AUC": mean_of(_areas(classes, probabilities, stretches), worth=worth),
        "balanced accuracy": mean_of(_accuracies(classes, probabilities), worth=worth),
        "bits": mean_of(_bits(classes, probabilities), skewed=True, worth=worth),
    }


def if_it_were(found: Mean, promised: float) -> Mean:
    """A rate between 0 and 1 with the error it would have at the promised one: near 1 it seems too precise."""
    inside = max(found.value * (1.0 - found.value), np.finfo(float).tiny)
    return replace(found, error=found.error * max(1.0, float(np.sqrt(promised * (1.0 - promised) / inside))))


def best_interval(found: Mean, tried: int, level: float = 0.95) -> tuple[float, float]:
    """Where the true AUC of the best of so many detectors lies.

    None judged wrongly leaves no spread, and yet no certainty: half an error among independent rows is possible.
    """
    careful = replace(found, error=max(found.error, 0.5 / found.effective))
    low, high = careful.interval(1.0 - (1.0 - level) / tried)
    return float(np.clip(low, 0.0, found.value)), float(np.clip(high, found.value, 1.0))


def roc(classes: Classes, probabilities: Array) -> list[list[float]]:
    """(false alarms, hits) over all thresholds of the probability of the last value, at most 50 points."""
    here = classes.rows == len(classes.values) - 1
    order = np.argsort(-probabilities[:, -1], kind="stable")
    ends = np.append(np.flatnonzero(np.diff(probabilities[order, -1])), len(order) - 1)  # ties go together
    hits, alarms = np.cumsum(here[order])[ends] / here.sum(), np.cumsum(~here[order])[ends] / (~here).sum()
    at = np.unique(np.linspace(0, len(ends) - 1, 49).astype(int))
    return [[0.0, 0.0], *([float(alarms[k]), float(hits[k])] for k in at)]


def guessed(classes: Classes) -> dict[str, float]:
    """The measures of somebody who guesses."""
    return {"AUC": 0.5, "balanced accuracy": 1.0 / len(classes.values), "bits": 0.0}


def allowed_measures(classes: Classes, part: float) -> dict[str, float]:
    """The measures of g + e, where its best estimate leaves ``part`` of the variance of g."""
    if part >= 1.0 - 1e-9:
        return guessed(classes)
    values, parts = classes.values, classes.parts
    mean = float(parts @ values)
    spread = float(parts @ (values - mean) ** 2)
    deviation = float(np.sqrt(spread * max(part, 1e-9) / (1.0 - part)))
    grid = np.linspace(values[0] - 8 * deviation, values[-1] + 8 * deviation, 20_001)
    density = np.exp(-0.5 * ((grid[:, None] - values) / deviation) ** 2)
    masses = density / np.sum(density, axis=0)  # (grid, values), each adds up to one
    joint = masses * parts
    total = np.maximum(np.sum(joint, axis=1), np.finfo(float).tiny)
    posterior = joint / total[:, None]
    areas = [
        _area_of_masses(posterior[:, k], masses[:, k], (total - joint[:, k]) / (1 - parts[k]))
        for k in range(len(values))
    ]
    named = np.argmax(masses, axis=1)
    accuracy = np.mean([np.sum(masses[named == k, k]) for k in range(len(values))])
    bits = np.sum(joint * np.log2(np.maximum(posterior, np.finfo(float).tiny) / parts))
    return {"AUC": float(np.mean(areas)), "balanced accuracy": float(accuracy), "bits": float(bits)}


def _area_of_masses(score: Array, mine: Array, others: Array) -> float:
    order = np.argsort(score, kind="stable")
    below = np.cumsum(others[order]) - 0.5 * others[order]
    return float(np.sum(mine[order] * below))


def _areas(classes: Classes, probabilities: Array, stretches: list[Stretch]) -> Array:
    """Values per row whose mean is the AUC within stretches, linearised (DeLong, DeLong and Clarke-Pearson, 1988)."""
    one = [
        _area_of(classes.rows == value, probabilities[:, value], stretches)
        for value in range(len(classes.values))
    ]
    found = [each for each in one if each is not None]
    return np.mean(found, axis=0) if found else np.full(len(classes.rows), 0.5)


def _area_of(mine: Booleans, score: Array, stretches: list[Stretch]) -> Array | None:
    count = len(mine)
    areas, weights, strays = [], [], []
    for stretch in stretches:
        own = mine[stretch.judged]
        positive, size = int(np.sum(own)), len(own)
        if positive in (0, size):
            continue
        ranks = _ranks(score[stretch.judged])
        within = np.empty(size)
        within[own] = (ranks[own] - _ranks(score[stretch.judged][own])) / (size - positive)
        within[~own] = 1.0 - (ranks[~own] - _ranks(score[stretch.judged][~own])) / positive
        area = float(np.mean(within[own]))
        areas.append(area)
        weights.append(positive * (size - positive) / size)
        strays.append((stretch.judged, (within - area) / np.where(own, positive / size, 1 - positive / size)))
    if not areas:
        return None
    whole = float(np.average(areas, weights=weights))
    values = np.full(count, whole)
    for area, weight, (judged, stray) in zip(areas, weights, strays, strict=True):
        values[judged] += count * weight / (len(judged) * float(np.sum(weights))) * (stray + area - whole)
    return values


def _ranks(values: Array) -> Array:
    """From 1 up, equal values the mean of theirs: that of scipy.stats, which takes longer to load than to rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def _accuracies(classes: Classes, probabilities: Array) -> Array:
    right = np.argmax(probabilities / classes.parts, axis=1) == classes.rows
    parts = classes.parts
    rates = np.array([np.mean(right[classes.rows == k]) for k in range(len(parts))])
    stray = (right - rates[classes.rows]) / (len(parts) * parts[classes.rows])
    return np.asarray(np.mean(rates) + stray)


def _bits(classes: Classes, probabilities: Array) -> Array:
    given = np.maximum(probabilities[np.arange(len(classes.rows)), classes.rows], _LEAST)
    return np.asarray(np.log2(given / classes.parts[classes.rows]))
