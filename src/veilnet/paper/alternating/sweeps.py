r"""The paper's Algorithm 3, alternating optimisation, in the standard form.

Agents take turns, i = 1..S. Each solves (P2) exactly, the others fixed: the least utility loss it can cause while
every private parameter keeps its target. One round of turns is a sweep.

The printed formulas (section VI, Appendix E) need Θ̄ = Θ^-1 and T = (Θ̄_\i + Φ_\i\i)^-1, which do not exist where an
agent sends a noiseless or no combination. The same subproblem is written here with X_i = (I + Θ_i)^-1 in [0, I].
For X block diagonal let Q = (I + EX)^-1 E and W = (I + EX)^-1 H (Q = 0, W = H for independent noise), so that
J̃ = J0 + H'XW. Replacing X_i by X_i + D changes, with F = D(I + Q_ii D)^-1,

    J̃ by W_i'F W_i,     Q by -Q_:i F Q_i:,     W by -Q_:i F W_i,

so one turn costs matrices of the agent's own size and L, and for correlated noise one update of rank N_i. Taking
D = I - X_i gives what the centre would know if agent i sent everything, J_r, W_r, Q_r, and with P_r = J_r^-1

    P̃ = P_r + P_r W_r' Z W_r P_r,    Z = (Θ̄_i + Ω)^-1,    Ω = I - (Q_r)_ii - W_r P_r W_r':

the paper's expressions, its Ω, Γ_u = W_r P_r U'U P_r W_r' and Γ_pj, without its inverses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgesv, dpotrf, dsyevd, dtrtrs

from veilnet._core.errors import Infeasible
from veilnet._core.progress import Progress, asks_to_stop, silent
from veilnet._core.types import Array
from veilnet.model.standard_form import StandardForm
from veilnet.paper.alternating.subproblem import Optimum, solve_factored

# Targets are aimed at with this relative margin, so that rounding does not leave a plan just short of them.
_MARGIN = 1e-11
# Where silence has infinite error, this share of what only one agent knows stays with the centre, per unit of
# privacy asked: far too little for any target to notice, and enough for every matrix to have an inverse.
_NEARLY_SILENT = 1e-6
_FAINTEST = 1e-14
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Utility loss and the privacy of each private parameter once every agent has had its turn."""

    loss: float
    privacy: Array


@dataclass(frozen=True, eq=False)
class AlternatingResult:
    """What the alternation ended with.

    shrink: X_i = (I + Θ_i)^-1 in [0, I], one (count, n, n) array per group of ``form.blocks``.
    sweeps: loss and privacy after each sweep; the first entry is the start.
    interrupted: whether progress asked to stop before the last sweep.
    """

    shrink: list[Array]
    sweeps: list[Sweep]
    interrupted: bool = False


def alternate(
    form: StandardForm, targets: Array, *, sweeps: int = 20, progress: Progress | None = None
) -> AlternatingResult:
    """Algorithm 3: ``sweeps`` rounds of one-agent optimisation from (near) silence.

    ``targets`` are the ε_j, one per private parameter. The paper starts at Θ̄ = 0, silence. With a prior that
    determines x this start is taken as it is. Otherwise it does not exist (erratum 8: T and Ω^-1 are inverses of
    singular matrices, and every loss is infinite), and every agent starts with white noise of the same strength,
    Θ = τI, the least τ at which all targets hold. Fainter starts exist too, but are traps: what nobody else
    mentions is of no use to the centre, so no agent begins to mention it. Measured without prior at S = 9,
    ε = 100: losses 4 to 12 after 20 sweeps from near silence, 0.2 to 0.5 from here. For the same reason no turn
    takes what only that agent knows to exact silence, but to a share of it that no target can notice.

    The loss never rises from sweep to sweep and every target holds after each. Fewer turns are taken once a whole
    sweep changes nothing; its entry is then repeated.
    """
    wanted = np.broadcast_to(np.asarray(targets, dtype=np.float64), (len(form.private),))
    state, floor = _start(form, wanted)
    history = [state.summary()]
    report = progress or silent
    for done in range(1, sweeps + 1):
        before = [x.copy() for x in state.shrink]
        moved = state.sweep(floor)
        state.refresh()
        reached = state.summary()
        if not moved or not reached.loss <= history[-1].loss or np.any(reached.privacy < wanted):
            # Only rounding is left to gain.
            state.shrink = before
            history += [history[-1]] * (sweeps + 1 - done)
            break
        history.append(reached)
        if asks_to_stop(report("alternating optimisation", done / sweeps)) and done < sweeps:
            return AlternatingResult(state.shrink, history, interrupted=True)
    return AlternatingResult(state.shrink, history)


