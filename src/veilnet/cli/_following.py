"""Estimates row after row: each row for itself, or, of a stream, from all that came before and some rows after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.missed import LONGEST_GAP, MISSED

if TYPE_CHECKING:
    from veilnet._core.types import Array, Booleans
    from veilnet.centre.estimates import Estimate
    from veilnet.centre.fusion import Fusion
    from veilnet.io.merging import Rows
    from veilnet.io.row_keys import RowKey

_USUAL_GATE = 1e-6


def centre_of(path: Path, gate: float | None, *, keep: bool) -> Fusion:
    """The centre of a file, which tests messages at the gate."""
    from veilnet.centre.fusion import Fusion
    from veilnet.centre.streams.sum_model import SumModel
    from veilnet.io.centre_files import load_centre

    model = load_centre(path)
    if gate is None and not isinstance(model, SumModel):  # which is never tested
        gate = _USUAL_GATE
    return Fusion(model, gate=gate, keep=keep)


def refuse_what_a_stream_lacks(fusion: Fusion, key: RowKey, lag: int | None) -> None:
    """Refuse what does not go with the kind of plan."""
    if not fusion.is_stream:
        if lag is not None:
            raise InvalidRequest("--lag: the plan is for independent rows; leave it out")
        return
    if key.is_time:
        raise InvalidRequest(
            "messages: the rows of a stream follow one another in equal steps, which times do not count; sanitize "
            "readings with a column 'row'"
        )


def estimates(
    fusion: Fusion, rows: Iterable[tuple[Rows, dict[str, Array]]], lag: int | None
) -> Iterator[tuple[Rows, Estimate, dict[str, Array]]]:
    """The rows that somebody sent, in order, what they tell, and the messages.

    For a stream, what informs about a row comes up to ``lag`` rows later, and messages are not given.
    """
    if not fusion.is_stream:
        for numbers, messages in rows:
            found = fusion.estimate(messages)
            if fusion.sums:  # what was heard of agents that are groups is their sum
                stacked, blocks = fusion.stacked(messages), fusion.model.blocks
                messages = {name: stacked[:, blocks.rows(k)] for k, name in enumerate(fusion.agents)}
            yield numbers, found, messages
        return
    follower = fusion.follow(lag=lag or 0)
    heard: Booleans = np.zeros(0, bool)
    origin = 0  # the last row before the first
    given = 0  # the last row whose estimate was given, or would have been if anybody had sent
    for numbers, messages in rows:
        if not follower.rows and not origin and _begins(messages):
            given = origin = int(numbers[0]) - 1
        first, last = origin + follower.rows + 1, int(numbers[-1])
        if last - first - len(numbers) > LONGEST_GAP:
            raise InvalidReading(
                f"messages: row {last} comes after row {first - 1}, and nobody sent the rows between, more than "
                f"{LONGEST_GAP:,}; number the rows of a stream one by one from 1"
            )
        present = np.zeros(last - first + 1, bool)
        present[numbers - first] = True
        whole = {}
        for agent, values in messages.items():
            whole[agent] = np.full((len(present), values.shape[1]), np.nan)
            whole[agent][numbers - first] = values
        heard = np.concatenate([heard, present])
        found = follower.add(fusion.stacked(whole))
        yield _those_heard(found, heard, given)
        heard, given = heard[len(found.public) :], given + len(found.public)
    yield _those_heard(follower.end(), heard, given)


def _begins(messages: dict[str, Array]) -> bool:
    """Whether the first row is one that everybody in it missed: then no memory holds anything of rows before."""
    heard = [values[0] for values in messages.values() if not np.isnan(values[0]).all()]
    return bool(heard) and all((values == MISSED).all() for values in heard)


def _those_heard(found: Estimate, heard: Booleans, given: int) -> tuple[Rows, Estimate, dict[str, Array]]:
    kept = np.flatnonzero(heard[: len(found.public)])
    numbers = np.asarray(kept + given + 1, dtype=np.int64)
    doubts = tuple(
        replace(doubt, row=int(np.searchsorted(kept, doubt.row))) for doubt in found.contradictions
    )
    kept_rows = replace(
        found, public=found.public[kept], set_of_row=found.set_of_row[kept], contradictions=doubts
    )
    return numbers, kept_rows, {}
