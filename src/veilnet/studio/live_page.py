"""A page of a live network: estimates with their band and agents' health, from the centre's store, as it is now.

It reads the store, which the centre goes on writing, and nothing else. It is behind the same
:class:`veilnet.studio.guard.Guard` as the studio; a script of a few lines looks again now and then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet._core.words import join_names, number
from veilnet.io.centre_files import centre_from_bytes
from veilnet.live.status import AgentStatus, Status, newest_estimates, plan_document, read_status
from veilnet.report.html import Html, element, join, paragraph, shown, table
from veilnet.report.page import stylesheet
from veilnet.report.svg import figure, label, line, nice_ticks, path, picture
from veilnet.studio.loopback import serve_guarded

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["live_page", "serve_live"]

_FILES = Path(__file__).with_name("page")
_PAGE = {"/": "live.html", "/door.js": "door.js", "/live.js": "live.js"}
_EPOCHS = 96
_ROWS = 12  # of a table
_WIDTH, _HEIGHT = 640.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 12.0, 16.0, 34.0
_BAND = 2.0  # deviations to either side


def live_page(store: Path) -> str:
    """The page of a centre's store, as it is now."""
    status = read_status(store)
    found = newest_estimates(store, _EPOCHS)[::-1]
    by_epoch = {each["epoch"]: each for each in found}  # by the plan that most agents sent by
    parts: list[Html] = [element("h1", "A live network")]
    parts.append(paragraph(_summary(status)))
    if status.plans and by_epoch:
        labels, units = _named(store, status.plans[-1])
        chosen = [
            by_epoch[epoch] for epoch in sorted(by_epoch) if len(by_epoch[epoch]["public"]) == len(labels)
        ]
        for place, (name, unit) in enumerate(zip(labels, units, strict=True)):
            parts += [element("h2", shown(name)), _figure(name, unit, place, chosen)]
    parts += [element("h2", "Agents"), _agents(status)]
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", "veilnet: a live network"),
            element("style", Html(stylesheet())),
        ]
    )
    body = element("body", element("main", *parts), class_="vn")
    return f"<!doctype html>{element('html', element('head', head), body, lang='en')}"


@lru_cache(maxsize=8)
def _named(store: Path, plan: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(labels, units) of the public parameters of a plan."""
    model = centre_from_bytes(plan_document(store, plan), store)
    return tuple(model.labels), tuple(model.units)


def _summary(status: Status) -> str:
    if not status.agents:
        return "No plan was taken up yet."
    now = time.time()
    heard = [each.agent for each in status.agents if each.heard and now - each.heard < 60]
    quiet = [shown(each.agent) for each in status.agents if each.lag > 1 or not each.heard]
    refused = sum(count for (_, reason), count in status.counts.items() if reason != "duplicate")
    words = (
        f"{status.epochs} epochs estimated up to epoch {status.newest}; {len(heard)} of {len(status.agents)} "
    )
    words += "agents heard in the last minute"
    words += f"; behind: {join_names(quiet)}" if quiet else "; nobody is behind"
    return f"{words}; {refused} messages refused."


def _figure(name: str, unit: str, place: int, chosen: Sequence[dict[str, Any]]) -> Html:
    """One public parameter over the last epochs: its estimate, and a band of two deviations."""
    points = []
    for each in chosen:
        value = each["public"][place]
        variance = None if value is None else each["covariance"][place][place]
        if value is not None and variance is not None:
            points.append((each["epoch"], value, math.sqrt(max(variance, 0.0)), each))
    if not points:
        return paragraph("Not estimable from what arrived.")
    low = min(value - _BAND * deviation for _, value, deviation, _ in points)
    high = max(value + _BAND * deviation for _, value, deviation, _ in points)
    high = high if high > low else low + 1.0
    first, last = points[0][0], points[-1][0]

    def at(epoch: int, value: float) -> tuple[float, float]:
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * (epoch - first) / max(last - first, 1)
        return across, _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    marks = []
    for tick in nice_ticks(low, high, 4):
        y = at(first, tick)[1]
        marks += [line(_LEFT, y, _WIDTH - _RIGHT, y, "grid")]
        marks += [label(_LEFT - 6, y + 4, f"{tick:.4g}", anchor="end", class_="small")]
    upper = [at(epoch, value + _BAND * deviation) for epoch, value, deviation, _ in points]
    lower = [at(epoch, value - _BAND * deviation) for epoch, value, deviation, _ in points]
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower[::-1]])
    marks.append(element("polygon", points=corners, style="fill:var(--accent);opacity:.2"))
    marks.append(path([at(epoch, value) for epoch, value, _, _ in points], "from-sent"))
    for epoch, anchor in ((first, "start"), (last, "end")):
        marks.append(label(at(epoch, low)[0], _HEIGHT - 12, f"epoch {epoch}", anchor=anchor, class_="small"))
    epoch, value, deviation, newest = points[-1]
    title = f"{shown(name)} over epochs {first} to {last}; now {value:.4g} ± {deviation:.2g} {shown(unit)}".rstrip()
    caption = f"{title}. The band is two deviations to either side."
    if newest["missing"]:
        caption += f" Without {join_names([shown(each) for each in newest['missing']])}."
    rows = [
        (str(epoch), number(value), number(deviation), ", ".join(map(shown, each["missing"])) or "none",
         ", ".join(map(shown, each["contradicting"])) or "none", str(each["revision"]))
        for epoch, value, deviation, each in points[-_ROWS:][::-1]
    ]  # fmt: skip
    columns = (
        "epoch",
        f"estimate, {shown(unit)}" if unit else "estimate",
        "deviation",
        "missing",
        "left out",
        "revision",
    )
    same = table(f"{shown(name)}, the last epochs", columns, rows, numeric=(1, 2, 5))
    return figure(picture(title, _WIDTH, _HEIGHT, marks, key=place), caption, same)


def _agents(status: Status) -> Html:
    now = time.time()

    def row(each: AgentStatus) -> tuple[str, ...]:
        heard = "never" if not each.heard else f"{max(0.0, now - each.heard):.0f} s ago"
        counts = (each.lag, each.messages, each.missed, each.silent, each.duplicates, each.refused)
        return (shown(each.agent), heard, *map(str, counts))

    columns = (
        "agent",
        "last heard",
        "epochs behind",
        "messages",
        "missed",
        "silent",
        "came again",
        "refused",
    )
    return table("What the centre knows of each agent", columns, map(row, status.agents), numeric=range(2, 8))


def serve_live(store: Path, *, port: int = 0, started: Callable[[str], None]) -> None:
    """Serve the page on the loopback until interrupted.

    store:   of the centre.
    port:    0 for any that is free.
    started: called with the one-time address once requests are answered.
    """
    live_page(store)  # refuses what is no centre's store before anybody looks
    serve_guarded(_application(store), page=_PAGE, port=port, most_bytes=0, started=started)


def _application(store: Path) -> Callable[[Scope, Receive, Send], Any]:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response

        response: Response = PlainTextResponse("not found", status_code=404)
        if scope["path"] == "/now":
            response = HTMLResponse(await run_in_threadpool(live_page, store))
        elif scope["path"] in _PAGE:
            response = FileResponse(_FILES / _PAGE[scope["path"]])
        await response(scope, receive, send)

    return answer