def _start(form: StandardForm, targets: Array) -> tuple[_State, float]:
    """The start of :func:`alternate`, and the least share of its own knowledge an agent must leave in place."""
    silent = [np.zeros((group.count, group.size, group.size)) for group in form.blocks.groups]
    values, vectors = np.linalg.eigh(form.information)
    known = values > 64 * _EPS * values.size
    root = vectors[:, known] / np.sqrt(values[known])
    for j, rows in enumerate(form.private):
        outside = np.linalg.norm(rows @ vectors[:, ~known])
        limit = float(np.sum((rows @ root) ** 2) - np.sum(rows**2))
        if outside <= 1e-9 * np.linalg.norm(rows) and targets[j] > limit * (1 + 1e-9):
            raise Infeasible(
                f"targets: private parameter {j} can reach at most {limit:.6g} (the prior alone tells that much), "
                f"found {targets[j]:.6g}; ask for less."
            )
    if np.all(known):
        return _State(form, targets, silent), 16 * _EPS
    floor = _NEARLY_SILENT / (1 + max(0.0, float(np.max(targets, initial=0.0))))
    raw = _equally_faint(form, targets, 1.0)
    if raw.holds():
        return raw, floor
    state = _equally_faint(form, targets, _FAINTEST)
    if not state.holds():
        raise Infeasible(
            f"targets: {targets.tolist()} leave no room for any message, being at the limit of what silence itself "
            "gives; ask for less privacy."
        )
    quiet, loud = _FAINTEST, 1.0
    while loud > quiet * (1 + 1e-6):
        middle = float(np.sqrt(quiet * loud))
        trial = _equally_faint(form, targets, middle)
        if trial.holds():
            quiet, state = middle, trial
        else:
            loud = middle
    return state, floor


def _equally_faint(form: StandardForm, targets: Array, level: float) -> _State:
    """Every agent adds white noise of one strength to its whitened readings: X_i = level · I."""
    return _State(
        form,
        targets,
        [np.tile(level * np.eye(group.size), (group.count, 1, 1)) for group in form.blocks.groups],
    )


