"""Microseconds per agent against the number of agents, as one small picture: flat lines are what is hoped for."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 56, 170, 18, 42
COLOURS = ("#1b6ca8", "#7a7a7a", "#c8553d")


def drawn(curves: Mapping[str, Mapping[int, float]]) -> str:
    """The picture as SVG; both axes are logarithms.

    curves: name -> number of agents -> microseconds for each of them.
    """
    shown = {name: points for name, points in curves.items() if points}
    agents = [log10(size) for points in shown.values() for size in points]
    times = [log10(each) for points in shown.values() for each in points.values()]
    low, high = floor(min(agents)), ceil(max(agents))
    least, most = floor(min(times)), ceil(max(times))
    high, most = max(high, low + 1), max(most, least + 1)

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (value - least) / (most - least) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12" aria-label="Microseconds per agent against the number of agents">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for power in range(low, high + 1):
        x = across(power)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10**power:,}</text>'
        )
    for power in range(least, most + 1):
        y = down(power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} µs</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">agents</text>'
    )
    ends = sorted(shown, key=lambda name: -shown[name][max(shown[name])])
    heights: dict[str, float] = {}
    for name in ends:  # names at the ends of their lines, no two on one another
        wanted = down(log10(shown[name][max(shown[name])]))
        heights[name] = max(wanted, max(heights.values(), default=-20.0) + 15)
    for colour, (name, points) in zip(COLOURS, shown.items(), strict=False):
        places = [(across(log10(size)), down(log10(points[size]))) for size in sorted(points)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(
            f'<text x="{WIDTH - RIGHT + 10}" y="{heights[name] + 4:.1f}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
