"""``veilnet fuse``: estimates of the public parameters from the agents' messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from veilnet.cli._command_line import Argument, Option
from veilnet.cli._parts import CLUSTER_HELP, is_parts, refuse_options

if TYPE_CHECKING:
    from veilnet.centre.estimates import Estimate
    from veilnet.io.merging import MessageFile
    from veilnet.io.row_keys import RowKey
    from veilnet.io.sources import RowSource


def command(
    center: Annotated[Path, Argument("The centre's file, plan/center.json, or a folder of parts.")],
    messages: Annotated[
        list[str],
        Argument(
            "agent=file for each agent, as 'veilnet sanitize' wrote it; or the folder of messages in parts."
        ),
    ],
    out: Annotated[
        Path | None,
        Option("--out", "Estimates, .csv or .jsonl, replaced when complete; else standard output."),
    ] = None,
    format: Annotated[
        str | None, Option("--format", "csv or jsonl of the messages; told from the names.")
    ] = None,
    within: Annotated[
        str | None,
        Option("--within", "How far clocks may differ, such as 30s: less than half a sampling step."),
    ] = None,
    lag: Annotated[
        int | None,
        Option("--lag", "Of a stream: estimate each row with so many later ones too.", at_least=0),
    ] = None,
    trust_counts: Annotated[
        bool, Option("--trust-counts", "Align rows that were only counted, though files end differently.")
    ] = False,
    gate: Annotated[
        float | None,
        Option(
            "--gate", "Chance that a message made by the model is taken to contradict it, per row (1e-6)."
        ),
    ] = None,
    keep: Annotated[
        bool, Option("--keep", "Name messages that contradict the model, and use them all the same.")
    ] = False,
    cluster: Annotated[str | None, Option("--cluster", CLUSTER_HELP)] = None,
    json: Annotated[bool, Option("--json", "JSON lines, or with --out a JSON summary.")] = False,
) -> int:
    """Estimate the public parameters in every row that some agent sent.

    Rows are aligned by their number or time; an agent whose row did not arrive is missing in it, and the estimate
    and its deviation say so. Where readings told neither, rows were counted, and are aligned only if all files
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
    did not arrive, and the estimate heeds which it is. Its messages are tested against the rows before, too.

    Of a network in parts messages are a folder of parts, too, and estimates say how many agents are missing in a row.
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.centre.drift import Drift
    from veilnet.cli._doubts import Changes, Doubts
    from veilnet.cli._following import check_stream, estimates, opened
    from veilnet.cli._shared import print_json, progress
    from veilnet.io._atomic import replacing
    from veilnet.io.estimate_files import write_estimate_header, write_estimates
    from veilnet.io.merging import MessageFile, aligned, common_key
    from veilnet.io.message_streams import MessageMark
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import format_for

    if cluster is not None or is_parts(center):
        from veilnet.cli._parts_running import fuse_parts

        unused = {
            "--format": format,
            "--within": within,
            "--lag": lag is not None,
            "--gate": gate,
            "--keep": keep,
        }
        refuse_options(unused | {"--trust-counts": trust_counts}, cluster, center)
        return fuse_parts(center, messages, out, cluster, json=json)
    fusion = opened(center, gate, keep=keep)
    paths = _paths(messages, fusion.agents)
    kind = format_for(out, given="jsonl" if json and out is None else None)
    if out is not None and out.exists() and any(path.samefile(out) for path in paths.values()):
        raise InvalidRequest(f"{out}: the output would replace an input; choose another name")
    tolerance = _tolerance(within)
    seen = _Seen(sum(count > 0 for count in fusion.sent.values()))
    doubts, changes = Doubts(keep), Changes()
    drift = None if fusion.is_stream else Drift(fusion)
    with ExitStack() as stack:
        inputs = {agent: stack.enter_context(path.open("rb")) for agent, path in paths.items()}
        files = {
            agent: MessageFile(
                RowSource(str(path), inputs[agent], format_for(path, given=format)),
                fusion.sent[agent],
                mark=MessageMark(fusion.model.plan, agent),
                report=seen.leave_out,
            )
            for agent, path in paths.items()
        }
        key = common_key(files, trust_counts=trust_counts)
        check_stream(fusion, key, lag)
        _check_counts(key, files, ahead=True)
        target = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
        size = sum(path.stat().st_size for path in paths.values())
        steps = stack.enter_context(progress("fusing", size))
        write_estimate_header(target, kind, fusion.model.labels, key)
        for rows, estimate, arrived in estimates(fusion, aligned(files, tolerance), lag):
            write_estimates(target, kind, rows.tolist(), estimate, key)
            seen.add(estimate)
            doubts.tell(estimate, rows, key)
            if drift is not None:
                changes.tell(drift.look(arrived, rows, estimate.contradictions), key)
            steps.update(sum(file.tell() for file in inputs.values() if file.seekable()), size)
        target.flush()
        _check_counts(key, files)
    doubts.conclude()
    untested = [] if fusion.gate is None else [agent for agent in fusion.gate.untested if agent in paths]
    _remark(seen, files, key, untested, within)
    if out is not None:
        received = {agent: file.count - file.missed for agent, file in files.items()}
        found = {"contradicting": doubts.count, "untested": untested, "changes": changes.told}
        if fusion.is_stream:
            found["missed"] = {agent: file.missed for agent, file in files.items()}
        if json:
            print_json(seen.summary() | {"received": received} | found | {"written": out})
        else:
            arrived_of = ", ".join(f"{count} of {agent}" for agent, count in received.items())
            sys.stdout.write(
                f"Wrote {out}: {seen.rows} rows, {seen.gaps} with missing agents, "
                f"{seen.unknown} where something is not estimable.\nReceived: {arrived_of}.\n"
            )
    return 1 if seen.bad or changes.told else 0


