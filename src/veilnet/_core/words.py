"""Numbers and directions in words a person reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from veilnet._core.types import Array

_FACTOR = 1.1  # below it a growth is read as a percentage, from it on as a factor
_SMALLEST = 5  # zeros after the point that are still written out: 0.000048, but 4.8e-06
NOTHING = 1e-6
"""A variance that grows by less than this part is said not to grow: less is rounding, more is a price."""


def direction_in_words(direction: Array, names: Sequence[str], *, parts_shown: int = 4) -> str:
    """A direction of x by the user's names, largest parts first: ``0.71 gait - 0.71 presence``."""
    norm = float(np.linalg.norm(direction))
    unit = direction / (norm if norm > 0 else 1.0)
    order = [int(k) for k in np.argsort(-np.abs(unit)) if abs(unit[k]) > 1e-6]
    if len(order) == 1:
        return names[order[0]]
    lead = np.sign(unit[order[0]]) if order else 1.0
    parts = [(float(lead * unit[k]), names[k]) for k in order[:parts_shown]]
    text = " ".join(
        (f"{'-' if value < 0 else '+'} " if place else "") + f"{abs(value):.2g} {name}"
        for place, (value, name) in enumerate(parts)
    )
    return text + (f" + {len(order) - parts_shown} smaller parts" if len(order) > parts_shown else "")


def join_names(names: Sequence[str], *, names_shown: int = 6, each: Callable[[str], str] = str) -> str:
    """``a, b and c``, each as somebody wants it shown; long lists are cut."""
    shown = [each(name) for name in names[:names_shown]]
    if len(names) > names_shown:
        return ", ".join(shown) + f" and {len(names) - names_shown} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def foreign(text: str, most: int = 500) -> str:
    """What somebody else wrote, in one line: nothing in it moves a cursor, or looks like a line of one's own."""
    return "".join(each if each.isprintable() else "?" for each in text[:most])


def counted(count: int, what: str) -> str:
    """``1 number``, ``2 numbers``."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def in_columns(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Lines of a table whose first row are its headings; the columns after the first ``left`` stand to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if left is None or place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def times(variances: float) -> str:
    """How a standard error grows, ``2.91x`` or ``by 2.5 %``, from the ratio of the variances (8.46, 1.05).

    People read standard errors; the paper's u and p are ratios of variances.
    """
    if np.isinf(variances):
        return "without bound"
    if variances < 1 + NOTHING:
        return "not at all"
    ratio = float(np.sqrt(variances))
    if ratio < _FACTOR:
        return f"by {_plain(100 * (ratio - 1), 2)} %"
    return f"{_plain(ratio, 3)}x"


def number(value: float) -> str:
    """Three significant digits, ∞ for infinity."""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.3g}"


def side_by_side(values: Mapping[str, float], unit: str = "") -> str:
    """Errors that are to be compared: ``±7.2 °C raw, ±7.6 °C sent, ±7.9 °C guessing``.

    Every figure has the same decimals: two digits of the smallest, and up to two more where two errors that differ by
    more than rounding would read the same.
    """
    return ", ".join(f"{text} {label}" for label, text in alike(values, unit).items())


def alike(values: Mapping[str, float], unit: str = "") -> dict[str, str]:
    """Each error by itself, ``±7.2 °C``, all with the decimals of :func:`side_by_side`: for the cells of a table."""
    finite = [abs(value) for value in values.values() if np.isfinite(value)]
    smallest = min((value for value in finite if value > 0), default=1.0)
    digits = next((each for each in (2, 3) if _distinct(finite, smallest, each)), 4)
    return {
        label: f"±{_decimals(value, smallest, digits)}{unit and ' '}{unit}" for label, value in values.items()
    }


def at_most(share: float) -> str:
    """A share that is promised not to be exceeded: rounded up."""
    return f"{math.ceil(1000 * share - 1e-9) / 1000:.3f}"


def three_digits(value: float) -> str:
    """Three significant digits, without the exponent of :func:`number` where people do without: 0.0000479."""
    if value and 10.0**-_SMALLEST <= abs(value) < 1e6:
        return np.format_float_positional(float(f"{value:.3g}"), trim="-")
    return number(value)


def plus_minus(value: float, unit: str = "") -> str:
    """One error: ``±7.2 °C``."""
    return f"±{_decimals(value, abs(value) or 1.0, 2)}{unit and ' '}{unit}"


def plain_number(value: float) -> str:
    """As :func:`number`, where what rounding leaves of zero is 0."""
    return "0" if abs(value) < 1e-9 else number(value)


def percent(part: float) -> str:
    """A part in percent, two digits (of a whole and more, three); what rounding leaves of zero is 0 %."""
    if np.isinf(part):
        return "without bound"
    return f"{_plain(0.0 if abs(part) < 5e-7 else 100 * part, 2 if abs(part) < 1 else 3)} %"


def _plain(value: float, digits: int) -> str:
    """So many digits; below a million without an exponent: ``100``, ``1,230``."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if 10 ** (digits - 1) <= abs(rounded) < 1e6 else f"{value:.{digits}g}"


def _distinct(values: list[float], smallest: float, digits: int) -> bool:
    """Whether values that differ by more than a thousandth read differently."""
    shown = [(_decimals(value, smallest, digits), value) for value in values]
    return not any(
        text == other and abs(value - another) > 1e-3 * max(value, another)
        for place, (text, value) in enumerate(shown)
        for other, another in shown[:place]
    )


def _decimals(value: float, smallest: float, digits: int) -> str:
    """A value with as many decimals as ``digits`` of the smallest one needs."""
    if not np.isfinite(value):
        return "∞" if value > 0 else str(value)
    places = digits - 1 - int(np.floor(np.log10(smallest)))
    if places >= digits + _SMALLEST or max(abs(value), smallest) >= 1e6:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(places, 0)}f}"
