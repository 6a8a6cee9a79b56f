"""Utility loss now and privacy with hindsight of all agents' shrinkages at once, with gradients (section 7).

A sanitization is one symmetric X_i in [0, I] per agent, on its knowledge in white combinations: 0 is silence, I all
it knows. With w = V v + N(0, W) the stacked knowledge, B the covariance of the noise of the next state with that of
w, and E = W - I, messages are as good as knowing w up to noise X^-1 - I, and everything depends on

    N(X) = X (I + E X)^-1,   J = V'N V,   A = A_v - B N V,   Q = Q_v - B N B'.

Then Σ = A (Σ^-1 + J)^-1 A' + Q and Y = J + A'(Y^-1 + Q)^-1 A are the steady state: P = (Σ^-1 + J)^-1 is the error
now, P_h = (Σ^-1 + Y)^-1 with hindsight. The adjoints of both are Stein equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from veilnet._core.lyapunov import stationary_covariance
from veilnet._core.types import Array
from veilnet.bounds.streams.riccati import doubled
from veilnet.designs.joint.objective import Evaluation
from veilnet.designs.streams.knowledge import JointState

FINEST = 1e-10
"""The least noise of a message relative to the knowledge it is made of. An exact message of old knowledge, which
holds no new noise, is thus still regular; what is handed out is exact and judged as such."""


class StreamObjective:
    """Loss and privacies as functions of X, one (count, d, d) array per group of agents who know equally much."""

    def __init__(
        self, knowledge: JointState, *, finest: float = FINEST, counted: Callable[[], None] | None = None
    ) -> None:
        self.knowledge = knowledge
        self.finest = finest
        self._counted = counted  # called with every evaluation
        self.groups = knowledge.blocks.groups
        self.targets = len(knowledge.private)
        self.evaluations = 0
        size = knowledge.blocks.total
        self._coupling = knowledge.fresh - (1.0 - finest) * np.eye(size)
        self._independent = not np.any(self._coupling * (1 - knowledge.blocks.same_agent()))
        self._own = [group.diagonal_blocks(self._coupling) for group in self.groups]
        self._public = knowledge.public.T @ knowledge.public / knowledge.raw_public
        self._private = [
            rows.T @ rows / raw for rows, raw in zip(knowledge.private, knowledge.raw_private, strict=True)
        ]

    def __call__(self, shrink: Sequence[Array]) -> Evaluation:
        """Loss and privacies at X, infinite where the messages leave no steady state."""
        self.evaluations += 1
        if self._counted is not None:
            self._counted()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._evaluation(shrink)
        except np.linalg.LinAlgError:
            return Evaluation(list(shrink), np.inf, np.full(self.targets, np.inf), [])

    def _evaluation(self, shrink: Sequence[Array]) -> Evaluation:
        model = self.knowledge
        turned, passed = self._passed(shrink)
        cross = model.cross @ passed
        information = model.view.T @ passed @ model.view
        transition = model.transition - cross @ model.view
        noise = model.noise - cross @ model.cross.T
        # Σ, the error of the state before its row has come, and Y, the information about it from that row on.
        before, seen = doubled(
            transition, (noise + noise.T) / 2, -(information + information.T) / 2, dual=True
        )
        onward = -seen
        identity = np.eye(len(before))
        kept: Array = np.asarray(np.linalg.inv(identity + before @ information), dtype=np.float64)
        kept_for_good: Array = np.asarray(np.linalg.inv(identity + before @ onward), dtype=np.float64)
        now, hindsight = kept @ before, kept_for_good @ before
        lost = float((self._public * (before if model.later else now)).sum())
        privacy = np.array([float((weight * hindsight).sum()) for weight in self._private]) - 1.0
        return Evaluation(
            list(shrink),
            max(lost if model.later else lost - 1.0, 0.0),
            np.maximum(privacy, 0.0),
            [transition, noise, onward, kept, kept_for_good, now, hindsight, turned],
        )

    def with_infinities(self, shrink: Sequence[Array], privacy: Array) -> Array:  # noqa: ARG002
        """The privacies as they are: infinite ones are found so."""
        return privacy

    def coarser(self, finest: float) -> StreamObjective:
        """The same with a larger least noise: a smoother landscape to begin a search in."""
        if self.finest >= finest:
            return self
        return StreamObjective(self.knowledge, finest=finest, counted=self._counted)

    def finer(self, coarse: StreamObjective, shrink: Sequence[Array]) -> list[Array]:
        """The X that says here what another one says where the least noise is larger."""
        more = coarse.finest - self.finest
        return [np.asarray(np.linalg.solve(np.eye(x.shape[1]) + more * x, x), np.float64) for x in shrink]

    def _passed(self, shrink: Sequence[Array]) -> tuple[Array, Array]:
        """(I + E X)^-1 and N = X (I + E X)^-1, on the stacked knowledge."""
        size = self.knowledge.blocks.total
        turned, passed = np.zeros((size, size)), np.zeros((size, size))
        if self._independent:
            for group, own, x in zip(self.groups, self._own, shrink, strict=True):
                blocks = np.linalg.inv(np.eye(group.size) + own @ x)
                at = group.rows[:, :, None], group.rows[:, None, :]
                turned[at], passed[at] = blocks, x @ blocks
        else:
            for group, x in zip(self.groups, shrink, strict=True):
                passed[group.rows[:, :, None], group.rows[:, None, :]] = x
            turned[:] = np.linalg.inv(np.eye(size) + self._coupling @ passed)
            passed = passed @ turned
        return turned, (passed + passed.T) / 2

    def gradient(self, at: Evaluation, of_loss: float, of_privacy: Array) -> list[Array]:
        """∇_X of ``of_loss * loss + of_privacy @ privacy``, per group."""
        if at.seen:
            with np.errstate(over="ignore", invalid="ignore"):
                slope = self._slope(at, of_loss, of_privacy)
            if np.all(np.isfinite(slope)):
                blocks = [group.diagonal_blocks(slope) for group in self.groups]
                return [np.asarray((each + each.transpose(0, 2, 1)) / 2) for each in blocks]
        return [np.zeros((group.count, group.size, group.size)) for group in self.groups]

    def _slope(self, at: Evaluation, of_loss: float, of_privacy: Array) -> Array:
        """Gradient by X of all agents, of which the blocks on the diagonal count."""
        model = self.knowledge
        transition, noise, onward, kept, kept_for_good, now, hindsight, turned = at.seen
        public = of_loss * self._public
        private = sum((w * p for w, p in zip(of_privacy, self._private, strict=True)), 0 * public)
        source = kept_for_good.T @ private @ kept_for_good
        source = source + (public if model.later else kept.T @ public @ kept)
        by_before = stationary_covariance((transition @ kept).T, source)
        back = np.linalg.inv(np.eye(len(noise)) + noise @ onward)  # (I + Q Y)^-1
        future = onward @ back
        by_onward = stationary_covariance(back @ transition, -hindsight @ private @ hindsight)
        pull = transition.T @ by_before @ transition
        by_information = by_onward - now @ (pull if model.later else pull + public) @ now
        by_noise = by_before - future @ transition @ by_onward @ transition.T @ future
        by_transition = 2 * (by_before @ transition @ now + future @ transition @ by_onward)
        by_passed = (
            model.view @ by_information @ model.view.T
            - model.cross.T @ by_transition @ model.view.T
            - model.cross.T @ by_noise @ model.cross
        )
        return np.asarray(turned @ ((by_passed + by_passed.T) / 2) @ turned.T)
