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
from veilnet.live.fusions import SymbolFusion, fusion_of
from veilnet.live.showing import void
from veilnet.live.status import AgentStatus, Status, newest_estimates, plan_document, read_status
from veilnet.report.html import Html, element, join, paragraph, shown, table
from veilnet.report.page import stylesheet
from veilnet.report.svg import Frame, figure, label, line, path, picture
from veilnet.studio.loopback import serve_guarded

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_FILES = Path(__file__).with_name("page")
_PAGE = {"/": "live.html", "/door.js": "door.js", "/live.js": "live.js"}
_EPOCHS = 96
_ROWS = 12  # of a table
_SIZE = 640.0, 240.0
_BAND = 2.0  # deviations to either side
_LINE = 22.0  # of the picture of a class
_CHARACTERS = 16  # of the name of a value
_VISIBLE = 0.02  # chances below are not drawn


def live_page(store: Path) -> str:
    """The page of a centre's store, as it is now."""
    status = read_status(store)
    found = newest_estimates(store, _EPOCHS)[::-1]
    by_epoch = {each["epoch"]: each for each in found}  # by the plan that most agents sent by
    parts: list[Html] = [element("h1", "A live network")]
    parts.append(paragraph(_summary(status)))
    if status.drifted:
        words = void([shown(agent) for agent in status.drifted])
        parts.append(element("ul", element("li", words, class_="bad"), class_="facts"))
    if status.plans and by_epoch:
        labels, units, classes = _named(store, status.plans[-1])
        wanted = len(classes or labels)
        chosen = [by_epoch[epoch] for epoch in sorted(by_epoch) if len(by_epoch[epoch]["public"]) == wanted]
        for place, (name, unit) in enumerate(zip(labels, units, strict=True)):
            drawn = _class_figure(name, classes, chosen) if classes else _figure(name, unit, place, chosen)
            parts += [element("h2", shown(name)), drawn]
    parts += [element("h2", "Agents"), _agents(status)]
    fits = element("meta", name="viewport", content="width=device-width, initial-scale=1")
    title, style = element("title", "veilnet: a live network"), element("style", Html(stylesheet()))
    head = join([element("meta", charset="utf-8"), fits, title, style])
    body = element("body", element("main", *parts), class_="vn")
    return f"<!doctype html>{element('html', element('head', head), body, lang='en')}"


@lru_cache(maxsize=8)
def _named(store: Path, plan: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Any, ...]]:
    """(labels, units) of the public parameters of a plan, and the values of the one that is a class."""
    fusion = fusion_of(plan_document(store, plan), store)
    classes = fusion.centre.classes if isinstance(fusion, SymbolFusion) else ()
    return tuple(fusion.model.labels), tuple(fusion.model.units), classes


def _summary(status: Status) -> str:
    if not status.agents:
        return "No plan is in use yet."
    now = time.time()
    heard = [each.agent for each in status.agents if each.heard and now - each.heard < 60]
    quiet = [shown(each.agent) for each in status.agents if each.lag > 1 or not each.heard]
    refused = sum(status.refusals.values())
    behind = f"behind: {join_names(quiet)}" if quiet else "nobody is behind"
    return (
        f"{status.epochs} epochs estimated up to epoch {status.newest}; {len(heard)} of {len(status.agents)} agents "
        f"heard in the last minute; {behind}; {refused} messages refused."
    )


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
    first, last = points[0][0], points[-1][0]
    frame = Frame((first, last), (low, high if high > low else low + 1.0), size=_SIZE, left=56, right=12)
    marks = frame.levels()
    upper = [frame.at(epoch, value + _BAND * deviation) for epoch, value, deviation, _ in points]
    lower = [frame.at(epoch, value - _BAND * deviation) for epoch, value, deviation, _ in points]
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower[::-1]])
    marks.append(element("polygon", points=corners, style="fill:var(--accent);opacity:.2"))
    marks.append(path([frame.at(epoch, value) for epoch, value, _, _ in points], "from-sent"))
    marks += _ends(frame, first, last)
    _, value, deviation, _ = points[-1]
    title = f"{shown(name)} over epochs {first} to {last}; now {value:.4g} ± {deviation:.2g} {shown(unit)}".rstrip()
    estimates = [(number(value), number(deviation), each) for _, value, deviation, each in points]
    heads = (f"estimate, {shown(unit)}" if unit else "estimate", "deviation")
    words = f"{title}. The band is two deviations to either side."
    return _with_table(picture(title, *_SIZE, marks, key=place), words, name, heads, estimates)


