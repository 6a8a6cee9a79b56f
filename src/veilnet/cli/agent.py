"""``veilnet agent``: reads, sanitizes, and sends over a broker, each reading once."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from veilnet.cli._command_line import Argument, Option

if TYPE_CHECKING:
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.row_keys import RowKey
    from veilnet.io.statements import Statement

_FROM_A_FILE = 16  # readings at a time


def command(
    sanitizer: Annotated[Path, Argument("This agent's file in a plan folder.")],
    broker: Annotated[str, Option("--broker", "mqtts://host:8883")],
    cert: Annotated[
        Path, Option("--cert", "This agent's folder of 'veilnet live keys': certificate, key, seal.")
    ],
    store: Annotated[
        Path | None,
        Option("--store", "Sequence numbers, outbox, memory; beside the agent's file if left out."),
    ] = None,
    begin: Annotated[bool, Option("--begin", "The very first start: begin the store.")] = False,
    source: Annotated[Path | None, Option("--in", "Readings; standard input if left out.")] = None,
    time: Annotated[str | None, Option("--time", "The column of times, if it is not called time.")] = None,
    step: Annotated[
        str | None, Option("--step", "How long an epoch is, such as 15min, where the plan does not say so.")
    ] = None,
    repair_clock: Annotated[
        bool, Option("--repair-clock", "A clock was wrong and is right now: go on from now. Asks, and ends.")
    ] = False,
    confirm: Annotated[
        bool, Option("--confirm", "With --repair-clock: give up what it says without asking.")
    ] = False,
    budget: Annotated[
        int | None,
        Option("--budget", at_least=1, help="With --begin: most releases ever ('veilnet live budget')."),
    ] = None,
    format: Annotated[str | None, Option("--format", "csv or jsonl; told from the name.")] = None,
    header: Annotated[
        bool | None, Option("--header", help="Whether a CSV begins with names.", yes_or_no=True)
    ] = None,
    trust: Annotated[
        str | None, Option("--trust", "Fingerprint, public key or trust file: any other plan is refused.")
    ] = None,
    accepted: Annotated[
        Path | None,
        Option("--accepted", "Where it is kept which signed plan was agreed to; beside its file."),
    ] = None,
    root: Annotated[str, Option("--root", "First levels of every topic.")] = "veilnet",
    patience: Annotated[
        float | None,
        Option("--patience", at_least=0, help="Seconds to wait, at the end, for the centre to have it all."),
    ] = None,
) -> int:
    """Sanitize an agent's readings as they come, and send them until the centre has them.

    Each reading is sanitized once, whatever is killed when: its sequence number is on the disk before noise is drawn,
    the message before it is sent, and the very same message is sent until the centre acknowledges it. Readings tell
    their epoch by a column "row", or by a time: the plan (or --step) says how long an epoch takes. A reading that may
    not be released, or that was lost with a process killed in between, is told as missed, and nothing else of it.

    When the readings end, so does the agent, once the centre has everything. A new version of the agent's file is
    taken up with the next reading, if it may be run: a signed one (--trust and a public key) not when it is older
    than one that was run, has expired, or tells more than was agreed to ('veilnet inspect --confirm').

    Epochs go up. Where a clock was far ahead for a while, no reading has an epoch until then: --repair-clock.
    """
    from veilnet._core.errors import InvalidPlan, InvalidRequest
    from veilnet.cli._lines import with_first
    from veilnet.cli._repairing import repair
    from veilnet.io.acceptance import accepted_beside, runnable_sanitizer
    from veilnet.io.agent_store import AgentStore, begin_agent_store, check_not_begun
    from veilnet.io.reading_streams import ReadingReader
    from veilnet.io.row_keys import COUNTED
    from veilnet.io.sanitizer_files import sanitizer_bytes
    from veilnet.io.streams import source_of
    from veilnet.io.trust import pins_beside
    from veilnet.live.agent import Exhausted, LiveAgent, check_runnable
    from veilnet.live.connecting import make_client, read_address
    from veilnet.live.epochs import epochs_of
    from veilnet.live.feeding import feed
    from veilnet.live.keys import Credentials
    from veilnet.live.plan_watch import PlanWatch
    from veilnet.live.seals import agent_seal
    from veilnet.live.sending import Sender
    from veilnet.live.topics import Topics
    from veilnet.review.lattice_watch import LatticeWatch

    if source is not None and not source.is_file():
        raise InvalidRequest(f"--in: {source}: no such file; check the name and the folder")
    lines = source_of(source, format)
    address, topics = read_address(broker), Topics(root)

    def trusted(content: bytes) -> tuple[Sanitizer, str, Statement | None]:
        given = () if trust is None else (trust,)
        found, plan, statement = runnable_sanitizer(sanitizer, content, given, accepted)
        return found, plan or "", statement

    found, plan, statement = trusted(sanitizer_bytes(sanitizer))
    epochs = [epochs_of(step, found.step)]
    running = [statement]  # what was signed of the plan that counts
    credentials = Credentials(cert)
    seal = agent_seal(credentials, found.agent)
    check_runnable(found, plan)
    where = sanitizer.with_suffix(".sqlite") if store is None else store
    if repair_clock:
        return repair(where, found.agent, epochs[0], confirmed=confirm)
    if begin:
        check_not_begun(where)
        make_client(found.agent, credentials)  # refuses certificates that no broker would take
    elif budget is not None:
        raise InvalidRequest(
            "--budget: a store keeps the budget it was begun with; leave it out, or --begin another"
        )

    def take_up(content: bytes) -> None:
        new, its_plan, its_statement = trusted(content)
        if not new.sent:
            raise _Silenced
        if (new.readings, new.names) != (found.readings, found.names):
            raise InvalidPlan("it takes other readings; start the agent anew with them")
        counted = epochs_of(step, new.step)
        epochs[0].goes_on_as(counted, kept.epochs)
        agent.take_up(new, its_plan)
        epochs[0], running[0] = counted, its_statement

    agreed = (accepted or accepted_beside(sanitizer), pins_beside(sanitizer))
    watch = PlanWatch(sanitizer, take_up, _say, agreed)

    def check_rows(key: RowKey) -> None:
        epochs[0].check(key)
        if key == COUNTED and not lines.is_regular:
            raise InvalidRequest(
                "standard input: nothing tells which readings these are, so a restart could send some twice; "
                "give each its number in a column 'row', or its time in one called 'time' (and --step)"
            )

    with ExitStack() as opened:
        reader = ReadingReader(lines, found.readings, names=found.names, header=header, time=time)
        blocks = reader.blocks(_FROM_A_FILE if lines.is_regular else 1)
        if begin:
            if not lines.is_regular:
                _say("the store is begun with the first reading")
            # Nothing is begun before the first readings are known to be what they should be.
            blocks = with_first(blocks, reader)
            first = next(blocks, None)
            if first is not None:
                check_rows(reader.key or COUNTED)
                blocks = chain([first], blocks)
            begin_agent_store(where, found.agent, budget)
        kept = opened.enter_context(AgentStore(where, found.agent))
        agent = LiveAgent(kept, seal, found, plan)
        for epoch in agent.recover():
            _say(f"epoch {epoch}: a run was ended while it was sanitized; it is told as missed")
        sender = Sender(kept, seal, topics, credentials, address, _say)
        lattice = LatticeWatch(found)
        missed = 0
        exhausted = False
        sender.start()
        try:
            blocks = with_first(blocks, reader)
            for block in blocks:
                key = reader.key or COUNTED
                if watch.check():
                    _say(f"a new version of the plan is taken up: {agent.plan}")
                    lattice = LatticeWatch(agent.sanitizer)
                check_rows(key)
                if running[0] is not None and running[0].complaint():
                    raise InvalidPlan(f"{sanitizer}: nothing more is sent: {running[0].complaint()}")
                if sender.failure is not None:
                    raise sender.failure
                _say(lattice.look(block.values(agent.sanitizer.readings)))
                missed += feed(agent, block, key, epochs[0], _say)
                sender.wake()
        except Exhausted:
            exhausted = True
            _say("the budget is used up: nothing more is sent until x changes, from a store of its own")
        except _Silenced:
            _say("the new version of the plan lets this agent send nothing, so it ends")
        finally:
            try:
                arrived = sender.drain(0.0 if sys.exc_info()[0] else patience)
            finally:
                sender.stop()
                ledger = kept.ledger()
    _say(lattice.conclude())
    left = "" if ledger.left is None else f", {ledger.left} more within the budget"
    _say(f"{ledger.releases} releases up to epoch {ledger.epoch}{left}; head {ledger.head}")
    if not arrived:
        _say(
            f"{ledger.waiting} messages are not acknowledged; they are in {where}, and the next run sends them"
        )
    return 1 if missed or exhausted or not arrived else 0


class _Silenced(Exception):
    """A plan that may be run has nothing to send: then the one before must not go on."""


def _say(sentence: str) -> None:
    if not sentence:
        return
    sys.stderr.write(f"veilnet agent: {sentence}\n")
    sys.stderr.flush()
