"""Targets as people read errors: standard errors in units, and their ratios.

The paper's p_j is the growth of an error variance. With P_j the mean over the rows of g_j of the variance that raw
readings leave, a standard error of s is p_j = s²/P_j - 1, and one that is k times the raw one p_j = k² - 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet.bounds.typical_errors import typical_errors, unit_of
from veilnet.model.network import Network


@dataclass(frozen=True)
class Times:
    """A standard error so many times the one from raw readings: ``privacy={"gait": vn.Times(2)}``.

    As ``utility_loss=vn.Times(1.05)`` it limits the public standard error, here to 5 % more.

    ratio: of the standard errors, at least 1.
    """

    ratio: float

    def __post_init__(self) -> None:
        _check(self.ratio, self, least=1.0, why="a sanitizer makes no error smaller")

    @property
    def growth(self) -> float:
        """The growth of the error variance, the paper's p: ratio² - 1."""
        return float(self.ratio) ** 2 - 1


@dataclass(frozen=True)
class AtLeast:
    """A standard error of at least so much: ``privacy={"gait": vn.AtLeast(12)}``, 12 steps/min.

    Of a parameter of several rows it is the root mean square over them, as everywhere.

    error: in the unit of the parameter, above 0.
    unit:  in which it is given, to be compared with the network's; empty where nobody said.
    """

    error: float
    unit: str = ""

    def __post_init__(self) -> None:
        _check(self.error, self, least=0.0, why="that is no error")
        if not isinstance(self.unit, str):
            raise InvalidRequest(f"AtLeast: expected a unit as text, found {self.unit!r}")


def as_privacy(network: Any, name: str, target: Any) -> Any:
    """A target as the paper's p; what is neither a ratio nor an error of standard errors stays as it is.

    network: the model; of networks in parts, anything else, where only ratios are known.
    name:    of the private parameter.
    target:  what is asked of it.
    """
    if isinstance(target, Times):
        return target.growth
    if not isinstance(target, AtLeast):
        return target
    if not isinstance(network, Network):
        raise InvalidRequest(
            f"privacy[{name!r}]: expected a ratio, found {target}; errors in units are for networks in one piece, so "
            "ask for vn.Times(...)"
        )
    unit = unit_of(network, name)
    if target.unit and _spelled(target.unit) != _spelled(unit):
        raise InvalidRequest(
            f"privacy[{name!r}]: expected an error in {unit or 'no unit'}, found {target.error:g} {target.unit}; "
            f"write {target.error:g}{unit}, or leave the unit out"
        )
    return max(0.0, (target.error / typical_errors(network)[name].raw) ** 2 - 1)


def _spelled(unit: str) -> str:
    """A unit without its spaces."""
    return re.sub(r"\s", "", unit)


def _check(value: Any, what: object, *, least: float, why: str) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < least or value <= 0:
        bound = f"at least {least:g}" if least else "above 0"
        raise InvalidRequest(f"{what}: expected a finite number {bound}, found {value!r}; {why}")
