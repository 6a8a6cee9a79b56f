"""What rounding to a grid adds to the numbers that agents send (:mod:`veilnet.agent.grid`)."""

from __future__ import annotations

import numpy as np

from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network


def as_rounded(network: Network, sanitizers: Sanitizers) -> dict[str, Sanitizer]:
    """What agents send as a linear centre sees it: rounding is noise, of variance q²/6 with dither and q²/12 without.

    network:    whose agents they are.
    sanitizers: what they send; an agent without a grid rounds nothing.
    """
    return {agent: _with_rounding(each) for agent, each in mechanisms(network, sanitizers).items()}


def _with_rounding(sanitizer: Sanitizer) -> Sanitizer:
    if sanitizer.grid is None:
        return sanitizer
    blurred = np.sqrt(np.diag(sanitizer.noise)) >= sanitizer.grid
    added = sanitizer.grid**2 / np.where(blurred, 12.0, 6.0)
    return sanitizer.replace(noise=sanitizer.noise + np.diag(added))
