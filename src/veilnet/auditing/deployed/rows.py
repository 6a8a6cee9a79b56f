"""Is what runs what was planned? Files compared with the plan, and every mechanism run as a black box."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import counted, join_names
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.deployed.draws import Probed
from veilnet.auditing.deployed.probing import probe
from veilnet.auditing.row import LEFT_OUT, Row
from veilnet.auditing.sections import Section

SECTION = Section.DEPLOYED.heading

# Same numbers but for rounding in their last digits.
_SAME = 1e-12

_CHECKS = {
    "answers": "answers to readings",
    "grid": "on the public grid",
    "response": "combinations sent",
    "noise": "strength of the noise",
    "law": "law of the noise",
    "fresh noise": "noise used once",
    "seeds": "agents draw apart",
}


def deployed_rows(
    deployment: Deployment, chance: float, seed: int, advance: Callable[[float], None]
) -> list[Row]:
    """Compare what is deployed with the plan; ``chance`` is the false-alarm rate of all rows together."""
    measured = probe(deployment, seed, advance)
    return _compared(deployment) + rows_of(measured, chance) + _not_tried(deployment)


def rows_of(measured: list[Probed], chance: float) -> list[Row]:
    """A row for each kind of measurement; ``chance`` is the false-alarm rate of all of them together."""
    line, rows = chance / max(1, len(measured)), []
    for check, what in _CHECKS.items():
        own = [each for each in measured if each.check == check]
        if own:
            rows.append(_row(what, own, line))
    return rows


def _not_tried(deployment: Deployment) -> list[Row]:
    """What cannot be measured from outside: noise among dither that a memory keeps."""
    who = [a for a, s in deployment.planned.items() if s.memory is not None and s.dithers and np.any(s.noise)]
    if not who:
        return []
    why = (
        f"{join_names(who)}: dither goes into the memory and comes back in later rows. So correlations of the noise "
        "from row to row are not tested, and its strength only beyond the dither; the simulated streams test both."
    )
    what = "noise among remembered dither"
    return [Row(SECTION, what, None, LEFT_OUT, "info", why, shown=_shown(LEFT_OUT, 0))]


def _row(what: str, measured: list[Probed], line: float) -> Row:
    bad = sorted((each for each in measured if each.p <= line), key=lambda each: each.p)
    worst: dict[str, Probed] = {}
    for each in bad:
        worst.setdefault(each.who, each)
    smallest = min(each.p for each in measured)
    figures: dict[str, object] = {"measurements": len(measured), "smallest p": smallest, "line": line}
    if not bad:
        shown = _shown("as planned", len(measured))
        return Row(SECTION, what, "as planned", "as planned", "ok", figures=figures, shown=shown)
    figures |= {"who": list(worst), "found": {who: each.found for who, each in worst.items()}}
    shown = _shown(f"not as planned: {join_names(list(worst))}", len(measured))
    why = _listed([each.words for each in worst.values()])
    return Row(SECTION, what, "as planned", "not as planned", "fail", why, None, figures, shown)


def _listed(words: list[str]) -> str:
    """The first four of them, and how many more there are."""
    more = [f"and {len(words) - 4} more"] if len(words) > 4 else []
    return "; ".join([*words[:4], *more]) + "."


def _shown(found: str, tests: int | None = None) -> dict[str, str]:
    return {"what runs": found, "tests of it": "read" if tests is None else str(tests)}


def _compared(deployment: Deployment) -> list[Row]:
    """The numbers in the deployed sanitizers beside those of the plan."""
    different: dict[str, str] = {}
    compared = 0
    for agent, planned in deployment.planned.items():
        mechanism = deployment.deployed[agent]
        if mechanism is None:
            different[agent] = "nothing is deployed"
        elif isinstance(mechanism, Sanitizer):
            compared += 1
            found = _difference(mechanism, planned)
            if found:
                different[agent] = found
    what = "sanitizers against the plan"
    if different:
        why = _listed([f"{agent}: {words}" for agent, words in different.items()])
        shown, figures = _shown("differs"), {"who": different}
        return [Row(SECTION, what, "the same", "different", "fail", why, None, figures, shown)]
    if compared == 0:  # functions are tried out
        return [Row(SECTION, what, "the same", "not readable", "info", shown=_shown("not readable"))]
    return [Row(SECTION, what, "the same", "the same", "ok", shown=_shown("the same"))]


def _difference(found: Sanitizer, planned: Sanitizer) -> str:
    """What differs between two sanitizers, in words; empty when nothing does."""
    if found.agent and planned.agent and found.agent != planned.agent:
        return f"it is the sanitizer of {found.agent}"
    if (found.sent, found.readings) != (planned.sent, planned.readings):
        return (
            f"it sends {counted(found.sent, 'number')} of {counted(found.readings, 'reading')}, "
            f"the plan says {planned.sent} of {planned.readings}"
        )
    memory = _other_memory(found, planned)
    if memory:
        return memory
    pairs = (
        ("the numbers it sends are other combinations", found.compression, planned.compression),
        ("its noise has another covariance", found.noise, planned.noise),
        ("its offset differs", found.offset, planned.offset),
    )
    for words, one, other in pairs:
        if not _same(one, other):
            return words
    if (found.grid is None) != (planned.grid is None):
        return "it has no grid" if found.grid is None else "it has a grid, the plan has none"
    if found.grid is not None and planned.grid is not None and not np.array_equal(found.grid, planned.grid):
        return "its grid differs"
    if not np.array_equal(found.dither_width, planned.dither_width):
        return "it does not dither its readings as planned"
    if (found.limits is None) != (planned.limits is None) or not np.array_equal(
        found.limits or (), planned.limits or ()
    ):
        return "the readings it takes for credible differ"
    return ""


def _other_memory(found: Sanitizer, planned: Sanitizer) -> str:
    one, other = found.memory, planned.memory
    if one is None or other is None:
        if one is other:
            return ""
        return "it remembers nothing of its past" if one is None else "it has a memory, the plan has none"
    if one.order != other.order or not _same(one.transition, other.transition):
        return "its memory goes on otherwise from row to row"
    return "" if _same(one.gain, other.gain) else "its memory takes in readings otherwise"


def _same(one: Array, other: Array) -> bool:
    scale = np.max(np.abs(other), axis=-1, keepdims=True, initial=0.0)
    return bool(np.all(np.abs(one - other) <= _SAME * scale))
