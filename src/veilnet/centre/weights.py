"""What the estimate of one set of agents multiplies messages with, laid out for products over many rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.centre.messages import CentreModel, View

__all__ = ["ROWS_AT_ONCE", "Weights", "weights_for"]

ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Weights:
    """The estimate is messages @ gain + constants.

    view:      what the set of agents tells.
    key:       which agents are silent, packed.
    gain:      (M, rows of U), 0 where an agent is silent or a parameter not estimable.
    constants: repeated for as many rows as are estimated at once; not a number where not estimable.
    present:   (M,), which numbers are sent.
    all_count: whether every number sent weighs in some estimate, so that it cannot be bad unseen.
    """

    view: View
    key: bytes
    gain: Array
    constants: Array
    present: Booleans
    all_count: bool


def weights_for(model: CentreModel, silent: Booleans, key: bytes) -> Weights:
    """The weights of the agents that are not silent."""
    view = model.view(~silent) if silent.any() else model.complete
    present = np.repeat(~silent, model.blocks.sizes)
    own = np.where(view.estimable[:, None], view.gain, 0.0).T
    gain = np.zeros((model.blocks.total, len(model.labels)))
    gain[present] = own
    constant = model.public_expected - model.expected[present] @ own
    constant[~view.estimable] = np.nan
    return Weights(
        view=view,
        key=key,
        gain=gain,
        constants=np.tile(constant, ROWS_AT_ONCE),
        present=present,
        all_count=bool(np.all(np.any(own != 0.0, axis=1))),
    )
