"""``veilnet demo``: the whole story on a small house, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet.cli._command_line import JSON, option
from veilnet.cli._shared import print_json, progress, show, table

if TYPE_CHECKING:
    from rich.table import Table

    from veilnet.cli.story import Story, StoryLine
    from veilnet.plans.plan import Plan
    from veilnet.verdict.verdict import Verdict

_ROWS = 4000
_SHOWN = 96  # rows of the stream that are drawn: a day of quarters of an hour


def command(
    privacy: float = option(
        "--privacy", "Privacy asked of every private parameter in the second plan.", default=10.0
    ),
    json: bool = JSON,
) -> None:
    """Play the whole story on a bundled house: check, design, sanitize, fuse, row by row and as a stream."""
    from veilnet.cli.story import play
    from veilnet.io.template import house

    network = house()
    verdict = vn.check(network)
    free = vn.design(network)
    with progress("designing", total=1.0) as steps:
        strict = vn.design(network, privacy=privacy, progress=steps.reached)
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
    _tell_rows(verdict, free, strict, played, privacy)
    _tell_stream(stream, followed)


def _figures(plan: Plan, errors: list[StoryLine]) -> dict[str, Any]:
    return {"utility": plan.utility, "privacy": plan.privacy, "errors": errors}


def _tell_rows(
    verdict: Verdict, free: Plan, strict: Plan, played: dict[str, list[StoryLine]], privacy: float
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
    _say("2. The free plan: every room sends its share of the public estimate and nothing else")
    show(_outcome(played["free"]))
    show(quality(free))
    _say(
        f"3. A stricter plan: every private standard error grows at least {(1 + privacy) ** 0.5:.3g}x, "
        "at the least public cost"
    )
    show(_outcome(played["strict"]))
    show(quality(strict))
    show(
        f"Errors were measured on {_ROWS} simulated quarters of an hour, with the rooms' noise drawn in earnest."
    )


def _tell_stream(stream: Plan, followed: Story) -> None:
    """The last act, and what to do next."""
    from veilnet.cli.story import shown_in_blocks
    from veilnet.plans.in_words import quality

    _say("4. Row after row: a centre that remembers, and looks back")
    show(
        "Rooms warm up slowly, people stay, and sensor noise drifts: all rows together reveal more than one. So each "
        "room keeps a memory and sends its share of the centre's filter. Private errors are judged with hindsight."
    )
    show(_outcome(followed.lines))
    show(quality(stream))
    name = next(iter(followed.shown)).removesuffix(", true")
    show(f"\n{name} over a day, and what the centre makes of it with hindsight:")
    for line in shown_in_blocks(followed, _SHOWN):
        show(line, no_wrap=True, crop=False, overflow="ignore")
    show(f"Errors were measured on {_ROWS} rows that follow one another.")
    _say("Your own network")
    show("  veilnet init house.toml      a commented file to edit (--stream: rows that follow one another)")
    show("  veilnet check house.toml     what is free, and who stands in the way")
    show("  veilnet design house.toml --private-error 3.3x --out plan/")
    show("  veilnet audit plan/          attack it before someone else does")


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
