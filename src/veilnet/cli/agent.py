"""``veilnet agent``: reads, sanitizes, and sends over a broker, each reading once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.cli._command_line import ACCEPTED, BROKER, HEADER, LOG, METRICS, ROOT, TRUST, argument, option
from veilnet.cli._lines import USED_UP, Ending, answering, log_as, refuse_unnumbered, speaker, with_first

if TYPE_CHECKING:
    from datetime import datetime

    from veilnet.io.agent_ledger import Ledger
    from veilnet.io.agent_store import AgentStore
    from veilnet.io.row_keys import RowKey
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import Block
    from veilnet.live.agent import LiveAgent
    from veilnet.live.connecting import Address
    from veilnet.live.keys import Credentials
    from veilnet.live.messages import Seal
    from veilnet.live.metrics import Families
    from veilnet.live.sending import Sender
    from veilnet.live.sum_rounds import AnyRounds
    from veilnet.live.topics import Topics

_FROM_A_FILE = 16  # readings at a time: as many are missed where a run is ended, and go by one plan
_GOODBYE = 5.0  # seconds that the centre may take when a signal ends the agent
_say = speaker("agent")


_SOURCES = option(
    "--source",
    "MQTT sensors: mqtt://broker/topic#field, one per reading (repeat).",
    metavar="[READING=]mqtt://...",
)
_JOIN = option("--join", "With --source: last value or mean of an epoch.", default="last")
_STALE = option("--stale", "With --source: largest age of a value, such as 30min; one epoch by default.")
_PASSWORD = option("--source-password", "With --source mqtt://user@broker/...: file with the password.")
_CERT = option("--cert", "This agent's folder from 'veilnet live keys'.", required=True)
_STORE = option("--store", "File for epochs, outbox and memory; beside the agent's file by default.")
_FOLLOW = option("--follow", "With --in: wait for more at the end of the file, also after it is replaced.")
_STEP = option("--step", "Length of an epoch, such as 15min, if the plan has none.")
_REPAIR = option("--repair-clock", "Continue from now after a wrong clock was set right; asks, then ends.")
_BUDGET = option("--budget", "With --begin: largest number of releases ('veilnet live budget').", at_least=1)
_WAIT = option("--wait", "Sums: seconds the centre may take for one epoch.", at_least=0, default=30.0)
_PATIENCE = option("--patience", "Seconds to wait for acknowledgements at the end.", at_least=0)


def command(
    sanitizer: Path = argument("Agent's file in a plan folder."),
    broker: str = BROKER,
    cert: Path = _CERT,
    store: Path | None = _STORE,
    begin: bool = option("--begin", "First start: create the store."),
    readings_in: Path | None = option("--in", "Readings: file or named pipe; standard input by default."),
    follow: bool = _FOLLOW,
    sources: list[str] | None = _SOURCES,
    join: Literal["last", "mean"] = _JOIN,
    stale: str | None = _STALE,
    source_password: Path | None = _PASSWORD,
    time: str | None = option("--time", "Column of timestamps, if not called time."),
    step: str | None = _STEP,
    repair_clock: bool = _REPAIR,
    confirm: bool = option("--confirm", "With --repair-clock: do not ask."),
    budget: int | None = _BUDGET,
    format: str | None = option("--format", "csv or jsonl; by default from the file name."),
    header: bool | None = HEADER,
    trust: str | None = TRUST,
    accepted: Path | None = ACCEPTED,
    root: str = ROOT,
    wait: float = _WAIT,
    patience: float | None = _PATIENCE,
    metrics: str | None = METRICS,
    log: Literal["text", "json"] | None = LOG,
) -> int:
    """Run an agent: sanitize readings as they come and send them until the centre acknowledges.

    Each reading is sanitized once, even across kills: its number is on disk before noise is drawn, the message
    before it is sent, and the same message is resent until acknowledged. Readings have an epoch, from a "row"
    column or from a time and the plan's step (or --step). A reading that may not be released, or was lost in a
    crash, is reported as missed, with nothing else.

    --source reads MQTT sensors directly (Zigbee2MQTT, Tasmota, plain numbers).

    The agent ends when its readings end and the centre has everything; with --follow or --source it keeps running.
    A new version of its file takes effect at the next reading. A signed one (--trust with a public key) must be
    current, not older than one that was run, and agreed to if it reveals more ('veilnet inspect --confirm').

    Epochs only increase. After a clock ran ahead, use --repair-clock.
    """
    from veilnet.cli._repairing import repair
    from veilnet.io.agent_store import AgentStore
    from veilnet.io.streams import source_of
    from veilnet.live.agent import LiveAgent, check_runnable
    from veilnet.live.connecting import read_address
    from veilnet.live.keys import Credentials
    from veilnet.live.seals import agent_seal
    from veilnet.live.topics import Topics

    log_as(log)
    if readings_in is not None and not (readings_in.is_file() or readings_in.is_fifo()):
        raise InvalidRequest(f"--in: {readings_in}: no such file or pipe; check the name and the folder")
    address, topics = read_address(broker), Topics(root)
    plans = _Plans(sanitizer, trust, accepted, step)
    credentials, name = Credentials(cert), plans.sanitizer.agent
    seal = agent_seal(credentials, name)
    check_runnable(plans.sanitizer, plans.plan)
    where = sanitizer.with_suffix(".sqlite") if store is None else store
    if repair_clock:
        return repair(where, name, plans.epochs, confirmed=confirm)
    elsewhere = follow or {readings_in, time, format, header} != {None}
    if sources:
        found = _sensor_rows(sources, plans, join, stale, source_password, elsewhere=elsewhere)
    elif join != "last" or stale is not None or source_password is not None:
        raise InvalidRequest("--join, --stale and --source-password: are for --source, which was not given")
    else:
        found = source_of(readings_in, format, follow=follow)
    readings = _Readings(found, plans, header, "time" if sources else time)
    if begin:
        _begin(where, readings, credentials, budget)
    elif budget is not None:
        raise InvalidRequest("--budget: a store keeps its own; leave it out, or --begin another")
    with AgentStore(where, name) as kept:
        sender, rounds = _link(kept, seal, plans, topics, credentials, address, wait)
        plans.agent = agent = LiveAgent(kept, seal, plans.sanitizer, plans.plan, rounds=rounds)
        for epoch in agent.recover():
            _say(f"epoch {epoch}: a run was ended while it was sanitized; it is reported as missed")
        sender.start()
        families = partial(plans.families, where, kept, sender, credentials)
        try:
            with (ending := Ending()), answering(metrics, families, plans.longest_silence, _say):
                is_complete = _feed(readings, plans, agent, sender, ending)
        finally:
            patience = min(_GOODBYE, patience or _GOODBYE) if ending.asked else patience
            try:
                arrived = sender.drain(0.0 if sys.exc_info()[0] else patience)
            finally:
                sender.stop()
                ledger = kept.ledger()
    _conclude(ledger, where if not arrived else None)
    return 0 if ending.asked or (is_complete and arrived) else 1


def _sensor_rows(
    given: list[str], plans: _Plans, join: str, stale: str | None, password: Path | None, *, elsewhere: bool
) -> RowSource:
    """Rows of readings from sensors on a broker of their own, and the warning that goes with them.

    elsewhere: whether options for readings from a file were given too.
    """
    from veilnet._core.durations import read_step
    from veilnet.live.sensors import SensorRows, read_sensors

    if elsewhere:
        raise InvalidRequest(
            "--source: makes rows with times and names of its own; leave out --in, --follow, --time, --format "
            "and --header"
        )
    names, step = plans.sanitizer.names, plans.epochs.step
    sensors = read_sensors(given, names, plans.sanitizer.readings)
    if step is None:
        raise InvalidRequest(
            "--source: a row is made once an epoch, and neither the plan nor --step says how long one is; say so, "
            "such as --step 15min, the same for all (or design the plan with it)"
        )
    if any(each.broker[1] for each in sensors) and password is None:
        raise InvalidRequest("--source: names a user; write the password into a file: --source-password FILE")
    secret = None if password is None else password.read_text(encoding="utf-8").rstrip("\n")
    oldest = read_step(stale, "--stale")
    rows = SensorRows(sensors, names, step, mean=join == "mean", stale=oldest, password=secret, say=_say)
    _say(rows.in_words())
    return rows.source


def _link(
    store: AgentStore,
    seal: Seal,
    plans: _Plans,
    topics: Topics,
    credentials: Credentials,
    address: Address,
    wait: float,
) -> tuple[Sender, AnyRounds | None]:
    """What brings messages to the broker, and the agent's part in the rounds of a sum where there is one."""
    from veilnet.live.sending import Sender

    summed = getattr(plans.sanitizer, "summed", None)
    if summed is None:
        return Sender(store, seal, topics, credentials, address, _say), None

    from veilnet.io.outbox import SHORT
    from veilnet.live.sum_rounds import HalvesRounds, SumLink
    from veilnet.sums.terms import Terms

    terms = Terms(plans.plan[:SHORT], summed, plans.sanitizer.sent)
    link = SumLink(store, seal, terms, topics, credentials, address, wait, _say)
    if isinstance(link.rounds, HalvesRounds):
        if plans.sanitizer.order:
            raise InvalidPlan(
                "plan: sums of a stream are added up in rounds, whose members tell which rows they remember; found "
                f"the identity of a second centre in {credentials.folder / 'members'}: ask for keys without one"
            )
        _say("each message goes in two halves to two centres; who has both reads it")
    return link, link.rounds


