"""Running the program of an agent of symbols on probing readings, and comparing every symbol with the plan's.

Readings lie all over the range of the calibration. Without a coin every symbol has to be the plan's. With one, a
symbol is the plan's with chance k + (1 - k)/M (k the chance to keep it, M symbols) and any other with (1 - k)/M,
whatever the reading; coins of two calls, or of rows a few apart, are unrelated. Counts are tested by their exact
laws: binomial, and hypergeometric where it does not matter how often a coin keeps. Outside the range nothing may be
sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet.auditing.deployed.draws import Probed, pairs_apart
from veilnet.auditing.deployed.rows import rows_of
from veilnet.auditing.row import Row
from veilnet.symbols.agent import SymbolAgent
from veilnet.symbols.windows import features_of, windows_with

_ROWS = 4096
_LAGS = 16
_REDRAWS = 64
_FALSE_ALARM = 1e-6  # of all rows together
_TIE = 1e-9  # of the scores: where two are as near as this, sums in another order may choose the other


def program_rows(agent: SymbolAgent, program: Callable[[Array], Array], seed: int) -> list[Row]:
    """What a program does, beside the plan; a row for each kind of test."""
    readings = _probes(agent, np.random.default_rng([seed, 2]))
    features = features_of(readings, agent.window)
    scores = agent.layer(features) @ agent.code.T + agent.start
    clear = np.sort(scores, axis=1)
    kept = clear[:, -1] - clear[:, -2:-1].max(axis=1, initial=-np.inf) > _TIE
    readings, planned = readings[kept], np.argmax(scores[kept], axis=1)

    def answers(windows: Array) -> Array:
        return program(windows.reshape(-1, len(agent.names)))

    try:
        calls = [_symbols_of(agent, answers(readings), len(readings)) for _ in range(2)]
    except InvalidReading as trouble:
        measured = [Probed("answers", agent.agent, 0.0, 0.0, f"{agent.agent}: {trouble}")]
    else:
        measured = [_outside(agent, answers, readings[:8])]
        measured += _coded(agent, planned, calls) + _fresh(agent, planned, calls)
    return rows_of(measured, _FALSE_ALARM)


def _symbols_of(agent: SymbolAgent, answer: Array, rows: int) -> Integers:
    if answer.shape != (rows, 1):
        raise InvalidReading(f"it answered shape {answer.shape}, the plan says {(rows, 1)}")
    if not np.isin(answer, np.arange(agent.symbols)).all():
        raise InvalidReading(f"it sent what is none of its {agent.symbols} symbols")
    return answer[:, 0].astype(np.intp)


def _probes(agent: SymbolAgent, rng: np.random.Generator) -> Array:
    """(T, window N) readings whose features lie all over the range, each drawn until they are."""

    def drawn() -> Array:
        return windows_with(rng.uniform(agent.low, agent.high, (_ROWS, len(agent.low))), agent.window)

    def inside(windows: Array) -> Booleans:
        features = features_of(windows, agent.window)
        each = (features >= agent.low) & (features <= agent.high)
        return np.asarray(each.reshape(_ROWS, len(agent.names), -1).all(axis=2))

    found = drawn()
    for _ in range(_REDRAWS):
        right = np.tile(inside(found), agent.window)
        if right.all():
            break
        found = np.where(right, found, drawn())
    found = found[inside(found).all(axis=1)]
    if not len(found):
        raise InvalidRequest(
            f"--run: {agent.agent}: no readings were found in the range of its calibration to try"
        )
    return found


def _outside(agent: SymbolAgent, program: Callable[[Array], Array], readings: Array) -> Probed:
    """Whether readings outside the range, or that are no numbers, are answered."""
    width = (agent.high - agent.low).reshape(len(agent.names), -1)[:, 0]
    which = np.tile(np.eye(len(readings), len(agent.names)) > 0, agent.window)[: len(agent.names)]
    readings = readings[: len(which)]
    rows = readings + which * np.tile(1.01 * width + 1e-6, agent.window)
    unknown = np.where(which, np.nan, readings)
    try:
        answered = len(program(np.concatenate([rows, unknown])))
    except InvalidReading:
        answered = 0  # an exit code that says that rows were refused
    words = f"{agent.agent}: it sent {answered} symbols for readings outside the range of the calibration"
    return Probed("answers", agent.agent, 0.0 if answered else 1.0, float(answered), words)


def _coded(agent: SymbolAgent, planned: Integers, calls: list[Integers]) -> list[Probed]:
    """The plan's symbols as often as the coin keeps them, for each symbol; all others equally often."""
    many, measured = agent.symbols, []
    other = (1.0 - agent.keep) / many
    for sent in calls:
        count = int(np.sum(sent == planned))
        words = f"{agent.agent}: {count} of {len(sent)} rows were sent as the plan's symbol"
        p = _binomial(count, len(sent), other + agent.keep)
        measured.append(Probed("response", agent.agent, p, float(count), words))
        for symbol in range(many):
            own = sent[planned == symbol]
            for found in range(many) if own.size else ():
                count = int(np.sum(own == found))
                chance = other + agent.keep * (found == symbol)
                words = f"{agent.agent}: {count} of {own.size} rows of symbol {symbol} were sent as {found}"
                p = _binomial(count, own.size, chance)
                measured.append(Probed("response", agent.agent, p, float(count), words))
    return measured


def _fresh(agent: SymbolAgent, planned: Integers, calls: list[Integers]) -> list[Probed]:
    """Symbols that coins changed, in two calls and in rows a few apart: together as often as by chance."""
    if agent.keep >= 1 or agent.symbols == 1:
        return []
    kept = [sent == planned for sent in calls]
    both = [(kept[0], kept[1])]
    both += [
        (kept[0][at], kept[0][at + lag])
        for lag in range(1, _LAGS + 1)
        if (at := pairs_apart(len(planned), lag)).size
    ]
    measured = []
    for one, other in both:
        count = int(np.sum(one & other))
        words = f"{agent.agent}: its coins repeat themselves: the same draws are used again"
        measured.append(Probed("fresh noise", agent.agent, _together(one, other), float(count), words))
    return measured


def _binomial(count: int, of: int, chance: float) -> float:
    """The two-sided p-value of a count."""
    from scipy.stats import binomtest

    if chance in (0.0, 1.0):
        return float(count == of * chance)
    return float(binomtest(count, of, chance).pvalue)


def _together(one: Booleans, other: Booleans) -> float:
    """The two-sided p-value of how often two rows of independent coins agree, given how often each one keeps."""
    from scipy.stats import hypergeom

    law, count = hypergeom(len(one), int(one.sum()), int(other.sum())), int(np.sum(one & other))
    return min(1.0, 2.0 * float(min(law.cdf(count), law.sf(count - 1))))
