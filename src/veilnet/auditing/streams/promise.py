"""The promise of a stream plan: written out over a window by another route, and attacked on simulated streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import number, times
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.promise import EXPOSURE, SECTION
from veilnet.auditing.report import LEFT_OUT, Judgement, Row
from veilnet.auditing.streams.attack import (
    Errors,
    TooLarge,
    attack_with_the_model,
    forgotten,
    long_enough,
    middle,
)
from veilnet.auditing.streams.simulation import draw_streams, release_streams
from veilnet.auditing.streams.steady import filtered
from veilnet.auditing.streams.window import When, Window
from veilnet.bounds.streams.knowledge import stream_bits, stream_knowledge
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

# A window tells as much as the whole stream but for this part of the error, once it is long enough.
_CLOSE = 0.01
# No window tells more than the whole stream, but for rounding and what memories have from before their beginning.
_NOT_LESS = 1e-4
_STREAMS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class _Estimated:
    """Rows of x that somebody estimates from the messages, now or with hindsight."""

    what: str
    rows: Array
    when: When
    public: bool


def _asked(network: Network) -> list[_Estimated]:
    found = [_Estimated(f"public estimate ({', '.join(network.public)}), now", network.U, "now", public=True)]
    for name, rows in network.private.items():
        found.append(_Estimated(f"attack on {name}, with hindsight", rows, "hindsight", public=False))
        found.append(_Estimated(f"attack on {name}, now", rows, "now", public=False))
    return found


def window_rows(deployment: Deployment, window: Window) -> list[Row]:
    """Whether the steady errors that were promised are those of a window written out and solved at once."""
    network = deployment.network
    row = window.rows // 2
    older = forgotten(window)
    known = filtered(network, deployment.planned)
    rows = []
    for each in _asked(network):
        promised = known.error(each.rows, each.when)
        found = window.error(each.rows, row, each.when)
        what = f"window of {window.rows} rows: {each.what}"
        figures = {"window": window.rows, "rows before it": window.lead, "older part": older}
        if np.isinf(promised):
            sentence = f"{each.what}: the plan counts on an error without bound; a window cannot show that."
            rows.append(Row(SECTION, what, promised, found, "info", sentence, figures=figures))
            continue
        verdict: Judgement = "ok"
        sentence = f"{each.what}: one linear solve over {window.rows} rows finds the promised error."
        if found < promised * (1 - _NOT_LESS - 2 * older):
            verdict = "fail"
            sentence = (
                f"{each.what}: {window.rows} rows already leave an error of {number(found)}, less than the "
                f"{number(promised)} that was promised for a whole stream."
            )
        elif older > _CLOSE and abs(found - promised) > _CLOSE * promised:
            verdict = "warn"
            sentence = (
                f"{each.what}: {window.rows} rows leave {number(found)} where {number(promised)} was promised, but "
                f"some memories are longer than the {window.lead} rows before that can be afforded: no contradiction."
            )
        elif found > promised * (1 + _CLOSE):
            verdict = "warn"
            sentence = (
                f"{each.what}: {window.rows} rows, the most that could be afforded, leave {number(found)} where "
                f"{number(promised)} was promised: the whole stream tells more, and is not tested here."
            )
        rows.append(Row(SECTION, what, promised, found, verdict, sentence, figures=figures))
    return rows


def stream_rows(
    deployment: Deployment,
    chance: float,
    seed: int,
    count: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """The window beside the promise, then the best attackers with memory against what is deployed.

    Streams are drawn from the model, run through what is deployed from their first row on, and attacked by the best
    linear estimator there is, with the joint law of its errors over all rows of a stream. ``count`` rows of messages
    are judged in all, so that fewer streams are drawn where they have to be longer.
    """
    network = deployment.network
    try:
        window = long_enough(network, deployment.planned)
    except TooLarge as trouble:
        sentence = f"attackers with memory: left out: {trouble}."
        return [Row(SECTION, "attackers with memory", None, LEFT_OUT, "info", sentence)]
    streams = max(2, -(-count // len(middle(window))))
    rows = window_rows(deployment, window)
    asked = _asked(network)
    rng = np.random.default_rng([seed, 2])
    found: list[list[Errors]] = [[] for _ in asked]
    sizes: list[int] = []
    for start in range(0, streams, _STREAMS_AT_ONCE):
        size = min(_STREAMS_AT_ONCE, streams - start)
        drawn = draw_streams(network, size, window.lead + window.rows, rng)
        try:
            messages = release_streams(deployment, drawn.readings)
        except Misbehaves as trouble:
            failed = Row(SECTION, "simulation", None, None, "fail", f"it could not be run: {trouble}.")
            return [*rows, failed]
        sizes.append(size)
        for each, errors in zip(asked, found, strict=True):
            errors.append(attack_with_the_model(window, drawn.x, messages, each.rows, each.when))
        advance((start + size) / streams)
    share = chance / (2 * len(asked))
    return rows + [
        _judged(each, Errors.together(errors, sizes), window, share)
        for each, errors in zip(asked, found, strict=True)
    ]


def _judged(estimated: _Estimated, errors: Errors, window: Window, chance: float) -> Row:
    what, law, found = estimated.what, errors.law, errors.found
    low, high = law.lowest(chance), law.highest(chance)
    figures = {
        "streams": law.count,
        "rows judged of each": len(middle(window)),
        "effective rows": errors.effective,
        "lowest allowed": low,
        "highest allowed": high,
        "outputs": len(estimated.rows),
    }
    interval = law.interval(found)
    who = "the centre" if estimated.public else "an attacker with memory"
    if low <= found <= high:
        sentence = f"{what}: on simulated streams the mean square error of {who} is what the plan leaves."
        return Row(SECTION, what, law.mean, found, "ok", sentence, interval, figures)
    if estimated.public:
        sentence = f"{what}: mean square error {number(found)} where {number(law.mean)} was promised."
    elif found < low:
        sentence = f"{what}: {who} does better than the bound: the promised protection is not there."
    else:
        sentence = f"{what}: {who} errs more than planned: what is deployed is not what was planned."
    return Row(SECTION, what, law.mean, found, "fail", sentence, interval, figures)


def exposure_rows(plan: Plan) -> list[Row]:
    """Beside the trace: the most exposed direction of each private parameter with hindsight, and bits revealed."""
    network = plan.network
    known = stream_knowledge(network, plan.sanitizers)
    stable = network.dynamics is not None and network.dynamics.stable
    bits = stream_bits(network, plan.sanitizers, hindsight=True) if stable else {}
    raw_bits = stream_bits(network, {}, hindsight=True) if stable else {}
    rows = []
    for name, matrix in network.private.items():
        worst, overall = known.worst_growth(matrix, hindsight=True), plan.privacy[name]
        sentence = (
            f"{name}: overall the centre's error with hindsight grows {times(1 + overall)}, along its most exposed "
            f"direction {times(1 + worst)}."
        )
        far_below = matrix.shape[0] > 1 and worst < 0.1 * overall
        verdict: Judgement = "warn" if far_below else "info"
        rows.append(Row(EXPOSURE, f"{name}, most exposed direction", overall, worst, verdict, sentence))
        if name in bits:
            sentence = (
                f"{name}: of each row, all messages of a stream reveal {bits[name]:.3g} bits, raw readings "
                f"{raw_bits[name]:.3g}."
            )
            what = f"{name}, bits revealed of a row (raw | sent)"
            rows.append(Row(EXPOSURE, what, raw_bits[name], bits[name], "info", sentence))
    return rows
