"""The recheck where agents are many and elsewhere: from the sums J and J̃ alone, in doubles."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.recheck.doubles import DoubleRecheck
from veilnet.recheck.route import Recheck


class SummedRecheck(Recheck):
    """The growth of any error between two sums over agents, formed by :mod:`veilnet.recheck.sums`.

    network: gives the prior and the conditioning; its own readings play no part.
    raw:     Σ H_i'R_i^-1 H_i.
    left:    Σ H_i'C_i'(C_i R_i C_i' + Θ_i)^+ C_i H_i.
    """

    def __init__(self, network: Network, raw: Array, left: Array) -> None:
        super().__init__(network, {})
        self._sums = (raw, left)

    @property
    def precise(self) -> bool:
        """Sums were rounded to doubles: more digits would tell nothing more."""
        return False

    @cached_property
    def _doubles(self) -> DoubleRecheck | None:
        prior = self.network.prior
        known = np.zeros((self.network.L, self.network.L)) if prior is None else prior.information
        raw, left = self._sums
        try:
            return DoubleRecheck.of_information(known + raw, known + left)
        except np.linalg.LinAlgError:
            return None