class _State:
    """A sanitization X with the matrices that turns update: J̃, and for correlated noise [Q | W]."""

    def __init__(self, form: StandardForm, targets: Array, shrink: list[Array]) -> None:
        self.form = form
        self.targets = targets
        self.aimed = targets + _MARGIN * (1 + np.abs(targets))
        self.shrink = shrink
        self.order = sorted(
            (int(agent), g, k)
            for g, group in enumerate(form.blocks.groups)
            for k, agent in enumerate(group.agents)
        )
        rows = [form.public, *form.private]
        self.edges = np.cumsum([0, *(part.shape[0] for part in rows)])
        self.rows_t = np.asfortranarray(np.concatenate(rows).T)
        self.raw_errors = self._errors(self.rows_t)
        self.prices = np.ones(form.blocks.count)
        self.refresh()

    def refresh(self) -> None:
        """Recompute everything from X alone, its eigenvalues clipped to [0, 1]."""
        form = self.form
        for g, shrink in enumerate(self.shrink):
            values, vectors = np.linalg.eigh(0.5 * (shrink + shrink.swapaxes(1, 2)))
            clipped = np.clip(values, 0.0, 1.0)
            self.shrink[g] = (vectors * clipped[:, None, :]) @ vectors.swapaxes(1, 2)
        if form.coupling is None:
            self.responses = None
            seen = form.observe
        else:
            mixed = np.eye(form.blocks.total)
            for group, shrink in zip(form.blocks.groups, self.shrink, strict=True):
                for rows, block in zip(group.rows, shrink, strict=True):
                    mixed[:, rows] += form.coupling[:, rows] @ block
            self.responses = np.linalg.solve(mixed, np.concatenate([form.coupling, form.observe], axis=1))
            seen = self.responses[:, form.blocks.total :]
        information = form.information.copy()
        for group, shrink in zip(form.blocks.groups, self.shrink, strict=True):
            sent_rows = shrink @ group.take(seen)
            information += np.tensordot(group.take(form.observe), sent_rows, ([0, 1], [0, 1]))
        self.information = 0.5 * (information + information.T)

    def _errors(self, half: Array) -> Array:
        """tr(U P̃ U') and tr(G_j P̃ G_j') from T^-1 [U' G_1' ..] where J̃ = TT'."""
        return (
            np.add.reduceat(np.einsum("kl,kl->l", half, half), self.edges[:-1]) if half.size else np.zeros(0)
        )

    def measure(self, information: Array) -> Array | None:
        """Utility loss and privacies at an information matrix; None where it is singular."""
        factor, failed = dpotrf(information, lower=1)
        if failed:
            return None
        half, _ = dtrtrs(factor, self.rows_t, lower=1)
        return self._errors(half) - self.raw_errors

    def summary(self) -> Sweep:
        """Loss and privacy of the present X."""
        measured = self.measure(self.information)
        if measured is None:
            return Sweep(np.inf, np.full(self.targets.size, np.inf))
        return Sweep(float(measured[0]), measured[1:])

    def holds(self) -> bool:
        """Whether J̃ is regular and every target is met."""
        measured = self.measure(self.information)
        return measured is not None and bool(np.all(measured[1:] >= self.targets))

    def sweep(self, floor: float) -> bool:
        """Every agent's turn, in order. True if any agent changed its sanitization."""
        now = self.measure(self.information)
        moved = False
        for agent, g, k in self.order:
            turn = _Turn(self, agent, self.shrink[g][k], floor)
            better = turn.take(np.inf if now is None else float(now[0]))
            if better is not None:
                shrink, information, now = better
                turn.commit(shrink, information)
                self.shrink[g][k] = shrink
                moved = True
        return moved


