"""What ``veilnet inspect`` says of a plan's promise, and of whether a signed plan may follow the one before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet._core.errors import VeilnetError

if TYPE_CHECKING:
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.statements import StatedPromise, Statement


@dataclass(frozen=True)
class Agreement:
    """Whether a signed file may follow what ran before: why not, what it tells more, and what was done about it."""

    lines: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    refused: str = ""
    confirmed: bool = False

    @property
    def objection(self) -> bool:
        """Whether sanitize would refuse the file."""
        return bool(self.refused or (self.more and not self.confirmed))


def promise_of(
    path: Path, plan: str | None, signed: Statement | None, *, summed: bool
) -> tuple[list[str], str]:
    """(a line for each parameter, the whole in words) of the promise signed, or stated by plan.json beside the file.

    summed: whether it is of sums, whatever is stated of agents that help the centre.
    """
    from veilnet.plans.in_words import promise_in_words

    promise, source = None if signed is None else signed.promise, "verified by its signer"
    if promise is None:
        promise, source = _beside(path, plan), "from plan.json, which 'veilnet verify' recomputes"
    if promise is None:
        return [], "The promise is not stated: ask the designer for a signed file, or for the whole plan"
    utility, privacy, with_gaps, helped = promise.numbers()
    left = (helped or {}) if summed else None
    lines = promise_in_words(
        promise.public, utility, privacy, promise.constant, with_gaps, promise.changes, left
    )
    seen = "sums alone" if summed else "all messages"
    head = f"What the plan promises, against anybody who knows it and sees {seen} ({source}):"
    return lines, "\n".join([head, *(f"  {line}" for line in lines)])


def _beside(path: Path, plan: str | None) -> StatedPromise | None:
    """The promise in the plan.json beside an agent's file, if that is of the same plan."""
    from veilnet.io.plan_files import WHOLE
    from veilnet.io.plan_reading import read_plan_folder
    from veilnet.io.statements import StatedPromise
    from veilnet.plans.verification import confirmed

    if plan is None or not path.with_name(WHOLE).exists():
        return None
    try:
        saved = read_plan_folder(path.parent)
        return StatedPromise.of(confirmed(saved)) if saved.plan_id == plan else None
    except (VeilnetError, OSError):
        return None  # what cannot be read states nothing


def agreement(
    path: Path, sanitizer: Sanitizer, signed: Statement | None, record: Path | None, *, confirm: bool
) -> Agreement:
    """What the record of earlier plans says of a signed file; with ``confirm`` it is agreed to from now on."""
    if signed is None:
        return Agreement()
    from veilnet.io.acceptance import accept, accepted_beside, read_accepted, revealed_beyond, step_back

    said = [f"Signed as version {signed.version}, valid until {signed.expires}."]
    before = read_accepted(record or accepted_beside(path))
    refused = step_back(signed, before)
    if refused:
        return Agreement((*said, f"REFUSED: {refused}."), (), refused)
    more = revealed_beyond(sanitizer, signed, before)
    said += [f"MORE than the plan that was agreed to: {each}." for each in more]
    if confirm:
        accept(path, sanitizer, signed, record, confirmed=True)
        said.append("Agreed to: sanitize runs it, and what tells no more, from now on.")
    elif more:
        said.append("sanitize refuses it until you agree with --confirm.")
    elif before is not None:
        said.append("It tells no more than the plan that was agreed to.")
    return Agreement(tuple(said), more, "", confirm)
