"""Networks whose answer is known by hand."""

from __future__ import annotations

import numpy as np

import veilnet as vn


def counterexample() -> vn.Network:
    """Erratum 3: three scalar agents, two of which can hide together what neither hides alone."""
    return vn.Network(
        observe={"a": [[1, 0]], "b": [[1, 0]], "c": [[0, 1]]},
        noise=1.0,
        public={"u": [0, 1]},
        private={"g": [1, 0]},
    )


def identical_agents(count: int = 8, leak: float = 0.0) -> vn.Network:
    """The paper's Example 2: Theorem 2 holds exactly when the prior does not tie public to private."""
    observe = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    covariance = np.diag([2.0, 8.0, 5.0])
    covariance[0, 1] = covariance[1, 0] = leak
    return vn.Network(
        observe={f"room{k}": observe for k in range(count)},
        noise=0.5,
        public={"temperature": [1, 0, 0]},
        private={"gait": [0, 1, 0.3]},
        prior=vn.Prior(covariance=covariance),
    )
