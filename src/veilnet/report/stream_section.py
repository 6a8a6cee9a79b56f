"""A stream, seen: a simulated stretch of what is private and public, and what the centre makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.plans.plan import Plan
from veilnet.report.html import Html, element, join, paragraph, shown, table
from veilnet.report.stream_tracks import ROWS, Track, simulated_tracks
from veilnet.report.svg import Frame, figure, label, line, path, picture

_MOST_PRIVATE, _MOST_PUBLIC = 4, 2


def stream_section(plan: Plan) -> Html:
    """Pictures of some parameters over simulated rows."""
    tracks = simulated_tracks(plan)
    if not tracks:
        return paragraph("This stream is too large to be simulated for a picture.")
    private = [each for each in tracks if each.private]
    public = [each for each in tracks if not each.private]
    chosen = [*private[:_MOST_PRIVATE], *public[:_MOST_PUBLIC]]
    left = len(tracks) - len(chosen)
    return join(
        [
            paragraph(
                f"Simulated, not measured: {ROWS} rows drawn from the model with a fixed seed, and what the agents "
                "would send of them. Private parameters are estimated with hindsight, from all messages, public ones "
                "from the messages so far. Where the thick line follows the truth, the centre knows it."
            ),
            element("div", *(_one(track) for track in chosen), class_="grid wide"),
            paragraph(f"{left} more are left out.", class_="soft") if left else None,
        ]
    )


def _one(track: Track) -> Html:
    kind = "private" if track.private else "public"
    return element(
        "div",
        element("h3", shown(track.name), " ", element("span", f"({kind}, simulated)", class_="role")),
        figure(track_picture(track), None, track_table(track)),
        class_=f"card {kind}",
    )


_LEFT = 46.0
_KINDS = {"truth": "truth", "from raw readings": "from-raw", "from what is sent": "from-sent"}
_EVERY = 8  # rows of the table


def track_picture(track: Track) -> Html:
    """The truth thin, the estimate from raw readings dashed, that from what is sent thick."""
    return lines_picture(_title(track), track.unit, track.lines, key=track.private)


def lines_picture(title: str, unit: str, lines: Mapping[str, Array], *, key: bool = False) -> Html:
    """Values over rows, as many of each.

    lines: "truth", "from raw readings" and "from what is sent", or some of these -> values; a gap is left open.
    key:   whether the picture is of something private.
    """
    values, count = np.concatenate(list(lines.values())), len(lines["truth"])
    values = values[np.isfinite(values)]
    low, high = (float(np.min(values)), float(np.max(values))) if values.size else (0.0, 1.0)
    margin = 0.05 * (high - low) or 1.0
    frame = Frame((0, count - 1), (low - margin, high + margin), left=_LEFT, top=44)
    marks = [*_legend(unit, lines), *frame.levels()]
    for row in range(0, count, max(24, count // 4)):
        marks.append(label(frame.x(row), frame.height - 16, f"row {row + 1}", class_="small"))
    for words, shown_values in lines.items():
        runs = _runs(shown_values)
        marks += [
            path([frame.at(row, float(shown_values[row])) for row in run], _KINDS[words]) for run in runs
        ]
    return picture(title, frame.width, frame.height, marks, key=key)


def _legend(unit: str, lines: Iterable[str]) -> list[Html]:
    marks, x = [], _LEFT
    for words in lines:
        marks += [line(x, 14, x + 26, 14, _KINDS[words]), label(x + 32, 18, words, class_="small")]
        x += 44 + 6.1 * len(words)
    return [*marks, label(4, 36, shown(unit), class_="small")] if unit else marks


def _runs(values: Array) -> list[list[int]]:
    """Rows one after the other that have a value: a gap is left open."""
    runs: list[list[int]] = [[]]
    for row, value in enumerate(values):
        if np.isfinite(value):
            runs[-1].append(row)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _errors(track: Track) -> tuple[float, float]:
    return (
        float(np.sqrt(np.mean((track.from_raw - track.truth) ** 2))),
        float(np.sqrt(np.mean((track.from_sent - track.truth) ** 2))),
    )


def _title(track: Track) -> str:
    raw, sent = _errors(track)
    sent_error = f"{number(sent)} from what is sent" if np.isfinite(sent) else "no estimate from what is sent"
    errs = f"the centre errs by {number(raw)} from raw readings, {sent_error}"
    return f"Simulated rows of {shown(track.name)}: in them {errs}."


def track_table(track: Track) -> Html:
    """Every eighth row."""
    return table_of_lines(f"Simulated {shown(track.name)}", track.lines)


def table_of_lines(what: str, lines: Mapping[str, Array]) -> Html:
    """The same values, every eighth row."""
    count = len(lines["truth"])
    rows = [
        (str(row + 1), *(number(float(each[row])) for each in lines.values()))
        for row in range(0, count, _EVERY)
    ]
    return table(f"{what}, every {_EVERY}th row", ("row", *lines), rows, numeric=range(1, 1 + len(lines)))
