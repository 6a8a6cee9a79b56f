"""sanitize and fuse for a network in parts: folders of readings in, of messages out, and estimates from those."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet.cli._parts import with_client

if TYPE_CHECKING:
    from veilnet.centre.estimates import Estimate
    from veilnet.cluster import Sanitized


def sanitize_parts(
    folder: Path, source: Path | None, out: Path | None, seed: int | None, cluster: str | None, *, json: bool
) -> int:
    """``veilnet sanitize`` of a folder of parts; exit code 1 where something was not sent."""
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import print_json
    from veilnet.cluster import sanitize

    if source is None or out is None:
        option = "--in" if source is None else "--out"
        raise InvalidRequest(
            f"{option}: expected a folder, as the readings and messages of a network in parts are"
        )
    if seed is not None:
        sys.stderr.write("veilnet sanitize: --seed was given: the output is a simulation, NOT private\n")
    call = partial(sanitize, readings=source, messages=out, seed=seed)
    found: Sanitized = with_client(call, folder, cluster)
    if json:
        print_json(
            {
                "rows": found.messages.rows,
                "sent": found.sent,
                "refused": found.refused,
                "private": found.messages.private,
                "plan": found.messages.plan,
                "written": found.messages.folder,
            }
        )
    else:
        sys.stdout.write(
            f"Wrote {out}: {found.messages.rows} rows, {found.sent} messages of single agents.\n"
        )
    if found.refused:
        sys.stderr.write(
            f"veilnet sanitize: {found.refused} messages were not sent, since readings were missing or in doubt; the "
            "centre sees that they are missing\n"
        )
    return 1 if found.refused else 0


def fuse_parts(
    folder: Path, messages: list[str], out: Path | None, cluster: str | None, *, json: bool
) -> int:
    """``veilnet fuse`` of a folder of parts."""
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import print_json
    from veilnet.cluster import fuse, open_messages
    from veilnet.io._atomic import replacing
    from veilnet.io.estimate_files import write_estimate_header, write_estimates
    from veilnet.io.streams import format_for

    if len(messages) != 1 or not Path(messages[0]).is_dir():
        raise InvalidRequest(
            f"{messages[0]}: expected one folder of messages, as 'veilnet sanitize' of a network in parts writes it"
        )
    kind = format_for(out, given="jsonl" if json and out is None else None)
    given = open_messages(messages[0])
    if not given.private:
        sys.stderr.write("veilnet fuse: the messages were made with --seed: NOT private\n")
    estimate: Estimate = with_client(partial(fuse, messages=given), folder, cluster)
    with ExitStack() as stack:
        target = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
        write_estimate_header(target, kind, estimate.labels)
        write_estimates(target, kind, range(1, given.rows + 1), estimate, counted=True)
        target.flush()
    gaps = sum(map(bool, estimate.missing))
    unknown = int((~estimate.estimable).any(axis=1).sum())
    if out is not None and json:
        print_json(
            {"rows": given.rows, "with_missing_agents": gaps, "not_estimable": unknown, "written": out}
        )
    elif out is not None:
        sys.stdout.write(
            f"Wrote {out}: {given.rows} rows, {gaps} with missing agents, "
            f"{unknown} where something is not estimable.\n"
        )
    return 0
