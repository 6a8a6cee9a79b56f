"""``veilnet center``: receives from a broker, keeps, acknowledges, and estimates."""

from __future__ import annotations

import json as json_module
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import (
    ACCEPTED,
    BROKER,
    GATE,
    KEEP,
    LOG,
    METRICS,
    ROOT,
    TRUST,
    argument,
    option,
)
from veilnet.cli._lines import answering, log_as, speaker, stop_signal
from veilnet.cli._shared import microseconds

if TYPE_CHECKING:
    from veilnet.io.acceptance import PlanFile
    from veilnet.io.statements import Statement
    from veilnet.live.centre import Centre, Estimated
    from veilnet.live.centre_store import CentreStore
    from veilnet.live.connecting import Address
    from veilnet.live.connection import Connection
    from veilnet.live.keys import Credentials
    from veilnet.live.messages import Seal
    from veilnet.live.metrics import Families
    from veilnet.live.neighbours import Neighbours
    from veilnet.live.receiving import Receiver
    from veilnet.live.topics import Topics

_FULL = 2.0  # seconds between looks whether a full disk has room
_say = speaker("center")


def command(
    center: Path = argument("Centre's file, plan/center.json."),
    broker: str = BROKER,
    cert: Path = option("--cert", "The centre's folder from 'veilnet live keys'.", required=True),
    out: Path = option(
        "--out", "SQLite file for messages and estimates; continued if it exists.", required=True
    ),
    wait: str = option(
        "--wait", "How long an epoch waits for agents after its first message.", default="30s"
    ),
    step: str | None = option("--step", "Length of an epoch, if the plan has none."),
    quorum: int | None = option(
        "--quorum", "Number of agents needed for an estimate; more than half by default.", at_least=1
    ),
    gate: float | None = GATE,
    no_gate: bool = option("--no-gate", "Do not test messages against the model."),
    keep: bool = KEEP,
    keep_days: int | None = option(
        "--keep-days", "Delete epochs this many days after their estimate; never by default.", at_least=1
    ),
    metrics: str | None = METRICS,
    log: Literal["text", "json"] | None = LOG,
    trust: str | None = TRUST,
    home_assistant: bool = option(
        "--home-assistant", "Announce the estimates to Home Assistant, over the broker."
    ),
    name: str = option("--name", "Name of the network in Home Assistant; the root by default.", default=""),
    influx: bool = option("--influx", "Also publish estimates in InfluxDB line format, for Telegraf."),
    sums: bool = option("--sums", "Publish the sums of its agents too, for 'veilnet live merge'."),
    backfill: list[str] | None = option(
        "--backfill",
        "Publish these epochs (or times, 2026-11-18T09:00) again as history, then end.",
        metavar="FROM TO",
        values=2,
    ),
    take_over: bool = option(
        "--take-over",
        "Lead although the centre followed so far may know more; only if it never returns.",
    ),
    accepted: Path | None = ACCEPTED,
    root: str = ROOT,
    quiet: bool = option("--quiet", "Do not print estimates."),
    json: bool = option("--json", "Print estimates as JSON lines."),
) -> int:
    """Run the centre: estimate the public parameters of every epoch from the messages that arrived in time.

    Every message is stored before it is acknowledged. An epoch is estimated once all agents reported, or --wait
    after its first message if a quorum has; later messages revise it. Missing agents are named, and so are those
    whose messages contradict the model and are excluded. Refused messages (unknown agents, forged, malformed, of
    other plans) are counted and logged without their content.

    A new version of the centre's file takes effect while it runs; messages of the previous plan are fused under
    that plan.
    """
    from veilnet import __version__
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.acceptance import PlanFile
    from veilnet.live.centre import USUAL_GATE
    from veilnet.live.centre_store import CentreStore
    from veilnet.live.connecting import read_address
    from veilnet.live.home_assistant import PREFIX
    from veilnet.live.keys import Credentials
    from veilnet.live.neighbours import Neighbours
    from veilnet.live.topics import Topics

    log_as(log)
    address, topics, waiting = read_address(broker), Topics(root), microseconds(wait, "--wait") / 1e6
    file = PlanFile(center, trust, accepted)
    content, _, signed = file.runnable(sealed_bytes(center), partial(_unread, sums=sums))
    if no_gate and (keep or gate is not None):
        raise InvalidRequest("--no-gate: nothing is tested then; leave --gate and --keep out")
    if keep or gate is not None:
        _refuse_untestable(content, center, "--keep" if gate is None else "--gate")
    credentials = Credentials(cert)
    neighbours = Neighbours(topics, __version__, PREFIX if home_assistant else None, influx, name)
    options = {
        "wait": waiting, "gate": None if no_gate else gate or USUAL_GATE, "keep": keep, "quorum": quorum,
        "step": step,
    }  # fmt: skip
    show = "" if quiet else "json" if json else "lines"
    with CentreStore(out) as store:
        service = _Service(file, store, topics, options, credentials, neighbours, show, keep_days, sums=sums)
        service.take_up(content, signed)
        return service.serve(address, backfill, metrics, take_over=take_over)


