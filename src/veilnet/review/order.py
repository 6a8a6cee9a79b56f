"""Whether one sanitizer tells more than another: for an agent that agreed to the one and is asked to run the other.

A sanitizer tells *no more* than another when the receiver could have made its messages from those of the other, by
combining them and adding noise: C' = W C and Θ' - W Θ W' positive semidefinite for some W. Then whatever can be
learned from its messages, about whatever, by whatever means and with whatever else is known, could have been learned
before. Of Gaussian noise this is the order of the information

    K(C, Θ) = C' (C R C' + Θ)^+ C,

and it does not matter which positive definite R stands there (the readings' noise, or any other): K is R^-1/2 f(T)
R^-1/2 with f(t) = t / (1 + t), T = R^1/2 C' Θ^-1 C R^1/2 and f(∞) = 1 for what is sent without noise, and f and its
inverse keep the order. So an agent's file, which does not hold R, is enough. R is taken diagonal here, at every scale
of noise that occurs, so that no noise is so small or so large beside R that its changes drown in rounding.

What is beside the rows and the noise counts as more where it is less careful (a smaller dither, a shorter step of
time and so more rows a day, a step where there was none or none where there was one), and where it decides anew what
readings count as: other limits, a reach that is smaller by anything, further readings, which can be missing. Limits
within what a reading does would tell on which side of them it is, one bit at a time. Messages that were added up with
others' and would be sent bare, in a smaller sum, or with those of other members count as more, too.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.durations import duration_in_words, same_step
from veilnet._core.types import Array, Booleans
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer

# K is between 0 and 1 in units of R; a part of it this small is rounding.
_ROUNDING = 1e-9
# A singular value below this part of the largest adds no direction to what is sent exactly.
_DEPENDENT = 1e-12
# Parts of a direction that are worth naming, relative to the largest.
_NOTABLE = 0.2


def what_more(new: Sanitizer, agreed: Sanitizer) -> tuple[str, ...]:
    """What a sanitizer tells that one agreed to before does not, in words; nothing if it tells no more.

    In doubt there is an answer: memories that differ in any way, which would begin anew and hide less for a while,
    readings without names whose number differs, or of
    which one plan alone knows the names, cannot be compared.
    """
    names = _names(new, agreed)
    if names is None:
        return ("it is for other readings than the plan agreed to, and they cannot be compared",)
    if new.memory_key != agreed.memory_key:
        return (
            "what it keeps from row to row differs from the plan agreed to, so that it would begin anew, and they "
            "cannot be compared",
        )
    of_new, of_agreed = _places(new, names), _places(agreed, names)
    columns = new.order + len(names)
    revealed = _revealed_more(
        (_spread(new, of_new, columns), new.normal[1]),
        (_spread(agreed, of_agreed, columns), agreed.normal[1]),
    )
    found = []
    if revealed is not None:
        labels = [f"what it remembers ({k + 1})" for k in range(new.order)] + names
        size = np.abs(revealed)
        some = [labels[k] for k in np.argsort(-size) if size[k] >= _NOTABLE * size.max()]
        found.append(f"more would be revealed of {join_names(some)}, exactly or with less noise")
    found += _less_company(new, agreed)
    found += _more_often(new, agreed)
    found += _less_careful(new, agreed, names, of_new, of_agreed)
    return tuple(found)


def _less_company(new: Sanitizer, agreed: Sanitizer) -> list[str]:
    """What of a plan of sums is less than was agreed to: whose messages hide this agent's, and how many must."""
    now, before = new.summed, agreed.summed
    if before is None or not new.sent:
        return []
    if now is None:
        return [f"its messages would be sent bare, and were only added up with those of {before.group!r}"]
    found = []
    if now.threshold < before.threshold:
        found.append(
            f"a sum would be opened of {now.threshold} members' messages, and {before.threshold} had to be in it"
        )
    if set(now.members) != set(before.members):
        others = sorted(set(now.members) ^ set(before.members))
        found.append(f"its messages would be added up with those of others ({join_names(others)} changed)")
    return found


def _names(new: Sanitizer, agreed: Sanitizer) -> list[str] | None:
    """The readings of both; None if it is not known which is which."""
    if new.names and agreed.names:
        return list(dict.fromkeys([*agreed.names, *new.names]))
    if (new.names or agreed.names) and new.sent:
        return None  # columns would be taken by their place, and hold who knows what
    if new.readings != agreed.readings:
        return None
    return (new if new.names else agreed).labels


def _places(sanitizer: Sanitizer, names: list[str]) -> list[int]:
    """Where each reading of a sanitizer is among the readings of both."""
    if not sanitizer.names:
        return list(range(sanitizer.readings))
    return [names.index(name) for name in sanitizer.names]


def _spread(sanitizer: Sanitizer, places: list[int], columns: int) -> Array:
    """The rows in normal form, over what is remembered and the readings of both."""
    rows = sanitizer.normal[0]
    spread = np.zeros((rows.shape[0], columns))
    spread[:, : sanitizer.order] = rows[:, : sanitizer.order]
    spread[:, [sanitizer.order + place for place in places]] = rows[:, sanitizer.order :]
    return spread


