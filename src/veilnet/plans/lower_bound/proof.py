"""A statement about one network that no design can break, with the multipliers that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from veilnet._core.frozen import Frozen, make_read_only
from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.plans.lower_bound.inequality import Inequality
from veilnet.plans.lower_bound.lifted_form import lifted_form
from veilnet.plans.lower_bound.precise import precise_surplus
from veilnet.plans.lower_bound.rapidity import Rapidities, RapidityTheorem
from veilnet.plans.lower_bound.theorem import Multipliers, Theorem


@dataclass(frozen=True, eq=False)
class Proof(Frozen):
    """No linear mechanism loses at most ``loss`` and hides every parameter in ``privacy`` at least as it says.

    loss:        a utility loss β.
    privacy:     name -> p_j; where ``mixed`` has the name, that of the combination B g_j.
    multipliers: of the theorem with turns, one for each name (:mod:`veilnet.plans.lower_bound.theorem`), or the
                 rapidities of the other (:mod:`veilnet.plans.lower_bound.rapidity`).
    common:      how correlated noise was split, (N, k); None where agents' noises are independent.
    mixed:       name -> B, (any, r_j), for parameters of which something is asked of every direction.
    """

    loss: float
    privacy: Mapping[str, float]
    multipliers: tuple[Multipliers, ...] | Rapidities
    common: Array | None = None
    mixed: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "privacy", MappingProxyType(dict(self.privacy)))
        object.__setattr__(self, "mixed", MappingProxyType(dict(self.mixed)))
        make_read_only([*self.mixed.values()])
        make_read_only(self.common)
        if isinstance(self.multipliers, Rapidities):
            make_read_only(list(vars(self.multipliers).values()))
            return
        for given in self.multipliers:
            make_read_only([given.root, given.public, given.turn, given.turns, given.heard, given.links])

    def theorem(self, network: Network) -> Inequality:
        """The theorem on this network; ValueError where the multipliers were made for another kind of network."""
        unknown = [name for name in [*self.privacy, *self.mixed] if name not in network.private]
        if unknown:
            raise ValueError(f"proof: {unknown[0]!r} is no private parameter of the network")
        places = {name: place for place, name in enumerate(network.private)}
        if (self.common is None) != network.common_apart.R.independent:
            raise ValueError("proof: made for another noise than the network's")
        if self.common is not None and (self.common.ndim != 2 or self.common.shape[0] != network.N):
            raise ValueError(f"proof: the common noise should have {network.N} rows")
        for name, rows in self.mixed.items():
            fits = rows.ndim == 2 and rows.shape[1] == len(network.private[name])
            if not (fits and np.all(np.isfinite(rows)) and np.any(network.private[name].T @ rows.T)):
                raise ValueError(f"proof: what is mixed of {name} does not fit its rows")
        form = lifted_form(network, self.common, {places[name]: rows for name, rows in self.mixed.items()})
        asked = tuple(places[name] for name in self.privacy)
        if isinstance(self.multipliers, Rapidities):
            return RapidityTheorem(form, asked, self.multipliers)
        return Theorem(form, asked, self.multipliers)

    def holds(self, network: Network) -> bool:
        """Whether the theorem, checked anew from the network and the multipliers alone, says so."""
        return self.surplus(network) > 0.0

    def surplus(self, network: Network) -> float:
        """By how much the theorem's inequality holds, rounding deducted; -inf where the multipliers do not fit."""
        claims = [self.loss, *self.privacy.values()]
        if not all(np.isfinite(each) and each >= 0 for each in claims):
            return -np.inf  # the theorem supposes β >= 0 and c_j = 1 + ε_j >= 1
        try:
            theorem = self.theorem(network)
            asked = dict(zip(theorem.asked, self.privacy.values(), strict=True))
            with np.errstate(all="ignore"):
                found = theorem.surplus(self.loss, asked)
                if found > 0 or self.common is not None or not isinstance(theorem, RapidityTheorem):
                    return found
                return precise_surplus(network, theorem, self.loss, self.privacy, self.mixed)
        except (ValueError, np.linalg.LinAlgError):
            return -np.inf
