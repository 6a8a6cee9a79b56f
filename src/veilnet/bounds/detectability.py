"""How surely a change of a secret is seen in the messages: AUC, accuracy, power, µ. Exact, for the best detector.

Let g = G x be a secret and Δ the change of it that must stay hidden. Given g, everything that is sent is Gaussian,
with a mean that is linear in g and a covariance that does not depend on it. So the likelihood ratio of "g" against
"g + Δ" is a normal variable, and one number says everything that any detector can reach (mathematics, section 10):

    d'² = Δ'(I_sent - I_prior)Δ,   I = the information on g with all other parameters unknown to the attacker,
    AUC = Φ(d'/√2),   best accuracy at even odds = Φ(d'/2),   power at a false-alarm rate α = Φ(d' + Φ^-1(α)),

and the messages are µ-Gaussian differentially private for changes of Δ, µ = d'. For one row of G and a full prior,
I = 1/P̃_g. "Any change of length Δ" takes the largest eigenvalue of I_sent - I_prior.

A change that lasts T rows adds up. Rows that are independent give d'² T times. In a stream, I is that on g_1..g_T
together, from the covariance of errors at all lags. Where messages never bound a direction of g, they inform on the
others: I is the limit of (G P G' + τ BB')^-1 for τ -> ∞, B the directions without bound, which is W (W'G P G'W)^-1 W'
with W orthogonal to B. Over T rows e_t = A^{t-1} e_1 + steps of what wanders off: e_1 is without bound, so that B is
(I, A', A'^2, ...)' times its directions, and its steps are counted, since others may share their noise. An x that
grows by itself counts as having no prior: d' is then too large, if anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import erfc, exp, inf, sqrt
from statistics import NormalDist

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import EPS
from veilnet._core.lyapunov import spectral_radius
from veilnet._core.types import Array
from veilnet._core.validation import expect
from veilnet._core.words import number
from veilnet.agent.mechanisms import Sanitizers
from veilnet.bounds.knowledge import Knowledge, knowledge, knowledge_of_factor, least_sharpness
from veilnet.bounds.streams.knowledge import StreamKnowledge, silent_stream, stream_knowledge
from veilnet.bounds.streams.steady import ErrorsApart
from veilnet.model.fitted import log_headlines
from veilnet.model.network import Network
from veilnet.model.secret import Secret, change_in_words

SEEN = 0.9  # an AUC from which on nobody would call a secret hidden
FALSE_ALARMS = 0.01  # what a careful attacker allows himself
DELTA = 1e-5  # of (ε, δ), where nobody says another
_Information = Callable[[Array, int], Array]  # rows of a secret and how many rows it lasts -> (r, r)
# Beyond so many numbers (rows of the window times rows of G) a longer window only goes on: d'² grows by as much with
# each row as it did with the last, up to what the stream has forgotten by then.
_LONGEST_WINDOW = 800
# What grows by itself is followed until it has grown by this logarithm: beyond, its first row would be rounding
# beside its last. Columns below the part of the largest are not moved by it.
_MOST_GROWN, _UNMOVED = 16.0, 1e-9
_NOT_GROWING = 1 + 1e-12  # an eigenvalue of A up to which x wanders at most


@dataclass(frozen=True)
class Detector:
    """The best detector of one change.

    mu: d' = µ, how many deviations its two cases are apart. 0 is guessing.
    """

    mu: float

    @property
    def auc(self) -> float:
        """How often a row with the change gets a higher score than one without: 0.5 is chance."""
        return _normal(self.mu / sqrt(2))

    @property
    def accuracy(self) -> float:
        """How often it is right when both cases are equally likely: 0.5 is chance."""
        return _normal(self.mu / 2)

    @property
    def power(self) -> float:
        """How many changes it sees with one false alarm in a hundred: 0.01 is chance."""
        return self.power_at(FALSE_ALARMS)

    def power_at(self, false_alarms: float) -> float:
        """How many changes it sees when it gives so many false alarms.

        false_alarms: α, above 0 and below 1.
        """
        _expect_part("false_alarms", false_alarms)
        return _normal(self.mu + NormalDist().inv_cdf(false_alarms))

    def __str__(self) -> str:
        return (
            f"AUC {number(self.auc)} (accuracy {number(self.accuracy)} at even odds, power {number(self.power)} at "
            f"{100 * FALSE_ALARMS:g} % false alarms, µ {number(self.mu)})"
        )

    def delta_at(self, epsilon: float) -> float:
        """δ(ε) of differential privacy for this change: Φ(-ε/µ + µ/2) - e^ε Φ(-ε/µ - µ/2).

        epsilon: ε >= 0.
        """
        if self.mu == 0:
            return 0.0
        if self.mu == inf:
            return 1.0
        above, below = -epsilon / self.mu + self.mu / 2, -epsilon / self.mu - self.mu / 2
        return max(0.0, _normal(above) - _times_exp(epsilon, below))

    def epsilon_at(self, delta: float) -> float:
        """The least ε with δ(ε) <= δ, by bisection.

        delta: δ, above 0 and below 1.
        """
        _expect_part("delta", delta)
        if self.delta_at(0.0) <= delta:
            return 0.0
        if self.mu == inf:
            return inf
        low, high = 0.0, 1.0
        while self.delta_at(high) > delta:
            low, high = high, 2 * high
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta_at(middle) > delta else (low, middle)
            if high - low <= 4 * EPS * high:
                break
        return high


@dataclass(frozen=True)
class Detectability(Detector):
    """How surely the change of one secret is seen: the best detector of it in every message of one row.

    raw:     from every reading of it.
    change:  Δ.
    rows:    over how many rows it lasts, T.
    lasting: both over all T of them; None where it lasts one row.
    directions: how many rows G has.
    delta:   δ of ``epsilon``.
    """

    raw: Detector
    change: float | Array
    rows: int = 1
    lasting: Detectability | None = None
    directions: int = 1
    delta: float = DELTA

    @property
    def sent(self) -> Detector:
        """From what is sent, by itself."""
        return Detector(self.mu)

    @property
    def longest(self) -> Detectability:
        """Over as long as the change lasts, which is what targets limit."""
        return self.lasting or self

    @property
    def epsilon(self) -> float:
        """The least ε with which what is sent is (ε, ``delta``)-differentially private for the change."""
        return self.epsilon_at(self.delta)

    def in_words(self, unit: str = "") -> str:
        """For a reader: how surely the change is seen, in one row and as long as it lasts.

        unit: of the secret; none where it has none.
        """
        text = f"{self.what(unit)} is seen in one row with AUC {self.auc:.3f} (raw {self.raw.auc:.3f}, guessing 0.5)"
        if self.lasting is None:
            return f"{text}. {self._measures('One row')}"
        longer = self.lasting
        text += f", over the {self.rows} rows that it lasts with {longer.auc:.3f} (raw {longer.raw.auc:.3f})"
        return f"{text}. {self._measures('One row')}. {longer._measures(f'{self.rows} rows')}"

    def what(self, unit: str = "") -> str:
        """The change, for a reader: "a change of 1 people".

        unit: of the secret; none where it has none.
        """
        return change_in_words(self.change, self.directions, unit)

    def _measures(self, when: str) -> str:
        """Every other measure of what is sent, beside raw readings and guessing."""
        sent, raw = self.sent, self.raw
        return (
            f"{when}: right {100 * sent.accuracy:.1f} % of the time at even odds (raw {100 * raw.accuracy:.1f} %, "
            f"guessing 50 %), {100 * sent.power:.1f} % seen with 1 % false alarms (raw {100 * raw.power:.1f} %, "
            f"guessing 1 %), µ {number(sent.mu)}, ε {number(self.epsilon)} at δ {self.delta:g}"
        )


def detectability(
    network: Network, sanitizers: Sanitizers = None, *, delta: float = DELTA
) -> dict[str, Detectability]:
    """How surely the change of each secret is seen, by the best detector there is.

    network:    the model; secrets are the private parameters given as :class:`veilnet.Secret`.
    sanitizers: agent -> Sanitizer, or a Plan; readings are raw without them.
    delta:      δ, above 0 and below 1, at which ``epsilon`` is given.

    A stream is judged with hindsight: the detector has all messages, later ones too.
    """
    expect(network, Network, "network")
    _expect_part("delta", delta)
    if not network.secrets:
        return {}
    before, sent, raw = _information_before(network), _information(network, sanitizers), _information(network)

    def seen(secret: Secret, rows: int) -> Detectability:
        known = before(secret.rows, rows)
        mu, of_raw = (
            sqrt(secret.squared_deviations(each(secret.rows, rows) - known)) for each in (sent, raw)
        )
        directions = len(secret.rows)
        return Detectability(mu, Detector(of_raw), secret.change, rows, directions=directions, delta=delta)

    found = {}
    for name, secret in network.secrets.items():
        lasts, one = secret.rows_it_lasts(network.step), seen(secret, 1)
        found[name] = one if lasts == 1 else replace(one, rows=lasts, lasting=seen(secret, lasts))
    return found


def secrets_headlines(network: Network, seen: Mapping[str, Detectability]) -> list[str]:
    """What nobody may overlook of secrets: that one is not hidden, in the model or in the log of the fit.

    seen: of each secret in what is sent, in the model.
    """
    most = {name: (each.lasting or each).auc for name, each in seen.items()}
    bare = [
        f"{name} is not hidden: it is seen with AUC {auc:.2f}." for name, auc in most.items() if auc >= SEEN
    ]
    return [*bare, *log_headlines(network.log_aucs, {name: each.auc for name, each in seen.items()})]


def information_on(known: Knowledge, rows: Array) -> Array:
    """The information on g = A x, (r, r), with everything else of x unknown: (A P̃ A')^-1 where P̃ exists.

    known: what some messages tell.
    rows:  A, (r, L), of full rank.
    """
    half = known.network.in_raw_coordinates(rows) @ known.directions
    # g = M q, q the coordinates along orthonormal rows; the others are w. J is diagonal here, with roots k.
    turn, upper = np.linalg.qr(half.T, mode="complete")
    along, across = turn[:, : len(rows)], turn[:, len(rows) :]
    roots = np.where(known.known, np.minimum(known.sharpness, 1.0), 0.0)[:, None]
    of_g, of_rest = roots * along, roots * across
    left, sizes, _ = np.linalg.svd(of_rest, full_matrices=False)
    nuisance = left[:, sizes > least_sharpness(known.network)]
    free = of_g - nuisance @ (nuisance.T @ of_g)
    in_g = np.linalg.solve(upper[: len(rows)], free.T)  # M = R', so q = R'^-1 g
    return np.asarray(in_g @ in_g.T)


def _information(network: Network, sanitizers: Sanitizers = None) -> _Information:
    """From these messages, the information on a secret that stays for some rows."""
    if network.is_stream:
        known = stream_knowledge(network, sanitizers)
        return lambda rows, lasts: _on_a_window(known, rows, lasts)
    one_row = knowledge(network, sanitizers)
    return lambda rows, lasts: lasts * information_on(one_row, rows)


def _information_before(network: Network) -> _Information:
    """The same before anything is sent; none of a stream that grows by itself."""
    if network.is_stream:
        assert network.dynamics is not None
        if spectral_radius(network.dynamics.transition) > _NOT_GROWING:
            return lambda rows, _: np.zeros((len(rows), len(rows)))
        nothing = silent_stream(network)
        return lambda rows, lasts: _on_a_window(nothing, rows, lasts)
    silent = knowledge_of_factor(network, np.zeros((0, network.L)))
    return lambda rows, lasts: lasts * information_on(silent, rows)


def _on_a_window(known: StreamKnowledge, rows: Array, lasts: int) -> Array:
    """The information on g that stays the same over ``lasts`` rows of a stream, (r, r)."""
    window = max(2, min(lasts, _LONGEST_WINDOW // len(rows)))
    errors = known.errors_apart(rows, window)
    growth = spectral_radius(errors.moves)
    if growth > _NOT_GROWING:
        window = max(2, min(window, int(_MOST_GROWN / np.log(growth))))
    if lasts == 1:
        return _of_the_sum(errors, 1)
    whole, shorter = (_of_the_sum(errors, count) for count in (window, window - 1))
    return whole + (lasts - window) * (whole - shorter)


def _of_the_sum(errors: ErrorsApart, count: int) -> Array:
    """E'W (W'K W)^-1 W'E, (r, r), E = (I, ..., I)'.

    K is the covariance of the errors of ``count`` rows where what wanders off begins at 0, and the columns of W are
    orthonormal and not moved by its beginning.
    """
    joint = _toeplitz(errors.apart[:count])
    size, wandering = errors.loads.shape
    ones = np.tile(np.eye(size), (count, 1))
    if wandering:
        powers = [errors.loads]
        for _ in range(count - 1):
            powers.append(powers[-1] @ errors.moves)
        # e_t = b_t + Σ_{1 <= s <= t} loads moves^{t-s} w_s, rows counted from 0.
        rows, steps = np.arange(count)[:, None], np.arange(count)
        counted = ((steps >= 1) & (steps <= rows))[:, :, None, None]
        summed = np.where(counted, np.array(powers)[np.abs(rows - steps)], 0.0)
        own = np.eye(count)[:, :, None, None] * np.eye(size)
        flat = np.swapaxes(np.concatenate([own, summed], axis=3), 1, 2).reshape(count * size, -1)
        left, sizes, _ = np.linalg.svd(np.concatenate(powers))
        still = left[:, int(np.sum(sizes > _UNMOVED * sizes[0])) :].T
        joint, ones = still @ (flat @ joint @ flat.T) @ still.T, still @ ones
    units = 1 / np.sqrt(np.diag(joint))
    ones = ones * units[:, None]
    return np.asarray(ones.T @ np.linalg.solve(joint * units * units[:, None], ones))


def _toeplitz(apart: Array) -> Array:
    """K with blocks Cov(f_t, f_{t+lag}) = apart[lag], (count s, count s)."""
    count, size, _ = apart.shape
    lags = np.arange(count)[None, :] - np.arange(count)[:, None]
    blocks = np.where(
        (lags >= 0)[:, :, None, None], apart[np.abs(lags)], np.swapaxes(apart, 1, 2)[np.abs(lags)]
    )
    return np.asarray(np.swapaxes(blocks, 1, 2).reshape(count * size, count * size))


def _expect_part(name: str, value: float) -> None:
    """Refuse what is not a number above 0 and below 1, by its name."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidRequest(f"{name}: expected a number above 0 and below 1, found {value!r}")


def _normal(value: float) -> float:
    """Φ, to its last digits in the lower tail too."""
    return 0.5 * erfc(-value / sqrt(2))


def _times_exp(exponent: float, value: float) -> float:
    """e^exponent Φ(value) where Φ may vanish: by its logarithm."""
    from scipy.special import log_ndtr  # loaded only by those who ask for (ε, δ)

    return exp(min(700.0, exponent + float(log_ndtr(value))))
