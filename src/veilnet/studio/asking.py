"""What someone at the workbench asks for, and the command that asks for the same."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet.designs.choice import design
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.verdict import Verdict

__all__ = ["Ask", "read_ask"]


@dataclass(frozen=True)
class Ask:
    """One question: for the free plan, for privacies, or for a loss that is accepted.

    privacy: p_j that is asked of each private parameter; empty when it is not the question.
    loss:    the utility loss that is accepted; None when it is not the question.
    """

    privacy: Mapping[str, float] = field(default_factory=dict)
    loss: float | None = None

    def answered(self, network: Network, progress: Progress | None = None) -> Plan:
        """The plan that ``design`` answers with."""
        if self.loss is not None and self.loss > 0:
            return design(network, utility_loss=self.loss, progress=progress)
        if self.privacy:
            return design(network, privacy=dict(self.privacy), progress=progress)
        return design(network, progress=progress)

    def command(self, file: str) -> str:
        """The command line that asks the same."""
        words = ["veilnet", "design", file]
        if self.loss is not None and self.loss > 0:
            words += ["--utility-loss", repr(self.loss)]
        for name, value in self.privacy.items() if self.loss is None else ():
            words += ["--privacy", f"{name}={value!r}"]
        return " ".join(shlex.quote(word) for word in [*words, "--out", "plan"])


def read_ask(given: Mapping[str, Any], verdict: Verdict) -> Ask:
    """The question as a page sends it: ``{"privacy": {name: p}}``, ``{"loss": part}`` or ``{}``.

    given:   what arrived.
    verdict: of the network it is about.
    """
    unknown = set(given) - {"privacy", "loss"}
    if unknown:
        raise InvalidRequest(f"ask: expected privacy or loss, found {sorted(unknown)[0]!r}")
    loss = given.get("loss")
    if loss is not None:
        return Ask(loss=_number("loss", loss))
    wanted = given.get("privacy") or {}
    if not isinstance(wanted, dict):
        raise InvalidRequest("privacy: expected a privacy for each private parameter")
    strangers = [name for name in wanted if name not in verdict.limit]
    if strangers:
        raise InvalidRequest(f"privacy: {strangers[0]!r} is no private parameter of this network")
    return Ask(privacy={name: _number(f"privacy of {name!r}", value) for name, value in wanted.items()})


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value) or value < 0:
        raise InvalidRequest(f"{what}: expected a number that is not negative, found {str(value)[:40]!r}")
    return float(value)
