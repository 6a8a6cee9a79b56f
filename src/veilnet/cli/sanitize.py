"""``veilnet sanitize``: a filter from an agent's readings to what it may send."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from veilnet.cli._lines import LINES_AT_ONCE, after, outlet, say, say_unused_times, with_first
from veilnet.cli._parts import CLUSTER_HELP, is_parts, refuse_options
from veilnet.cli._quick import Argument, Option

if TYPE_CHECKING:
    from veilnet.io.message_streams import MessageMark
    from veilnet.io.release_ledger import ReleaseLedger
    from veilnet.io.row_keys import RowKey
    from veilnet.io.streams import Block, Format


def command(
    sanitizer: Annotated[
        Path, Argument("This agent's file in a plan folder; to simulate all agents in parts, their folder.")
    ],
    source: Annotated[
        Path | None, Option("--in", "Readings; standard input if left out. Of parts, a folder.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "Messages, replaced when all are there; standard output if left out.")
    ] = None,
    append: Annotated[
        bool, Option("--append", "Add to --out instead, each block safely on the disk.")
    ] = False,
    ledger: Annotated[
        Path | None, Option("--ledger", "Record every release before it is sent, and go on after the last.")
    ] = None,
    budget: Annotated[
        int | None, Option("--budget", "Most rows a new --ledger ever lets through.", at_least=1)
    ] = None,
    again: Annotated[
        bool, Option("--again", "Release readings that were released before, with fresh noise, once more.")
    ] = False,
    resend: Annotated[
        bool, Option("--resend", "Send again what a killed run recorded last: the same numbers.")
    ] = False,
    begin: Annotated[
        bool, Option("--begin", "The very first start of an agent with a memory, which is empty then.")
    ] = False,
    state: Annotated[
        Path | None, Option("--state", "Where an agent keeps its memory; beside its file if left out.")
    ] = None,
    format: Annotated[str | None, Option("--format", "csv or jsonl; told from the names.")] = None,
    header: Annotated[
        bool | None,
        Option(
            "--header",
            "Whether a CSV begins with names; it must if the plan names readings, else it is told.",
            yes_or_no=True,
        ),
    ] = None,
    time: Annotated[
        str | None, Option("--time", "The column of times, if it is not called time: sent, to align rows.")
    ] = None,
    flush: Annotated[bool, Option("--flush", "Send each row at once.")] = False,
    seed: Annotated[
        int | None, Option("--seed", "Repeatable noise, to simulate: NOT private.", at_least=0)
    ] = None,
    cluster: Annotated[str | None, Option("--cluster", CLUSTER_HELP)] = None,
    json: Annotated[bool, Option("--json", "Messages as JSON lines.")] = False,
    trust: Annotated[
        str | None, Option("--trust", "Fingerprint, public key or trust file: any other plan is refused.")
    ] = None,
    accepted: Annotated[
        Path | None,
        Option(
            "--accepted", "Where it is kept which signed plan was agreed to; beside its file if left out."
        ),
    ] = None,
) -> int:
    """Sanitize an agent's readings: one row per line in, one message per line out.

    Every message carries its plan, its agent and its row, so that the centre can align agents: a column "row" or
    "time" is taken over, and otherwise lines are counted from 1 without the header. A row that is
    incomplete, not a number or in doubt in any way is not sent, which the centre sees: its
    number and the reason go to standard error, and the exit code is 1 at the end. Readings that move in steps
    the plan does not know of are sent, and standard error says so once.

    Without --ledger, readings whose messages are in the folder of --out already are refused: noise protects a
    reading once. Hashes of them are kept there (kitchen.released); of messages to standard output nothing is kept.
    A stream goes on with its memory instead; one that is begun twice, with another --state, knows of rows only by
    the ledger.

    With --append or --ledger, a run goes on after the last row that was sent; readings that come through a pipe
    must then tell their rows.

    A signed plan (--trust and a public key) is refused when it has expired, when it is older than one that was run,
    and when it tells more than the one that was agreed to, until 'veilnet inspect --confirm'.

    An agent with a memory, of a plan for streams, keeps it in a file that only its owner may read, and always goes on
    after the last row. It sends a line for every row: its message, or that its reading was missed.

    Of a network in parts, folders of readings and of messages have a part for each of its parts: a simulation of all
    agents. Agents in service run files of their own ('veilnet extract').
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.agent.randomness import noise_source
    from veilnet.agent.release import release_valid
    from veilnet.io.acceptance import runnable_sanitizer
    from veilnet.io.message_streams import MessageMark, message_lines
    from veilnet.io.reading_streams import ReadingReader
    from veilnet.io.release_ledger import open_release_ledger
    from veilnet.io.released_rows import ReleasedRows
    from veilnet.io.row_keys import COUNTED
    from veilnet.io.sanitizer_files import sanitizer_bytes
    from veilnet.io.streams import format_for, source_of
    from veilnet.review.lattice_watch import LatticeWatch

    if cluster is not None or is_parts(sanitizer):
        from veilnet.cli._parts_running import sanitize_parts

        unused = {
            "--append": append, "--ledger": ledger, "--budget": budget, "--resend": resend, "--again": again,
            "--begin": begin, "--state": state, "--format": format, "--header": header is not None, "--time": time,
            "--flush": flush, "--trust": trust, "--accepted": accepted,
        }  # fmt: skip
        refuse_options(unused, cluster, sanitizer)
        return sanitize_parts(sanitizer, source, out, seed, cluster, json=json)
    _check_options(source, out, append, ledger, budget, again, flush, seed)
    content = sanitizer_bytes(sanitizer)
    agent, plan, _ = runnable_sanitizer(sanitizer, content, () if trust is None else (trust,), accepted)
    lines = source_of(source, format, beside=out)
    sent_as = "jsonl" if json else format_for(out, source, given=format)
    noise = noise_source(seed)
    if not noise.private:
        say("--seed was given: the output is a simulation, NOT private, and says so in every row")
    if agent.memory is not None:
        if again:
            raise InvalidRequest("--again: no row of a stream enters its memory twice; leave it out")
        if time is not None:
            raise InvalidRequest(
                "--time: the rows of a stream are numbered, and times do not number them; leave --time out, and give "
                "each row its number in a column 'row' that goes up by 1 for every step of time, so that rows that "
                "were not read are counted too"
            )
        from veilnet.cli._remembering import Remembering

        return Remembering(
            agent, plan or "", sanitizer, lines, out, append, ledger, budget, resend, begin, state, header, flush,
            noise, sent_as,
        ).run()  # fmt: skip
    if begin or state is not None:
        raise InvalidRequest(
            f"{'--begin' if begin else '--state'}: {sanitizer} keeps nothing from row to row; leave it out"
        )
    if resend and ledger is None:
        raise InvalidRequest("--resend: it goes with a ledger; give --ledger")
    watch = LatticeWatch(agent)
    sent = refused = 0
    exhausted = False
    with ExitStack() as stack:
        reader = ReadingReader(lines, agent.readings, names=agent.names, header=header, time=time)
        blocks = reader.blocks(1 if flush else LINES_AT_ONCE)
        # Nothing is begun, let alone replaced, before the input is known to be what it should be.
        blocks = with_first(blocks, reader)
        say_unused_times(reader, "--time {} goes by it")
        key = reader.key or COUNTED
        mark = MessageMark(plan or "", agent.agent, noise.private, key)
        record = None
        if ledger is not None:
            record = stack.enter_context(open_release_ledger(ledger, plan, agent.agent, budget, key.name))
        before = None
        if record is None and noise.private and out is not None and (out.is_file() or not out.exists()):
            before = ReleasedRows(out.with_name(f"{sanitizer.stem}.released"), agent.readings, again=again)
        at_once = flush or record is not None
        opened = outlet(out, sent_as, agent.sent, mark, append=append, flush=at_once)
        send, last_in_file = stack.enter_context(opened)
        if record is not None:
            _catch_up(record, send, last_in_file, sent_as, mark, resend=resend, to_file=out)
        resume = (last_in_file or 0) if record is None else record.last_row
        for block in blocks:
            new = after(block, resume, told=reader.rows_told or lines.is_regular) if resume else block
            readings = new.values(agent.readings)
            if before is not None:
                before.look(new.rows, readings)
            released = release_valid(agent.recipe, readings, noise)
            say(watch.look(readings))
            rows = [row for row, valid in zip(new.rows, released.valid.tolist(), strict=True) if valid]
            values = released.values
            if record is not None and record.left is not None and len(rows) > record.left:
                exhausted = True
                rows, values = rows[: record.left], values[: record.left]
            if rows:
                if record is not None:
                    record.record(rows, values)
                elif before is not None and append:
                    before.keep()
                send(message_lines(sent_as, rows, values, mark))
            sent += len(rows)
            refused += _report(new, released.reasons, key)
            if exhausted:
                break
        if before is not None and sent:
            before.look_at_all()
            before.keep()
        if record is not None:
            record.all_sent()
            say(
                f"the ledger has {record.count} releases, the last of {key.words(record.last_row)}; "
                f"head {record.head}"
            )
    say(watch.conclude())
    if not sent + refused + reader.last_row + resume:
        say(f"{lines} has no readings: nothing was sent")
    if resume and reader.last_row < resume and not exhausted:
        say(
            f"the input ends at {key.words(reader.last_row)}, before the last row sent, {key.text(resume)}: "
            "is it the right file?"
        )
        return 1
    if exhausted:
        say("the ledger's budget is used up: nothing more is sent until x changes, with a ledger of its own")
    if refused:
        say(
            f"{refused} of {sent + refused} rows were not sent; the centre sees that they are missing, and can "
            "tell from it that a reading was faulty"
        )
    return 1 if refused or exhausted else 0