def _ends(frame: Frame, first: int, last: int) -> list[Html]:
    """The first and the last epoch, below."""
    places = ((frame.left, first, "start"), (frame.end, last, "end"))
    return [
        label(x, frame.height - 12, f"epoch {epoch}", anchor=anchor, class_="small")
        for x, epoch, anchor in places
    ]


def _with_table(
    drawn: Html,
    words: str,
    name: str,
    heads: tuple[str, str],
    found: Sequence[tuple[str, str, dict[str, Any]]],
) -> Html:
    """A picture with its caption, and the last epochs as a table.

    found: (estimate, how sure, what was stored) of each epoch; ``heads`` the first two columns.
    """
    missing = found[-1][2]["missing"]
    if missing:
        words += f" Without {join_names([shown(each) for each in missing])}."
    rows = [
        (str(each["epoch"]), value, sure, ", ".join(map(shown, each["missing"])) or "none",
         ", ".join(map(shown, each["contradicting"])) or "none", str(each["revision"]))
        for value, sure, each in found[-_ROWS:][::-1]
    ]  # fmt: skip
    columns = ("epoch", *heads, "missing", "left out", "revision")
    same = table(f"{shown(name)}, the last epochs", columns, rows, numeric=(1, 2, 5))
    return figure(drawn, words, same)


def _class_figure(name: str, classes: tuple[Any, ...], chosen: Sequence[dict[str, Any]]) -> Html:
    """A class over the last epochs: a line for each value, the darker the more likely."""
    names = [shown(str(each), most=_CHARACTERS) for each in classes]
    if not chosen:
        return paragraph("Not estimated yet.")
    first, last = chosen[0]["epoch"], chosen[-1]["epoch"]
    size = _SIZE[0], _LINE * len(names) + 50
    frame = Frame((first, last + 1), (len(names), 0), size=size, left=116, right=12)
    marks = _ends(frame, first, last + 1)
    for place, words in enumerate(names):
        y = frame.y(place)
        marks.append(line(frame.left, y + _LINE, frame.end, y + _LINE, "grid"))
        marks.append(label(frame.left - 6, y + 0.7 * _LINE, words, anchor="end", class_="small"))
        for each in chosen:
            x, chance = frame.x(each["epoch"]), each["public"][place]
            if chance > _VISIBLE:
                how, wide = f"fill:var(--accent);opacity:{chance:.2f}", frame.x(each["epoch"] + 1) - x
                marks.append(element("rect", x=x, y=y + 2, width=wide, height=_LINE - 4, style=how))
    best = [max(zip(each["public"], names, strict=True)) for each in chosen]
    chance, now = best[-1]
    title = f"{shown(name)} over epochs {first} to {last}; now {now}, with chance {chance:.2f}"
    found = [(words, f"{chance:.2f}", each) for (chance, words), each in zip(best, chosen, strict=True)]
    drawn = picture(title, *size, marks)
    return _with_table(drawn, f"{title}. The darker, the more likely.", name, ("estimate", "chance"), found)


def _agents(status: Status) -> Html:
    now = time.time()

    def row(each: AgentStatus) -> tuple[str, ...]:
        heard = "never" if not each.heard else f"{max(0.0, now - each.heard):.0f} s ago"
        counts = (each.lag, each.messages, each.missed, each.silent, each.duplicates, each.refused)
        return (shown(each.agent), heard, *map(str, counts))

    counted = ("epochs behind", "messages", "missed", "silent", "came again", "refused")
    columns = ("agent", "last heard", *counted)
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
