"""At the limit ε^max: telling nothing at all about a private parameter.

p_j is at its limit when no message moves the prior's estimate of g_j. In standard form X_i H_i J0^+ G_j' = 0 at every
agent is enough, and necessary for J0 ≻ 0. Among all such X, sending everything else is best for utility: X_i is the
projection off the columns of H_i J0^+ G_j'.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import pinvh

from veilnet._core.types import Array, Booleans
from veilnet.model.standard_form import StandardForm

# Columns below this part of the largest one are rounding of nothing shown.
_SHOWN = 1e-12


def telling_nothing(form: StandardForm, about: Booleans) -> list[Array]:
    """X per size group, telling nothing about the private parameters chosen, and everything else."""
    private = np.concatenate([rows for rows, chosen in zip(form.private, about, strict=True) if chosen])
    shown = form.observe @ (pinvh(form.information) @ private.T)
    shown /= np.linalg.norm(shown, axis=0)
    points = []
    for group in form.blocks.groups:
        left, sizes, _ = np.linalg.svd(group.take(shown), full_matrices=False)
        withheld = left * (sizes > _SHOWN)[:, None, :]
        points.append(np.eye(group.size) - withheld @ withheld.transpose(0, 2, 1))
    return points
