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
    center: Path = argument("Centre's file, plan/center.json."),
    messages: list[str] = argument("AGENT=FILE for each agent, as written by 'veilnet sanitize'."),
    out: Path | None = option(
        "--out", "Output file (.csv or .jsonl), written atomically; standard output by default."
    ),
    format: str | None = option(
        "--format", "Format of the messages, csv or jsonl; by default from the file names."
    ),
    within: str | None = option("--within", "Largest clock offset, such as 30s; less than half a step."),
    lag: int | None = option("--lag", "Stream: smooth each row with this many later ones.", at_least=0),
    trust_counts: bool = option("--trust-counts", "Align counted rows although files end differently."),
    summed: bool = option(
        "--summed", "Add up members' unmasked messages: a simulation, which protects nothing."
    ),
    gate: float | None = GATE,
    keep: bool = KEEP,
    json: bool = option("--json", "JSON lines; with --out, a JSON summary."),
) -> int:
    """Estimate the public parameters in every row that some agent sent.

    Rows are aligned by number or time. An agent whose row is absent counts as missing, and estimate and standard
    error account for it. Rows without numbers or times are counted, and aligned only if all files end at the same
    row. What the messages do not determine is left empty. Malformed lines are reported on standard error, with exit
    code 1; files of another agent or plan are refused. Compare the number of messages per agent with its ledger.

    Messages that contradict the model, given the prior and the other messages, are excluded and named; --keep uses
    them. Agents whose messages nothing else can confirm are named at the end. If many rows show that the model no
    longer holds, standard error names agent, kind of change, start and size, with exit code 1: stated errors are
    then wrong (veilnet refit).

    For a stream each estimate uses all earlier rows, and messages are tested against them. A row that an agent
    reports as missed differs from one that did not arrive, and is treated so.
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
