"""Which column of a calibration table plays which part, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import as_names


class Roles:
    """Which column plays which part.

    agents, public and private are name -> columns; readings and parameters are all columns of either kind.
    """

    def __init__(self, agents: Any, public: Any, private: Any) -> None:
        if not isinstance(agents, Mapping) or not agents:
            raise InvalidRequest(
                f'agents: expected agent -> columns, {{"kitchen": ["T1", "RH_1"]}} say, found {agents!r}'
            )
        self.agents = {
            str(agent): _column_list(named, f"agents[{agent!r}]") for agent, named in agents.items()
        }
        as_names(list(agents), "agents", error=InvalidRequest)
        self.public = column_groups(public, "public")
        self.private = column_groups(private, "private")
        self.readings = [name for named in self.agents.values() for name in named]
        open_columns = [name for named in self.public.values() for name in named]
        closed_columns = [name for named in self.private.values() for name in named]
        self.parameters = list(dict.fromkeys([*open_columns, *closed_columns]))
        self.public_columns = set(open_columns)
        self._refuse_conflicts(set(closed_columns))

    def _refuse_conflicts(self, closed: set[str]) -> None:
        for name in self.readings:
            owners = [agent for agent, named in self.agents.items() if name in named]
            if self.readings.count(name) > 1:
                twice = " and ".join(owners) if len(owners) > 1 else f"{owners[0]} twice"
                raise InvalidRequest(
                    f"agents: the column {name!r} belongs to {twice}; the same number twice has no noise of its own"
                )
            if name in self.public_columns or name in closed:
                role = "public" if name in self.public_columns else "private"
                raise InvalidRequest(
                    f"agents: the column {name!r} is a reading of {owners[0]} and also {role}; as a reading it would "
                    "show that parameter without any noise. If the sensor is what the parameter is known by, "
                    "calibrate against a better reference; otherwise leave it out of one of them"
                )
        both = self.public_columns & closed
        if both:
            raise InvalidRequest(f"private: the column {min(both)!r} is also public; it cannot be both")

    def rows(self, named: Sequence[str]) -> Array:
        """The rows that pick columns out of x."""
        return np.eye(len(self.parameters))[[self.parameters.index(name) for name in named]]


def column_groups(given: Any, what: str) -> dict[str, list[str]]:
    """name -> columns, of one column, several, or such a mapping; ``what`` names the argument."""
    if isinstance(given, Mapping):
        groups = {name: _column_list(named, f"{what}[{name!r}]") for name, named in given.items()}
    else:
        groups = {name: [name] for name in _column_list(given, what)}
    if not groups:
        raise InvalidRequest(f"{what}: expected at least one column, found none")
    return groups


def _column_list(given: Any, what: str) -> list[str]:
    named = [given] if isinstance(given, str) else given
    if isinstance(named, Mapping) or not hasattr(named, "__iter__"):
        raise InvalidRequest(f"{what}: expected column names, found {given!r}")
    names = list(named)
    if not names:
        raise InvalidRequest(f"{what}: expected at least one column, found none")
    return list(as_names(names, what, error=InvalidRequest))
