"""The grid that what the agents of a part send calls for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.types import Array
from veilnet.cluster.parts import PartFile
from veilnet.cluster.plans import stacked
from veilnet.plans.release_grid import with_release_grid


def grid_of(folder: Path, name: str, arrays: Mapping[str, Any]) -> Array:
    """(s, most), from the other arrays of a part of a plan."""
    network = PartFile(folder, name).network
    found = np.zeros(arrays["compression"].shape[:2])
    for stack in with_release_grid(network, stacked(network, arrays)).stacks:
        found[stack.places, : stack.sent] = stack.grid
    return found
