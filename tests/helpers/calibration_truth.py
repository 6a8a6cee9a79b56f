"""Networks that are known, logs drawn from them, and what a fit of such a log is truly worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

import veilnet as vn
from veilnet._core.types import Array
from veilnet.calibration.fitting import Calibration, fit_report
from veilnet.calibration.linear_model import LinearModel, fit_linear
from veilnet.calibration.predictive import widening
from veilnet.calibration.rows import Rows
from veilnet.calibration.stream_model import FittedStream, fit_stream


@dataclass(frozen=True, eq=False)
class Truth:
    """A network of two agents; x and the noise carry over from row to row at given rates.

    observe, noise, covariance: H, R, P0; sizes: readings of each agent; x_memory, noise_memory: the rates.
    """

    observe: Array
    noise: Array
    covariance: Array
    sizes: tuple[int, ...]
    x_memory: float
    noise_memory: float

    @property
    def agents(self) -> dict[str, list[str]]:
        edges = np.cumsum([0, *self.sizes])
        return {f"agent{k}": [f"y{n}" for n in range(edges[k], edges[k + 1])] for k in range(len(self.sizes))}

    @property
    def parameters(self) -> list[str]:
        return ["u", *(f"x{k}" for k in range(1, len(self.covariance) - 1)), "g"]

    def network(self) -> vn.Network:
        """The network of one row."""
        edges = np.cumsum([0, *self.sizes])
        size = len(self.covariance)
        return vn.Network(
            {f"agent{k}": self.observe[edges[k] : edges[k + 1]] for k in range(len(self.sizes))},
            self.noise,
            {"u": np.eye(size)[:1]},
            {"g": np.eye(size)[-1:]},
            vn.Prior(covariance=self.covariance),
            resolution=0.0,
        )

    def log(self, rows: int, seed: int) -> dict[str, Array]:
        """Rows of a calibration."""
        rng = np.random.default_rng([seed, 1])
        x = _carried(rng, rows, self.covariance, self.x_memory)
        y = x @ self.observe.T + _carried(rng, rows, self.noise, self.noise_memory)
        names = [*self.parameters, *(name for named in self.agents.values() for name in named)]
        return dict(zip(names, np.column_stack([x, y]).T, strict=True))

    def fitted(self, rows: int, seed: int, *, predictive: bool = True) -> Calibration:
        """A fit of such a log; entries of x besides u and g are public too, of another name."""
        others = {"others": self.parameters[1:-1]} if len(self.parameters) > 2 else {}
        return fit_report(
            self.log(rows, seed),
            self.agents,
            {"u": "u", **others},
            {"g": "g"},
            predictive=predictive,
        )

    def errors(self, found: LinearModel) -> tuple[Array, Array]:
        """(true, stated) error variances of each entry of x, estimated from raw readings by a fitted model."""
        weighted = np.linalg.solve(found.noise, found.observe).T
        stated = np.linalg.inv(weighted @ found.observe + np.linalg.inv(found.covariance))
        gain = stated @ weighted
        kept = gain @ self.observe - np.eye(len(stated))
        bias = found.mean - gain @ (found.observe @ found.mean + found.offset)
        true = kept @ self.covariance @ kept.T + gain @ self.noise @ gain.T + np.outer(bias, bias)
        return np.diag(true), np.diag(stated)

    def fitted_stream(self, rows: int, seed: int) -> tuple[LinearModel, FittedStream]:
        """A fit of such a log, and how its rows follow one another."""
        log = self.log(rows, seed)
        x = np.stack([log[name] for name in self.parameters], axis=1)
        y = np.stack([log[name] for named in self.agents.values() for name in named], axis=1)
        model = fit_linear(y, x)
        numbers = np.arange(rows)
        return model, fit_stream(
            model, Rows(y, x, 0 * numbers, numbers, 0, None), np.ones(self.noise.shape, bool)
        )

    def plain_and_predictive(self, rows: int, seed: int) -> tuple[LinearModel, LinearModel]:
        """(as residuals show it, as it is stated) of a fit of such a log."""
        model, stream = self.fitted_stream(rows, seed)
        return model, widening(model, stream, np.eye(len(self.covariance)), prior=True).of_model(model)


def random_truth(
    seed: int,
    sizes: tuple[int, ...] = (2, 3),
    length: int = 3,
    x_memory: float = 0.0,
    noise_memory: float = 0.0,
) -> Truth:
    rng = np.random.default_rng([seed, 0])
    total = sum(sizes)
    observe = rng.standard_normal((total, length))
    return Truth(observe, _correlated(rng, total), _correlated(rng, length), sizes, x_memory, noise_memory)


def _correlated(rng: np.random.Generator, size: int) -> Array:
    root = rng.standard_normal((size, size))
    full = root @ root.T
    deviations = np.sqrt(np.diag(full))
    return np.asarray(0.5 * np.eye(size) + 0.5 * full / np.outer(deviations, deviations))


def _carried(rng: np.random.Generator, rows: int, covariance: Array, memory: float) -> Array:
    steps = rng.standard_normal((rows, len(covariance))) @ np.linalg.cholesky(covariance).T
    steps[1:] *= np.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], steps, axis=0))