class _Turn:
    """One agent's subproblem: the paper's Ω, Γ_u, Γ_pj and ε'_j in the agent's own coordinates."""

    def __init__(self, state: _State, agent: int, shrink: Array, floor: float) -> None:
        form = state.form
        self.state, self.agent, self.shrink = state, agent, shrink
        self.rows = form.blocks.rows(agent)
        size = shrink.shape[0]
        eye = np.eye(size)
        unsent = eye - shrink
        if state.responses is None:
            self.cross = None
            self.seen = raw_seen = form.observe[self.rows]
        else:
            total = form.blocks.total
            own = state.responses[self.rows]
            self.cross = own[:, self.rows]
            self.seen = own[:, total:]
            together = np.concatenate([self.cross, self.seen], axis=1)
            raw = dgesv(eye + self.cross @ unsent, together)[2]
            raw_seen = raw[:, size:]
        raw_information = state.information + self.seen.T @ (unsent @ raw_seen)
        factor, failed = dpotrf(raw_information, lower=1)
        self.possible = failed == 0
        if not self.possible:
            return
        half, _ = dtrtrs(factor, np.concatenate([raw_seen.T, state.rows_t], axis=1), lower=1)
        seen_half, rows_half = half[:, :size], half[:, size:]
        self.raw_errors = state._errors(rows_half)
        # Ω = B (I - Y Y') B' with B B' = I - (Q_r)_ii; eigenvalues of I - YY' near 0 are directions of x that only
        # this agent sees.
        if self.cross is None:
            self.root = eye
        else:
            self.root, _ = dpotrf(eye - 0.5 * (raw[:, :size] + raw[:, :size].T), lower=1, clean=1)
            seen_half = dtrtrs(self.root, seen_half.T, lower=1)[0].T
        shared, basis, _ = dsyevd(eye - seen_half.T @ seen_half)
        lifted = np.maximum(shared, floor)
        self.held_back = lifted - shared if shared[0] < floor else None
        self.basis = basis
        self.half_omega = (self.root @ basis) * np.sqrt(lifted)
        self.factors = ((seen_half @ basis).T @ rows_half) / np.sqrt(lifted)[:, None]

    def take(self, loss: float) -> tuple[Array, Array, Array] | None:
        """A sanitization at least as good as the present one with every target met, or None to keep that."""
        if not self.possible:
            return None
        state = self.state
        thresholds = state.aimed - (self.raw_errors[1:] - state.raw_errors[1:])
        for _ in range(3):
            optimum = solve_factored(self.factors, state.edges, thresholds, float(state.prices[self.agent]))
            if optimum is None:
                return None
            state.prices[self.agent] = optimum.price
            shrink = self._shrink(optimum)
            information = self._information(shrink)
            measured = state.measure(information)
            if measured is None:
                return None
            short = state.targets - measured[1:]
            if not np.any(short > 0):
                no_worse = measured[0] <= loss + 4 * _EPS * (1 + loss)
                return (shrink, information, measured) if no_worse else None
            # Cancellation ate the margin: ask for what is missing, and a little more.
            thresholds = thresholds + 2 * np.maximum(short, 0.0) + _MARGIN * (1 + np.abs(state.targets))
        return None

    def _shrink(self, optimum: Optimum) -> Array:
        """X_i from the subproblem's X: with Ω = DD', Θ = D^-T X(I - X)^-1 D^-1, hence X_i = (I + Θ)^-1.

        Written with the part of X that is sent, I - X = RR', so that neither 0 nor 1 is divided by.
        """
        sent = 1 - optimum.values
        part = sent > 0
        shrink = np.zeros_like(self.shrink)
        if np.any(part):
            scaled = (self.half_omega @ optimum.vectors[:, part]) * np.sqrt(sent[part])
            middle = scaled.T @ scaled
            middle.flat[:: middle.shape[0] + 1] += optimum.values[part]
            factor, failed = dpotrf(middle, lower=1)
            if failed:
                return self.shrink
            half, _ = dtrtrs(factor, scaled.T, lower=1)
            shrink = half.T @ half
        if self.held_back is not None:
            # (Θ̄ + δ)(I + Θ̄ + δ)^-1 to first order in the floor δ = Ω_floor - Ω, itself far below rounding squared.
            unsent = (np.eye(shrink.shape[0]) - shrink) @ self.root @ self.basis
            shrink = shrink + (unsent * self.held_back) @ unsent.T
        return shrink

    def _information(self, shrink: Array) -> Array:
        change = shrink - self.shrink
        if self.cross is not None:
            change = dgesv(np.eye(change.shape[0]) + change @ self.cross, change)[2]
            change = 0.5 * (change + change.T)
        self.change = change
        information: Array = self.state.information + self.seen.T @ (change @ self.seen)
        return information

    def commit(self, shrink: Array, information: Array) -> None:
        """Make the turn's result the state's."""
        state = self.state
        state.information = information
        self.shrink = shrink
        if state.responses is not None:
            state.responses -= state.responses[:, self.rows] @ (self.change @ state.responses[self.rows])
