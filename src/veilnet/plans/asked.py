"""What a plan is asked for: one object from the door to the recheck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_ROUNDING = 1e-9  # of a loss allowed, relative: what a steady state's rounding may add


@dataclass(frozen=True)
class Asked:
    """What a plan is asked for, by the names of private parameters; privacies are p_j.

    targets:   the privacy asked of each; 0, or no entry, asks nothing.
    worst:     what is asked of every direction of a parameter (:class:`veilnet.Worst`).
    seen:      by how many deviations d' a secret's change and none may be apart (:class:`veilnet.Auc`).
    most_loss: the utility loss allowed; None where the least is looked for.
    floors:    the privacies that are free, kept whatever else is paid for.
    power:     agent -> the noise power allowed to it.
    weights:   with a loss allowed, how the privacy it buys is divided; equally where nothing is said.
    given_up:  parameters that may be hidden less than they are for free.
    rounding:  the part of the public error that coarser grids may cost; None for grids that cost nothing.
    """

    targets: Mapping[str, float] = field(default_factory=dict)
    worst: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    most_loss: float | None = None
    floors: Mapping[str, float] = field(default_factory=dict)
    power: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] | None = None
    given_up: frozenset[str] = frozenset()
    rounding: float | None = None

    @property
    def numbered(self) -> frozenset[str]:
        """The parameters that are asked for in numbers: a number is what is asked, and no more is kept."""
        by_target = frozenset(name for name, target in self.targets.items() if target > 0)
        return by_target | frozenset(self.worst) | frozenset(self.seen)

    @property
    def spared(self) -> frozenset[str]:
        """The parameters that need not keep what is free of them."""
        return self.given_up | self.numbered

    def keeping(self, floors: Mapping[str, float]) -> Asked:
        """The same with these floors."""
        return replace(self, floors=floors)

    def met_by(self, loss: float, privacy: Mapping[str, float]) -> bool:
        """Whether a plan of this loss and privacy reaches targets and floors, to the last bit, within the loss."""
        if self.most_loss is not None and loss > self.most_loss * (1 + _ROUNDING):
            return False
        return all(
            privacy[name] >= least for wanted in (self.targets, self.floors) for name, least in wanted.items()
        )
