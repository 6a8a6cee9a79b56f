"""The sections of an audit, for plans whose rows follow one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet._core.words import times
from veilnet.auditing.attack.held_out import read_samples
from veilnet.auditing.attack.learners import Learner
from veilnet.auditing.attack.simulated_rows import SECTION as SIMULATED
from veilnet.auditing.baselines import Baseline, baseline_rows
from veilnet.auditing.deployed.commands import CommandMechanism
from veilnet.auditing.options import LedgerCheck, WhatIf
from veilnet.auditing.parts import Advance, Parts
from veilnet.auditing.promise import certificate_rows
from veilnet.auditing.report import LEFT_OUT, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.streams.attack import TooLarge
from veilnet.io.agent_ledger import is_agent_store

_ROWS_OF_COMMANDS = 1000  # a command is started anew for every stream


@dataclass(frozen=True, eq=False)
class StreamParts(Parts):
    """Each section answers for a stream what its namesake answers for one row."""

    @property
    def count(self) -> int:
        """How many rows are judged in a simulation."""
        started = any(isinstance(m, CommandMechanism) for m in self.deployment.deployed.values())
        return min(self.trials.count, _ROWS_OF_COMMANDS) if started else self.trials.count

    def promise(self, go: Advance) -> list[Row]:
        """The promise recomputed, by a window too, and attacked by the best estimators with memory."""
        from veilnet.auditing.streams.promise import exposure_rows, stream_rows

        chance = self.chance(Section.PROMISE)
        attacked = stream_rows(self.deployment, chance, int(self.trials.seed), self.count, go)
        return [*certificate_rows(self.plan), *attacked, *exposure_rows(self.plan)]

    @property
    def automatic(self) -> tuple[str, ...]:
        """The attackers that stand messages of many rows at once."""
        return ("ridge",) if self.trials.quick else ("ridge", "network")

    def attacks(self, chosen: Mapping[str, Learner], data: Any, chance: float, go: Advance) -> list[Row]:
        """What these attackers learn from messages of many rows."""
        from veilnet.auditing.streams.attackers import simulated_attacks
        from veilnet.auditing.streams.on_data import attacks_on_data

        try:
            if data is None:
                return simulated_attacks(
                    self.deployment, chosen, self.count, int(self.trials.seed), chance, go
                )
            samples = read_samples(self.plan.network, self.deployment.planned, data, in_order=True)
            return attacks_on_data(self.deployment, samples, chosen, chance, go)
        except TooLarge as trouble:
            sentence = f"{SIMULATED}: left out: {trouble}."
            return [Row(SIMULATED, "with memory", None, LEFT_OUT, "info", sentence)]

    def lattice(self, data: Any, go: Advance) -> list[Row]:  # noqa: ARG002
        """Nothing yet: the search for lattice points knows one row."""
        from veilnet.auditing.attack.lattice_rows import SECTION

        if not any(s.dithers or s.resolution is not None for s in self.deployment.planned.values()):
            return []
        why = "it looks for readings behind one row of exact numbers, and a memory adds up many rows"
        return _not_on_streams(SECTION, why)

    def repetition(self, what_if: WhatIf, floors: Mapping[str, float]) -> list[Row]:  # noqa: ARG002
        """Every row is one more release, and privacy with hindsight counts them all: it is told once more."""
        from veilnet.auditing.streams.steady import Measured, filtered
        from veilnet.auditing.what_if.repetition import SECTION

        network = self.plan.network
        measured, known = Measured(network), filtered(network, self.deployment.planned)
        rows = []
        for name, matrix in network.private.items():
            late, now = (measured.growth(known, matrix, when) for when in ("hindsight", "now"))
            sentence = (
                f"{name}: every row is one more release, and all of them are counted: the variance of the error with "
                f"hindsight grows {times(1 + late)}, from messages up to now {times(1 + now)}, against raw streams "
                "by the same rule."
            )
            shown = {
                "error variance grows: with hindsight (promised)": times(1 + late),
                "from messages up to now": times(1 + now),
            }
            what = f"{name}, all rows released"
            figures = {"with hindsight": late, "now": now}
            rows.append(Row(SECTION, what, late, late, "info", sentence, figures=figures, shown=shown))
        return rows

    def wrong_models(self, error: float, go: Advance) -> list[Row]:
        """The plan under another model than it was made for."""
        from veilnet.auditing.streams.wrong_models import wrong_model_rows
        from veilnet.auditing.what_if.wrong_models import SECTION

        network, seed = self.plan.network, int(self.trials.seed)
        try:
            return wrong_model_rows(network, self.deployment.planned, error, seed, go)
        except TooLarge as trouble:
            return _not_on_streams(SECTION, str(trouble))

    def compared(self, found: list[Baseline]) -> list[Row]:
        """The plan beside other protections of a stream, which are added to ``found``."""
        from veilnet.auditing.streams.baselines import epsilon_rows, stream_baselines

        baselines = stream_baselines(self.plan)
        found.extend(baselines)
        return baseline_rows(self.plan.network, baselines) + epsilon_rows(baselines)

    def refuse(self, what_if: WhatIf, ledger: LedgerCheck | None) -> None:
        """Releases of an x that stays are counted neither by --releases nor by a ledger where x moves.

        A live agent's store records what was sent, whatever x does.
        """
        live = ledger is not None and is_agent_store(Path(ledger.path))
        given = {"releases": what_if.releases, "ledger": None if live else ledger}
        for name, value in given.items():
            if value is not None:
                raise InvalidRequest(
                    f"{name}: it counts releases of one x that stays; the promise of a stream plan counts every row "
                    "already, for an x that moves. Leave it out, or audit a plan without dynamics"
                )


def _not_on_streams(section: str, why: str) -> list[Row]:
    """A section that has no meaning, or no proof, for streams."""
    sentence = f"{section}: left out for streams: {why}."
    return [Row(section, "on streams", None, LEFT_OUT, "info", sentence, shown={"outcome": LEFT_OUT})]
