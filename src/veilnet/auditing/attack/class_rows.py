"""Rows of a report about parameters with few values, judged by AUC, balanced accuracy and bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.detection import alone, knows_after, pairs_of, power_at
from veilnet.auditing.attack.error_rows import Judged
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.promise import HIDES_NOTHING, detection_cells, in_the_model
from veilnet.auditing.row import IN_LOG, Judgement, Row
from veilnet.auditing.statistics import CAREFUL, CONFIDENCE
from veilnet.bounds.detectability import SEEN, Detectability
from veilnet.calibration.classes import (
    MEASURES,
    RATES,
    SHARES,
    Classes,
    allowed_measures,
    best_interval,
    guessed,
    if_it_were,
    measured,
    roc,
)
from veilnet.calibration.dependence import DECIDED_BY, Mean
from veilnet.calibration.stretches import Stretch


def class_row(
    judged: Judged,
    classes: Classes,
    truth: Array,
    sent: Array,
    raw: Array,
    stretches: list[Stretch],
    promises: Promises,
    chance: float,
) -> Row:
    """One attacker on a parameter with few values: probabilities (T, values) from messages and from raw readings."""
    deviations = truth - np.mean(truth, axis=0)
    spread = float(np.mean(deviations**2))
    chance_of_guessing = guessed(classes)
    found, from_raw = measured(classes, sent, stretches), measured(classes, raw, stretches)
    what = f"{judged.what} (values)"
    figures: dict[str, Any] = {
        "parameter": judged.name,
        "roc": {"sent": roc(classes, sent), "raw": roc(classes, raw)},
        "past rows": float(judged.memory),
        "values": float(len(classes.values)),
        "tested rows": float(len(truth)),
    }
    for measure in MEASURES:
        figures |= {
            f"{measure}, sent": found[measure].value,
            f"{measure}, raw": from_raw[measure].value,
            f"{measure}, guessing": chance_of_guessing[measure],
        }
    area, interval = found["AUC"], found["AUC"].interval(CONFIDENCE)
    part, raw_part = (
        float(np.mean(allowed.squares(deviations))) / spread
        for allowed in (promises.sent(judged.name), promises.raw(judged.name))
    )
    if not promises.full or not np.isfinite(part):
        shown = _shown(found["AUC"].value, from_raw["AUC"].value, None)
        why = "There is no full prior, so nothing is promised against attackers who learn the distribution of x."
        return Row(judged.section, what, None, area.value, "info", why, interval, figures, shown)
    promised, raw_allowed = allowed_measures(classes, part), allowed_measures(classes, raw_part)
    found = {m: if_it_were(found[m], promised[m]) if m in RATES else found[m] for m in MEASURES}
    area = found["AUC"]
    beaten = {m: found[m].chance_above(promised[m]) for m in MEASURES}
    each = chance * SHARES["AUC"]
    evidence = Evidence(
        sent=area.value - 0.5,
        raw=from_raw["AUC"].value - 0.5,
        promised=promised["AUC"] - 0.5,
        raw_allowed=raw_allowed["AUC"] - 0.5,
        reach=area.reach(each),
        beaten=min(beaten[m] / SHARES[m] for m in MEASURES),
        raw_beats=from_raw["AUC"].chance_above(promised["AUC"]),
        raw_knows=from_raw["AUC"].chance_above(0.5),
    )
    noticed = min(1.0, promised["AUC"] + area.reach(each))
    found_at = f"an AUC of {noticed:.2f} or more" if noticed < 1.0 else ""
    verdict, why = verdict_on(evidence, chance, found_at=found_at)
    if verdict == "ok" and promised["AUC"] >= SEEN:
        verdict, why = "warn", HIDES_NOTHING
    for measure in MEASURES:
        figures |= {f"{measure}, promised": promised[measure], f"{measure}, p-value": beaten[measure]}
    figures |= {"p-value": min(1.0, evidence.beaten), "tested at": chance, "independent rows": area.effective}
    figures |= {"AUC that would have been found": noticed}
    shown = _shown(area.value, from_raw["AUC"].value, promised["AUC"])
    return Row(judged.section, what, promised["AUC"], area.value, verdict, why, interval, figures, shown)


@dataclass(frozen=True, eq=False)
class Attempt:
    """What one attacker made of a parameter with few values: his row, and probabilities (T, values) from messages."""

    row: Row
    classes: Classes
    sent: Array
    stretches: list[Stretch]

    @cached_property
    def area(self) -> Mean:
        """The AUC."""
        return measured(self.classes, self.sent, self.stretches)["AUC"]

    @property
    def remembers(self) -> bool:
        """Whether he saw more rows than the promise speaks of."""
        return bool(self.row.figures["past rows"])


def two_verdicts(
    section: str, name: str, attempts: Sequence[Attempt], seen: Detectability | None, chance: float
) -> list[Row]:
    """The promise in the model, and what the log shows: one may hold without the other.

    attempts: one per attacker; seen: how surely the change is seen in the model, if a secret; chance: of a false
    alarm by those who stop when they know enough.
    """
    promised = attempts[0].row.promised if seen is None else seen.auc
    bare = isinstance(promised, float) and promised >= SEEN
    return [in_the_model(section, name, promised, seen), _in_the_log(section, name, attempts, bare, chance)]


def _in_the_log(section: str, name: str, attempts: Sequence[Attempt], bare: bool, chance: float) -> Row:
    what, best = f"{name}{IN_LOG}", max(attempts, key=lambda each: each.area.value)
    low, high = best_interval(best.area, len(attempts))
    two = len(best.classes.values) == 2
    present = best.classes.rows == 1
    power = [
        power_at(rate, present, best.sent[:, 1], best.area.effective) if two else None for rate in CAREFUL
    ]
    stopped = {
        remembers: _stops([each for each in attempts if each.remembers == remembers], chance / 2)
        for remembers in (False, True)
    }
    proved = {
        remembers: count is not None
        and alone([each.sent[:, 1] for each in attempts if each.remembers == remembers])
        for remembers, count in stopped.items()
    }
    verdict, why = _log_verdict(attempts, stopped, proved, bare, low)
    who = str(best.row.what).removesuffix(f" on {name} (values)")
    figures = {
        "parameter": name,
        "past rows": float(
            not proved[False] and verdict == "fail" and not _broken(attempts, remembers=False)
        ),
        "AUC, sent": best.area.value,
        "attacker": who,
        "independent rows": best.area.effective,
    }
    for rate, each in zip(CAREFUL, power, strict=True):
        if each is not None:
            figures |= {
                f"power at {rate:g}": each.value,
                f"power at {rate:g}, interval": [each.low, each.high],
            }
    known = next((count for count in stopped.values() if count is not None), None)
    if known is not None:
        figures["pairs until known"] = float(known)
        why = f"Attackers who stop when they know enough stopped after {known} pairs of rows. {why}"
    shown = detection_cells(
        str(best.row.shown["raw"]),
        f"AUC {best.area.value:.2f} ({low:.2f} to {high:.2f})",
        *(("too few rows" if two else "") if each is None else str(each) for each in power),
    )
    why = f"By {who}. {why}".strip()
    return Row(
        section, what, attempts[0].row.promised, best.area.value, verdict, why, (low, high), figures, shown
    )


def _log_verdict(
    attempts: Sequence[Attempt],
    stopped: Mapping[bool, int | None],
    proved: Mapping[bool, bool],
    bare: bool,
    low: float,
) -> tuple[Judgement, str]:
    """The verdict on what the log shows, and why; a stop that proves nothing breaks no promise by itself."""
    if any(proved.values()) or any(each.row.verdict == "fail" for each in attempts):
        return "fail", "The log reveals more than the model promises: it is not hidden as the plan says."
    if low >= SEEN and min(each.area.effective for each in attempts) >= DECIDED_BY:
        return "warn", "On this log it is seen: the plan does not hide it here."
    if bare:
        return "warn", "The plan does not promise to hide it."
    if any(count is not None for count in stopped.values()):
        return (
            "cannot tell",
            "These rows are correlated, so this proves nothing; no test over all rows found it.",
        )
    verdicts = {each.row.verdict for each in attempts}
    if "ok" in verdicts:
        return "ok", "None of these attackers saw more than the model promises; others may."
    if "cannot tell" in verdicts:
        return ("cannot tell", "No attacker could prove or disprove the promise on these rows.")
    return "info", ""


def _broken(attempts: Sequence[Attempt], *, remembers: bool) -> bool:
    return any(each.row.verdict == "fail" and each.remembers == remembers for each in attempts)


def _stops(attempts: Sequence[Attempt], chance: float) -> int | None:
    """After how many pairs of rows attackers know that more is revealed than promised."""
    if (
        not attempts
        or len(attempts[0].classes.values) != 2
        or not isinstance(attempts[0].row.promised, float)
    ):
        return None
    worth = min(each.area.effective for each in attempts)
    pairs = pairs_of(attempts[0].classes.rows == 1, attempts[0].stretches, worth)
    return knows_after([each.sent[:, 1] for each in attempts], pairs, attempts[0].row.promised, chance)


def _shown(sent: float, raw: float, promised: float | None) -> dict[str, str]:
    return {
        "guessing": "AUC 0.50",
        "raw": f"AUC {raw:.2f}",
        "promised": "nothing" if promised is None else f"AUC {promised:.2f}",
        "sent": f"AUC {sent:.2f}",
    }
