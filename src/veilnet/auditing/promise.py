"""The promise itself: recomputed, and attacked by the best linear estimator on simulated readings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import alike, join_names, plus_minus, times
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.measures import Compared
from veilnet.auditing.row import IN_MODEL, Figure, Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import CAREFUL, SquareSum
from veilnet.auditing.worlds import World, world_of
from veilnet.bounds.detectability import SEEN, Detectability
from veilnet.bounds.typical_errors import typical_errors
from veilnet.plans.certificate import Finding, Promise, certify
from veilnet.plans.in_words import finding_in_words, growth_in_words
from veilnet.plans.plan import Plan

__all__ = [
    "SECTION", "certificate_rows", "certified_row", "exposure_rows", "judged_row", "most_exposed_row",
    "promised_in_words", "seen_rows", "simulation_rows",
]  # fmt: skip

SECTION = Section.PROMISE.heading
EXPOSURE = "what stays exposed"
HIDES_NOTHING = "The promise holds but protects nobody: the plan does not hide it."
_ROUTES = 1e-6  # what two routes to an error may differ by, as in the certificate


def certificate_rows(plan: Plan) -> list[Row]:
    """Every promise of the plan, recomputed from the network and the sanitizers alone."""
    promise = Promise(
        plan.targets,
        plan.worst_targets,
        plan.most_loss,
        plan.floors,
        plan.details.get("power_allowed", {}),
        utility=plan.utility,
        privacy=plan.privacy,
        seen={name: each.longest.mu for name, each in plan.detectability.items()} | dict(plan.seen),
    )
    certificate = certify(plan.network, plan.sanitizers, promise)
    public = join_names(list(plan.network.public))
    return [certified_row(each, public) for each in certificate.findings]


def certified_row(finding: Finding, public: str) -> Row:
    """One promise beside what it was computed to be; ``public`` are the names of what is public."""
    verdict: Judgement = "ok" if finding.ok else "fail"
    why = "" if finding.ok else "The network and the sanitizers give another figure than the plan claims."
    promised, found = (growth_in_words(finding.what, each) for each in (finding.promised, finding.found))
    what, shown = finding_in_words(finding.what, public), {"promised": promised, "computed again": found}
    return Row(SECTION, what, finding.promised, finding.found, verdict, why, shown=shown)


def simulation_rows(
    world: World,
    deployment: Deployment,
    chance: float,
    seed: int,
    count: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """Errors of the best linear attacker, and of the public estimate, over simulated readings.

    Readings are drawn from the model, run through what is deployed from their first row on, and estimated as the
    plan's model says. The errors are then jointly normal whatever x is, so their mean square may stray from the bound
    only as far as :class:`SquareSum` allows. ``count`` rows of messages are judged in all.
    """
    trial, asked = world.trial(deployment.planned), world.asked()
    draws = max(2, -(-count // len(trial.at)))
    rng = np.random.default_rng([seed, 2])
    laws = {each.what: trial.law(each, draws) for each in asked}
    sums = {each.what: 0.0 if np.isfinite(laws[each.what].mean) else np.inf for each in asked}
    for start in range(0, draws, trial.at_once):
        drawn = trial.draw(min(trial.at_once, draws - start), rng)
        messages = deployment.release_streams(drawn.readings)
        for each in asked:
            if np.isfinite(sums[each.what]):
                sums[each.what] += trial.squares(drawn, messages, each)
        advance((start + len(drawn)) / draws)
    share = chance / (2 * len(asked))
    return [
        judged_row(
            each.what, world.beside(each), sums[each.what] / draws, laws[each.what], share, public=each.public
        )
        for each in asked
    ]


def judged_row(
    what: str, beside: Compared, found: float, law: SquareSum, chance: float, *, public: bool
) -> Row:
    """A mean square error (summed over the rows of a parameter) judged by the law that the plan gives it."""
    if np.isinf(law.mean):
        shown = alike({"guessing": beside.guessing, "raw readings": beside.raw}, beside.unit)
        shown |= {"promised": "±∞", "simulated": "±∞", "99 % interval": ""}
        return Row(SECTION, what, np.inf, np.inf, "ok", "Nothing that is sent determines it.", shown=shown)
    low, high = law.lowest(chance), law.highest(chance)
    interval = law.interval(found)
    errors = {
        "guessing": beside.guessing,
        "raw readings": beside.raw,
        "promised": beside.typical(law.mean),
        "simulated": beside.typical(found),
        "no less than": beside.typical(interval[0]),
        "no more than": beside.typical(interval[1]),
    }
    shown = alike(errors, beside.unit)
    lowest, highest = shown.pop("no less than"), shown.pop("no more than")
    shown["99 % interval"] = f"{lowest.removesuffix(beside.unit).strip()} to {highest}"
    figures: dict[str, object] = {
        "rows": law.count,
        "effective rows": law.effective,
        "outputs": beside.rows,
    }
    figures |= {"lowest allowed": low, "highest allowed": high, "errors": errors, "unit": beside.unit}
    verdict: Judgement = "ok" if low <= found <= high else "fail"
    why = ""
    if verdict == "fail":
        leaks = found < low and not public
        why = f"{'The promised protection is not there' if leaks else 'What is deployed is not what was planned'}."
    return Row(SECTION, what, law.mean, found, verdict, why, interval, figures, shown)


def exposure_rows(plan: Plan) -> list[Row]:
    """Beside the trace: the most exposed direction of each private parameter, bits revealed, and gaps of a stream."""
    world = world_of(plan.network)
    bits, raw_bits = world.bits(plan.sanitizers), world.bits({})
    each = " of each row" if plan.network.is_stream else ""
    rows = [
        most_exposed_row(name, plan.privacy[name], worst, matrix, direction)
        for name, matrix in plan.network.private.items()
        if name not in plan.network.secrets
        for worst, direction in [world.exposed(plan.sanitizers, name)]
    ]
    rows += [bits_row(name, raw_bits[name], bits[name], each) for name in bits]
    return change_rows(plan) + rows + _gap_rows(plan)


def change_rows(plan: Plan) -> list[Row]:
    """How surely the change of each secret is seen, where the growth of an error would mislead."""
    rows = []
    for name, seen in plan.detectability.items():
        each = seen.longest
        shown = {
            "best detector of its change: AUC from raw readings": f"{each.raw.auc:.3f}",
            "from what is sent": f"{each.auc:.3f}",
            "by guessing": "0.5",
            "right at even odds": f"{100 * each.accuracy:.1f} %",
            "found with 1 % false alarms": f"{100 * each.power:.1f} %",
            "over": f"{each.rows} rows" if each.rows > 1 else "one row",
        }
        figures = {"change": seen.change, "one row": seen.auc, "mu": each.mu, "epsilon": each.epsilon}
        what = f"{name}, its change"
        rows.append(Row(EXPOSURE, what, each.raw.auc, each.auc, "info", "", None, figures, shown))
    return rows


def most_exposed_row(name: str, overall: float, worst: float, matrix: Array, direction: str = "") -> Row:
    """How the error on a whole parameter grows, and along the combination of its rows that is known best."""
    several = matrix.shape[0] > 1
    shown = {
        "standard error grows: on the whole": times(1 + overall),
        "on the combination that stays most exposed": times(1 + worst) if several else "(it is one number)",
        "that combination": direction,
    }
    verdict: Judgement = "warn" if several and worst < 0.1 * overall else "info"
    return Row(EXPOSURE, f"{name}, most exposed direction", overall, worst, verdict, shown=shown)


def bits_row(name: str, raw: float, sent: float, each: str = "") -> Row:
    """Bits of information about a parameter, in raw readings and in what is sent."""
    shown = {f"bits revealed{each}: by raw readings": f"{raw:.2g}", "by what is sent": f"{sent:.2g}"}
    return Row(EXPOSURE, f"{name}, bits revealed", None, sent, "info", figures={"raw bits": raw}, shown=shown)


def _gap_rows(plan: Plan) -> list[Row]:
    """The least privacy of a stream around a missed row and at a start, by the joint law of the rows around it."""
    if not plan.privacy_with_gaps:
        return []
    from veilnet.recheck.stream import StreamRecheck

    finite = {name: least for name, least in plan.privacy_with_gaps.items() if np.isfinite(least)}
    found = StreamRecheck(plan.network, plan.sanitizers).growths_with_gaps(finite)
    return [_gap_row(name, least, found.get(name, np.inf)) for name, least in plan.privacy_with_gaps.items()]


def _gap_row(name: str, promised: float, found: float) -> Row:
    what = f"{name} around a missed row and at a start"
    if np.isinf(promised):  # no messages ever bound it
        return Row(SECTION, what, promised, promised, "info", shown={"promised": "without bound"})
    held = found >= promised - _ROUTES * (1 + promised)
    shown = {
        "standard error grows: promised": f"at least {times(1 + promised)}",
        "by the joint law": times(1 + found),
    }
    return Row(SECTION, what, promised, found, "ok" if held else "fail", shown=shown)


def promised_in_words(plan: Plan) -> str:
    """What a plan promises: how well the centre knows what is public, and how badly what is private."""
    errors = typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy)
    seen = plan.detectability
    said = [
        f"{e.name} AUC {seen[e.name].raw.auc:.2f} / {seen[e.name].auc:.2f} / 0.50"
        if e.name in seen and e.private
        else f"{e.name} {_error(e.raw)} / {_error(e.sent)} / {_error(e.guessing)} {e.unit}".rstrip()
        for e in errors.values()
    ]
    return f"Promised standard errors, raw / sent / prior only: {'; '.join(said)}."


def _error(value: float | None) -> str:
    return "∞" if value is None or np.isinf(value) else plus_minus(value)


def seen_rows(plan: Plan) -> list[Row]:
    """How surely the change of each secret is seen in what is sent, in the model."""
    return [in_the_model(EXPOSURE, name, seen.auc, seen) for name, seen in plan.detectability.items()]


def in_the_model(section: str, name: str, promised: Figure, seen: Detectability | None) -> Row:
    """The promise about a parameter with few values: an AUC, and power with few false alarms.

    promised: AUC; None where nothing is promised; seen: how surely the change is seen, where it is a secret.
    """
    what, figures = f"{name}{IN_MODEL}", {"parameter": name}
    if not isinstance(promised, float):
        why = "None against attackers who learn the distribution of x: there is no full prior."
        return Row(section, what, None, None, "info", why, None, figures, detection_cells("", "nothing"))
    power = ["" if seen is None else f"{100 * seen.sent.power_at(rate):.1f} %" for rate in CAREFUL]
    shown = detection_cells("" if seen is None else f"AUC {seen.raw.auc:.2f}", f"AUC {promised:.2f}", *power)
    bare = promised >= SEEN
    verdict: Judgement = "warn" if bare else "ok"
    why = HIDES_NOTHING if bare else ""
    return Row(section, what, promised, promised, verdict, why, None, figures, shown)


def detection_cells(raw: str, sent: str, *power: str) -> dict[str, str]:
    """How well values are distinguished, under the headings of a table; power: at each rate of false alarms."""
    rates = [f"seen at {100 * rate:g} % false alarms" for rate in CAREFUL]
    cells = dict(zip(rates, power or ("",) * len(rates), strict=True))
    return {"guessing": "AUC 0.50", "raw": raw, "sent": sent} | cells
