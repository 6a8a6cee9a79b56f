"""A new plan from new calibration rows, beside what the old one promised and what its messages would allow now.

What old messages allow is said of a centre and an attacker who know the new model. A centre that goes on with the old
one errs more than that, since its weights, means and offsets are not true any more: by how much is seen on the new
rows themselves, sanitized and fused by the old plan, beside their truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.words import in_columns, join_names, times
from veilnet.bounds.knowledge import crlb, privacy, utility
from veilnet.calibration.fitting import Calibration, fit_report
from veilnet.calibration.roles import Roles
from veilnet.calibration.rows import Missing, Rows, read_rows
from veilnet.centre.fusion import Fusion
from veilnet.designs.choice import design
from veilnet.designs.questions import Target, Worst
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

_SAME_STEP = 0.01  # part of a step by which another may differ and be the same
_SEED = 20150211  # of the noise that is simulated to see what the old centre errs by


@dataclass(frozen=True, eq=False)
class Refit:
    """An old plan, the model of new data, and the plan made for it.

    old:         the plan as it was.
    calibration: the new network with its report and warnings.
    new:         the plan for it, asked for the same as the old one.
    errors:      public row -> root mean square error of the old centre on the new rows that every old agent would
                 send; empty for a stream, and where there are none.
    refused:     how many new rows are left out of ``errors``, since a reading is outside an old agent's limits.
    """

    old: Plan
    calibration: Calibration
    new: Plan
    errors: Mapping[str, float]
    refused: int = 0

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """(what, promised, the old messages in the new model, the new plan), in words."""
        network = self.new.network
        still = privacy(network, self.old.sanitizers)
        then, now = _deviations(self.old.network, self.old), _deviations(network, self.new)
        kept = _deviations(network, self.old)
        found = [
            (f"standard error of {name}", f"±{then[name]:.4g}", f"±{kept[name]:.4g}", f"±{now[name]:.4g}")
            for name in self.old.network.public_rows
        ]
        losses = (self.old.utility, utility(network, self.old.sanitizers), self.new.utility)
        found.append(_row("public standard error grows", [1 - each for each in losses]))
        growths = (self.old.privacy, still, self.new.privacy)
        found += [
            _row(f"standard error of {name} grows", [1 + each[name] for each in growths]) for name in still
        ]
        return found

    def __str__(self) -> str:
        headings = ("what changes", "promised", "old messages now", "new plan")
        last = "Old messages are evaluated under the new model. A centre that keeps the old one has larger errors"
        errors = [f"{name} ±{error:.4g}" for name, error in self.errors.items()]
        erring = join_names(errors) if errors else ""
        ending = [f"{last} (RMS on these rows: {erring})." if erring else f"{last}."]
        if self.refused and erring:
            count = "One row is" if self.refused == 1 else f"{self.refused} rows are"
            ending.append(f"{count} left out: a reading is outside the old plan's limits.")
        elif self.refused:
            ending.append(
                "How much larger cannot be measured: in every new row a reading is outside the old plan's limits, so "
                "its agents would send nothing."
            )
        return "\n".join([*in_columns([headings, *self.rows]), " ".join(ending)])


def refit(
    plan: Plan,
    table: Any,
    *,
    privacy: Target | Mapping[str, Target] | None = None,
    utility_loss: float | str | None = None,
    time: str | None = None,
    missing: Missing = "refuse",
    accept: Sequence[str] = (),
) -> Refit:
    """Fit a network to new rows with a plan's agents, public and private columns, and design for it anew.

    plan:  the old plan; its network must be one that ``fit`` made.
    table: new calibration rows, as :func:`veilnet.fit` takes them, with the same columns.
    privacy, utility_loss: what to ask for instead of what the old plan was asked for.
    time, missing: as for :func:`veilnet.fit`; a plan for a stream needs the time.
    accept: names of doubts of the new fit that are accepted; those accepted before were doubts of the old one.

    The new network is of the old one's kind: of a stream or of single rows, with limits or without, with the same
    ``model_error`` and the same ``step``, unless the new rows are further apart or nearer than that by a hundredth.
    Limits that were edited are proposed anew.
    """
    network = plan.network
    if network.is_stream and time is None:
        raise InvalidRequest(
            "time: the plan is for a stream; name the column that tells when rows were measured (on the command "
            "line: --time date)"
        )
    roles = Roles(
        {agent: list(names) for agent, names in _readings(network).items()},
        _columns(network, network.public),
        _columns(network, network.private),
    )
    calibration = fit_report(
        table,
        agents=roles.agents,
        public=roles.public,
        private=roles.private,
        time=time,
        stream=network.is_stream,
        missing=missing,
        noise="independent" if network.R.independent else "joint",
        prior=network.is_stream or network.prior is not None,
        limits=bool(network.limits),
    )
    if accept:
        calibration = replace(calibration, network=calibration.network.accepting(accept))
    fitted = calibration.network.replace(
        model_error=network.model_error, step=_step(network.step, calibration.network.step)
    )
    asked: dict[str, Any] = {"privacy": privacy, "utility_loss": utility_loss}
    if privacy is None and utility_loss is None:
        asked = _asked_of(plan)
    errors, refused = (
        ({}, 0) if network.is_stream else _errors(plan, read_rows(table, roles, missing, time), roles)
    )
    return Refit(
        old=plan, calibration=calibration, new=design(fitted, **asked), errors=errors, refused=refused
    )


def _step(old: float | None, new: float | None) -> float | None:
    """The step that agents keep to: a log's clock that is a little off is no reason to count their epochs anew."""
    if old is None or new is None:
        return old or new
    return old if abs(new - old) <= _SAME_STEP * old else new


