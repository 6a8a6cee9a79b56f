"""What a person asks of a design, read and refused in one place.

The paper's p_j is the growth of an error variance, and people read standard errors. With P_j the mean over the rows
of g_j of the variance that raw readings leave, a standard error of s is p_j = s²/P_j - 1, and one that is k times the
raw one p_j = k² - 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import ROUNDING, as_array, refuse_unknown
from veilnet._core.words import join_names, number
from veilnet.bounds.typical_errors import typical_errors, unit_of
from veilnet.designs.secrets import SeenAtMost, read_seen
from veilnet.model.network import Network
from veilnet.plans.asked import Asked


@dataclass(frozen=True)
class Times:
    """A standard error so many times the one from raw readings: ``privacy={"gait": vn.Times(2)}``.

    As ``utility_loss=vn.Times(1.05)`` it limits the public standard error, here to 5 % more.

    ratio: of the standard errors, at least 1.
    """

    ratio: float

    def __post_init__(self) -> None:
        _check(self.ratio, self, least=1.0, why="a sanitizer makes no error smaller")

    @property
    def growth(self) -> float:
        """The growth of the error variance, the paper's p: ratio² - 1."""
        return float(self.ratio) ** 2 - 1


@dataclass(frozen=True)
class AtLeast:
    """A standard error of at least so much: ``privacy={"gait": vn.AtLeast(12)}``, 12 steps/min.

    Of a parameter of several rows it is the root mean square over them, as everywhere.

    error: in the unit of the parameter, above 0.
    unit:  in which it is given, to be compared with the network's; empty where nobody said.
    """

    error: float
    unit: str = ""

    def __post_init__(self) -> None:
        _check(self.error, self, least=0.0, why="that is no error")
        if not isinstance(self.unit, str):
            raise InvalidRequest(f"AtLeast: expected a unit as text, found {self.unit!r}")


def as_privacy(network: Any, name: str, target: Any) -> Any:
    """A target as the paper's p; what is neither a ratio nor an error of standard errors stays as it is.

    network: the model; of networks in parts, anything else, where only ratios are known.
    name:    of the private parameter.
    target:  what is asked of it.
    """
    if isinstance(target, Times):
        return target.growth
    if not isinstance(target, AtLeast):
        return target
    if not isinstance(network, Network):
        raise InvalidRequest(
            f"privacy[{name!r}]: expected a ratio, found {target}; errors in units are for networks in one piece, so "
            "ask for vn.Times(...)"
        )
    unit = unit_of(network, name)
    if target.unit and _spelled(target.unit) != _spelled(unit):
        raise InvalidRequest(
            f"privacy[{name!r}]: expected an error in {unit or 'no unit'}, found {target.error:g} {target.unit}; "
            f"write {target.error:g}{unit}, or leave the unit out"
        )
    return max(0.0, (target.error / typical_errors(network)[name].raw) ** 2 - 1)


def _spelled(unit: str) -> str:
    """A unit without its spaces."""
    return re.sub(r"\s", "", unit)


def _check(value: Any, what: object, *, least: float, why: str) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < least or value <= 0:
        bound = f"at least {least:g}" if least else "above 0"
        raise InvalidRequest(f"{what}: expected a finite number {bound}, found {value!r}; {why}")


@dataclass(frozen=True)
class Worst:
    """A target for every direction of a private parameter: ``privacy={"presence": vn.Worst(5)}``.

    The plain target p_j is a mean over the directions of g_j. ``Worst(5)`` asks that the error variance of *each*
    combination of its rows grow by at least 5, ``Worst(vn.Times(2))`` that its standard error doubles. With one row
    the plain target and this one are the same.

    privacy: how much every direction has to reach, at least 0.
    """

    privacy: float | Times

    def __post_init__(self) -> None:
        asked = self.privacy.growth if isinstance(self.privacy, Times) else self.privacy
        object.__setattr__(self, "privacy", _at_least_zero(asked, "Worst"))


Target = float | Worst | SeenAtMost | AtLeast | Times
"""What may be asked of a private parameter."""


def one_target(**targets: Any) -> list[str]:
    """The names of what is asked for, one at most."""
    given = [name for name, value in targets.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)}: expected one target, found {len(given)}; choose one")
    return given