def _conclude(ledger: Ledger, where: Path | None) -> None:
    """The last words; where: the store that has messages which were not acknowledged."""
    left = "" if ledger.left is None else f", {ledger.left} more within the budget"
    _say(f"{ledger.releases} releases up to epoch {ledger.epoch}{left}; head {ledger.head}")
    if where is not None:
        _say(
            f"{ledger.waiting} messages are not acknowledged; they are in {where}, and the next run sends them"
        )


def _begin(where: Path, readings: _Readings, credentials: Credentials, budget: int | None) -> None:
    """Begin a store, once all that the agent needs is known to be there."""
    from veilnet.io.agent_store import begin_agent_store, check_not_begun
    from veilnet.live.connecting import make_client

    agent = readings.plans.sanitizer.agent
    check_not_begun(where)
    make_client(agent, credentials)  # refuses certificates that no broker would take
    if not readings.source.is_regular:
        _say("the store is created with the first reading")
    readings.check_first()
    readings.refuse_released(0)
    begin_agent_store(where, agent, budget)


class _Plans:
    """The agent's file: the plan that counts, and whatever follows it while the agent runs.

    file: the agent's; trust: whom to trust beside what is pinned there; accepted: where it is kept what was agreed
    to; step: how long an epoch is, where the plan does not say so.
    """

    def __init__(self, file: Path, trust: str | None, accepted: Path | None, step: str | None) -> None:
        from veilnet.cli._symbols import runnable
        from veilnet.io._sealed import sealed_bytes
        from veilnet.io.acceptance import PlanFile
        from veilnet.live.epochs import epochs_of
        from veilnet.live.plan_watch import PlanWatch

        self.file, self.accepted, self._step = file, accepted, step
        self._gate = PlanFile(file, trust, accepted)
        self.sanitizer, self.plan, self._statement = runnable(self._gate, sealed_bytes(file))
        self.epochs = epochs_of(step, self.sanitizer.step)
        self.agent: LiveAgent | None = None
        self.watch = PlanWatch(self._gate, self._take_up, _say)

    def _take_up(self, content: bytes) -> None:
        from veilnet.cli._symbols import runnable
        from veilnet.live.epochs import epochs_of

        new, plan, statement = runnable(self._gate, content)
        if not new.sent:
            raise _Silenced
        if (new.readings, new.names) != (self.sanitizer.readings, self.sanitizer.names):
            raise InvalidPlan("it takes other readings; restart the agent")
        counted = epochs_of(self._step, new.step)
        assert self.agent is not None
        self.epochs.goes_on_as(counted, self.agent.store.epochs)
        self.agent.take_up(new, plan)
        self.epochs, self._statement = counted, statement

    def families(self, where: Path, store: AgentStore, sender: Sender, credentials: Credentials) -> Families:
        """What there is to say of this agent in numbers."""
        from veilnet.live.metrics import of_agent, of_service

        until, heard = credentials.expires(), store.clock
        common = of_service(where, sender.is_connected, until, self.until(), heard)
        return [*common, *of_agent(store.ledger())]

    def longest_silence(self) -> float | None:
        """Seconds without a release after which something is wrong; None where nobody knows the pace."""
        return None if self.epochs.step is None else 3.0 * self.epochs.step

    def until(self) -> datetime | None:
        """Until when the plan may be run; None where it is not signed."""
        return None if self._statement is None else self._statement.until()

    def check(self) -> None:
        """An error where what was signed of the plan that counts does not hold any more."""
        complaint = None if self._statement is None else self._statement.complaint()
        if complaint:
            raise InvalidPlan(f"{self.file}: nothing more is sent: {complaint}")