@dataclass
class _Seen:
    """What is counted on the way: rows, those with missing agents, with one agent alone, and with something unknown.

    senders: how many agents send anything at all. bad: lines that are no messages.
    """

    senders: int
    rows: int = 0
    gaps: int = 0
    alone: int = 0
    unknown: int = 0
    bad: int = 0

    def add(self, estimate: Estimate) -> None:
        self.rows += len(estimate.missing)
        self.gaps += sum(map(bool, estimate.missing))
        self.alone += sum(len(missing) == self.senders - 1 for missing in estimate.missing)
        self.unknown += int((~estimate.estimable).any(axis=1).sum())

    def leave_out(self, source: RowSource, line: int, reason: str) -> None:
        self.bad += 1
        sys.stderr.write(f"veilnet fuse: {source}, line {line} left out: {reason}\n")

    def summary(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "with_missing_agents": self.gaps,
            "not_estimable": self.unknown,
            "bad_lines": self.bad,
        }


def _remark(
    seen: _Seen, files: Mapping[str, MessageFile], key: RowKey, untested: list[str], within: str | None
) -> None:
    """Say on standard error what whoever reads the estimates should know of the messages."""
    from veilnet._core.words import join_names

    if sum(file.count > file.missed for file in files.values()) > 1 and 2 * seen.alone > seen.rows:
        sys.stderr.write(_hardly_aligned(seen.alone, seen.rows, key))
    if untested:
        sys.stderr.write(
            f"veilnet fuse: messages of {join_names(untested)} were believed untested: neither a prior nor other "
            "agents tell what they should be\n"
        )
    for agent, file in files.items():
        if file.crowded:
            sys.stderr.write(
                f"veilnet fuse: {file.crowded} messages of {agent} came within {within} of the one before, and "
                "stand in rows of their own; --within should be less than half a sampling step\n"
            )
        if file.simulated:
            sys.stderr.write(
                f"veilnet fuse: {file.simulated} messages of {agent} were made with --seed: NOT private\n"
            )


def _hardly_aligned(alone: int, total: int, key: RowKey) -> str:
    """What to say where most rows hold one agent's message: every estimate is true, and hardly one is of any use."""
    advice = "number the readings of one moment alike"
    if key.is_time:
        advice = "where clocks differ, --within 30s takes messages for one row that are no further apart"
    return (
        f"veilnet fuse: {alone} of {total} rows hold the message of one agent alone, because the agents' "
        f"{'times' if key.is_time else 'row numbers'} do not agree; {advice}\n"
    )


def _tolerance(within: str | None) -> int:
    from veilnet._core.durations import duration
    from veilnet._core.errors import InvalidRequest

    try:
        return 0 if within is None else duration(within)
    except ValueError as error:
        raise InvalidRequest(f"--within: {error}") from None


def _check_counts(key: RowKey, files: dict[str, MessageFile], *, ahead: bool = False) -> None:
    """Refuse counted rows that do not end together. ahead: by what is still to be read."""
    from veilnet.io.merging import require_equal_counts
    from veilnet.io.row_keys import COUNTED

    if key == COUNTED:
        ends = {agent: file.last_in_file() if ahead else file.last_row for agent, file in files.items()}
        require_equal_counts({agent: end for agent, end in ends.items() if end is not None})


def _paths(messages: list[str], agents: tuple[str, ...]) -> dict[str, Path]:
    from veilnet._core.errors import InvalidRequest

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
    return paths
