"""What the agents of a part send, read from its plan and checked: for the certificate, the centre and simulations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.validation import refuse_unknown
from veilnet.agent.mechanisms import SanitizerStack
from veilnet.cluster.parts import DAMAGED, LoadedPart, Parts, arrays_of, opened, read_part

PLAN = "plan"
PROMISES = "plan.json"
"""In the folder of the plan, there only as long as all parts are those of one plan that was confirmed."""


def stacks_of(
    rows: Array, sent: Integers, variances: Array | None = None, grid: Array | None = None
) -> Iterator[SanitizerStack]:
    """The agents of a part by how many numbers they send, none too; the arguments are those of :class:`Sending`."""
    for number in np.unique(sent).tolist():
        places = np.flatnonzero(sent == number)
        few = (
            None if each is None else np.ascontiguousarray(each[places, :number])
            for each in (variances, grid)
        )
        yield SanitizerStack(places, np.ascontiguousarray(rows[places, :number]), *few)


@dataclass(frozen=True, eq=False)
class Sending:
    """What the agents of a part send, C_i (y_i + d_i - offset_i) + ξ_i.

    compression: (s, most, n), rows beyond those sent are zero.
    sent:        how many rows each agent sends, (s,).
    grid:        the step of each number, (s, most).
    variances:   of the noise added to each number, 0 or 1, (s, most); None where nothing is added.
    """

    compression: Array
    sent: Integers
    grid: Array
    variances: Array | None

    @property
    def numbers(self) -> int:
        """How many numbers all of them send together: side by side, agent after agent."""
        return int(self.sent.sum())

    @property
    def senders(self) -> Integers:
        """The places of the agents that send anything."""
        return np.flatnonzero(self.sent)

    def stacks(self) -> Iterator[SanitizerStack]:
        """Those who send anything, by how many numbers they send."""
        found = stacks_of(self.compression, self.sent, self.variances, self.grid)
        return (stack for stack in found if stack.sent)

    def columns(self, stack: SanitizerStack) -> Integers:
        """Where the numbers of a stack are among all that the part sends, (count * k,)."""
        starts = np.cumsum(self.sent) - self.sent
        return np.asarray(starts[stack.places][:, None] + np.arange(stack.sent)).reshape(-1)

    def silent(self, numbers: Array) -> Booleans:
        """Which senders sent nothing in each of some rows (T, numbers): not all of their numbers are finite."""
        if not self.numbers:
            return np.zeros((len(numbers), 0), bool)
        starts = (np.cumsum(self.sent) - self.sent)[self.senders]
        return np.asarray(~np.logical_and.reduceat(np.isfinite(numbers), starts, axis=1))


def read_plan_part(folder: Path, name: str) -> dict[str, Any]:
    """The arrays of one part of a plan; InvalidPlan where it is missing or damaged."""
    path = folder / PLAN / name
    try:
        with path.open("rb") as file:
            return arrays_of(file)
    except FileNotFoundError as error:
        raise InvalidPlan(f"{path}: this part of the plan is missing; design once more") from error
    except DAMAGED as error:
        raise InvalidPlan(f"{path}: this part of the plan is damaged ({error}); design once more") from error


def read_sending(folder: Path, name: str, part: LoadedPart) -> Sending:
    """What the agents of a part send; InvalidPlan where that is not a plan for this part."""
    path = folder / PLAN / name
    found = read_plan_part(folder, name)
    count, size, _ = part.observe.shape
    try:
        rows, sent, grid = found["compression"], found["sent"], found["grid"]
        digest = str(found["digest"])
    except KeyError as error:
        raise InvalidPlan(f"{path}: {error} is missing; design once more") from error
    if digest != part.digest:
        raise InvalidPlan(f"{path}: made for another {name} than the one beside it; design once more")
    fits = rows.ndim == 3 and rows.shape[::2] == (count, size) and sent.shape == (count,)
    fits = fits and grid.shape == rows.shape[:2]
    if not fits or sent.dtype.kind not in "iu" or np.any((sent < 0) | (sent > rows.shape[1])):
        raise InvalidPlan(f"{path}: expected what {count} agents of {size} readings send; design once more")
    variances = found.get("variances")
    if variances is not None and (
        variances.shape != grid.shape
        or variances.dtype != np.float64
        or np.any((variances != 0) & (variances != 1))
    ):
        raise InvalidPlan(f"{path}: expected noise of variance 0 or 1 for each number; design once more")
    if not np.all(np.isfinite(rows)):
        raise InvalidPlan(f"{path}: expected finite numbers to send; design once more")
    return Sending(rows, sent, grid, variances)


def numbers_sent(parts: Parts | str | PathLike[str], part: str) -> Integers:
    """How many numbers each agent of a part sends, (s,): its messages have them side by side, agent after agent.

    parts: the network, or its folder; it was designed.
    part:  the name of its part, "part-00000.npz".
    """
    network = opened(parts)
    refuse_unknown([part], [each.name for each in network.parts], "part", error=InvalidRequest)
    return read_sending(network.folder, part, read_part(network.folder / part, network.length)).sent


def plan_name(folder: Path) -> str:
    """The name of the plan of a network in parts, which its messages carry: a digest of what it promises."""
    path = folder / PLAN / PROMISES
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InvalidPlan(f"{path}: {error.strerror}; design first") from error