class _Readings:
    """Blocks of readings whose rows are known, one by one where they do not come from a file.

    released: what the agent released before, from whatever store.
    """

    def __init__(self, source: RowSource, plans: _Plans, header: bool | None, time: str | None) -> None:
        from veilnet.io.reading_streams import ReadingReader
        from veilnet.io.released_rows import released_beside

        found = plans.sanitizer
        self.source, self.plans = source, plans
        self._new_reader = partial(
            ReadingReader, source, found.readings, names=found.names, header=header, time=time
        )
        self._reader = self._new_reader()
        self._blocks = self._reader.blocks(_FROM_A_FILE if source.is_regular else 1)
        self.released = released_beside(plans.file, found.readings, plans.accepted)

    @property
    def key(self) -> RowKey:
        """How rows are identified."""
        from veilnet.io.row_keys import COUNTED

        return self._reader.key or COUNTED

    def __iter__(self) -> Iterator[Block]:
        return with_first(self._blocks, self._reader)

    def check_first(self) -> None:
        """Nothing is begun before the first readings are known to be what they should be."""
        self._blocks = iter(self)
        first = next(self._blocks, None)
        if first is not None:
            self.check()
            self._blocks = chain([first], self._blocks)

    def refuse_released(self, last: int) -> None:
        """Look through a file, before any of it is sent, for readings after an epoch that were released before."""
        from veilnet.io.released_rows import released_beside
        from veilnet.live.feeding import look_ahead

        if self.source.content is None and self.source.is_regular:
            found = released_beside(self.plans.file, self.plans.sanitizer.readings, self.plans.accepted)
            look_ahead(self._new_reader(), self.plans.epochs, last, found)

    def check(self) -> None:
        """An error where nothing tells which readings these are."""
        from veilnet.io.row_keys import COUNTED

        self.plans.epochs.check(self.key)
        if self.key == COUNTED:
            refuse_unnumbered(self.source)


