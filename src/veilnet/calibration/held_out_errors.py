"""How far off the centre is on rows that the fit had not seen, and the error it has to state to cover that.

A model states the error v of a public estimate as if rows followed it. On later rows the model itself is off: what
readings show of x drifts, bends, and was estimated. So blocks of the log are held out one by one, the model is fitted
to the rest, and the centre's errors e on the block, from raw readings, are squared.

**What is assumed.** Blocks to come are exchangeable with the K blocks of the log: what a new block's errors are like
is one more draw from the law that gave these their mean squares s_1², .., s_K², with mean μ and relative variance c².

**What follows.** Let errors of a block be normal with variance s², and 1/s² be gamma distributed over blocks. Then e
is Student's t exactly, with ν' = 4 + 2/c² degrees and scale² μ (ν' - 2)/ν'. Its 97.5 % point is below that of √μ
times Student's t with ν = 2/c² degrees, since both the scale and the tails are smaller. So

    ± 1.96 √(v + m),    m = μ (t_ν / 1.96)² - v,

covers 95 % of new rows at least. What it covers beyond that pays for c², which few blocks tell badly; where blocks
agree, c² is near 0 and m is what the mean square lacks, and no less than 0; where they differ by offsets that are
normal themselves, errors are normal too, and more than 99 % are covered. How slowly a log changes nobody knows:
blocks of a twentieth, a tenth and a fifth of it are held out, and the largest m counts. A test measures coverage on
blocks whose variances follow three laws.

A plan that loses nothing has the centre's estimate from raw readings. One that loses some has a larger v, and about
the same m is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtrit

from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array, Integers
from veilnet.calibration.building import Builder
from veilnet.calibration.linear_model import LinearModel
from veilnet.calibration.predictive import Widening
from veilnet.calibration.promises import moved_stream
from veilnet.calibration.rows import Rows
from veilnet.calibration.stream_model import FittedStream
from veilnet.calibration.stretches import blocks_of
from veilnet.centre.fusion import Fusion
from veilnet.centre.models import messages_of
from veilnet.model.fitted import HeldOut
from veilnet.model.network import Network

_BLOCKS = (20, 10, 5)  # of the log, one length after another
_LEVEL = 0.95
_FEWEST_DEGREES = 2.0  # below which Student's t has no spread at all
_FEWEST_ROWS = 3  # of a block, for each parameter


def held_out_errors(
    builder: Builder, network: Network, model: LinearModel, stream: FittedStream, wider: Widening, rows: Rows
) -> dict[str, HeldOut]:
    """label of each public row -> what rows held out of the fit show of it.

    network: as it is stated; model, stream: as fitted, before they were ``wider``.
    """
    public = rows.parameters @ network.U.T
    beyond = np.zeros(len(network.U))
    of_streams = stream if network.is_stream else None
    for parts in _BLOCKS:
        blocks = blocks_of(len(rows), parts, rows.parameters, rows.groups)
        if min(map(len, blocks)) < _FEWEST_ROWS * network.L:
            continue
        found = [
            errors
            for block in blocks
            if (errors := _errors_of(builder, model, of_streams, wider, rows, block)) is not None
        ]
        if len(found) > len(blocks) / 2:
            squares, stated = (np.array(each) for each in zip(*found, strict=True))
            beyond = np.maximum(beyond, beyond_the_model(squares, stated))
    return {
        label: HeldOut(float(beyond[k]), float(np.min(public[:, k])), float(np.max(public[:, k])))
        for k, label in enumerate(network.public_rows)
    }


def beyond_the_model(squares: Array, stated: Array) -> Array:
    """√m of each parameter.

    squares: (blocks, parameters) the mean square error of each block; stated: the mean of what the model stated.
    """
    mean = np.mean(squares, axis=0)
    relative = np.var(squares, axis=0, ddof=1) / np.maximum(mean**2, np.finfo(float).tiny)
    degrees = np.maximum(2.0 / np.maximum(relative, 1e-9), _FEWEST_DEGREES)
    tail = (1 + _LEVEL) / 2
    wide = mean * (stdtrit(degrees, tail) / ndtri(tail)) ** 2
    return np.asarray(np.sqrt(np.maximum(wide - np.mean(stated, axis=0), 0.0)))


def _errors_of(
    builder: Builder,
    model: LinearModel,
    stream: FittedStream | None,
    wider: Widening,
    rows: Rows,
    block: Integers,
) -> tuple[Array, Array] | None:
    """(mean square errors on a block, mean variances stated of it) of a fit to all other rows; None without one."""
    others = np.ones(len(rows), bool)
    others[block] = False
    try:
        own = builder.rounded(model.again(rows.readings[others], rows.parameters[others]))
        moved = None if stream is None else wider.of_stream(moved_stream(model, own, stream))
        network = builder.network(wider.of_model(own), moved)
        centre = Fusion(messages_of(network, {}))
        found = [centre.estimate(rows.readings[run]) for run in _runs(rows, block, stream)]
    except (VeilnetError, np.linalg.LinAlgError):  # without these rows something cannot be estimated
        return None
    errors = np.concatenate([each.public for each in found]) - rows.parameters[block] @ network.U.T
    variances = np.concatenate([each.model_deviation for each in found]) ** 2
    if not np.all(np.isfinite(errors)) or not np.all(np.isfinite(variances)):
        return None
    return np.mean(errors**2, axis=0), np.mean(variances, axis=0)


def _runs(rows: Rows, block: Integers, stream: FittedStream | None) -> Sequence[Integers]:
    """The rows of a block that follow one another, where that counts."""
    if stream is None:
        return [block]
    breaks = (np.diff(rows.segments[block]) != 0) | (np.diff(block) != 1)
    return np.split(block, np.flatnonzero(breaks) + 1)