def read_targets(network: Network, privacy: Any) -> Asked:
    """The privacy asked of every private parameter (0: nothing), what is asked of every direction of some, and how
    surely the changes of secrets may be seen.
    """
    none = dict.fromkeys(network.private, 0.0)
    if privacy is None:
        return Asked(none)
    if isinstance(privacy, Worst | SeenAtMost | AtLeast | Times):
        privacy = dict.fromkeys(network.private, privacy)
    if not isinstance(privacy, Mapping):
        return Asked(none | read_amounts(privacy, list(network.private), "privacy"))
    refuse_unknown(privacy, list(network.private), "privacy", error=InvalidRequest)
    privacy = {name: as_privacy(network, name, each) for name, each in privacy.items()}
    worst = {
        name: float(each.privacy)  # type: ignore[arg-type]
        for name, each in privacy.items()
        if isinstance(each, Worst) and float(each.privacy) > 0  # type: ignore[arg-type]
    }
    seen = {name: each for name, each in privacy.items() if isinstance(each, SeenAtMost)}
    plain = {name: each for name, each in privacy.items() if not isinstance(each, Worst | SeenAtMost)}
    return Asked(
        none | read_amounts(plain, list(network.private), "privacy"), worst, seen=read_seen(network, seen)
    )


def read_power(network: Network, power: Any) -> Array:
    """The noise power allowed to every agent, (S,), in sending order.

    power: one number for all, agent -> number (0 for those left out), or one number for each agent.
    """
    if isinstance(power, Mapping):
        given = read_amounts(power, network.agents, "power")
        found = np.zeros(network.S)
        found[[network.position[agent] for agent in given]] = list(given.values())
        return found
    if isinstance(power, str) or not np.iterable(power):
        return np.full(network.S, _at_least_zero(power, "power"))
    found = as_array(power, "power", error=InvalidRequest)
    if found.shape != (network.S,):
        raise InvalidRequest(
            f"power: expected one number, agent -> number, or {network.S} numbers, one for each agent in sending "
            f"order; found an array of shape {found.shape}"
        )
    if np.any(found < 0):
        place = int(np.argmax(found < 0))
        raise InvalidRequest(
            f"power: expected finite numbers of at least 0, found {found[place]} for {network.agents[place]}"
        )
    return found


def read_weights(network: Network, weights: Any) -> Array:
    """How privacy is divided between private parameters; equal parts when nothing is said."""
    if weights is None:
        return np.ones(len(network.private))
    given = dict.fromkeys(network.private, 0.0) | read_amounts(weights, list(network.private), "weights")
    if not any(given.values()):
        raise InvalidRequest("weights: expected at least one above zero")
    return np.array(list(given.values()))


def read_asked(
    network: Network, privacy: Any = None, utility_loss: Any = None, weights: Any = None, give_up: Any = ()
) -> Asked:
    """What is asked for. A number, for one parameter or for all, is what is asked and no more; 0 by name gives a
    parameter up. Of a loss nothing is spent on what was given up, unless weights say so or nothing else is left.
    """
    given_up = read_give_up(network, give_up)
    asked = replace(read_targets(network, privacy), given_up=given_up)
    if given_up & asked.numbered:
        raise InvalidRequest(
            f"give_up: {join_names(sorted(given_up & asked.numbered))} is asked for in numbers (privacy=), and no "
            "more than the number is kept of it. Leave out one of the two"
        )
    if isinstance(privacy, Mapping):
        asked = replace(asked, given_up=given_up | (set(privacy) - asked.numbered))
    if utility_loss is None:
        return asked
    if weights is None and given_up < set(network.private):
        weights = {name: 1.0 for name in network.private if name not in given_up}
    divided = dict(zip(network.private, read_weights(network, weights).tolist(), strict=True))
    return Asked(most_loss=read_loss(utility_loss), weights=divided, given_up=given_up)


def read_loss(utility_loss: Any) -> float:
    """The loss allowed, a fraction up to 1 or the growth of the public standard error (:class:`Times`); any loss as a
    text, "5%" or "500%", of which no one takes 5 for 0.05.
    """
    if isinstance(utility_loss, Times):
        return utility_loss.growth
    if isinstance(utility_loss, str) and utility_loss.strip().endswith("%"):
        return _at_least_zero(utility_loss.strip()[:-1], "utility_loss") / 100
    loss = _at_least_zero(utility_loss, "utility_loss")
    if loss > 1:
        raise InvalidRequest(
            f"utility_loss: {loss:g} is a loss of {100 * loss:g} %; did you mean {loss:g} % (write {loss / 100:g}, "
            f'or "{loss:g}%") or {100 * loss:g} % (write "{100 * loss:g}%")?'
        )
    return loss


def read_give_up(network: Network, give_up: Any) -> frozenset[str]:
    """The names given up: one, or several."""
    names = [give_up] if isinstance(give_up, str) or not isinstance(give_up, Iterable) else list(give_up)
    if not all(isinstance(name, str) for name in names):
        raise InvalidRequest(
            f"give_up: expected the name of a private parameter, or several, found {give_up!r}"
        )
    refuse_unknown(names, list(network.private), "give_up", error=InvalidRequest)
    return frozenset(names)