def _feed(readings: _Readings, plans: _Plans, agent: LiveAgent, sender: Sender, ending: Ending) -> bool:
    """Whether all readings were sent; a new plan is taken up between two blocks of them."""
    from veilnet.live.agent import Exhausted
    from veilnet.live.feeding import feed
    from veilnet.review.lattice_watch import LatticeWatch

    readings.refuse_released(agent.store.last_epoch)
    lattice = LatticeWatch(agent.sanitizer)
    missed = 0
    try:
        for block in ending.until(readings):
            if plans.watch.check():
                _say(f"a new version of the plan takes effect: {agent.plan}")
                lattice = LatticeWatch(agent.sanitizer)
            readings.check()
            plans.check()
            if sender.failure is not None:
                raise sender.failure
            _say(lattice.look(block.values(agent.sanitizer.readings)))
            missed += feed(agent, block, readings.key, plans.epochs, _say, readings.released)
            sender.wake()
    except Exhausted:
        missed += 1
        _say(USED_UP)
    except _Silenced:
        _say("under the new version of the plan this agent sends nothing, so it ends")
    if agent.sent:
        readings.released.look_at_all(sent=True)
        readings.released.keep()
    _say(lattice.conclude())
    return not missed


class _Silenced(Exception):
    """A plan that may be run has nothing to send: then the one before must not go on."""
