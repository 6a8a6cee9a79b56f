"""The report's sentences. An error is a standard deviation; so many-fold is beside what raw readings leave."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from veilnet._core.words import NOTHING, counted, join_names, three_digits, times
from veilnet.bounds.detectability import Detectability, secrets_headlines
from veilnet.bounds.typical_errors import TypicalError
from veilnet.plans.plan import Plan
from veilnet.report.html import shown

_LIKE_GUESSING = 0.98  # of the error when guessing: no reader would tell the difference
_NEARLY = 1.1  # an error so many-fold of the one from raw readings is nearly as good
_UNCHANGED = times(1.0)
_NAMED = 3  # parameters of a kind that a headline names one by one


def fold(ratio: float) -> str:
    """How large an error is beside another: ``unchanged``, ``1.5 % larger``, ``3.19x``, ``without bound``."""
    said = times(ratio**2)
    if said.startswith("by "):
        return f"{said.removeprefix('by ')} larger"
    return "unchanged" if said == _UNCHANGED else said


def grows(ratio: float) -> str:
    """The same as a predicate: ``grows 3.19x``."""
    said = times(ratio**2)
    return "does not grow" if said == _UNCHANGED else f"grows {said}"


def _briefly(ratio: float) -> str:
    """What follows where ``grows`` was said before."""
    return grows(ratio).removeprefix("grows ")


def at_least(error: float) -> str:
    """An error that is promised to be exceeded: rounded down."""
    digit = 10.0 ** math.floor(math.log10(error) - 2) if error > 0 else 1.0
    return three_digits(math.floor(error / digit + 1e-9) * digit)


def names_of(names: Sequence[str]) -> str:
    """Names as one text, each of a length that can be shown."""
    return join_names(names, each=shown)


def growth_of(error: TypicalError) -> float:
    """How many-fold the error from what is sent is of the one from raw readings."""
    return 1.0 if error.sent is None else error.sent / error.raw


def as_good_as_guessing(error: TypicalError) -> bool:
    """Whether what is sent tells the centre next to nothing of a parameter."""
    sent = error.raw if error.sent is None else error.sent
    return bool(np.isinf(sent) or sent >= _LIKE_GUESSING * error.guessing)


def headline(plan: Plan, errors: Sequence[TypicalError]) -> str:
    """What the plan does, in one or two sentences, and what nobody may overlook of its secrets."""
    first = _public_part(plan, [each for each in errors if not each.private])
    second = _private_part(plan, [each for each in errors if each.private])
    return " ".join([f"{first}; {second}.", *secrets_headlines(plan.network, plan.detectability)])


def _public_part(plan: Plan, public: Sequence[TypicalError]) -> str:
    """What it costs. Of several parameters each has its own error: a sum of °C and kW would hide which loses."""
    names = names_of(list(plan.network.public))
    ratio = float(np.sqrt(1 - plan.utility))
    if np.isinf(ratio):
        return f"The centre can no longer estimate {names}"
    if ratio < 1 + NOTHING / 2:
        return f"The centre learns {names} as well as before"
    by_loss = sorted(public, key=growth_of, reverse=True)
    worst = growth_of(by_loss[0]) if by_loss else ratio
    if len(by_loss) < 2:
        changes = f"on {names} {grows(worst)}"
    elif len(by_loss) > _NAMED:
        changes = f"on {shown(by_loss[0].name)}, which loses most, {grows(worst)}"
    else:
        changes = join_names(
            [f"on {shown(by_loss[0].name)} {grows(worst)}"]
            + [f"on {shown(each.name)} {_briefly(growth_of(each))}" for each in by_loss[1:]]
        )
    if worst < _NEARLY:
        aside = f"its error {grows(worst)}" if len(by_loss) < 2 else f"its error {changes}"
        return f"The centre learns {names} nearly as well as before ({aside})"
    return f"The centre's error {changes}"


def _private_part(plan: Plan, private: Sequence[TypicalError]) -> str:
    secrets = [each.name for each in private if each.name in plan.detectability]
    private = [
        each for each in private if each.name not in secrets
    ]  # of those the growth of an error misleads
    growing = [each.name for each in private if np.isinf(growth_of(each))]
    unbounded = [name for name in growing if np.isinf(plan.worst_direction[name])]
    in_part = [name for name in growing if name not in unbounded]
    others = sorted((each for each in private if np.isfinite(growth_of(each))), key=growth_of)
    parts = []
    if secrets:
        seen = [f"of {shown(name)} with {_auc(plan.detectability[name])}" for name in secrets[:_NAMED]]
        more = f" (and of {len(secrets) - _NAMED} more)" if len(secrets) > _NAMED else ""
        parts.append(f"in one row it sees a change {join_names(seen)}{more} (0.5 is guessing)")
    if unbounded:
        parts.append(f"it can no longer estimate {names_of(unbounded)}")
    if in_part:
        parts.append(f"it can still estimate a part of {names_of(in_part)}, but not the whole")
    if len(others) > _NAMED:
        least = others[0]
        parts.append(
            f"of {len(others)} private parameters the least protected is {shown(least.name)}, where its error "
            f"{grows(growth_of(least))}"
        )
    elif others:
        first, *rest = reversed(others)
        clauses = [f"its error on {shown(first.name)} {grows(growth_of(first))}"]
        clauses += [f"on {shown(each.name)} {_briefly(growth_of(each))}" for each in rest]
        parts.append(join_names(clauses))
    return " and ".join(parts)


def _auc(seen: Detectability) -> str:
    if seen.lasting is None:
        return f"AUC {seen.auc:.3f}"
    return f"AUC {seen.auc:.3f}, and {seen.lasting.auc:.3f} over the {seen.rows} rows that it lasts"


def what_it_means(error: TypicalError, most_exposed: float = np.inf) -> str:
    """One parameter: what a change of its error means for the reader of the number.

    most_exposed: the growth of the error variance of its most exposed combination (``plan.worst_direction``).
    """
    if np.isinf(growth_of(error)):
        return _without_bound(error, float(np.sqrt(1 + most_exposed)))
    if not error.private:
        if growth_of(error) < 1 + NOTHING / 2:
            return "As good as from raw readings: nothing is lost."
        return f"The error {grows(growth_of(error))}: that is the cost of protection."
    if as_good_as_guessing(error):
        return "As far off as a guess: the messages reveal next to nothing of it."
    if growth_of(error) < 1 + NOTHING / 2:
        return "NOT protected: it is estimated as well as from raw readings."
    part = 100 * (error.sent or 0.0) / error.guessing
    tail = (
        f", to {part:.0f} % of a guess's" if np.isfinite(error.guessing) else "; nothing is known beforehand"
    )
    return f"The error {grows(growth_of(error))}{tail}. Larger is safer."


def _without_bound(error: TypicalError, most_exposed: float) -> str:
    if not error.private:
        return "It can no longer be estimated from the messages: that is the cost of protection."
    if np.isinf(most_exposed):
        return "It cannot be estimated from the messages alone."
    whole = "As a whole it cannot be estimated from what is sent; the combination that stays most exposed"
    if most_exposed < 1 + NOTHING / 2:
        return f"{whole} is NOT protected: it is estimated as well as from raw readings."
    return f"{whole} can, and the error on that {grows(most_exposed)}."


def sending_in_words(sent: int, exact: int, noisy: int, readings: int, *, kept: int | None = None) -> str:
    """What an agent sends, in one sentence."""
    if sent == 0:
        return f"Sends nothing of its {counted(readings, 'reading')}."
    parts = []
    if exact:
        parts.append(f"{exact} exactly" if noisy else "exactly")
    if noisy:
        parts.append(f"{noisy} with noise" if exact else "with noise")
    tail = ""
    if kept is not None:
        tail = f", and keeps {counted(kept, 'number')} from row to row" if kept else ", and keeps nothing"
    elif readings > sent:
        tail = f", and withholds {counted(readings - sent, 'combination')} of them altogether"
    return f"Sends {counted(sent, 'number')} made of {counted(readings, 'reading')}, {' and '.join(parts)}{tail}."
