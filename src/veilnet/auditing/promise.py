"""The promise itself: recomputed, and attacked by the best linear estimator on simulated readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import NOTHING, alike, direction_in_words, number, times
from veilnet.auditing.attack.simulation import LinearCentre, draw_readings, draw_x
from veilnet.auditing.conclusion import IN_MODEL
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.in_units import InUnits, in_units
from veilnet.auditing.report import Figure, Judgement, Row
from veilnet.auditing.statistics import CAREFUL, SquareSum
from veilnet.bounds.detectability import SEEN, Detectability, Detector
from veilnet.bounds.knowledge import bits_revealed, knowledge
from veilnet.model.stream_size import by_stacks
from veilnet.plans.certificate import (
    CHANGE_OF,
    DITHERED,
    LOSS_ALLOWED,
    NOISE_POWER,
    UTILITY,
    Finding,
    Promise,
    certify,
)
from veilnet.plans.plan import Plan

SECTION = "the promise"
EXPOSURE = "what stays exposed"
HIDES_NOTHING = "That such a promise is kept protects nobody: the plan does not hide it."
_ROWS_AT_ONCE = 2048
_AT_LEAST = ("target of ", "every direction of ", "no less than ")  # what is promised of these is a floor


def certificate_rows(plan: Plan) -> list[Row]:
    """Every promise of the plan, recomputed from the network and the sanitizers alone; those of changes first."""
    computed = {} if by_stacks(plan.network) else plan.detectability
    promise = Promise(
        plan.utility,
        plan.privacy,
        plan.targets,
        plan.most_loss,
        plan.worst_targets,
        plan.floors,
        plan.details.get("power_allowed", {}),
        seen={name: each.longest.mu for name, each in computed.items()} | dict(plan.seen),
    )
    certificate = certify(plan.network, plan.sanitizers, promise)
    # What is counted comes last, so that the growths stand in one table.
    order = sorted(
        certificate.findings, key=lambda each: (not each.what.startswith(CHANGE_OF), each.what == DITHERED)
    )
    return [certified_row(each) for each in order]


def certified_row(finding: Finding) -> Row:
    """One promise beside what it was computed to be, as growths of an error variance where it is one."""
    good = "confirmed from the network and the sanitizers alone"
    bad = "the network and the sanitizers give another figure than the plan claims"
    sentence = f"{finding.what}: {good if finding.ok else bad}."
    verdict: Judgement = "ok" if finding.ok else "fail"
    promised, found = finding.promised, finding.found
    row = partial(Row, SECTION, _in_words(finding.what), promised, found, verdict, sentence)
    if finding.what == DITHERED:
        return row(shown={"promised": number(promised), "counted": number(found)})
    if finding.what.startswith(NOISE_POWER):
        return row(shown={"noise power: at most": number(promised), "computed again": number(found)})
    if finding.what.startswith(CHANGE_OF):
        aucs = [number(Detector(each).auc) for each in (promised, found)]
        return row(shown={"AUC of the best detector: at most": aucs[0], "computed again": aucs[1]})
    if finding.what == UTILITY:
        promised, found = -promised, -found  # -u is by how much the public error variance grows
    limit = "at most " if finding.what == LOSS_ALLOWED and promised >= NOTHING else ""
    if finding.what.startswith(_AT_LEAST):
        limit = "at least "
    return row(
        shown={
            "error variance grows: promised": limit + times(1 + promised),
            "computed again": times(1 + found),
        }
    )


def _in_words(what: str) -> str:
    """What a finding is about, for people who have read no paper."""
    plain = {
        UTILITY: "public error",
        LOSS_ALLOWED: "public error, as allowed",
        DITHERED: "agents that forget to dither",
    }
    for start, words in (
        (NOISE_POWER, "noise of {}, nearest its limit"),
        (CHANGE_OF, "change of {}"),
        ("privacy of ", "error on {}"),
        ("target of ", "error on {}, as asked for"),
        ("every direction of ", "error on every direction of {}, as asked for"),
        ("no less than is free of ", "error on {}, no less than is free"),
    ):
        if what.startswith(start):
            return words.format(what.removeprefix(start))
    return plain.get(what, what)


@dataclass(frozen=True, eq=False)
class EstimatedRows:
    """Rows of x that somebody estimates from what is sent: the centre's public ones, or private ones.

    when: of a stream, from messages up to now or with hindsight.
    """

    what: str
    name: str
    rows: Array
    public: bool
    when: Literal["now", "hindsight"] = "now"


def simulation_rows(
    plan: Plan,
    deployment: Deployment,
    chance: float,
    seed: int,
    count: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """Errors of the best linear attacker, and of the public estimate, over simulated readings.

    Readings are drawn from the model, run through what is deployed, and estimated as the plan's model says.
    The error is then normal with covariance A P̃ A' whatever x is, so its mean square may stray from the
    bound only as far as :class:`SquareSum` allows.
    """
    network = plan.network
    centre = LinearCentre(network, deployment.planned)
    known = centre.knowledge
    asked = [
        EstimatedRows(f"public estimate of {name}", name, rows, public=True)
        for name, rows in network.public.items()
    ]
    asked += [
        EstimatedRows(f"attack on {name}", name, rows, public=False) for name, rows in network.private.items()
    ]
    units = in_units(network)
    possible = [each for each in asked if np.isfinite(known.growth(each.rows))]
    rng = np.random.default_rng([seed, 2])

    def squares(size: int) -> list[float]:
        x = draw_x(network, rng, size)
        messages = deployment.release_all(draw_readings(network, x, rng))
        errors = (centre.estimate(messages, each.rows) - x @ each.rows.T for each in possible)
        return [float(np.sum(error**2)) for error in errors]

    try:
        sums = summed_over(squares, count, _ROWS_AT_ONCE, advance)
    except Misbehaves as trouble:
        return [not_run(trouble)]
    found = {each.what: total / count for each, total in zip(possible, sums, strict=True)}
    share = chance / (2 * len(asked))
    return [
        judged_row(
            each.what,
            Beside.of(units[each.name], each.rows),
            found[each.what],
            SquareSum(_spectrum(known.error_covariance(each.rows)), count),
            share,
            public=each.public,
        )
        if each.what in found
        else _impossible(each.what, Beside.of(units[each.name], each.rows))
        for each in asked
    ]


def summed_over(
    squares: Callable[[int], list[float]], count: int, at_once: int, advance: Callable[[float], None]
) -> list[float]:
    """Sums of squares over so many draws, made a few at a time by ``squares``."""
    total: list[float] = []
    for start in range(0, count, at_once):
        size = min(at_once, count - start)
        some = squares(size)
        total = [a + b for a, b in zip(total, some, strict=True)] if total else some
        advance((start + size) / count)
    return total


def not_run(trouble: Misbehaves) -> Row:
    """A simulation that what is deployed did not let us finish."""
    shown = {"outcome": "could not be run"}
    return Row(SECTION, "simulation", None, None, "fail", f"it could not be run: {trouble}.", shown=shown)


def _spectrum(covariance: Array) -> Array:
    return np.asarray(np.maximum(np.linalg.eigvalsh(covariance), 0.0))


@dataclass(frozen=True)
class Beside:
    """What a measured error is seen beside: typical errors by guessing and from raw readings, in a unit.

    outputs: how many rows the parameter has, over which a mean square error is summed.
    """

    guessing: float
    raw: float
    unit: str
    outputs: int

    @classmethod
    def of(cls, error: InUnits, rows: Array) -> Beside:
        """Those of a parameter with these rows."""
        return cls(error.typical.guessing, error.typical.raw, error.typical.unit, len(rows))

    def typical(self, total: float) -> float:
        """The root mean square over the rows, of a mean square summed over them."""
        return float(np.sqrt(max(total, 0.0) / self.outputs))


def judged_row(
    what: str,
    beside: Beside,
    found: float,
    law: SquareSum,
    chance: float,
    *,
    public: bool,
    who: str = "",
    more: Mapping[str, object] | None = None,
) -> Row:
    """A mean square error (summed over the rows of a parameter) judged by the law that the plan gives it.

    who:  the attacker in words; what was estimated by when left out.
    more: figures to add for machines.
    """
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
    shown["which lies between"] = f"{lowest.removesuffix(beside.unit).strip()} and {highest}"
    figures: dict[str, object] = {
        "rows": law.count,
        "lowest allowed": low,
        "highest allowed": high,
        "outputs": beside.outputs,
    }
    figures |= dict(more or {}) | {"errors": errors, "unit": beside.unit}
    who = who or ("the centre" if public else "the attacker")
    aside = f"{shown['simulated']} where {shown['promised']} was promised"
    verdict: Judgement = "fail"
    if low <= found <= high:
        verdict = "ok"
        expected = "what the plan promises" if public else "what the plan leaves, no less"
        sentence = f"{what}: on simulated readings the error of {who} is {expected}, {shown['promised']}."
    elif public:
        sentence = f"{what}: the error is {aside}."
    elif found < low:
        sentence = (
            f"{what}: {who} errs less than the plan says, {aside}: the promised protection is not there."
        )
    else:
        sentence = f"{what}: {who} errs more than planned, {aside}: what is deployed is not what was planned."
    return Row(SECTION, what, law.mean, found, verdict, sentence, interval, figures, shown)


def _impossible(what: str, beside: Beside) -> Row:
    sentence = f"{what}: nothing that is sent determines it, so every estimate may be off without bound."
    shown = alike({"guessing": beside.guessing, "raw readings": beside.raw}, beside.unit)
    shown |= {"promised": "±∞", "simulated": "±∞", "which lies between": ""}
    return Row(SECTION, what, np.inf, np.inf, "ok", sentence, shown=shown)


def exposure_rows(plan: Plan) -> list[Row]:
    """Beside the trace: the most exposed direction of each private parameter, and bits revealed."""
    network = plan.network
    known = knowledge(network, plan.sanitizers)
    full = network.prior is not None and network.prior.full
    bits = bits_revealed(network, plan.sanitizers) if full else {}
    raw_bits = bits_revealed(network) if full else {}
    worst = [
        most_exposed_row(name, plan.privacy[name], known.worst_growth(matrix), matrix, _direction(plan, name))
        for name, matrix in network.private.items()
        if name not in network.secrets
    ]
    return change_rows(plan) + worst + [bits_row(name, raw_bits[name], bits[name]) for name in bits]


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
        words = f"{name}: {seen.in_words(plan.network.unit(name))}."
        figures = {"change": seen.change, "one row": seen.auc, "mu": each.mu, "epsilon": each.epsilon}
        rows.append(
            Row(EXPOSURE, f"{name}, its change", each.raw.auc, each.auc, "info", words, None, figures, shown)
        )
    return rows


def most_exposed_row(
    name: str, overall: float, worst: float, matrix: Array, direction: str = "", late: str = ""
) -> Row:
    """How the error on a whole parameter grows, and along the combination of its rows that is known best."""
    several = matrix.shape[0] > 1
    sentence = (
        f"{name}: overall the variance of the centre's error{late} grows {times(1 + overall)}, along its most "
        f"exposed direction{f' ({direction})' if direction else ''} {times(1 + worst)}."
    )
    shown = {
        "error variance grows: on the whole": times(1 + overall),
        "on the combination that stays most exposed": times(1 + worst) if several else "(it is one number)",
        "that combination": direction,
    }
    verdict: Judgement = "warn" if several and worst < 0.1 * overall else "info"
    return Row(EXPOSURE, f"{name}, most exposed direction", overall, worst, verdict, sentence, shown=shown)


def bits_row(name: str, raw: float, sent: float, each: str = "") -> Row:
    """Bits of information about a parameter, in raw readings and in what is sent."""
    sentence = f"{name}: messages reveal {sent:.3g} bits{each}, raw readings {raw:.3g}."
    shown = {f"bits told{each}: by raw readings": f"{raw:.2g}", "by what is sent": f"{sent:.2g}"}
    figures = {"raw bits": raw}
    return Row(EXPOSURE, f"{name}, bits revealed", None, sent, "info", sentence, figures=figures, shown=shown)


def _direction(plan: Plan, name: str) -> str:
    """The most exposed combination of the rows of G_j, by their own names."""
    matrix = plan.network.private[name]
    if matrix.shape[0] == 1:
        return ""
    raw = knowledge(plan.network).error_covariance(matrix)
    known = knowledge(plan.network, plan.sanitizers)
    if not np.isfinite(known.growth(matrix)):
        return ""
    scale = 1.0 / np.sqrt(np.diag(raw))
    left = known.error_covariance(matrix) * scale[:, None] * scale
    values, vectors = np.linalg.eigh(raw * scale[:, None] * scale)
    if values[0] < 1e-10 * values[-1]:
        return ""
    half = vectors / np.sqrt(values)
    _, inner = np.linalg.eigh(half.T @ left @ half)
    names = [f"{name}[{k + 1}]" for k in range(matrix.shape[0])]
    return direction_in_words(half @ inner[:, 0] * scale, names)


def seen_rows(plan: Plan) -> list[Row]:
    """How surely the change of each secret is seen in what is sent, in the model."""
    return [in_the_model(EXPOSURE, name, seen.auc, seen) for name, seen in plan.detectability.items()]


def in_the_model(section: str, name: str, promised: Figure, seen: Detectability | None) -> Row:
    """The promise about a parameter with few values: an AUC, and power with few false alarms.

    promised: AUC; None where nothing is promised; seen: how surely the change is seen, where it is a secret.
    """
    what, figures = f"{name}{IN_MODEL}", {"parameter": name}
    if not isinstance(promised, float):
        sentence = f"{what}: none about somebody who learns how x is spread, for want of a full prior."
        return Row(section, what, None, None, "info", sentence, None, figures, detection_cells("", "nothing"))
    power = ["" if seen is None else f"{100 * seen.sent.power_at(rate):.1f} %" for rate in CAREFUL]
    shown = detection_cells("" if seen is None else f"AUC {seen.raw.auc:.2f}", f"AUC {promised:.2f}", *power)
    bare = promised >= SEEN
    sentence = f"{what}: AUC {promised:.2f} where guessing has 0.50. "
    sentence += HIDES_NOTHING if bare else "It was computed again from what is planned."
    verdict: Judgement = "warn" if bare else "ok"
    return Row(section, what, promised, promised, verdict, sentence, None, figures, shown)


def detection_cells(raw: str, sent: str, *power: str) -> dict[str, str]:
    """How well values are told apart, under the headings of a table; power: at each rate of false alarms."""
    rates = [f"seen at {100 * rate:g} % false alarms" for rate in CAREFUL]
    cells = dict(zip(rates, power or ("",) * len(rates), strict=True))
    return {"guessing": "AUC 0.50", "raw": raw, "sent": sent} | cells
