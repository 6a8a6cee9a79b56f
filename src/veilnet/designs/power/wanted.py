"""What is to be hidden, in as few columns as it takes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from veilnet._core.linalg import orthonormal_rows
from veilnet._core.types import Array

_ROUNDING = 1e-14


def wanted_columns(public: Array, private: Iterable[Array]) -> Array:
    """G', (L, r), with Σ_j p_j = tr(G (J̃^-1 - I) G'): every parameter's rows divided by the root of its raw error.

    No noise at perfect utility touches what the public rows see, so that it is left out; none is left where all that
    is private is public too.

    public, private: U and the G_j in coordinates of x in which the raw information is the identity.
    """
    seen = orthonormal_rows(public)
    rows = np.concatenate([each / np.linalg.norm(each) for each in private])
    rows = rows - (rows @ seen.T) @ seen
    left, sizes, _ = np.linalg.svd(rows.T, full_matrices=False)
    kept = sizes > _ROUNDING
    return np.asarray(left[:, kept] * sizes[kept])
