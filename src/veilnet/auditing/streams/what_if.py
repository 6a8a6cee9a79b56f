"""What could happen to a stream plan and means something else there than for single rows: rows that repeat."""

from __future__ import annotations

from collections.abc import Mapping

from veilnet._core.words import times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.report import LEFT_OUT, Row
from veilnet.auditing.streams.steady import Measured, filtered
from veilnet.auditing.what_if import repetition
from veilnet.model.network import Network


def repetition_rows(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Row]:
    """Every row of a stream is one more release, and privacy with hindsight counts them all: it is told once more."""
    measured = Measured(network)
    known = filtered(network, sanitizers)
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
        rows.append(Row(repetition.SECTION, what, late, late, "info", sentence, figures=figures, shown=shown))
    return rows


def not_on_streams(section: str, why: str) -> list[Row]:
    """A section that has no meaning, or no proof, for streams."""
    sentence = f"{section}: left out for streams: {why}."
    return [Row(section, "on streams", None, LEFT_OUT, "info", sentence, shown={"outcome": LEFT_OUT})]