def read_gap(prove: Any) -> float | None:
    """The gap to prove: None for no proof, 1 % for True, else the fraction given."""
    if prove is False or prove is None:
        return None
    if prove is True:
        return 0.01
    gap = _at_least_zero(prove, "prove")
    if not 0 < gap <= 1:
        raise InvalidRequest(f"prove: expected True or a gap between 0 and 1, 0.01 for 1 %, found {gap}")
    return gap


def read_count(value: Any, what: str, *, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidRequest(f"{what}: expected a whole number of at least {least}, found {value!r}")
    return int(value)


def refuse_above_limit(limit: Mapping[str, float], targets: Mapping[str, float]) -> None:
    """Infeasible, naming the limit, when a target is above what silence would give."""
    refuse_beyond(targets, limit, *SILENCE)


SILENCE = ("even silence gives only", "Nothing hides more than silence: ask for less")
PERFECT = (
    "at perfect utility no mechanism exceeds",
    "Ask for less, or use method='auto' to trade utility for it",
)
"""Why there is a limit or a ceiling, and what helps."""


def refuse_beyond(
    asked: Mapping[str, float], most: Mapping[str, float], why: str, helps: str, *, of: str = ""
) -> None:
    """Infeasible where something is asked that is more than there is, with every such name.

    of: what of each parameter was asked for, where it was not the whole.
    """
    each = [
        f"{of}{name}: {ratio_and_p(target)} was asked, and {why} {ratio_and_p(most[name])}"
        for name, target in asked.items()
        if target > most[name]
    ]
    if each:
        raise Infeasible(f"privacy: {'; '.join(each)}. {helps}")


def ratio_and_p(privacy: float) -> str:
    """How often the raw standard error it is, and the same on the paper's scale."""
    return f"{(1 + privacy) ** 0.5:.3g}x (p = {number(privacy)})"


def read_amounts(value: Any, names: Sequence[str], what: str) -> dict[str, float]:
    """One number for all names, or name -> number; each finite and at least 0."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(names, _at_least_zero(value, what))
    refuse_unknown(value, names, what, error=InvalidRequest)
    return {name: _at_least_zero(each, f"{what}[{name!r}]") for name, each in value.items()}


def refuse_worst(value: Any, what: str) -> None:
    """InvalidRequest for a target on every direction where only numbers have a meaning."""
    if isinstance(value, Worst):
        raise InvalidRequest(
            f"{what}: expected a number, found {value}; targets on every direction go with design(privacy=...) alone"
        )


def _as_number(value: Any) -> str:
    """What to write for "2x" or "50%", as the command line takes them."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([x%])\s*", value) if isinstance(value, str) else None
    if found is None or not found[1].replace(".", "", 1).isdigit():
        return ""
    given = float(found[1])
    ratio = given if found[2] == "x" else 1 + given / 100
    return f"; for {ratio:g} times the raw standard error write vn.Times({ratio:g})" if ratio >= 1 else ""


def _at_least_zero(value: Any, what: str) -> float:
    refuse_worst(value, what)
    try:
        as_float = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{what}: expected a number, found {value!r}{_as_number(value)}") from error
    if not np.isfinite(as_float) or as_float < 0:
        raise InvalidRequest(f"{what}: expected a finite number of at least 0, found {as_float}")
    return as_float


def refuse_public_and_private(network: Network) -> None:
    """Refuse a private parameter of which every row is a multiple of a public one: it cannot be known and hidden."""
    for name, known in public_and_private(network).items():
        raise InvalidRequest(
            f"network: the private {name!r} is the public {known!r} up to a factor; it cannot be both, leave it "
            "out of one of them"
        )


def public_and_private(network: Network) -> dict[str, str]:
    """Private parameters of which every row is a multiple of a public one, with the first of those.

    Entries are compared one by one, so that it does not depend on the units of parameters.
    """
    found = {}
    for name, rows in network.private.items():
        alike = np.array([[_is_multiple(row, public) for public in network.U] for row in rows])
        if np.all(np.any(alike, axis=1)):
            found[name] = network.public_rows[int(np.argmax(alike[0]))]
    return found


def _is_multiple(row: Array, other: Array) -> bool:
    seen = other != 0
    ratios = row[seen] / other[seen]
    return bool(not np.any(row[~seen]) and np.ptp(ratios) <= ROUNDING * np.max(np.abs(ratios)))
