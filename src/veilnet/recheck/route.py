"""How much an error grows, by whichever recheck can tell.

A weak prior takes the place of every decision about rank. With ρ > 0,

    p_ρ = tr(A (J̃ + ρJ)^-1 A') / tr(A J^-1 A') - 1  <=  p,

since more information never makes an error larger: p_ρ is the privacy that is left against someone who knew x
beforehand to within 1/√ρ of the deviation that raw readings leave. As a function of ρ it is a sum of terms c/(k + ρ),
so the cubic through its values at ρ, 2ρ, 3ρ and 4ρ, taken at 0, is a lower bound on p too (the remainder of
interpolation is the fourth derivative times ρ⁴, which is positive), and a far closer one: what is found never exceeds
the true privacy, and reaches it to many digits where the claim is true.

How weak: as weak as 32 digits allow. But coefficients are doubles: a combination meant to be unseen is seen with
about ε κ of its deviation (ε = 2e-16, κ the network's conditioning), and what is meant not to depend on it does so by
as much. To the letter an unbiased centre must divide one by the other; nobody else would. A claim p is
therefore also compared with the figure at ρ = 1e8 (ε κ)²/(1 + p), where squares of such parts do not count.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.model.common import padded
from veilnet.model.network import Network
from veilnet.recheck.sums import DoubleRecheck, information_sums
from veilnet.recheck.twofold import TwofoldRecheck

WITHOUT_BOUND = 1e16
"""From here on privacy is said to be without bound: the error's deviation grows 1e8-fold."""

_ABOVE_ROUNDING = 1e8  # the weak prior, in squares of what rounding leaves to be seen
_STRONGEST = 1e-10  # the weak prior never takes more than this part of a growth
_NODES = ((1, 4.0), (2, -6.0), (3, 4.0), (4, -1.0))  # the cubic through f(ρ), f(2ρ), f(3ρ), f(4ρ), taken at 0
_WEAKEST = 1e-24  # what 32 digits still tell apart from nothing
# Doubles lose the square of the conditioning, and what privacy takes away: beyond this product 32 digits are asked.
_DOUBLES_TELL = 1e8
_DOUBLES_WEAK = 1e-8  # the weak prior where only doubles are left to tell
_MOST_WORK = 1e10  # multiplications with 32 digits: about a minute


class Recheck:
    """The growth of any error from raw readings to what is sent, from (network, C, Θ) alone.

    Common disturbances are parameters here (:mod:`veilnet.model.common`), which the bounds eliminate instead.

    sums: (Σ H_i'R_i^-1 H_i, Σ H_i'C_i'(C_i R_i C_i' + Θ_i)^+ C_i H_i) where :mod:`veilnet.recheck.sums` formed them
          elsewhere: the network then gives the prior and the conditioning alone.
    """

    def __init__(
        self, network: Network, sanitizers: Sanitizers = None, *, sums: tuple[Array, Array] | None = None
    ) -> None:
        self.network = network.common_apart
        self._sent = mechanisms(self.network, mechanisms(network, sanitizers))
        self._sums = sums

    @property
    def precise(self) -> bool:
        """Whether the network is small enough for 32 digits; of sums that are doubles more tell nothing more."""
        if self._sums is not None:
            return False
        sizes = self.network.blocks.sizes.astype(float)
        blocks = sizes if self.network.R.independent else np.array([np.sum(sizes)])
        return bool(np.sum((blocks + self.network.L) ** 3) / 3 <= _MOST_WORK)

    def growth(self, rows: Array, claimed: float) -> float:
        """The growth of tr(A P̃ A') over tr(A P A'), a lower bound that is tight where ``claimed`` is true.

        inf where it is without bound (see WITHOUT_BOUND).
        """
        if np.isnan(claimed):
            claimed = 0.0
        rows = padded(rows, self.network.L)
        doubles = self._doubles
        if doubles is not None and self.network.conditioning**2 * (1.0 + claimed) <= _DOUBLES_TELL:
            found = _extrapolated(doubles, rows, self._weak_prior(claimed))
            if abs(found - claimed) <= 1e-7 * (1.0 + claimed):
                return found
        if not self.precise:
            return 0.0 if doubles is None else _extrapolated(doubles, rows, _DOUBLES_WEAK)
        found = _extrapolated(self._twofold, rows, _WEAKEST)
        if np.isfinite(claimed):
            # Both are true, one of the definition to the letter, one of what rounding leaves of it.
            robust = _extrapolated(self._twofold, rows, self._weak_prior(claimed))
            found = min(found, robust, key=lambda each: abs(each - claimed))
        return np.inf if found >= WITHOUT_BOUND else found

    def least_growth(self, rows: Array, claimed: float) -> float:
        """The least growth over all directions of A x, a lower bound that is tight where ``claimed`` is true."""
        if self._doubles is None:
            return 0.0
        return self._doubles.least_growth(padded(rows, self.network.L), _STRONGEST / (1.0 + claimed))

    def deviations(self, rows: Array, change: float | Array, lasts: int) -> float:
        """d' of the best detector of a change of A x that stays for ``lasts`` independent rows, from errors alone.

        change: a vector, several of which any counts, or the length of any change.
        """
        if self._doubles is None:
            return np.inf
        rows = padded(rows, self.network.L)
        silent = DoubleRecheck(self._doubles.raw, self._before)
        gained = self._doubles.information(rows, _STRONGEST) - silent.information(rows, _STRONGEST)
        return deviations(gained, change, lasts)

    def _weak_prior(self, claimed: float) -> float:
        rounding = float(np.finfo(float).eps) * self.network.conditioning
        return max(_WEAKEST, min(_STRONGEST, _ABOVE_ROUNDING * rounding**2) / (1.0 + max(claimed, 0.0)))

    @property
    def _before(self) -> Array:
        """The prior's information."""
        prior, length = self.network.prior, self.network.L
        return np.zeros((length, length)) if prior is None else prior.information

    @cached_property
    def _doubles(self) -> DoubleRecheck | None:
        raw, left = information_sums(self.network, self._sent) if self._sums is None else self._sums
        try:
            return DoubleRecheck(self._before + raw, self._before + left)
        except np.linalg.LinAlgError:
            return None

    @cached_property
    def _twofold(self) -> TwofoldRecheck:
        return TwofoldRecheck(self.network, self._sent)


def deviations(gained: Array, change: float | Array, lasts: int = 1) -> float:
    """√(T Δ'IΔ), the largest over the vectors Δ or over all of one length; I is what messages add on g."""
    along = np.asarray(change)
    if along.ndim:
        squared = max(float(each @ gained @ each) for each in np.atleast_2d(along))
    else:
        squared = float(along) ** 2 * float(np.max(np.linalg.eigvalsh((gained + gained.T) / 2)))
    return float(np.sqrt(max(0.0, lasts * squared)))


def _extrapolated(recheck: DoubleRecheck | TwofoldRecheck, rows: Array, weak: float) -> float:
    return sum(weight * recheck.growth(rows, times * weak) for times, weight in _NODES)
