"""What an audit is asked, in groups: what could happen, what is tried, differential privacy, the ledger.

Each group checks its own values when it is made. :data:`USED_BY` says which sections use which option, so that
an audit can refuse what would have no effect.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet._core.validation import as_number
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import FALSE_ALARM, FALSE_ALARM_ON_DATA
from veilnet.designs.questions import read_count

_COLLUDING = 2  # agents shown to collude when nobody asks for a number
_RELEASES = (2, 10, 100)  # likewise
_QUICK_ROWS = 4000


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What could happen after a plan is deployed, and what privacy has to remain even then.

    agents_colluding: up to so many agents hand over their readings or noise (2 are shown when left out).
    releases:         how often the same x is released, one number or several (2, 10 and 100 are shown when left
                      out).
    least_privacy:    the privacy p_j that has to remain all the same, one number or name -> number. Less is a
                      failure. It goes with ``agents_colluding``, ``releases`` or both.
    model_error:      by which fraction H, R and the prior may be off: 0.05 is 5 %.
    """

    agents_colluding: int | None = None
    releases: int | Sequence[int] | None = None
    least_privacy: float | Mapping[str, float] | None = None
    model_error: float = 0.05

    def __post_init__(self) -> None:
        if self.agents_colluding is not None:
            read_count(self.agents_colluding, "agents_colluding", least=1)
        _read_releases(self.releases)
        error = as_number(self.model_error, "model_error", error=InvalidRequest)
        if not 0 <= error < 1:
            raise InvalidRequest(
                f"model_error: expected a fraction from 0 to 1, found {error:g}; 5 % is model_error=0.05"
            )
        if self.least_privacy is not None and self.agents_colluding is None and self.releases is None:
            raise InvalidRequest(
                "least_privacy: say what it has to withstand, agents_colluding= (--colluding), releases= "
                "(--releases) or both; alone it decides nothing"
            )

    @property
    def colluding(self) -> int:
        """How many agents collude at most in what is shown."""
        return _COLLUDING if self.agents_colluding is None else int(self.agents_colluding)

    @property
    def times(self) -> tuple[int, ...]:
        """The numbers of releases that are shown."""
        return _read_releases(self.releases)


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Who attacks, on how many simulated rows, and how rarely a sound plan may fail by chance.

    attackers:   the learned ones: "auto", names among ridge, neighbours, boosting, network, own regressors by name,
                 or None for none.
    rows:        how many rows are simulated, 1000 at least.
    seed:        of the simulation. Deployed sanitizers draw from the operating system all the same.
    quick:       fewer rows, fewer attackers.
    time:        the column of data and train that tells when rows were read, which numbers them by the plan's step;
                 of a stream, steps without a row were missed by every agent. Left out, rows follow one another.
    false_alarm: chance, at most, that a sound plan soundly deployed fails, over everything that is simulated.
    false_alarm_on_data: chance, about, that data on which every promise holds show a broken one, over all rows that
                 are judged on data. Rows of a log depend on one another, so it is far larger than the other.
    """

    attackers: str | Sequence[str] | Mapping[str, Any] | None = "auto"
    rows: int = 20_000
    seed: int = 0
    quick: bool = False
    time: str | None = None
    false_alarm: float = FALSE_ALARM
    false_alarm_on_data: float = FALSE_ALARM_ON_DATA

    def __post_init__(self) -> None:
        read_count(self.rows, "rows", least=1000)
        read_count(self.seed, "seed", least=0)
        for name in ("false_alarm", "false_alarm_on_data"):
            chance = as_number(getattr(self, name), name, error=InvalidRequest)
            if not 0 < chance < 0.5:
                raise InvalidRequest(f"{name}: expected a chance between 0 and 0.5, found {chance:g}")

    @property
    def count(self) -> int:
        """How many rows are really simulated."""
        return min(int(self.rows), _QUICK_ROWS) if self.quick else int(self.rows)


@dataclass(frozen=True, kw_only=True)
class DifferentialPrivacy:
    """How the noise is read as local differential privacy, (ε, δ) of each agent.

    reading_bounds: agent -> (lowest, highest) reading; the ``limits`` of the sanitizers when left out.
    delta:          the δ at which ε is given.
    """

    reading_bounds: Mapping[str, Any] | None = None
    delta: float = 1e-6

    def __post_init__(self) -> None:
        delta = as_number(self.delta, "delta", error=InvalidRequest)
        if not 0 < delta < 1:
            raise InvalidRequest(
                f"delta: expected a number between 0 and 1, found {delta:g}; 1e-6 is the default"
            )


@dataclass(frozen=True)
class LedgerCheck:
    """A ledger of releases that an audit verifies, and what is known of it elsewhere.

    path:     the file of a :class:`veilnet.Ledger`, or a live agent's store (``plan/kitchen.sqlite``).
    head:     the ledger's head at the last audit; the ledger must continue it.
    releases: how many releases are known to have been made, by the centre's count; it must have them all.
    """

    path: str | PathLike[str]
    head: str | None = None
    releases: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | PathLike):
            raise InvalidRequest(f"path: expected the ledger's file, found {type(self.path).__name__}")
        if self.releases is not None:
            read_count(self.releases, "releases", least=0)


def _read_releases(releases: int | Sequence[int] | None) -> tuple[int, ...]:
    if releases is None:
        return _RELEASES
    given = releases if isinstance(releases, Sequence) else (releases,)
    return tuple(read_count(value, "releases", least=1) for value in given)


USED_BY: dict[str, tuple[Section, ...]] = {
    "data": (Section.ATTACKERS, Section.LATTICE),
    "train": (Section.ATTACKERS,),
    "time": (Section.ATTACKERS, Section.LATTICE),
    "attackers": (Section.ATTACKERS,),
    "false_alarm_on_data": (Section.ATTACKERS, Section.LATTICE),
    "agents_colluding": (Section.COLLUSION, Section.DROPOUT),
    "releases": (Section.REPETITION,),
    "least_privacy": (Section.COLLUSION, Section.REPETITION),
    "model_error": (Section.MODELS,),
    "reading_bounds": (Section.DIFFERENTIAL_PRIVACY,),
    "delta": (Section.DIFFERENTIAL_PRIVACY,),
    "ledger": (Section.LEDGER,),
}


def refuse_idle(
    chosen: Container[Section], *groups: WhatIf | Trials | DifferentialPrivacy, **more: Any
) -> None:
    """Refuse an option that differs from what it is when left out although no section that uses it is run."""
    given = {name for name, value in more.items() if value is not None}
    for group in groups:
        for field in fields(group):
            value = getattr(group, field.name)
            if value is not field.default and value != field.default:
                given.add(field.name)
    for name, sections in USED_BY.items():
        if name in given and not any(section in chosen for section in sections):
            needed = " or ".join(repr(section.value) for section in sections)
            raise InvalidRequest(
                f"{name}: only the section {needed} uses it; add that to only=, or leave it out"
            )


def expect_groups(**groups: Any) -> None:
    """An error for anything but a group of options of its kind; a ledger may be left out."""
    kinds = {"what_if": WhatIf, "trials": Trials, "ledger": LedgerCheck}
    for name, value in groups.items():
        kind: type[Any] = kinds.get(name, DifferentialPrivacy)
        if not isinstance(value, kind) and not (value is None and name == "ledger"):
            raise InvalidRequest(
                f"{name}: expected a veilnet.{kind.__name__}, found {type(value).__name__}; "
                f"give {name}=vn.{kind.__name__}({fields(kind)[0].name}=...)"
            )