def _revealed_more(new: tuple[Array, Booleans], agreed: tuple[Array, Booleans]) -> Array | None:
    """A direction of the readings, in comparable units, of which the new rows tell more; None if there is none."""
    rows = np.concatenate([new[0], agreed[0]])
    if not rows.size:
        return None
    lengths = np.linalg.norm(rows, axis=1)
    columns = np.linalg.norm(rows / np.where(lengths > 0, lengths, 1.0)[:, None], axis=0)
    columns = np.where(columns > 0, columns, 1.0)
    worst, direction = _ROUNDING, None
    for scale in _scales([new[0][new[1]] / columns, agreed[0][agreed[1]] / columns]):
        excess = _known(new[0] / columns, new[1], scale) - _known(agreed[0] / columns, agreed[1], scale)
        values, vectors = np.linalg.eigh((excess + excess.T) / 2)
        if values[-1] > worst:
            worst, direction = float(values[-1]), vectors[:, -1]
    return direction


def _scales(noisy: list[Array]) -> list[float]:
    """Scales of R^1/2 beside which each noise that occurs is neither small nor large."""
    sizes = np.concatenate(
        [np.linalg.svd(rows, compute_uv=False) for rows in noisy if rows.size] or [np.ones(1)]
    )
    found: list[float] = []
    for size in np.sort(sizes[sizes > 0]).tolist():
        if not found or size > 3 * found[-1]:
            found.append(size)
    return [1.0 / size for size in found] or [1.0]


def _known(rows: Array, noisy: Booleans, scale: float) -> Array:
    """R^1/2 K R^1/2 for R = scale² I: the part of each direction that is known once the messages are there."""
    exact, blurred = rows[~noisy], rows[noisy] * scale
    known = np.zeros((rows.shape[1], rows.shape[1]))
    if exact.size:
        sizes = np.linalg.norm(exact, axis=1)
        _, singular, right = np.linalg.svd(
            exact / np.where(sizes > 0, sizes, 1.0)[:, None], full_matrices=False
        )
        basis = right[singular > _DEPENDENT * max(singular.max(initial=0.0), 1e-300)]
        known = basis.T @ basis
        blurred = blurred - (blurred @ basis.T) @ basis
    if blurred.size:
        _, singular, right = np.linalg.svd(blurred, full_matrices=False)
        known = known + (right.T * (singular**2 / (1 + singular**2))) @ right
    return np.asarray(known)


def _less_careful(
    new: Sanitizer, agreed: Sanitizer, names: list[str], of_new: list[int], of_agreed: list[int]
) -> list[str]:
    """Readings that would be dithered by less, and those that would decide anew which rows are sent."""
    if not new.sent:
        return []
    used = np.any(new.compression[:, new.order :] != 0, axis=0)
    if new.memory is not None:
        used |= np.any(new.memory.gain != 0, axis=0)
    before = {place: k for k, place in enumerate(of_agreed)}
    finer, wider, narrower, further = [], [], [], []
    for k, place in enumerate(of_new):
        if place not in before:
            further.append(names[place])  # used or not: where one reading is missing, so is the whole row
            continue
        then = before[place]
        # By less in width or in variance: two draws can be as wide as one.
        moved, before_it = ((e.dither_width[p], e.dither_variance[p]) for e, p in ((new, k), (agreed, then)))
        if used[k] and (moved[0] < before_it[0] or moved[1] < before_it[1]):
            finer.append(names[place])
        (low, high), (lowest, highest) = (
            (e[0][p], e[1][p]) for e, p in ((new.edges, k), (agreed.edges, then))
        )
        if low < lowest or high > highest:
            wider.append(names[place])
        elif (
            (low, high) != (lowest, highest)
            or new.reach[0][k] > agreed.reach[0][then]
            or new.reach[1][k] < agreed.reach[1][then]
        ):
            narrower.append(names[place])
    found = []
    if finer:
        found.append(f"{join_names(finer)} would be dithered by less than before, or not at all")
    if wider:
        are = "is" if len(wider) == 1 else "are"
        found.append(f"more would be revealed where {join_names(wider)} {are} beyond the limits there were")
    if narrower:
        found.append(
            f"{join_names(narrower)} would count as a limit sooner than before, which tells on which side of it"
        )
    if further:
        found.append(f"rows would be held back where {join_names(further)} is missing, which reveals that")
    return found


def _more_often(new: Sanitizer, agreed: Sanitizer) -> list[str]:
    """A shorter step of time lets more rows through; one that comes or goes leaves open how many."""
    if not new.sent or same_step(new.step, agreed.step):
        return []
    if new.step is None or agreed.step is None:
        then, now = (
            "any number of them" if step is None else f"one in every {duration_in_words(step)}"
            for step in (agreed.step, new.step)
        )
        return [f"of readings with times {now} would be sent, where it was {then}"]
    if new.step > agreed.step:
        return []
    return [
        f"a reading could be sent every {duration_in_words(new.step)}, "
        f"where it was every {duration_in_words(agreed.step)} at most"
    ]
