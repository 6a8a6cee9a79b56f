"""``veilnet demo``: the whole story on a small house, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet.cli._command_line import JSON, option
from veilnet.cli._shared import print_json, progress, show, table, targets

if TYPE_CHECKING:
    from rich.table import Table

    from veilnet.cli.story import Story, StoryLine
    from veilnet.plans.plan import Plan
    from veilnet.verdict.verdict import Verdict

_ROWS = 4000
_SHOWN = 96  # rows of the stream that are drawn: a day of quarters of an hour


def command(
    private_error: str = option(
        "--private-error",
        "Least standard error of every private parameter in the stricter plan.",
        default="3.3x",
        metavar="ERROR",
    ),
    json: bool = JSON,
) -> None:
    """Run everything on a bundled house: check, design, sanitize and fuse, for rows and for a stream."""
    from veilnet.cli.story import play
    from veilnet.io.template import house

    network = house()
    verdict = vn.check(network)
    free = vn.design(network)
    with progress("designing", total=1.0) as steps:
        strict = vn.design(
            network, privacy=targets([private_error], "--private-error"), progress=steps.reached
        )
    with progress("following a stream", total=1.0) as steps:
        stream = vn.design(house(stream=True))
        steps.update(0.5)
        followed = play(stream, _ROWS, seed=1)
    played = {name: play(plan, _ROWS, seed=1).lines for name, plan in (("free", free), ("strict", strict))}
    if json:
        plans = {name: _figures(plan, played[name]) for name, plan in (("free", free), ("strict", strict))}
        row_by_row = _figures(stream, followed.lines) | {"privacy_now": stream.privacy_now}
        found = {"ceiling": verdict.ceiling, "limit": verdict.limit}
        print_json(found | {"plans": plans, "stream": row_by_row})
        return
    _tell_rows(verdict, free, strict, played, private_error)
    _tell_stream(stream, followed)


def _figures(plan: Plan, errors: list[StoryLine]) -> dict[str, Any]:
    return {"utility": plan.utility, "privacy": plan.privacy, "errors": errors}


def _tell_rows(
    verdict: Verdict, free: Plan, strict: Plan, played: dict[str, list[StoryLine]], asked: str
) -> None:
    """The first four acts: rows that stand alone."""
    from veilnet.plans.in_words import quality

    network = verdict.network
    _say("A small house")
    show(
        f"{network.S} rooms ({', '.join(network.agents)}) take {network.N} readings. A heating controller collects "
        f"them. It may know {' and '.join(network.public)}; it must not learn {', '.join(network.private)}."
    )
    _say("1. Can privacy be free?")
    show(str(verdict))
    _say("2. The free plan: every room sends its share of the public estimate, nothing else")
    show(_outcome(played["free"]))
    show(quality(free))
    _say(
        f"3. A stricter plan (--private-error {asked}): every private parameter, RMS over its numbers, at the least "
        "public cost"
    )
    show(_outcome(played["strict"]))
    show(quality(strict))
    show(f"Measured on {_ROWS} simulated rows (quarter hours), sanitized with secure noise.")


def _tell_stream(stream: Plan, followed: Story) -> None:
    """The last act, and what to do next."""
    from veilnet.cli.story import shown_in_blocks
    from veilnet.plans.in_words import quality

    _say("4. The house as a stream: the centre filters and smooths")
    show(
        "Rooms warm up slowly, people stay and sensor noise drifts, so many rows reveal more than one. Each room "
        "keeps a memory and sends its share of the centre's filter. Private errors are smoothed (with hindsight)."
    )
    show(_outcome(followed.lines))
    show(quality(stream))
    name = next(iter(followed.shown)).removesuffix(", true")
    show(f"\n{name} over a day, and the centre's smoothed estimates:")
    for line in shown_in_blocks(followed, _SHOWN):
        show(line, no_wrap=True, crop=False, overflow="ignore")
    show(f"Measured on {_ROWS} consecutive rows.")
    _say("Your own network")
    show("  veilnet init house.toml      a commented file to edit (--stream for a time series)")
    show("  veilnet check house.toml     what is free, and which agent limits it")
    show("  veilnet design house.toml --private-error 3.3x --out plan/")
    show("  veilnet audit plan/          attack it before somebody else does")


def _outcome(lines: list[StoryLine]) -> Table:
    """Errors before and after, promised and measured."""
    from veilnet._core.words import times

    rows = []
    for line in lines:
        errors = (f"{value:.3g} {line.unit}".rstrip() for value in (line.raw, line.promised, line.measured))
        kind = "private" if line.private else "public"
        rows.append([kind, line.name, *errors, times((line.promised / line.raw) ** 2)])
    return table(["", "parameter", "standard error, raw", "promised", "measured", "grows"], rows)


def _say(title: str) -> None:
    show()
    show(title, style="bold")
