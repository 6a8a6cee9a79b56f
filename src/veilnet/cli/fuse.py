"""``veilnet fuse``: estimates of the public parameters from the agents' messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidRequest
from veilnet.cli._command_line import GATE, KEEP, argument, option
from veilnet.cli._shared import microseconds, print_json, progress

if TYPE_CHECKING:
    from veilnet.centre.fusion import Fusion
    from veilnet.io.merging import Alignment, MessageFile, Report
    from veilnet.io.row_keys import RowKey


def command(
    center: Path = argument("The centre's file, plan/center.json."),
    messages: list[str] = argument("agent=file for each agent, as 'veilnet sanitize' wrote it."),
    out: Path | None = option(
        "--out", "Output file, .csv or .jsonl, written atomically; standard output if left out."
    ),
    format: str | None = option("--format", "csv or jsonl of the messages; default: by the file names."),
    within: str | None = option(
        "--within", "How far clocks may differ, such as 30s: less than half a sampling step."
    ),
    lag: int | None = option(
        "--lag", "Of a stream: estimate each row with so many later ones too.", at_least=0
    ),
    trust_counts: bool = option(
        "--trust-counts", "Align rows that were only counted, though files end differently."
    ),
    summed: bool = option("--summed", "Add up members' bare messages: a simulation, which protects nothing."),
    gate: float | None = GATE,
    keep: bool = KEEP,
    json: bool = option("--json", "JSON lines, or with --out a JSON summary."),
) -> int:
    """Estimate the public parameters in every row that some agent sent.

    Rows are aligned by their number or time; an agent whose row did not arrive is missing in it, and the estimate
    and its deviation say so. Where readings have neither, rows were counted, and are aligned only if all files
    end together: a line lost from one would shift its others. What the others do not determine is left empty.
    Lines that are no messages are reported on standard error and the exit code is 1 at the end. A file
    whose messages are another agent's or another plan's, or do not say whose they are, is refused. How many
    messages of each agent arrived is what its ledger has to be compared with.

    Messages that contradict the model, given the prior and what the others sent, are left out and named, in
    the estimates and on standard error; --keep uses them all the same. Agents whom nothing else can confirm or
    contradict are named at the end. Where what arrives shows over many rows that
    the model does not hold any more, standard error says so once for each agent and kind of change, since when and
    by how much, and the exit code is 1 at the end: stated errors are then not true (veilnet refit).

    Of a stream each estimate uses all rows before it. A row that an agent says it missed is not the same as one that
    did not arrive, and the estimate takes that into account. Its messages are tested against the rows before, too.
    """
    from veilnet.cli._following import centre_of, estimates, refuse_what_a_stream_lacks
    from veilnet.cli._fusing_notes import Notes
    from veilnet.cli._symbols import fuse_symbols, is_symbols, refuse_other
    from veilnet.io._atomic import replacing
    from veilnet.io.estimate_files import write_estimate_header, write_estimates
    from veilnet.io.streams import format_for

    merged = partial(_merged, messages, out, format, microseconds(within, "--within"), trust_counts)
    if is_symbols(center):
        refuse_other({"--lag": lag is not None, "--gate": gate, "--keep": keep})
        return fuse_symbols(center, merged, out, json=json)
    fusion = centre_of(center, gate, keep=keep)
    sent = _senders(fusion, summed=summed)
    kind = format_for(out, given="jsonl" if json and out is None else None)
    notes = Notes(fusion, keep)
    with ExitStack() as stack:
        opened = merged(sent, fusion.model.plan, notes.leave_out)
        files, key, aligned = stack.enter_context(opened)
        refuse_what_a_stream_lacks(fusion, key, lag)
        target = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
        size = sum(file.source.size for file in files.values())
        steps = stack.enter_context(progress("fusing", size))
        write_estimate_header(target, kind, fusion.model.labels, key, calibrated=bool(fusion.model.held_out))
        for rows, estimate, arrived in estimates(fusion, aligned, lag):
            write_estimates(target, kind, rows.tolist(), estimate, key)
            notes.look(rows, estimate, arrived, key)
            steps.update(sum(file.source.place for file in files.values()), size)
        target.flush()
    notes.conclude(files, key, within)
    if out is not None and json:
        print_json(notes.summary(files) | {"written": out})
    elif out is not None:
        sys.stdout.write(f"Wrote {out}: {notes.in_words(files)}\n")
    return 1 if notes.bad or notes.changes else 0


def _senders(fusion: Fusion, *, summed: bool) -> dict[str, int]:
    """How many numbers each one sends of whom there is a file: members of groups, where that is asked for."""
    if not fusion.sums:
        if summed:
            raise InvalidRequest("--summed: no agents of this plan add up their messages; leave it out")
        return fusion.sent
    if not summed:
        raise InvalidRequest(
            "messages: agents of this plan add up their messages under masks, which 'veilnet agent' and 'veilnet "
            "center' do; --summed adds up bare ones, as a simulation"
        )
    sys.stderr.write(
        "fuse: --summed adds up bare messages: a simulation, which protects nothing from who sees them\n"
    )
    return {
        agent: count
        for name, count in fusion.sent.items()
        for agent in (fusion.sums[name].members if name in fusion.sums else (name,))
    }


@contextmanager
def _merged(
    messages: list[str],
    out: Path | None,
    format: str | None,
    within: int,
    trust_counts: bool,
    sent: Mapping[str, int],
    plan: str,
    report: Report,
) -> Iterator[tuple[dict[str, MessageFile], RowKey, Alignment]]:
    """The messages of each agent, of so many numbers each, how their rows are identified, and their rows aligned.

    report: called with lines that are no messages.
    """
    from veilnet.io.merging import MessageFile, aligned, common_key, require_equal_counts
    from veilnet.io.message_streams import MessageMark
    from veilnet.io.row_keys import COUNTED
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import format_for

    with ExitStack() as stack:
        files = {
            agent: MessageFile(
                RowSource(str(path), stack.enter_context(path.open("rb")), format_for(path, given=format)),
                sent[agent],
                mark=MessageMark(plan, agent),
                report=report,
            )
            for agent, path in _paths(messages, tuple(sent), out).items()
        }
        key = common_key(files, trust_counts=trust_counts)
        if key == COUNTED:
            require_equal_counts({agent: file.last_in_file() for agent, file in files.items()})
        yield files, key, aligned(files, within)
        if key == COUNTED:
            require_equal_counts({agent: file.last_row for agent, file in files.items()})


def _paths(messages: list[str], agents: tuple[str, ...], out: Path | None) -> dict[str, Path]:
    """The file of each agent; none of them is the one to write."""
    known = ", ".join(agents[:8]) + (", ..." if len(agents) > 8 else "")
    paths: dict[str, Path] = {}
    for entry in messages:
        agent, mark, name = entry.partition("=")
        if agent not in agents:  # a name may itself hold an equals sign
            agent = next((a for a in agents if entry.startswith(f"{a}=")), agent)
            name = entry[len(agent) + 1 :]
        if not mark or not name:
            raise InvalidRequest(f"{entry}: expected agent=file, for example {agents[0]}=messages.csv")
        if agent not in agents:
            raise InvalidRequest(f"{entry}: the plan has no agent {agent!r}; it has {known}")
        if agent in paths:
            raise InvalidRequest(f"{entry}: messages of {agent!r} are given twice")
        paths[agent] = Path(name)
    if out is not None and out.exists() and any(path.samefile(out) for path in paths.values()):
        raise InvalidRequest(f"{out}: the output would replace an input; choose another name")
    return paths
