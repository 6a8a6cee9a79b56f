"""What someone at the workbench asks for, and the command that asks for the same."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet.designs.choice import design
from veilnet.designs.questions import Times, Worst
from veilnet.designs.secrets import Auc
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.verdict import Verdict

_PRIVATE = "private parameter"


@dataclass(frozen=True)
class Ask:
    """One question: for the free plan, for privacies, or for a loss that is accepted.

    privacy: p_j that is asked of each private parameter; empty when it is not the question. Of those in ``seen`` the
             AUC with which their change may be seen.
    loss:    the utility loss that is accepted; None when it is not the question.
    worst:   private parameters of which ``privacy`` is asked of every direction (:class:`Worst`), not of their mean.
    give_up: private parameters without a number in ``privacy`` that may be hidden less than they are for free.
    seen:    secrets among the names in ``privacy``.
    """

    privacy: Mapping[str, float] = field(default_factory=dict)
    loss: float | None = None
    worst: tuple[str, ...] = ()
    give_up: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()

    @property
    def targets(self) -> dict[str, float | Worst | Auc]:
        """What ``design`` is asked for."""
        return {
            name: Auc(each) if name in self.seen else Worst(each) if name in self.worst else each
            for name, each in self.privacy.items()
        }

    @property
    def pays(self) -> bool:
        """Whether it asks for more than what is free."""
        return bool(self.privacy) if self.loss is None else self.loss > 0

    @property
    def of_every_direction(self) -> bool:
        """Whether privacy of every direction of some parameter is asked for."""
        return self.loss is None and any(self.privacy.get(name, 0.0) > 0 for name in self.worst)

    def answered(self, network: Network, progress: Progress | None = None) -> Plan:
        """The plan that ``design`` answers with."""
        if not self.pays:
            return design(network, progress=progress)
        if self.loss is not None:
            return design(network, utility_loss=Times(self._ratio), give_up=self.give_up, progress=progress)
        return design(network, privacy=self.targets, give_up=self.give_up, progress=progress)

    @property
    def _ratio(self) -> float:
        """Of the public standard errors, sent and raw."""
        return float(np.sqrt(1 + (self.loss or 0.0)))

    def command(self, file: str, model_error: float | None = None) -> str:
        """The command line that asks the same.

        file:        of the network, as it was opened.
        model_error: how far its model may be off, where that is not as the file says.
        """
        words = ["veilnet", "design", file]
        if model_error is not None:
            words += ["--model-error", repr(model_error)]
        if self.pays and self.loss is not None:
            words += ["--public-error", f"{self._ratio:.6g}x"]
        for name, value in self.privacy.items() if self.loss is None else ():
            ratio = f"{np.sqrt(1 + value):.6g}x"
            asked = (
                f"auc:{value!r}" if name in self.seen else f"worst:{ratio}" if name in self.worst else ratio
            )
            words += ["--private-error", f"{name}={asked}"]
        for name in self.give_up if self.pays else ():
            words += ["--give-up", name]
        return " ".join(shlex.quote(word) for word in [*words, "--out", "plan"])


def read_ask(given: Mapping[str, Any], verdict: Verdict) -> Ask:
    """The question as a page sends it: ``{"privacy": {name: p}}``, ``{"loss": part}`` or ``{}``.

    ``{"worst": [name, ...]}`` and ``{"give_up": [name, ...]}`` may go with it; a number stands in place of giving up.

    given:   what arrived.
    verdict: of the network it is about.
    """
    unknown = set(given) - {"privacy", "loss", "worst", "give_up"}
    if unknown:
        raise InvalidRequest(f"ask: expected privacy or loss, found {sorted(unknown)[0]!r}")
    worst, give_up = (
        read_names(what, given.get(what) or [], verdict.limit, _PRIVATE) for what in ("worst", "give_up")
    )
    loss = given.get("loss")
    if loss is not None:
        return Ask(loss=_number("loss", loss), give_up=give_up)
    wanted = given.get("privacy") or {}
    if not isinstance(wanted, dict):
        raise InvalidRequest("privacy: expected a privacy for each private parameter")
    read_names("privacy", list(wanted), verdict.limit, _PRIVATE)
    free, asked = {name: each.longest.auc for name, each in verdict.detectability.items()}, {}
    for name, given_value in wanted.items():
        value = _number(f"privacy of {name!r}", given_value)
        if value < free[name] if name in free else value > 0:  # a slider at rest keeps what is free
            asked[name] = value
    kept = tuple(name for name in give_up if name not in asked)
    found = Ask(asked, worst=worst, give_up=kept, seen=tuple(name for name in asked if name in free))
    found.targets  # noqa: B018 (no AUC below that of guessing)
    return found


def read_names(what: str, given: object, known: Container[str], kind: str) -> tuple[str, ...]:
    """Names as a page sends them, each among those known; ``kind`` says of what, "agent"."""
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidRequest(f"{what}: expected a list of {kind}s")
    strangers = [name for name in given if name not in known]
    if strangers:
        raise InvalidRequest(f"{what}: {strangers[0]!r} is no {kind} of this network")
    return tuple(dict.fromkeys(given))


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value) or value < 0:
        raise InvalidRequest(f"{what}: expected a number that is not negative, found {str(value)[:40]!r}")
    return float(value)
