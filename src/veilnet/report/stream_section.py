"""A stream, seen: a simulated stretch of what is private and public, and what the centre makes of it."""

from __future__ import annotations

from veilnet.plans.plan import Plan
from veilnet.report.html import Html, element, join, paragraph, shown
from veilnet.report.stream_tracks import ROWS, Track, simulated_tracks
from veilnet.report.svg import figure
from veilnet.report.track_picture import track_picture, track_table

__all__ = ["stream_section"]

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
                "from the messages so far. Where the thick line follows the truth the centre knows it; where it does "
                "not, the centre is off."
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
