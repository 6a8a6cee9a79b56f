"""The promise itself: recomputed, and attacked by the best linear estimator on simulated readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import direction_in_words, number, times
from veilnet.auditing.attack.simulation import LinearCentre, draw_readings, draw_x
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Judgement, Row
from veilnet.auditing.statistics import SquareSum
from veilnet.bounds.knowledge import bits_revealed, knowledge
from veilnet.plans.certificate import Promise, certify
from veilnet.plans.plan import Plan

SECTION = "the promise"
EXPOSURE = "what stays exposed"
_ROWS_AT_ONCE = 2048


def certificate_rows(plan: Plan) -> list[Row]:
    """Every promise of the plan, recomputed from the network and the sanitizers alone."""
    promise = Promise(plan.utility, plan.privacy, plan.targets, plan.most_loss, plan.worst_targets)
    certificate = certify(plan.network, plan.sanitizers, promise)
    rows = []
    for finding in certificate.findings:
        good = "confirmed from the network and the sanitizers alone"
        bad = "the network and the sanitizers give another figure than the plan claims"
        sentence = f"{finding.what}: {good if finding.ok else bad}."
        verdict: Judgement = "ok" if finding.ok else "fail"
        rows.append(Row(SECTION, finding.what, finding.promised, finding.found, verdict, sentence))
    return rows


@dataclass(frozen=True, eq=False)
class _Estimated:
    """Rows of x that somebody estimates from what is sent: the centre's public ones, or private ones."""

    what: str
    rows: Array
    public: bool


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
    asked = [_Estimated(f"public estimate ({', '.join(network.public)})", network.U, public=True)]
    asked += [
        _Estimated(f"best linear attack on {name}", rows, public=False)
        for name, rows in network.private.items()
    ]
    possible = [each for each in asked if np.isfinite(known.growth(each.rows))]
    sums = {each.what: 0.0 for each in possible}
    rng = np.random.default_rng([seed, 2])
    for start in range(0, count, _ROWS_AT_ONCE):
        size = min(_ROWS_AT_ONCE, count - start)
        x = draw_x(network, rng, size)
        try:
            messages = deployment.release_all(draw_readings(network, x, rng))
        except Misbehaves as trouble:
            return [Row(SECTION, "simulation", None, None, "fail", f"it could not be run: {trouble}.")]
        for each in possible:
            errors = centre.estimate(messages, each.rows) - x @ each.rows.T
            sums[each.what] += float(np.sum(errors**2))
        advance((start + size) / count)
    share = chance / (2 * len(asked))
    return [
        _judged(
            each,
            sums[each.what] / count,
            SquareSum(_spectrum(known.error_covariance(each.rows)), count),
            share,
        )
        if each.what in sums
        else _impossible(each.what)
        for each in asked
    ]


def _spectrum(covariance: Array) -> Array:
    return np.asarray(np.maximum(np.linalg.eigvalsh(covariance), 0.0))


def _judged(estimated: _Estimated, found: float, law: SquareSum, chance: float) -> Row:
    what, public = estimated.what, estimated.public
    low, high = law.lowest(chance), law.highest(chance)
    figures = {
        "rows": law.count,
        "lowest allowed": low,
        "highest allowed": high,
        "outputs": len(estimated.rows),
    }
    interval = law.interval(found)
    if low <= found <= high:
        return Row(SECTION, what, law.mean, found, "ok", _good(public), interval, figures)
    if public:
        sentence = f"mean square error {number(found)} where {number(law.mean)} was promised."
    elif found < low:
        sentence = f"{what} does better than the bound: the promised protection is not there."
    else:
        sentence = f"{what} errs more than planned: what is deployed is not what was planned."
    return Row(SECTION, what, law.mean, found, "fail", f"{what}: {sentence}", interval, figures)


def _good(public: bool) -> str:
    if public:
        return "the centre's mean square error on simulated readings is what the plan promises."
    return "the attacker's mean square error on simulated readings is the bound, no less."


def _impossible(what: str) -> Row:
    sentence = f"{what}: nothing that is sent determines it, so every estimate may be off without bound."
    return Row(SECTION, what, np.inf, np.inf, "ok", sentence)


def exposure_rows(plan: Plan) -> list[Row]:
    """Beside the trace: the most exposed direction of each private parameter, and bits revealed."""
    network = plan.network
    known = knowledge(network, plan.sanitizers)
    full = network.prior is not None and network.prior.full
    bits = bits_revealed(network, plan.sanitizers) if full else {}
    raw_bits = bits_revealed(network) if full else {}
    rows = []
    for name, matrix in network.private.items():
        worst = known.worst_growth(matrix)
        overall = plan.privacy[name]
        far_below = matrix.shape[0] > 1 and worst < 0.1 * overall
        sentence = (
            f"{name}: overall the centre's error grows {times(1 + overall)}, along its most exposed "
            f"direction{_direction(plan, matrix)} {times(1 + worst)}."
        )
        verdict: Judgement = "warn" if far_below else "info"
        what = f"{name}, most exposed direction"
        rows.append(Row(EXPOSURE, what, overall, worst, verdict, sentence))
        if name in bits:
            sentence = f"{name}: messages reveal {bits[name]:.3g} bits, raw readings {raw_bits[name]:.3g}."
            figures = {"raw bits": raw_bits[name]}
            rows.append(
                Row(EXPOSURE, f"{name}, bits revealed (raw | sent)", raw_bits[name], bits[name], "info",
                    sentence, figures=figures)
            )  # fmt: skip
    return rows


def _direction(plan: Plan, matrix: Array) -> str:
    """The most exposed combination of the rows of G_j, by their own names."""
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
    names = [f"[{k + 1}]" for k in range(matrix.shape[0])]
    return f" ({direction_in_words(half @ inner[:, 0] * scale, names)})"
