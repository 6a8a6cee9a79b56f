"""What an agent sends, in terms of its readings: a square for each part of each number.

The side of a square tells how much of a number a reading moves: its coefficient times the deviation of the reading,
beside the largest one in the number. Filled squares add, hollow ones subtract.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network
from veilnet.report.html import Html, shown, table
from veilnet.report.svg import label, line, picture, square
from veilnet.review.filter_response import fading, unrolled
from veilnet.review.inspection import Exposure, inspect

MOST_READINGS = 12
MOST_NUMBERS = 6
_ROW, _COLUMN, _TOP = 26.0, 40.0, 44.0
_LEFT, _RIGHT = 128.0, 92.0
_LEAST = 1e-9  # of the largest part: smaller ones are rounding
_CHARACTERS = 18  # of a reading's name that fit at the left


@dataclass(frozen=True, eq=False)
class AgentPicture:
    """The numbers of one agent, row by row of C_i, and what can be recovered of each reading.

    weights:   (numbers, readings) coefficients times deviations, each number beside its largest.
    noise:     deviation of each number's own noise, 0 where it is sent exactly.
    exposures: what can be recovered of each reading from what this agent sends.
    left_out:  how many readings, and how many numbers, are too many to be shown.
    later:     with a memory, in how many later rows a reading still shows; None without.
    """

    agent: str
    coefficients: Array
    weights: Array
    noise: Array
    exposures: tuple[Exposure, ...]
    left_out: tuple[int, int]
    later: int | None


def sending_of(network: Network, agent: str, sanitizer: Sanitizer) -> AgentPicture:
    """What one agent sends, the readings that weigh most first where there are too many."""
    plain = sanitizer if sanitizer.memory is None else unrolled(sanitizer)
    moved = plain.compression * _deviations(network, agent)
    largest = np.max(np.abs(moved), axis=1, initial=0.0, keepdims=True)
    weights = moved / np.where(largest > 0, largest, 1.0)
    readings = np.sort(
        np.argsort(-np.max(np.abs(weights), axis=0, initial=0.0), kind="stable")[:MOST_READINGS]
    )
    numbers = np.arange(min(len(weights), MOST_NUMBERS))
    exposures = inspect(sanitizer).exposures
    return AgentPicture(
        agent,
        plain.compression[np.ix_(numbers, readings)],
        weights[np.ix_(numbers, readings)],
        np.sqrt(np.maximum(np.diag(plain.noise), 0.0))[numbers],
        tuple(exposures[int(place)] for place in readings),
        (sanitizer.readings - len(readings), len(weights) - len(numbers)),
        None if sanitizer.memory is None else fading(sanitizer),
    )


def _deviations(network: Network, agent: str) -> Array:
    """Of each reading, from one row to another: what x does to it where a prior tells, and noise."""
    place = network.position[agent]
    variances = np.diag(network.R.block(place)).copy()
    if network.prior is not None and network.prior.covariance is not None:
        observe = network.observe[agent]
        variances += np.sum((observe @ network.prior.covariance) * observe, axis=1)
    return np.asarray(np.sqrt(variances))


def sending_picture(sending: AgentPicture) -> Html:
    """Readings from top to bottom, numbers from left to right, and at the right what can be recovered."""
    numbers, readings = sending.weights.shape
    width = _LEFT + _COLUMN * max(numbers, 1) + _RIGHT
    end = _LEFT + _COLUMN * max(numbers, 1)
    marks = []
    for column in range(numbers):
        middle = _LEFT + _COLUMN * (column + 0.5)
        noisy = sending.noise[column] > 0
        marks.append(label(middle, 16, f"no. {column + 1}", anchor="middle", class_="small strong"))
        marks.append(label(middle, 32, "noisy" if noisy else "exact", anchor="middle", class_="small"))
    marks.append(label(end + 8, 32, "the centre gets", class_="small"))
    for row, exposure in enumerate(sending.exposures):
        y = _TOP + _ROW * (row + 0.5)
        marks.append(line(8, y + _ROW / 2, width, y + _ROW / 2, "grid"))
        marks.append(label(_LEFT - 10, y + 4.5, shown(exposure.reading, most=_CHARACTERS), anchor="end"))
        marks += [
            square(_LEFT + _COLUMN * (column + 0.5), y, float(sending.weights[column, row]), _ROW - 6)
            for column in range(numbers)
            if abs(sending.weights[column, row]) >= _LEAST
        ]
        marks.append(label(end + 8, y + 4.5, exposure.recoverable, class_="small"))
    return picture(_title(sending), width, _TOP + _ROW * readings + 6, marks, key=sending.agent)


def _title(sending: AgentPicture) -> str:
    kinds = ["with noise" if noise > 0 else "exactly" for noise in sending.noise]
    parts = [f"number {place + 1} {kind}" for place, kind in enumerate(kinds)]
    recovered = [f"{shown(each.reading)}: {each.recoverable}" for each in sending.exposures]
    sent = ", ".join(parts) or "nothing"
    return f"What {shown(sending.agent)} sends: {sent}. The centre gets of {'; '.join(recovered)}."


def sending_table(sending: AgentPicture) -> Html:
    """Coefficients as they are, the noise of each number below."""
    columns = [
        "reading",
        *(f"in number {k + 1}" for k in range(len(sending.weights))),
        "the centre gets of it",
    ]
    rows = [
        [shown(exposure.reading), *map(number, sending.coefficients[:, place].tolist()), exposure.recoverable]
        for place, exposure in enumerate(sending.exposures)
    ]
    noise = [f"±{number(each)}" if each > 0 else "none" for each in sending.noise.tolist()]
    rows.append(["noise added (deviation)", *noise, ""])
    caption = f"Coefficients of what {shown(sending.agent)} sends"
    return table(caption, columns, rows, numeric=range(1, len(columns) - 1))
