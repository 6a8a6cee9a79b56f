"""Is the noise normal, independent and unpredictable, or only of the right strength?

A black box gives away its noise: what it answers to known readings, less the combinations planned, is noise plus
at most a grid step of rounding. Whitened, it must be independent standard normal draws. Uniform noise, Laplace noise,
noise cut at two deviations or computed in half precision can have the right covariance and still betray, now and
then or always, more than was promised.

Every test is valid at every sample size, rounding included: the inequality of Dvoretzky, Kiefer, Wolfowitz and
Massart (1990) for the whole distribution; exact binomial counts for its tails; for laws that people use by mistake
the likelihood ratio, which exceeds 1/p with probability at most p (Markov's inequality).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import bdtr, bdtrc, ndtr

from veilnet._core.types import Array
from veilnet.auditing.deployed.draws import Probed, pairs_apart
from veilnet.auditing.statistics import subgaussian_p

# Draws known only to within more than this (in deviations) are left to the test of strength.
_MOST_ROUNDING = 0.05
_TAILS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
_LAGS = 8
MEDIAN_SIZE = 0.6744897501960817  # half of all normal draws are smaller than this
# every other law is tried with this part of a normal one: one stray draw refutes nothing
_LEAST_IN_MIXTURE = 0.1

LogDensity = Callable[[Array], Array]


def law_measurements(agent: str, white: Array, rounding: Array) -> list[Probed]:
    """Signs that draws (T, k) are not independent standard normals, each known to within ``rounding`` (k,)."""
    measured: list[Probed] = []
    for draws, off in zip(white.T, rounding.tolist(), strict=True):
        if off <= _MOST_ROUNDING:
            measured += _fit(agent, draws, off)
            measured += _tails(agent, draws, off)
            measured += _known_laws(agent, draws, off)
            measured += _sizes(agent, draws, off)
    return measured


def low_bits(agent: str, multiples: Array, deviation: Array) -> list[Probed]:
    """Signs that numbers sent, as multiples (T, m) of the step, lie on a coarser grid than the public one.

    A normal number of deviation σ in steps has bit j set with probability 1/2 to within exp(-2π²σ²/4^(j+1)): nothing,
    while σ is above 4·2^j.
    """
    measured = []
    words = f"{agent}: its numbers lie on a coarser grid than the public one: its noise has too few digits"
    for column, sigma in zip(multiples.T, deviation.tolist(), strict=True):
        for bit in range(max(0, int(np.floor(np.log2(max(sigma, 1.0) / 4.0))) + 1)):
            odd = np.mod(np.floor(column / 2.0**bit), 2.0)
            score = float(np.sum(2.0 * odd - 1.0) / np.sqrt(odd.size))
            measured.append(Probed("law", agent, float(subgaussian_p(np.array(score))), score, words))
    return measured


def half_precision(agent: str, draws: Array, rounding: Array) -> list[Probed]:
    """Signs that draws (T, k) are numbers of half precision (11 bits), each known to within ``rounding``.

    Where such numbers lie farther apart than rounding reaches, a normal draw falls within reach of one with a
    probability of about reach / spacing; draws of half precision always do.
    """
    measured = []
    words = f"{agent}: its noise was computed in half precision: it takes few values, far apart"
    for column, off in zip(draws.T, rounding.tolist(), strict=True):
        _, exponents = np.frexp(column)
        spacing = np.ldexp(1.0, exponents - 11)
        # the density varies by less than 5 % over a spacing
        chance = np.minimum(1.0, 1.05 * 2.0 * off / spacing)
        telling = (chance < 0.9) & (np.abs(column) < 5.0)
        if not np.any(telling):
            continue
        distance = np.abs(column - np.rint(column / spacing) * spacing)[telling]
        hits = int(np.sum(distance <= off * (1 + 1e-9)))
        # Hoeffding for hits above their expectation, and the product of all chances where every one hits.
        expected = float(np.sum(chance[telling]))
        beyond = max(0.0, hits - expected)
        p = float(np.exp(-2.0 * beyond**2 / distance.size))
        if hits == distance.size:
            p = min(p, float(np.exp(np.sum(np.log(chance[telling])))))
        measured.append(Probed("law", agent, min(1.0, p), hits / distance.size, words))
    return measured


def _fit(agent: str, draws: Array, off: float) -> list[Probed]:
    count = draws.size
    expected = ndtr(np.sort(draws))
    steps = np.arange(count + 1) / count
    distance = float(max(np.max(steps[1:] - expected), np.max(expected - steps[:-1])))
    beyond = max(0.0, distance - off / np.sqrt(2 * np.pi))
    words = f"{agent}: its noise has the planned strength but is not normal (off by {distance:.2g} in probability)"
    return [Probed("law", agent, min(1.0, float(2 * np.exp(-2 * count * beyond**2))), distance, words)]


def _tails(agent: str, draws: Array, off: float) -> list[Probed]:
    measured = []
    for line in _TAILS:
        found = int(np.sum(np.abs(draws) > line))
        most = 2 * float(ndtr(-(line - off)))
        least = 2 * float(ndtr(-(line + off)))
        few = float(bdtr(found, draws.size, least))
        many = float(bdtrc(found - 1, draws.size, most)) if found else 1.0
        words = (
            f"{agent}: {found} of {draws.size} draws of its noise lie beyond {line:g} deviations, "
            f"{draws.size * least:.3g} of normal noise would"
        )
        measured.append(Probed("law", agent, min(1.0, 2 * min(few, many)), found / draws.size, words))
    return measured


def _known_laws(agent: str, draws: Array, off: float) -> list[Probed]:
    measured = []
    sizes = np.abs(draws)
    # Rounding may have moved a draw by ``off``: take the other law at its least and the normal one at its most.
    normal = -0.5 * np.maximum(sizes - off, 0.0) ** 2 - 0.5 * np.log(2 * np.pi)
    outer = -0.5 * (sizes + off) ** 2 - 0.5 * np.log(2 * np.pi)
    for name, density in _LAWS.items():
        other = np.logaddexp(
            density(sizes + off) + np.log1p(-_LEAST_IN_MIXTURE), outer + np.log(_LEAST_IN_MIXTURE)
        )
        evidence = float(np.sum(other - normal))
        p = float(np.exp(-evidence)) if evidence > 0 else 1.0
        words = f"{agent}: its noise is {name}, not normal"
        measured.append(Probed("law", agent, p, evidence, words))
    return measured


def _sizes(agent: str, draws: Array, off: float) -> list[Probed]:
    """Sizes of draws a few apart must be unrelated, as their signs are: large or small is a fair coin each time."""
    large = np.where(np.abs(draws) > MEDIAN_SIZE, 1.0, -1.0)
    unfair = 4 * off / np.sqrt(2 * np.pi)  # of ±1, for what rounding may have moved across the line
    words = f"{agent}: the size of its noise depends on what it was shortly before"
    measured = []
    for lag in range(1, _LAGS + 1):
        first = pairs_apart(large.size, lag)
        score = abs(float(np.sum(large[first] * large[first + lag]))) / np.sqrt(max(1, first.size))
        beyond = max(0.0, score - unfair * np.sqrt(first.size))
        measured.append(Probed("law", agent, float(subgaussian_p(np.array(beyond))), score, words))
    return measured


def _uniform(size: Array) -> Array:
    return np.where(size <= np.sqrt(3.0), -np.log(2 * np.sqrt(3.0)), -np.inf)


def _laplace(size: Array) -> Array:
    return np.asarray(-np.sqrt(2.0) * size - 0.5 * np.log(2.0))


def _logistic(size: Array) -> Array:
    scaled = size * np.pi / np.sqrt(3.0)
    return np.asarray(np.log(np.pi / np.sqrt(3.0)) - scaled - 2 * np.log1p(np.exp(-scaled)))


def _heavy(size: Array) -> Array:
    """Student's law with five degrees of freedom, of variance one."""
    return np.asarray(np.log(8 / (3 * np.pi * np.sqrt(3.0))) - 3 * np.log1p(size**2 / 3.0))


def _cut(line: float, *, restored: bool) -> LogDensity:
    """The normal law cut at so many deviations, as it is or stretched back to variance one."""
    kept = 1 - 2 * float(ndtr(-line))
    left = 1 - 2 * line * float(np.exp(-(line**2) / 2)) / np.sqrt(2 * np.pi) / kept
    scale = float(np.sqrt(left)) if restored else 1.0

    def density(size: Array) -> Array:
        inner = size * scale
        inside = -0.5 * inner**2 - 0.5 * np.log(2 * np.pi) + np.log(scale) - np.log(kept)
        return np.where(inner <= line, inside, -np.inf)

    return density


def _laws() -> Iterator[tuple[str, LogDensity]]:
    yield "uniform", _uniform
    yield "Laplace's", _laplace
    yield "logistic", _logistic
    yield "heavy-tailed (Student's)", _heavy
    for line in (2.0, 2.5, 3.0):
        yield f"cut at {line:g} deviations", _cut(line, restored=False)
        yield f"cut at {line:g} deviations and stretched", _cut(line, restored=True)


_LAWS: dict[str, LogDensity] = dict(_laws())