def _refuse_untestable(content: bytes, center: Path, option: str) -> None:
    from veilnet.live.fusions import fusion_of

    if fusion_of(content, center, gate=0.5).gate is None:
        raise InvalidRequest(
            f"{option}: messages of this plan are not tested against a model (symbols, or numbers added up over "
            "very many agents); leave it out"
        )


def _unread(content: bytes, path: Path, *, sums: bool) -> tuple[bytes, None]:
    """The centre's file as it is: the centre makes its model of it, and keeps the bytes.

    InvalidRequest where sums of its messages cannot be published, and ``sums`` are asked for.
    """
    from veilnet.live.fusions import fusion_of
    from veilnet.live.merging import check_summable

    if sums:
        check_summable(fusion_of(content, path))
    return content, None


class _Service:
    """A centre at work: takes up plans, shows estimates (json, lines or nothing), says what its owner should know."""

    def __init__(
        self,
        file: PlanFile,
        store: CentreStore,
        topics: Topics,
        options: dict[str, Any],
        credentials: Credentials,
        neighbours: Neighbours,
        show: str,
        keep_days: int | None,
        *,
        sums: bool,
    ) -> None:
        from veilnet.live.plan_watch import PlanWatch
        from veilnet.live.seals import second_seal

        self._file, self._store, self._topics, self._options = file, store, topics, options
        self._credentials, self._neighbours, self._show = credentials, neighbours, show
        self._seals: dict[str, Seal] = second_seal(credentials)
        self._begin()
        self._watch = PlanWatch(file, self._roll_over, _say)
        self._looked = self._forgot = 0.0
        self._keep_days, self._sums = keep_days, sums
        self._receiver: Receiver | None = None
        self._connection: Connection | None = None  # this one's, or that of a standby
        self._taken_up = b""

    def _begin(self) -> None:
        """A centre from what the store holds."""
        from veilnet.live.centre import Centre

        self._centre = Centre(self._store, self._seals, self._topics, **self._options)
        self._refusals = _Refusals(self._centre)

    def serve(
        self, address: Address, backfill: list[str] | None, metrics: str | None, *, take_over: bool
    ) -> int:
        """Wait until this centre is the one, and be it; where its store cannot be written, wait until it can."""
        from veilnet._core.errors import Unwritable

        epoch_in = self._centre.epochs.epoch_in
        again = None if backfill is None else [epoch_in(each, "--backfill") for each in backfill]
        stop = stop_signal()
        # A standby answers too, and one whose disk is full.
        place = metrics if again is None else None
        with answering(place, self._families, lambda: self._centre.quiet, _say):
            while True:
                try:
                    return self._serve(stop, address, again, take_over=take_over)
                except Unwritable as error:
                    _say(
                        f"{error}. Free some space: it resumes by itself, and agents keep what was not acknowledged"
                    )
                while not stop.wait(_FULL):
                    with suppress(Unwritable):
                        self._store.reload()
                        break
                if stop.is_set():
                    return 1
                _say("the store is writable again")
                self._begin()
                self._centre.take_up(self._taken_up, self._file.path)

    def _serve(
        self, stop: threading.Event, address: Address, again: list[int] | None, *, take_over: bool
    ) -> int:
        from veilnet.live.lease import lease_seconds
        from veilnet.live.receiving import Receiver
        from veilnet.live.standby import Standby

        standby = Standby(
            self._store, self._topics, self._credentials, address, lease_seconds(self._centre.epochs.step), say=_say,
            idle=self.look_around, forced=take_over,
        )  # fmt: skip
        self._connection, self._receiver = standby, None
        leads, expected = standby.run(stop.is_set)
        if not leads:
            return 0
        if standby.followed:
            self._begin()
            self._centre.take_up(self._taken_up, self._file.path)
        self._neighbours.meet(self._centre.fusion, self._centre.quiet)
        receiver = Receiver(
            self._centre, self._seals, self._topics, self._credentials, address, say=_say, estimated=self.shown,
            idle=self.look_around, neighbours=self._neighbours, expected=expected,
        )  # fmt: skip
        self._connection = receiver
        if again is None:
            self._receiver = receiver
            self._publish(receiver, self._centre.unsaid(standby.unsaid, standby.published))
            receiver.run(stop.is_set)
            self._refusals.tell()
            return 0
        first, last = again
        count = self._publish(receiver, self._centre.kept(first, last))
        receiver.run(lambda: stop.is_set() or receiver.has_said_all)
        left = len(receiver.estimates)
        _say(f"published {count - left} of {count} estimates of epochs {first} to {last} as history")
        return 0

    def _publish(self, receiver: Receiver, made: Iterable[Estimated]) -> int:
        """Publish estimates that were made before; how many there are."""
        tables = [self._table(each, delayed=True) for each in made]
        for each in tables:
            receiver.estimates.add(each)
        return len(tables)

    def _table(self, made: Estimated, *, delayed: bool = False) -> dict[str, Any]:
        """An estimate as it is published."""
        from veilnet.live.showing import as_table

        centre = self._centre
        table = as_table(made, centre.epochs, delayed=delayed)
        return table | {"sum": centre.sum_of(made)} if self._sums else table

    def take_up(self, content: bytes, signed: Statement | None) -> bool:
        """Whether this plan was not the one that counts already; its agents' seals are read."""
        from veilnet.live.fusions import senders
        from veilnet.live.seals import centre_seals

        centre = self._centre
        new = centre.take_up(content, self._file.path)
        self._taken_up, self._signed = content, signed
        self._seals.update(centre_seals(self._credentials, centre.agents))
        centre.admit(self._seals)
        if new:
            _say(f"plan {centre.plan[:16]} is taken up, with {len(senders(centre.fusion))} agents")
        for agent in centre.agents:
            if agent not in self._seals:
                _say(f"{agent} has no seal here, so what it sends is refused; 'veilnet live keys' makes one")
        return new

    def _roll_over(self, new: bytes) -> None:
        content, _, signed = self._file.runnable(new, partial(_unread, sums=self._sums))
        if self.take_up(content, signed) and self._receiver is not None:
            self._receiver.publish(self._neighbours.meet(self._centre.fusion, self._centre.quiet))

    def shown(self, made: Estimated) -> dict[str, Any]:
        """An estimate as it is published, printed where that is wanted."""
        from veilnet.live.showing import as_line

        table = self._table(made)
        if self._show:
            as_json = self._show == "json"
            line = (
                json_module.dumps(table, ensure_ascii=False)
                if as_json
                else as_line(made, self._centre.epochs)
            )
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        return table

    def look_around(self) -> None:
        """For a new plan, and for what was refused, every half second."""
        if time.monotonic() > self._looked + 0.5:
            self._looked = time.monotonic()
            self._watch.check()
            self._refusals.tell()
            self._forget()

    def _forget(self) -> None:
        """What is too old, some hundreds of epochs at a time; when there is no more, every hour."""
        if self._keep_days is None or time.monotonic() < self._forgot:
            return
        if not self._store.forget_before(time.time() - 86400.0 * self._keep_days):
            self._forgot = time.monotonic() + 3600.0

    def _families(self) -> Families:
        """What there is to say of this centre in numbers."""
        from veilnet.live.metrics import of_centre, of_service
        from veilnet.live.status import read_status

        connection, receiver = self._connection, self._receiver
        connected = connection is not None and connection.connected
        status = read_status(self._store.path)
        start = self._centre.epochs.start(status.newest) if status.newest else None
        lag = None if start is None else time.time() - start
        plan = None if self._signed is None else self._signed.until()
        common = of_service(self._store.path, connected, self._credentials.expires(), plan, status.made)
        return [*common, *of_centre(status, lag, receiver is not None and receiver.leads)]


class _Refusals:
    """Says what was refused since it was last said, once in a while."""

    def __init__(self, centre: Centre) -> None:
        self._centre, self._said = centre, dict(centre.store.counts)
        self._drifted: tuple[str, ...] = ()

    def tell(self) -> None:
        from veilnet.live.intake import NOT_USED, is_refusal
        from veilnet.live.showing import void

        counts = self._centre.store.counts
        drifted = self._centre.drifted(self._centre.plan)
        if drifted != self._drifted:
            self._drifted = drifted
            _say(void(drifted))
        for (agent, reason), count in counts.items():
            new = count - self._said.get((agent, reason), 0)
            if new and is_refusal(reason):
                whose = f"on the topic of {agent}" if agent else "on a topic of nobody's"
                did = "kept and did not use" if reason in NOT_USED else "refused"
                _say(f"{did} {new} message{'s' if new > 1 else ''} {whose}: {reason} ({count} so far)")
        self._said = dict(counts)
