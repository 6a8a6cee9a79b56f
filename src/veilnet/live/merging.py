"""One network over several centres: each hears a part of the agents and says their sums, and one merges.

A centre of a part (``center --sums``) publishes with every estimate what :mod:`veilnet.centre.partial_sums` keeps of
its agents' messages. Who reads all parts has the estimates that one centre would make, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce
from itertools import chain
from operator import add
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet.centre.fusion import Fusion
from veilnet.centre.partial_sums import PartialSum, adding_model, estimate_from, partial_sum
from veilnet.live.centre import Estimated
from veilnet.live.connecting import Address, read_address
from veilnet.live.epochs import Epochs
from veilnet.live.fusions import AnyFusion, SymbolFusion, restored
from veilnet.live.keys import Credentials
from veilnet.live.messages import MOST_BYTES
from veilnet.live.showing import as_table
from veilnet.live.topics import Topics

_MOST = 1000  # epochs that are kept for what comes late
_BESIDE = 8000  # bytes of an estimate beside its sum
_UNUSED = ("missing", "contradicting")

Place: TypeAlias = tuple[Credentials, Address, Topics]


def read_part(text: str) -> tuple[str, Place]:
    """(how a part is called, where it is read) of ``keys/readers/all=mqtts://broker:8883/root``."""
    folder, _, place = text.partition("=mqtts://")
    host, _, root = place.partition("/")
    if not folder or not host:
        raise InvalidRequest(f"--part: expected FOLDER=mqtts://broker:8883/root, found {text[:80]!r}")
    topics = Topics(root) if root else Topics()
    return f"{host}/{topics.root}", (Credentials(Path(folder)), read_address(f"mqtts://{host}"), topics)


def check_summable(fusion: AnyFusion) -> None:
    """InvalidRequest where the sums of a plan's messages cannot be published."""
    if isinstance(fusion, SymbolFusion):
        raise InvalidRequest("--sums: symbols are not added up; leave it out")
    length = adding_model(fusion)[0].observe.shape[1]
    if 11 * length * (length + 3) // 2 + _BESIDE > MOST_BYTES:  # in base64, a number takes 11 bytes
        raise InvalidRequest(
            f"--sums: the sums of {length} parameters do not fit into a message of {MOST_BYTES} bytes"
        )


class Merger:
    """Takes what parts publish, in any order, and makes the estimates of all.

    fusion: of the whole plan. parts: how they are called. wait: seconds that an epoch waits, after the first part.
    say:    called with what its owner should know.
    """

    def __init__(
        self,
        fusion: Fusion,
        parts: Collection[str],
        wait: float,
        epochs: Epochs,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_summable(fusion)
        self._fusion, self._parts, self._wait, self._epochs = fusion, tuple(parts), wait, epochs
        self._say = say
        self._without: set[str] = set()  # parts that published something without a sum
        self._said: dict[int, dict[str, dict[str, Any]]] = {}  # epoch -> part -> the table it published last
        self._waiting: dict[int, float] = {}  # epoch -> its deadline
        self._revisions: dict[int, int] = {}  # of those that were merged
        self._newest = 0

    def tell(self, part: str, table: dict[str, Any], now: float) -> None:
        """Take in what a part published; InvalidRequest where it is of another network.

        What has no sum is left out: a broker still has what a centre published before it was started with --sums.
        """
        if "sum" not in table:
            if part not in self._without:
                self._without.add(part)
                self._say(
                    f"{part}: estimates without sums are left out; if none of them has one, start that centre with "
                    "--sums"
                )
            return
        table = table | {"sum": PartialSum.of_words(table["sum"], self._fusion)}
        epoch = table["epoch"]
        said = self._said.setdefault(epoch, {})
        if part in said and said[part]["revision"] >= table["revision"]:
            return
        said[part] = table
        self._waiting.setdefault(epoch, now + self._wait)
        while len(self._said) > _MOST:
            oldest = min(self._said)
            del self._said[oldest]
            self._waiting.pop(oldest, None)
            self._revisions.pop(oldest, None)

    def due(self, now: float) -> Iterator[dict[str, Any]]:
        """The estimates of epochs that all parts said, or whose deadline has passed."""
        for epoch in sorted(self._waiting):
            said = self._said[epoch]
            if len(said) < len(self._parts) and now < self._waiting[epoch]:
                continue
            del self._waiting[epoch]
            yield self._merged(epoch, said)

    def _merged(self, epoch: int, said: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        total = reduce(add, (each["sum"] for each in said.values()), partial_sum(self._fusion, {}))
        unused = {what: sorted(chain(*(each[what] for each in said.values()))) for what in _UNUSED}
        senders = sum(size > 0 for size in self._fusion.sent.values())
        if total.agents + len(set(chain(*unused.values()))) > senders:
            raise InvalidRequest(
                f"--part: expected parts of {senders} agents in all, found more: some agents are in two of them"
            )
        try:
            public, covariance = estimate_from(self._fusion, total)
        except InvalidRequest:  # they do not determine x
            size = len(self._fusion.model.labels)
            public, covariance = np.full(size, np.nan), np.full((size, size), np.nan)
        revision = self._revisions[epoch] = self._revisions.get(epoch, -1) + 1
        self._newest = max(self._newest, epoch)
        estimate = restored(self._fusion, public, covariance, *(unused[what] for what in _UNUSED))
        plan = self._fusion.model.plan
        made = Estimated(epoch, plan, revision, estimate, newest=epoch == self._newest)
        absent = [part for part in self._parts if part not in said]
        return as_table(made, self._epochs) | {"agents": total.agents, "parts_missing": absent}
