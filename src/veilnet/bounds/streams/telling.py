"""Agents whose exact numbers tell their readings anyway: sending the readings is the same, and easier to compute.

An agent that sends as many exact numbers a row as it has readings, or more, usually gives them away: its numbers
repeat one another from row to row, parts of its memory become known exactly, and covariances of what is new become
singular.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.lyapunov import undetectable_directions
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer

__all__ = ["TOLD", "telling_raw", "tells_readings"]

# A combination of readings that moves no number sent by more than this part is not told by the row itself.
TOLD = 1e-9


def tells_readings(transition: Array, gain: Array, from_memory: Array, from_reading: Array) -> bool:
    """Whether exact numbers C_s s + C_y y, s = F s + K y, up to now tell every reading y.

    With D = C_y + C_s K of full column rank, y_t = D^+ (z_t - C_s F s_{t-1}): one who has s wrong is wrong by
    (F - K D^+ C_s F) times as much a row later, and sees it in what z_t - C_s F s_{t-1} has outside the range of D.
    The readings are told iff that error dies away or is seen.
    """
    direct = from_reading + from_memory @ gain
    left, singular, _ = np.linalg.svd(direct)
    if len(singular) < gain.shape[1] or singular[-1] <= TOLD * max(1.0, singular[0]):
        return False
    if len(transition) == 0:
        return True
    carried = from_memory @ transition
    wrong = transition - gain @ (np.linalg.pinv(direct) @ carried)
    seen = left[:, len(singular) :].T @ carried
    return bool(undetectable_directions(wrong, seen).shape[1] == 0)


def telling_raw(sanitizers: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
    """The same sanitizers, those that tell their readings exactly replaced by ones that send them as they are."""
    return {
        agent: Sanitizer.raw(each.readings) if _tells(each) else each for agent, each in sanitizers.items()
    }


def _tells(sanitizer: Sanitizer) -> bool:
    memory = sanitizer.memory
    if memory is None:
        return False
    rows, noisy = sanitizer.normal
    exact, order = rows[~noisy], memory.order
    if len(exact) < sanitizer.readings:
        return False
    return tells_readings(memory.transition, memory.gain, exact[:, :order], exact[:, order:])
