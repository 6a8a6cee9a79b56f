"""The sections of an audit, each with what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import MissingExtra
from veilnet.auditing.baselines import Baseline
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.options import DifferentialPrivacy, LedgerCheck, Trials, WhatIf
from veilnet.auditing.report import LEFT_OUT, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import part_of, part_on_data
from veilnet.plans.plan import Plan

if TYPE_CHECKING:
    from veilnet.auditing.attack.held_out import Samples
    from veilnet.auditing.attack.learners import Learner

Advance = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Parts:
    """The sections for plans whose rows have nothing to do with one another, and what they have in common."""

    plan: Plan
    deployment: Deployment
    trials: Trials

    def chance(self, section: Section) -> float:
        """A section's part of the rate of false alarms."""
        return part_of(section, self.trials.false_alarm)

    def chance_on(self, section: Section, data: Any) -> float:
        """A section's part of the rate that holds for simulated rows, or for data where they are given."""
        if data is None:
            return self.chance(section)
        return part_on_data(section, self.trials.false_alarm_on_data)

    def deployed(self, go: Advance) -> list[Row]:
        """Files compared with the plan, and every mechanism as a black box."""
        from veilnet.auditing.deployed.rows import deployed_rows

        return deployed_rows(self.deployment, self.chance(Section.DEPLOYED), int(self.trials.seed), go)

    def promise(self, go: Advance) -> list[Row]:
        """The promise recomputed, and attacked on simulated readings."""
        from veilnet.auditing.promise import certificate_rows, exposure_rows, simulation_rows

        chance = self.chance(Section.PROMISE)
        simulated = simulation_rows(
            self.plan, self.deployment, chance, int(self.trials.seed), self.trials.count, go
        )
        return [*certificate_rows(self.plan), *simulated, *exposure_rows(self.plan)]

    def attacked(self, data: Any, go: Advance) -> list[Row]:
        """Attackers that learn."""
        from veilnet.auditing.attack.learners import choose_attackers
        from veilnet.auditing.attack.simulated_rows import SECTION as SIMULATED

        wanted, rows = self.trials.attackers, list[Row]()
        try:
            chosen = choose_attackers(self.automatic if wanted == "auto" else wanted, self.trials.quick)
        except MissingExtra as missing:
            if wanted != "auto":
                raise
            sentence = f"left out: {missing} (in a checkout, ./veilnet audit installs it)."
            rows.append(Row(SIMULATED, "learned attackers", None, LEFT_OUT, "info", sentence))
            chosen = {}
        if not chosen and data is None:
            return rows
        return rows + self.attacks(chosen, data, self.chance_on(Section.ATTACKERS, data), go)

    @property
    def automatic(self) -> str | tuple[str, ...]:
        """The attackers that are taken where none are chosen."""
        return "auto"

    def attacks(self, chosen: Mapping[str, Learner], data: Any, chance: float, go: Advance) -> list[Row]:
        """What these attackers learn, on data or on simulated rows."""
        from veilnet.auditing.attack.attackers import attacker_rows

        return attacker_rows(self.deployment, self._samples(data), chosen, chance, go)

    def lattice(self, data: Any, go: Advance) -> list[Row]:
        """The attacker who knows the readings' lattice."""
        from veilnet.auditing.attack.lattice_rows import lattice_rows

        chance = self.chance_on(Section.LATTICE, data)
        return lattice_rows(self.deployment, self._samples(data), chance, int(self.trials.seed), go)

    def _samples(self, data: Any) -> Samples:
        from veilnet.auditing.attack.held_out import read_samples, simulate
        from veilnet.auditing.what_if.variants import simulated

        if data is None:
            return simulate(simulated(self.plan.network), self.trials.count, int(self.trials.seed))
        return read_samples(self.plan.network, self.deployment.planned, data)

    def collusion(self, what_if: WhatIf, floors: Mapping[str, float], go: Advance) -> list[Row]:
        """Agents that hand over their readings or noise."""
        from veilnet.auditing.what_if.collusion import collusion_rows

        judged = {} if what_if.agents_colluding is None else floors
        return collusion_rows(self.plan.network, self.deployment.planned, what_if.colluding, judged, go)

    def repetition(self, what_if: WhatIf, floors: Mapping[str, float]) -> list[Row]:
        """The same x released again."""
        from veilnet.auditing.what_if.repetition import repetition_rows

        judged = {} if what_if.releases is None else floors
        return repetition_rows(self.plan.network, self.deployment.planned, what_if.times, judged)

    def wrong_models(self, error: float, go: Advance) -> list[Row]:
        """The plan under another model than it was made for."""
        from veilnet.auditing.what_if.wrong_models import wrong_model_rows

        return wrong_model_rows(self.plan.network, self.deployment.planned, error, int(self.trials.seed), go)

    def dropout(self, silent_at_most: int, go: Advance) -> list[Row]:
        """Agents that are silent."""
        from veilnet.auditing.what_if.dropout import dropout_rows

        return dropout_rows(self.plan.network, self.deployment.planned, silent_at_most, go)

    def differential_privacy(self, asked: DifferentialPrivacy) -> list[Row]:
        """The noise read as (ε, δ)."""
        from veilnet.auditing.differential_privacy import differential_privacy_rows

        return differential_privacy_rows(
            self.plan.network, self.deployment.planned, asked.reading_bounds, asked.delta
        )

    def compared(self, found: list[Baseline]) -> list[Row]:
        """The plan beside other protections, which are added to ``found``."""
        from veilnet.auditing.baselines import baseline_rows, baselines

        found.extend(baselines(self.plan))
        return baseline_rows(self.plan.network, found)

    def refuse(self, what_if: WhatIf, ledger: LedgerCheck | None) -> None:
        """An error for what has no meaning for this kind of plan."""