def _errors(plan: Plan, rows: Rows, roles: Roles) -> tuple[dict[str, float], int]:
    """What the old centre errs by on rows in which everybody sends, and how many rows are not such."""
    truth = rows.parameters[:, [roles.parameters.index(name) for name in plan.network.parameters]]
    network, rng = plan.network, np.random.default_rng(_SEED)
    readings = {agent: rows.readings[:, network.blocks.rows(k)] for k, agent in enumerate(network.agents)}
    # Moved sensors make rows beyond the limits, of which an agent sends the limit: those say nothing of the plan.
    beyond = [plan.sanitizers[agent].recipe.beyond(mine).any(axis=1) for agent, mine in readings.items()]
    complete = ~np.any(beyond, axis=0)
    refused = int(np.sum(~complete))
    if not complete.any():
        return {}, refused
    sent = {
        agent: np.asarray(plan.sanitizers[agent].sanitize(mine[complete], rng=rng))
        for agent, mine in readings.items()
    }
    off = Fusion(plan).estimate(sent).public - truth[complete] @ network.U.T
    return dict(zip(network.public_rows, np.sqrt(np.mean(off**2, axis=0)).tolist(), strict=True)), refused


def _asked_of(plan: Plan) -> dict[str, Any]:
    if plan.method == "power":
        raise InvalidRequest(
            "plan: it was made for a limited noise power, which is not known any more; fit and design step by step"
        )
    targets = {name: value for name, value in plan.targets.items() if value > 0}
    given_up = {"give_up": plan.given_up} if plan.given_up else {}
    if targets or plan.worst_targets:
        worst = {name: Worst(value) for name, value in plan.worst_targets.items()}
        return {"privacy": targets | worst, **given_up}
    loss = plan.most_loss
    return {"utility_loss": loss if loss is None or loss <= 1 else f"{100 * loss!r}%", **given_up}


def _readings(network: Network) -> Mapping[str, Any]:
    if set(network.reading_names) != set(network.agents):
        raise InvalidRequest(
            "plan: its readings have no names, so their columns are not known; fit and design step by step"
        )
    return network.reading_names


def _columns(network: Network, named: Mapping[str, Array]) -> dict[str, list[str]]:
    """The columns behind public or private parameters: each row must be one parameter of x."""
    found = {}
    for name, rows in named.items():
        places = [np.flatnonzero(row) for row in rows]
        if any(len(place) != 1 or row[place[0]] != 1.0 for place, row in zip(places, rows, strict=True)):
            raise InvalidRequest(
                f"plan: {name!r} is no column of a table but a combination; its network was not made by fit: fit and "
                "design step by step"
            )
        found[name] = [network.parameters[int(place[0])] for place in places]
    return found


def _row(what: str, growths: Sequence[float]) -> tuple[str, str, str, str]:
    promised, kept, now = (times(growth) for growth in growths)
    return what, promised, kept, now


def _deviations(network: Network, plan: Plan) -> dict[str, float]:
    covariance = network.U @ crlb(network, plan.sanitizers) @ network.U.T
    return dict(zip(network.public_rows, np.sqrt(np.diag(covariance)).tolist(), strict=True))
