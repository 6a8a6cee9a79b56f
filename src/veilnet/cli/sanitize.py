"""``veilnet sanitize``: a filter from an agent's readings to what it may send."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from veilnet.cli._quick import Argument, Option

_LINES_AT_ONCE = 2048


def command(
    sanitizer: Annotated[Path, Argument("This agent's file in a plan folder.")],
    source: Annotated[Path | None, Option("--in", "Readings; standard input if left out.")] = None,
    out: Annotated[Path | None, Option("--out", "Messages; standard output if left out.")] = None,
    format: Annotated[str | None, Option("--format", "csv or jsonl; told from the names.")] = None,
    header: Annotated[
        bool | None,
        Option("--header", "Whether a CSV begins with names; told from it if left out.", yes_or_no=True),
    ] = None,
    flush: Annotated[bool, Option("--flush", "Send each row at once.")] = False,
    seed: Annotated[
        int | None, Option("--seed", "Repeatable noise, to simulate: NOT private.", at_least=0)
    ] = None,
    json: Annotated[bool, Option("--json", "Messages as JSON lines.")] = False,
    trust: Annotated[
        str | None, Option("--trust", "Fingerprint, public key or trust file: any other plan is refused.")
    ] = None,
) -> int:
    """Sanitize an agent's readings: one row per line in, one message per line out.

    Every message carries its row, so that the centre can align agents: lines are counted from 1 without the
    header, or a column "row" is taken over. A row that is incomplete, not a number, out of range or in doubt
    in any way is not sent: its number and the reason go to standard error, and the exit code is 1 at the end.
    Readings that move in steps the plan does not know of are sent, and standard error says so once.
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.agent.lattice_watch import LatticeWatch
    from veilnet.agent.randomness import noise_source
    from veilnet.agent.release import release_valid
    from veilnet.io.sanitizer_files import read_sanitizer
    from veilnet.io.streams import LineReader, format_for, write_header, write_messages
    from veilnet.io.trust import require_trust

    require_trust(sanitizer, () if trust is None else (trust,))
    agent, plan = read_sanitizer(sanitizer)
    kind = format_for(source, out, given=format)
    sent_as = "jsonl" if json else format_for(out, source, given=format)
    noise = noise_source(seed)
    if not noise.private:
        sys.stderr.write("veilnet sanitize: --seed was given: the output is a simulation, NOT private\n")
    if source is not None and out is not None and out.exists() and source.samefile(out):
        raise InvalidRequest(f"{out}: the output would replace the input; choose another name")
    watch = LatticeWatch(agent)
    sent = refused = 0
    with ExitStack() as stack:
        lines = sys.stdin.buffer if source is None else stack.enter_context(source.open("rb"))
        messages = sys.stdout.buffer if out is None else stack.enter_context(out.open("wb"))
        reader = LineReader(
            lines,
            kind,
            agent.readings,
            key="readings",
            names=agent.names,
            header=header,
            label="standard input" if source is None else str(source),
        )
        write_header(messages, sent_as, agent.sent, plan)
        if flush:
            messages.flush()
        for block in reader.blocks(1 if flush else _LINES_AT_ONCE):
            readings = block.values(agent.readings)
            released = release_valid(agent.recipe, readings, noise)
            _say(watch.look(readings))
            if released.reasons:
                block.refused += [
                    (block.lines[place], block.rows[place], reason)
                    for place, reason in released.reasons.items()
                ]
                block.refused.sort(key=lambda entry: entry[0])
            rows = [row for row, valid in zip(block.rows, released.valid.tolist(), strict=True) if valid]
            write_messages(messages, sent_as, rows, released.values, plan)
            for line, row, reason in block.refused:
                where = f"line {line}" if row is None else f"row {row}"
                sys.stderr.write(f"veilnet sanitize: {where} not sent: {reason}\n")
            sent += len(rows)
            refused += len(block.refused)
            if flush:
                messages.flush()
        messages.flush()
    _say(watch.conclude())
    if refused:
        sys.stderr.write(f"veilnet sanitize: {refused} of {sent + refused} rows were not sent\n")
        return 1
    return 0


def _say(sentence: str) -> None:
    if sentence:
        sys.stderr.write(f"veilnet sanitize: {sentence}\n")
