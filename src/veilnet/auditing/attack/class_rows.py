"""Rows of a report about parameters with few values, judged by AUC, balanced accuracy and bits."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.error_rows import Judged
from veilnet.auditing.attack.verdicts import Evidence, verdict_on
from veilnet.auditing.report import Row
from veilnet.auditing.statistics import CONFIDENCE
from veilnet.calibration.classes import (
    MEASURES,
    RATES,
    SHARES,
    Classes,
    allowed_measures,
    guessed,
    if_it_were,
    measured,
)
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
    figures: dict[str, float | str] = {
        "parameter": judged.name,
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
        sentence = (
            f"{what}: AUC {area.value:.2f} from what is sent, {from_raw['AUC'].value:.2f} from raw readings. The "
            "plan promises nothing about somebody who learns from data how x is spread: it has no full prior."
        )
        return Row(judged.section, what, None, area.value, "info", sentence, interval, figures, shown)
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
    for measure in MEASURES:
        figures |= {f"{measure}, promised": promised[measure], f"{measure}, p-value": beaten[measure]}
    figures |= {"p-value": min(1.0, evidence.beaten), "tested at": chance, "independent rows": area.effective}
    figures |= {"AUC that would have been found": noticed, "why": why}
    said = "; ".join(
        f"{m} {found[m].value:.2f} from what is sent{too_sure(m, found[m].value)}, {promised[m]:.2f} promised, "
        f"{from_raw[m].value:.2f} from raw readings, {chance_of_guessing[m]:.2f} by guessing"
        for m in MEASURES
    )
    lead = " tells its values apart better than was promised" if verdict == "fail" else ""
    sentence = f"{judged.what}{lead}: {said}. {why}".strip()
    shown = _shown(area.value, from_raw["AUC"].value, promised["AUC"])
    return Row(judged.section, what, promised["AUC"], area.value, verdict, sentence, interval, figures, shown)


def too_sure(measure: str, value: float) -> str:
    """What a number of bits below that of guessing means; nothing for any other figure."""
    return (
        " (below 0: it is surer of its answers than right)" if measure == "bits" and value <= -0.005 else ""
    )


def _shown(sent: float, raw: float, promised: float | None) -> dict[str, str]:
    return {
        "guessing": "AUC 0.50",
        "raw": f"AUC {raw:.2f}",
        "promised": "nothing" if promised is None else f"AUC {promised:.2f}",
        "sent": f"AUC {sent:.2f}",
    }
