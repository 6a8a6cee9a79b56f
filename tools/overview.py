"""The README's picture, drawn from the kept figures of the house: who sends what, and what the centre knows then."""

from __future__ import annotations

import re
from typing import Any

ROOMS = ("kitchen", "living room", "hall", "bedroom", "study")
_STYLE = """
  text { font: 15px system-ui, sans-serif; fill: #1c2b2a; }
  .small { font-size: 13px; fill: #51625f; }
  .strong { font-weight: 600; }
  .box { fill: #eef4f3; stroke: #9db5b1; }
  .line { stroke: #2a8c82; stroke-width: 2; fill: none; }
  .head { fill: #2a8c82; }
  .raw { fill: #c98a2b; } .sent { fill: #2a8c82; } .guess { fill: #b9c7c4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4eeec; } .small { fill: #a5b8b4; } .box { fill: #20302e; stroke: #4d6763; }
    .line { stroke: #58c2b6; } .head { fill: #58c2b6; } .sent { fill: #58c2b6; } .guess { fill: #4d6763; }
    .raw { fill: #e0a84f; }
  }
"""


def overview(figures: dict[str, Any]) -> str:
    """An SVG of its own colours for light and dark."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 330" role="img" '
        'aria-label="Rooms send shares; the centre knows what is public and little else">',
        f"<style>{_STYLE}</style>",
        '<text x="12" y="24" class="strong">agents</text>',
        f'<text x="12" y="318" class="small">{figures["readings"]} readings stay at home, '
        f"{figures['sent']} numbers leave</text>",
    ]
    for place, room in enumerate(ROOMS):
        top = 40 + 52 * place
        parts += [
            f'<rect x="12" y="{top}" width="150" height="40" rx="7" class="box"/>',
            f'<text x="26" y="{top + 25}">{room}</text>',
            f'<path class="line" d="M162 {top + 20} C 240 {top + 20}, 250 164, 322 164"/>',
        ]
    parts += [
        '<path class="head" d="M322 157 L336 164 L322 171 Z"/>',
        '<text x="338" y="100" class="small">each sends its share</text>',
        '<rect x="338" y="112" width="160" height="104" rx="9" class="box"/>',
        '<text x="418" y="156" text-anchor="middle" class="strong">fusion centre</text>',
        '<text x="418" y="180" text-anchor="middle" class="small">knows the model,</text>',
        '<text x="418" y="198" text-anchor="middle" class="small">sees every message</text>',
        '<text x="540" y="24" class="strong">its standard error (1σ)</text>',
    ]
    parts += _bars(figures, "temperature", "temperature (public)", 52)
    parts += _bars(figures, "gait", "gait (private)", 182)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(figures: dict[str, Any], name: str, title: str, top: int) -> list[str]:
    """Raw, sent, guessing, as lengths of one scale."""
    shown = {kind: figures[f"{name}_{kind}"] for kind in ("raw", "sent", "guessing")}
    sizes = {kind: float(re.match(r"[\d.]+", text).group()) for kind, text in shown.items()}  # type: ignore[union-attr]
    longest = max(sizes.values())
    parts = [f'<text x="540" y="{top + 14}">{title}</text>']
    for place, (kind, words) in enumerate((("raw", "raw"), ("sent", "sent"), ("guessing", "prior only"))):
        y = top + 26 + 26 * place
        width = max(3.0, 160 * sizes[kind] / longest)
        style = "guess" if kind == "guessing" else kind
        parts += [
            f'<text x="540" y="{y + 13}" class="small">{words}</text>',
            f'<rect x="664" y="{y}" width="{width:.0f}" height="17" rx="3" class="{style}"/>',
            f'<text x="{670 + width:.0f}" y="{y + 14}" class="small">±{shown[kind]}</text>',
        ]
    return parts
