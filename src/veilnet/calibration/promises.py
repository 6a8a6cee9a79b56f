"""What a fitted network promises, each promise with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.types import Integers
from veilnet.bounds.knowledge import knowledge_of_factor, message_factor
from veilnet.calibration.building import Builder
from veilnet.calibration.intervals import (
    FreePrivacy,
    Interval,
    block_length,
    ceiling_intervals,
    drawn_models,
    interval_of,
)
from veilnet.calibration.linear_model import LinearModel
from veilnet.calibration.noise_memory import with_memories
from veilnet.calibration.rows import Rows
from veilnet.calibration.stream_model import FittedStream, contracting
from veilnet.model.network import Network
from veilnet.verdict.exact_test import check

_STREAM_DRAWS = 60  # each is a steady state of its own
_ROWS_PER_READING = 3  # fewer, and draws have no noise of their own in some direction
_SORTED = "some value occurs in so few stretches of the rows that resampling loses it; calibrate while values change"


def fitted_promises(
    builder: Builder, network: Network, model: LinearModel, stream: FittedStream, rows: Rows
) -> dict[str, FreePrivacy]:
    """private name -> the privacy that is free.

    model and stream are as fitted, before anything was widened. Of a stream, memories and the transition in units of
    x's own covariance are taken as they were fitted: the interval is about H, the noise and the prior.
    """
    ceiling = check(network).ceiling
    known: dict[str, Interval] = {}
    enough = _ROWS_PER_READING * (network.N + network.L)
    if len(rows) > enough:
        blocks = _blocks(rows, stream)
        if network.is_stream:
            known = _of_streams(builder, network, model, stream, rows, blocks)
        else:
            sizes = [int(size) for size in network.blocks.sizes]
            known = ceiling_intervals(
                rows.readings, rows.parameters, blocks, sizes, network.U, network.private, builder.joint,
                prior=builder.prior,
            )  # fmt: skip
    few = f"more than {enough} rows are needed for one" if len(rows) <= enough else ""
    if not few and not drawn_models(rows.readings, rows.parameters, blocks, 1)[0].size:
        few = _SORTED
    return {
        name: FreePrivacy(value, known.get(name), "" if name in known else few or _unknown(value))
        for name, value in ceiling.items()
    }


def over_groups(network: Network, rows: int) -> dict[str, tuple[float, float]]:
    """private name -> typical errors of one row and of a group of so many rows in which x stays constant, when agents
    send what is free; none of a stream, whose promise counts all rows.
    """
    if network.is_stream:
        return {}
    factor = message_factor(network, check(network).shares.sanitizers)
    once, often = (knowledge_of_factor(network, np.sqrt(count) * factor) for count in (1, rows))
    found = {}
    for name, asked in network.private.items():
        if np.isfinite(once.growth(asked)) and np.isfinite(often.growth(asked)):
            errors = [np.sqrt(np.trace(each.error_covariance(asked)) / len(asked)) for each in (once, often)]
            found[name] = (float(errors[0]), float(errors[1]))
    return found


def _blocks(rows: Rows, stream: FittedStream) -> list[Integers]:
    """Rows that tell little of one another: whole groups, or blocks of time."""
    if rows.groups is not None:
        return [np.flatnonzero(rows.groups == each) for each in range(int(rows.groups.max()) + 1)]
    return np.array_split(np.arange(len(rows)), len(rows) // block_length(len(rows), stream))


def _unknown(ceiling: float) -> str:
    if np.isinf(ceiling):
        return "without a prior it has no bound, whatever the rows say"
    return "in some of the models that the rows allow it has no bound"


def _of_streams(
    builder: Builder,
    network: Network,
    model: LinearModel,
    stream: FittedStream,
    rows: Rows,
    blocks: Sequence[Integers],
) -> dict[str, Interval]:
    grown = []
    models = drawn_models(rows.readings, rows.parameters, blocks, _STREAM_DRAWS)
    for observe, noise, covariance in zip(*models, strict=True):
        one = builder.rounded(replace(model, observe=observe, noise=noise, covariance=covariance))
        try:
            ceiling = check(builder.network(one, moved_stream(model, one, stream))).ceiling
        except (VeilnetError, np.linalg.LinAlgError):
            continue
        grown.append([np.log1p(ceiling[name]) for name in network.private])
    if len(grown) < _STREAM_DRAWS / 2:
        return {}
    lost = network.N + network.L + 1
    table = np.array(grown)
    return {name: interval_of(table[:, k], len(blocks), lost) for k, name in enumerate(network.private)}


def moved_stream(fitted: LinearModel, model: LinearModel, stream: FittedStream) -> FittedStream:
    """The stream of another row model, with the memories of the one that was fitted."""
    before = np.linalg.cholesky(fitted.covariance)
    contraction = np.linalg.solve(before, stream.transition @ before)
    colour = with_memories(stream.noise.memory, stream.noise.part, model.noise)
    return FittedStream(*contracting(np.linalg.cholesky(model.covariance), contraction), colour)
