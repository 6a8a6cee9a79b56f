"""Plans that several tests look at are designed once.

Plans are frozen and designs repeatable, so whichever test asks first changes nothing for the others. Tests that share
plans are in one file, which is one process's work: every process has its own plans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import veilnet as vn
from veilnet.auditing.fingerprint import network_fingerprint
from veilnet.designs.joint.settings import SETTINGS

Made = TypeVar("Made")
_MADE: dict[tuple[str, str, str, int], Any] = {}


def designed(network: vn.Network, **asked: Any) -> vn.Plan:
    """``vn.design(network, **asked)``."""
    return _once(vn.design, network, asked)


def traced(network: vn.Network, levels: list[float], **asked: Any) -> vn.Frontier:
    """``vn.frontier(network, levels, **asked)``."""
    return _once(vn.frontier, network, {"privacy": levels, **asked})


def _once(make: Callable[..., Made], network: vn.Network, asked: dict[str, Any]) -> Made:
    question = repr(sorted(asked.items()))
    key = (make.__name__, network_fingerprint(network), question, SETTINGS.scouts)
    if key not in _MADE:
        _MADE[key] = make(network, **asked)
    made: Made = _MADE[key]
    return made
