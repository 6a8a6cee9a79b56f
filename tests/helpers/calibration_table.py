"""A table drawn from a planted model of three rooms, and its file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from scipy import stats

AGENTS = {"kitchen": ["T1", "RH1"], "hall": ["T2"], "bath": ["T3", "RH3", "CO2"]}
READINGS = [name for named in AGENTS.values() for name in named]
ROLES = {"agents": AGENTS, "public": ["T_out"], "private": ["people"]}
H = np.array([[0.2, 0.5], [-0.5, 3.0], [0.3, 0.1], [0.1, 0.0], [-1.0, 1.0], [0.5, 40.0]])
OFFSET = np.array([20.0, 50.0, 19.0, 21.0, 60.0, 400.0])
DEVIATIONS = np.array([0.4, 2.0, 0.3, 0.5, 3.0, 15.0])
CORRELATION = 0.4 * np.ones((6, 6)) + 0.6 * np.eye(6)
R = CORRELATION * np.outer(DEVIATIONS, DEVIATIONS)
P0 = np.array([[49.0, 2.0], [2.0, 1.0]])
MEAN = np.array([5.0, 2.0])


def table(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A table drawn from exactly the model above."""
    rng = np.random.default_rng(seed)
    x = MEAN + rng.standard_normal((rows, 2)) @ np.linalg.cholesky(P0).T
    y = OFFSET + x @ H.T + rng.standard_normal((rows, 6)) @ np.linalg.cholesky(R).T
    return {"T_out": x[:, 0], "people": x[:, 1], **dict(zip(READINGS, y.T, strict=True))}


def chi_square_alarm(statistic: float, freedom: int) -> bool:
    """True with probability 1e-6 if the statistic has the law it should have."""
    return statistic > stats.chi2.isf(1e-6, freedom)


def slow(rng: np.random.Generator, rows: int, columns: int, rho: float) -> np.ndarray:
    steps = rng.standard_normal((rows, columns))
    for t in range(1, rows):
        steps[t] = rho * steps[t - 1] + np.sqrt(1 - rho**2) * steps[t]
    return steps


def write_csv(path: Path, data: dict[str, np.ndarray], delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(data)
        writer.writerows(zip(*(column.tolist() for column in data.values()), strict=True))
