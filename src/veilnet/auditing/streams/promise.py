"""The promise of a stream plan: written out over a window by another route, and attacked on simulated streams."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.words import alike, times
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.promise import (
    SECTION,
    Beside,
    EstimatedRows,
    bits_row,
    change_rows,
    judged_row,
    most_exposed_row,
    not_run,
    summed_over,
)
from veilnet.auditing.report import LEFT_OUT, Judgement, Row
from veilnet.auditing.streams.attack import (
    TooLarge,
    attack_with_the_model,
    forgotten,
    law_of_errors,
    long_enough,
    middle,
)
from veilnet.auditing.streams.simulation import draw_streams, release_streams
from veilnet.auditing.streams.steady import filtered
from veilnet.auditing.streams.window import Window
from veilnet.bounds.streams.knowledge import silent_stream, stream_bits, stream_knowledge
from veilnet.bounds.typical_errors import unit_of
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.recheck.stream import StreamRecheck

# A window tells as much as the whole stream but for this part of the error, once it is long enough.
_CLOSE = 0.01
# No window tells more than the whole stream, but for rounding and what memories have from before their beginning.
_NOT_LESS = 1e-4
_ROUTES = 1e-6  # what two routes to an error may differ by, as in the certificate
_STREAMS_AT_ONCE = 32


def _asked(network: Network) -> list[EstimatedRows]:
    found = [
        EstimatedRows(f"public estimate of {name}, now", name, rows, public=True)
        for name, rows in network.public.items()
    ]
    for name, rows in network.private.items():
        found.append(EstimatedRows(f"attack on {name}, with hindsight", name, rows, False, "hindsight"))
        found.append(EstimatedRows(f"attack on {name}, now", name, rows, public=False))
    return found


def _beside(network: Network) -> list[Beside]:
    """What raw streams and guessing leave of what is asked, each by its own rule: now, or with hindsight."""
    raw, silent = filtered(network), silent_stream(network)
    found = []
    for each in _asked(network):
        left = np.sqrt(raw.error(each.rows, each.when) / len(each.rows))
        grown = 1.0 + silent.growth(each.rows, hindsight=each.when == "hindsight")
        unit = unit_of(network, each.name)
        found.append(Beside(float(left * np.sqrt(grown)), float(left), unit, len(each.rows)))
    return found


def window_rows(deployment: Deployment, window: Window) -> list[Row]:
    """Whether the steady errors that were promised are those of a window written out and solved at once."""
    network = deployment.network
    row = window.rows // 2
    older = forgotten(window)
    known = filtered(network, deployment.planned)
    rows = []
    for each, beside in zip(_asked(network), _beside(network), strict=True):
        promised = known.error(each.rows, each.when)
        found = window.error(each.rows, row, each.when)
        what = f"window of {window.rows} rows: {each.what}"
        shown = alike(
            {
                "guessing": beside.guessing,
                "raw streams": beside.raw,
                "promised": beside.typical(promised),
                f"solved over {window.rows} rows": beside.typical(found),
            },
            beside.unit,
        )
        left, planned = shown[f"solved over {window.rows} rows"], shown["promised"]
        figures = {"window": window.rows, "rows before it": window.lead, "older part": older}
        if np.isinf(promised):
            sentence = f"{each.what}: the plan counts on an error without bound; a window cannot show that."
            rows.append(Row(SECTION, what, promised, found, "info", sentence, figures=figures, shown=shown))
            continue
        verdict: Judgement = "ok"
        sentence = f"{each.what}: one linear solve over {window.rows} rows finds the promised error."
        if found < promised * (1 - _NOT_LESS - 2 * older):
            verdict = "fail"
            sentence = (
                f"{each.what}: {window.rows} rows already leave an error of {left}, less than the "
                f"{planned} that was promised for a whole stream."
            )
        elif older > _CLOSE and abs(found - promised) > _CLOSE * promised:
            verdict = "warn"
            sentence = (
                f"{each.what}: {window.rows} rows leave {left} where {planned} was promised, but "
                f"some memories are longer than the {window.lead} rows before that can be afforded: no contradiction."
            )
        elif found > promised * (1 + _CLOSE):
            verdict = "warn"
            sentence = (
                f"{each.what}: {window.rows} rows, the most that could be afforded, leave {left} where "
                f"{planned} was promised: the whole stream tells more, and is not tested here."
            )
        rows.append(Row(SECTION, what, promised, found, verdict, sentence, figures=figures, shown=shown))
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
        shown = {"outcome": LEFT_OUT}
        return [Row(SECTION, "attackers with memory", None, LEFT_OUT, "info", sentence, shown=shown)]
    streams = max(2, -(-count // len(middle(window))))
    rows = window_rows(deployment, window)
    asked = _asked(network)
    rng = np.random.default_rng([seed, 2])

    def squares(size: int) -> list[float]:
        drawn = draw_streams(network, size, window.lead + window.rows, rng)
        messages = release_streams(deployment, drawn.readings)
        return [
            size * attack_with_the_model(window, drawn.x, messages, each.rows, each.when) for each in asked
        ]

    try:
        sums = summed_over(squares, streams, _STREAMS_AT_ONCE, advance)
    except Misbehaves as trouble:
        return [*rows, not_run(trouble)]
    share = chance / (2 * len(asked))
    for each, beside, total in zip(asked, _beside(network), sums, strict=True):
        law, effective = law_of_errors(window, each.rows, each.when, streams)
        who = "the centre" if each.public else "an attacker with memory"
        more = {
            "streams": streams,
            "rows judged of each": len(middle(window)),
            "effective rows": effective,
        }
        rows.append(
            judged_row(each.what, beside, total / streams, law, share, public=each.public, who=who, more=more)
        )
    return rows


def exposure_rows(plan: Plan) -> list[Row]:
    """Beside the trace: the most exposed direction of each private parameter with hindsight, and bits revealed."""
    network = plan.network
    known = stream_knowledge(network, plan.sanitizers)
    stable = network.dynamics is not None and network.dynamics.stable
    bits = stream_bits(network, plan.sanitizers, hindsight=True) if stable else {}
    raw_bits = stream_bits(network, {}, hindsight=True) if stable else {}
    worst = [
        most_exposed_row(
            name,
            plan.privacy[name],
            known.worst_growth(matrix, hindsight=True),
            matrix,
            late=" with hindsight",
        )
        for name, matrix in network.private.items()
        if name not in network.secrets
    ]
    return [
        *change_rows(plan),
        *worst,
        *(bits_row(name, raw_bits[name], bits[name], " of each row") for name in bits),
        *_gap_rows(plan),
    ]


def _gap_rows(plan: Plan) -> list[Row]:
    """The least privacy around a missed row and at a start, by the joint law of the rows around it."""
    finite = {name: least for name, least in plan.privacy_with_gaps.items() if np.isfinite(least)}
    found = StreamRecheck(plan.network, plan.sanitizers).growths_with_gaps(finite)
    return [_gap_row(name, least, found.get(name, np.inf)) for name, least in plan.privacy_with_gaps.items()]


def _gap_row(name: str, promised: float, found: float) -> Row:
    what = f"{name} around a missed row and at a start"
    if np.isinf(promised):
        sentence = f"{what}: no messages ever bound it."
        return Row(SECTION, what, promised, promised, "info", sentence, shown={"promised": "without bound"})
    held = found >= promised - _ROUTES * (1 + promised)
    shown = {"promised": times(1 + promised), "by the joint law": times(1 + found)}
    sentence = (
        f"{what}: the error variance grows at least {times(1 + found)}, as promised."
        if held
        else f"{what}: the error variance grows {times(1 + found)} alone, where {times(1 + promised)} was promised."
    )
    return Row(SECTION, what, promised, found, "ok" if held else "fail", sentence, shown=shown)