def _check_options(
    source: Path | None,
    out: Path | None,
    append: bool,
    ledger: Path | None,
    budget: int | None,
    again: bool,
    flush: bool,
    seed: int | None,
) -> None:
    from veilnet._core.errors import InvalidRequest

    if again and (ledger is not None or out is None):
        raise InvalidRequest(
            "--again: it goes with --out and without --ledger, which lets no row through twice"
        )
    if append and out is None:
        raise InvalidRequest("--append: expected a file to add to; give --out")
    if ledger is None and budget is not None:
        raise InvalidRequest("--budget: it goes with a ledger; give --ledger")
    if ledger is not None and seed is not None:
        raise InvalidRequest(
            "--seed: a simulation releases nothing that a ledger could record; leave one out"
        )
    if ledger is not None and out is not None and not append:
        raise InvalidRequest("--ledger: what is recorded must be in the file at once; add --append")
    if flush and out is not None and not append and (out.is_file() or not out.exists()):
        raise InvalidRequest(
            "--flush: the file appears when all messages are there; add --append to see each"
        )
    if source is not None and out is not None and out.exists() and source.samefile(out):
        raise InvalidRequest(f"{out}: the output would replace the input; choose another name")


def _catch_up(
    record: ReleaseLedger,
    send: Callable[[bytes], None],
    last_in_file: int | None,
    format: Format,
    mark: MessageMark,
    *,
    resend: bool,
    to_file: Path | None,
) -> None:
    """Send what a killed run recorded and did not send, as far as that can be known."""
    from veilnet._core.errors import InvalidPlan
    from veilnet.io.message_streams import message_lines

    rows, values = record.unsure or ([], None)
    if last_in_file and last_in_file not in (record.last_before, *rows, record.last_row):
        raise InvalidPlan(
            f"{to_file}: ends with {mark.key.words(last_in_file)}, but the ledger has "
            f"{mark.key.words(record.last_row)} as the last; is it "
            "another file, or a ledger that was set back? Add to the right one, or choose a new file"
        )
    if record.last_plan not in ("", record.plan):
        say(
            f"rows up to {mark.key.text(record.last_row)} were released under the plan {record.last_plan[:8]}, and "
            "are not released again under this one"
        )
    if not rows or values is None:
        return
    if record.last_plan != record.plan:  # as they are, they are messages of that plan, and only of that
        say(
            f"{_span(rows, mark.key)} were recorded under that plan by a run that was ended, and may not have been "
            "sent; its file, with --append or --resend, sends the same numbers again"
        )
        return
    if last_in_file or (last_in_file == 0 and record.count == len(rows)):  # it is the file that was written
        missing = [place for place, row in enumerate(rows) if row > last_in_file]
    elif resend:
        missing = list(range(len(rows)))
    else:
        say(
            f"{_span(rows, mark.key)} were recorded by a run that was ended, and may not have been sent; "
            "--resend sends the same numbers again"
        )
        return
    if missing:
        send(message_lines(format, [rows[place] for place in missing], values[missing], mark))
        say(f"{_span(rows[missing[0] :], mark.key)} were recorded before, and are sent now")


def _span(rows: list[int], key: RowKey) -> str:
    return f"rows {key.text(rows[0])} to {key.text(rows[-1])}"


def _report(block: Block, reasons: dict[int, str], key: RowKey) -> int:
    """Say of each row that was not sent why; how many there are."""
    refused = [
        *block.refused,
        *((block.lines[place], block.rows[place], reason) for place, reason in reasons.items()),
    ]
    for line, row, reason in sorted(refused, key=lambda entry: entry[0]):
        where = f"line {line}" if row is None else key.words(row)
        say(f"{where} not sent: {reason}")
    return len(refused)
