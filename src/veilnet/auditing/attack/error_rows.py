"""Rows of a report that compare errors: guessing, from raw readings, as promised and from what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.measures import InUnit
from veilnet.auditing.row import Judgement, Row
from veilnet.auditing.statistics import CONFIDENCE
from veilnet.bounds.typical_errors import unit_of
from veilnet.calibration.dependence import Mean, Ratio, mean_of, ratio_of
from veilnet.model.network import Network

_TENTH = 1.1  # a public error has to be larger than promised by more than this
_DOUBLE = 0.5  # and twice as much has to be seen, or the row cannot tell
_DRAWN = 288  # rows of a public estimate and its truth that are kept for a picture
_TOO_FEW = "These rows are too few, or too alike, to detect an error twice as large as promised."


@dataclass(frozen=True)
class Judged:
    """Which row of the report: section, attacker, private parameter, past rows shown, and the network."""

    section: str
    label: str
    name: str
    memory: int
    network: Network

    @property
    def what(self) -> str:
        """The row's name."""
        return f"{self.label}{' with memory' if self.memory else ''} on {self.name}"

    @property
    def in_units(self) -> InUnit:
        """How its errors are said."""
        return InUnit(unit_of(self.network, self.name), len(self.network.private[self.name]))


def error_row(
    judged: Judged, truth: Array, sent: Array, raw: Array, promises: Promises, chance: float
) -> Row:
    """One attacker on one private parameter: guesses (T, k) from messages and from raw readings, beside the truth."""
    deviations = truth - np.mean(truth, axis=0)
    by_guessing = np.sum(deviations**2, axis=1)
    errors, raw_errors = (np.sum((guess - truth) ** 2, axis=1) for guess in (sent, raw))
    spread, found, from_raw = (float(np.mean(each)) for each in (by_guessing, errors, raw_errors))
    units = judged.in_units
    figures: dict[str, float | str] = {
        "parameter": judged.name,
        "past rows": float(judged.memory),
        "guessing": spread,
        "from raw readings": from_raw,
        "part of guessing, sent": found / spread if spread else np.nan,
        "part of guessing, raw": from_raw / spread if spread else np.nan,
        "tested rows": float(len(truth)),
    }
    interval = mean_of(errors, skewed=True).interval(CONFIDENCE)
    # Who learns from data learns how x is spread. Where the plan counts on nobody knowing that, its promise is
    # one for an estimate that is right on average, which no learned attacker has to be.
    # What has no bound cannot be missed either.
    planned = judged.label == "best linear" and not judged.memory
    allowed = promises.sent(judged.name).squares(deviations)
    promised = float(np.mean(allowed))
    if not spread or not (promises.full or planned) or not np.isfinite(promised):
        why = (
            "Without a full prior the plan promises nothing against attackers who learn the distribution of x "
            "from data."
            if spread
            else "It never changes in these data, so there is nothing to learn."
        )
        shown = units.shown(spread, from_raw, None, found)
        return Row(judged.section, judged.what, None, found, "info", why, interval, figures, shown)
    raw_allowed = float(np.mean(promises.raw(judged.name).squares(deviations)))
    against = ratio_of(errors, allowed)
    # An attacker who learned nothing answers alike in every row and seems precise: a leak half as large as that of
    # raw readings would stray as far as the errors half-way between the two.
    half_way = mean_of(0.5 * (errors + raw_errors) - allowed, skewed=True)
    reach = max(promised * against.reach(chance), half_way.reach(chance))
    evidence = Evidence(
        sent=1.0 - found / spread,
        raw=1.0 - from_raw / spread,
        promised=1.0 - promised / spread,
        raw_allowed=1.0 - raw_allowed / spread,
        reach=reach / spread,
        beaten=against.chance_below(1.0),
        raw_beats=ratio_of(raw_errors, allowed).chance_below(1.0),
        raw_knows=ratio_of(raw_errors, by_guessing).chance_below(1.0),
    )
    noticed = max(0.0, promised - reach)
    found_at = f"an error of {units(noticed)} or less" if noticed > 0 else ""
    verdict, why = verdict_on(evidence, chance, found_at=found_at, learned=not planned)
    figures |= _tested(against, evidence.beaten, chance) | {
        "promised part of guessing": promised / spread,
        "error that would have been found": noticed,
        "bound": promises.sent(judged.name).fixed,
    }
    shown = units.shown(spread, from_raw, promised, found)
    return Row(judged.section, judged.what, promised, found, verdict, why, interval, figures, shown)


def public_row(
    section: str, network: Network, name: str, errors: Array, truth: Array, promised: float, chance: float
) -> Row:
    """The estimate of one public parameter on data: an error larger than promised is a broken promise too."""
    squares = np.sum(errors**2, axis=1)
    found = float(np.mean(squares))
    spread = float(np.mean(np.sum((truth - np.mean(truth, axis=0)) ** 2, axis=1)))
    against = ratio_of(squares, np.full(len(squares), promised))
    beaten = against.chance_above(_TENTH)
    reach = against.reach(chance)
    units = InUnit(unit_of(network, name), errors.shape[1])
    verdict: Judgement = "fail" if beaten < chance else "ok" if reach <= _DOUBLE else "cannot tell"
    why = _TOO_FEW if verdict == "cannot tell" else ""
    figures = _tested(against, beaten, chance) | {"guessing": spread, "tested rows": float(len(squares))}
    drawn = {"truth": truth[:_DRAWN, 0].tolist(), "estimate": (truth + errors)[:_DRAWN, 0].tolist()}
    figures = {**figures, **drawn, "estimated": name, "unit": unit_of(network, name)}
    shown = units.shown(spread, None, promised, found)
    interval = mean_of(squares, skewed=True).interval(CONFIDENCE)
    what = f"public estimate of {name}"
    return Row(section, what, promised, found, verdict, why, interval, figures, shown)


def slices_of(parameters: Mapping[str, Array]) -> dict[str, slice]:
    """Which of all rows, one parameter's below another's, are each one's: °C and kW are judged apart."""
    ends = np.cumsum([len(rows) for rows in parameters.values()])
    return {
        name: slice(int(end) - len(rows), int(end))
        for (name, rows), end in zip(parameters.items(), ends, strict=True)
    }


def _tested(against: Mean | Ratio, beaten: float, chance: float) -> dict[str, float | str]:
    return {"p-value": beaten, "tested at": chance, "independent rows": against.effective}
