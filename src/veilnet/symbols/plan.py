"""A plan of symbols: what each agent says, what the centre makes of it, and what nobody can guess."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.frozen import Frozen
from veilnet._core.types import Array, Integers
from veilnet._core.words import three_digits
from veilnet.io.tables import read_columns
from veilnet.symbols import files
from veilnet.symbols.agent import SymbolAgent
from veilnet.symbols.centre import SymbolCentre, SymbolEstimate
from veilnet.symbols.certificate import SymbolCertificate, Unconfirmed
from veilnet.symbols.drift import SymbolDrift, symbol_drift
from veilnet.symbols.windows import in_windows, windows_of


class SymbolPlan(Frozen):
    """What agents send as symbols, and the promise that goes with it; made by :func:`veilnet.learn_symbols`.

    agents:      agent -> :class:`veilnet.symbols.agent.SymbolAgent`, with ``send``, ``symbols`` and ``describe``.
    centre:      what fusion needs.
    certificate: private name -> the promise, from rows that chose nothing.
    confidence:  with which all certificates hold together.
    cells:       (cells, agents) the tuples of symbols that certificates counted; one past the last is silence.
    score:       of the public quantity on rows held out: accuracy of classes, R² of numbers.
    raw_score:   the same of a forest that sees every reading.
    calibration: how far stated probabilities are off on rows held out, on average; None for numbers.
    curve:       (choices, 1 + P) what else could be asked: the score, and for each private quantity the promise to
                 expect. It is from the rows that learned, so that choosing by it costs no confidence.
    """

    def __init__(
        self,
        agents: Mapping[str, SymbolAgent],
        centre: SymbolCentre,
        certificate: Mapping[str, SymbolCertificate],
        confidence: float,
        cells: Integers,
        score: float,
        raw_score: float,
        calibration: float | None,
        curve: Array,
    ) -> None:
        self.agents, self.centre, self.certificate = dict(agents), centre, dict(certificate)
        self.confidence, self.cells = float(confidence), cells
        self.score, self.raw_score, self.calibration = float(score), float(raw_score), calibration
        self.curve = curve
        self._freeze()

    def send(self, table: Any) -> dict[str, Integers]:
        """agent -> symbols, -1 where it would send nothing: all agents at once, to try a plan.

        table: with the readings of all agents, as :func:`veilnet.learn_symbols` takes it; windows are cut from its
               first row on.
        """
        known = read_columns(table, [name for agent in self.agents.values() for name in agent.names])
        index = windows_of(len(next(iter(known.values()))), self.window)
        return {
            name: agent.send_or_not(in_windows([known[column] for column in agent.names], index))
            for name, agent in self.agents.items()
        }

    @property
    def window(self) -> int:
        """How many rows of readings make a symbol."""
        return next(iter(self.agents.values())).window

    def estimate(self, symbols: Mapping[str, Any]) -> SymbolEstimate:
        """The public quantity from the symbols that arrived.

        symbols: agent -> its symbol, or (T,) symbols of T rows. Agents may be left out; -1 stands for a row of which
                 an agent sent nothing.
        """
        return self.centre.estimate(symbols)

    def confirm(self) -> None:
        """Recompute every promise from the counts by another route; Unconfirmed where one does not follow."""
        for each in self.certificate.values():
            each.confirm()
        counted = [tuple(each.rows_of_cells.tolist()) for each in self.certificate.values()]
        if not counted or len(set(counted)) > 1 or self.cells.shape != (len(counted[0]), len(self.agents)):
            raise Unconfirmed(
                "plan: its certificates do not count the same rows; the plan was changed: learn it again"
            )
        if len(np.unique(self.cells, axis=0)) != len(self.cells):
            raise Unconfirmed(
                "plan: a tuple of symbols is counted twice; the plan was changed: learn it again"
            )
        windows = {each.window for each in self.agents.values()}
        sizes = {name: each.symbols for name, each in self.agents.items()}
        if sizes != self.centre.agents or len(windows) > 1:
            raise Unconfirmed("plan: the centre expects other symbols than agents send; learn it again")
        blocks = {(each.blocks, each.sample.largest) for each in self.certificate.values()}
        if len(blocks) > 1 or next(iter(blocks))[1] != self.centre.alike:
            raise Unconfirmed("plan: its certificates and centre count other blocks; learn it again")
        width = 1 + len(counted)
        if self.curve.shape != (*self.curve.shape[:1], width) or not np.isfinite(self.curve).all():
            raise Unconfirmed("plan: its curve is not one of these private quantities; learn it again")
        doubt = sum(1 - each.confidence for each in self.certificate.values())
        if not doubt <= (1 - self.confidence) * (1 + 1e-9):
            raise Unconfirmed(
                f"confidence: the certificates together hold with {1 - doubt:.6g} only; learn it again"
            )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a file for each agent, one for the centre and one for the whole.

        folder: where; an older plan there is replaced, whole or not at all.
        """
        files.write_plan(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> SymbolPlan:
        """Read a plan; its promises are recomputed from the counts first.

        folder: where it was saved.
        """
        plan = cls(**files.read_plan(folder))
        plan.confirm()
        return plan

    def drift(self, symbols: Mapping[str, Any], *, false_alarm: float = 0.001) -> SymbolDrift:
        """Whether symbols in service, of each agent by itself, have the law that was counted; else promises are void.

        symbols: as for :meth:`estimate`, of many rows.
        false_alarm: chance that an unchanged law is called changed.
        """
        return symbol_drift(self.centre, symbols, false_alarm=false_alarm)

    def describe(self) -> str:
        """What each agent says, in words."""
        return "\n".join(agent.describe() for agent in self.agents.values())

    def report(self) -> Any:
        """One page that shows the plan, with ``save(path)``; notebooks show it as it is."""
        from veilnet.report.building import report_of

        return report_of(self)

    def __str__(self) -> str:
        kind = "accuracy" if self.centre.classes else "R²"
        sizes = ", ".join(f"{name} {agent.symbols}" for name, agent in self.agents.items())
        off = f"; stated chances are off by {self.calibration or 0:.3f} on average"
        off = "" if self.calibration is None else off
        lines = [
            f"{self.centre.public}: {kind} {three_digits(self.score)} from symbols, "
            f"{three_digits(self.raw_score)} from raw readings (rows held out){off}",
            *(str(each) for each in self.certificate.values()),
            f"all together with confidence {self.confidence:.3g}; symbols: {sizes}",
        ]
        drawn = {name: each.epsilon for name, each in self.agents.items() if each.keep < 1}
        if drawn:
            said = ", ".join(f"{name} ε = {epsilon:.3g}" for name, epsilon in drawn.items())
            lines.append(
                f"sent by chance now and then, which any row in range is hidden by, whatever its law: {said}"
            )
        return "\n".join(lines)
