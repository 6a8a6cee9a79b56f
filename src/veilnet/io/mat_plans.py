"""A plan as the variables of a MATLAB file: what each agent sends in cells, one matrix per agent.

format        which file it is
plan          the plan's id, the same as in its folder or in plan.npz: a digest of everything below
document      the promises as JSON text (jsondecode reads it)
network       a struct with the network's variables (:mod:`veilnet.io.mat_networks`)
agents        cells of names, in sending order; beside each of them, in cells likewise:
compression   C_i, a row for each number sent, a column for each reading
noise         Θ_i, the covariance of the noise that is added
grid          the step each number is rounded to
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan, NotObservable, VeilnetError
from veilnet.agent.mechanisms import offsets
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io import _json
from veilnet.io._mat import read_variables, write_variables
from veilnet.io._npz import Arrays
from veilnet.io.mat_networks import network_from_variables, network_variables
from veilnet.io.plan_arrays import plan_arrays
from veilnet.model.network import Network

__all__ = ["FORMAT", "read_plan_arrays", "write_plan"]

FORMAT = "veilnet-plan-mat/1"
_AGAIN = "copy it again, or save the plan again"
_NAMES = ("format", "plan", "document", "network", "agents", "compression", "noise", "grid")


def write_plan(
    file: IO[bytes], plan: str, document: str, network: Network, sanitizers: Mapping[str, Sanitizer]
) -> None:
    """Write a plan whose sanitizers all have a grid and no memory.

    plan, document: its id, and its promises as text.
    """
    each = [sanitizers[agent] for agent in network.agents]
    write_variables(
        file,
        {
            "format": FORMAT,
            "plan": plan,
            "document": document,
            "network": network_variables(network),
            "agents": list(network.agents),
            "compression": [sanitizer.compression for sanitizer in each],
            "noise": [sanitizer.noise for sanitizer in each],
            "grid": [sanitizer.grid for sanitizer in each],
        },
    )


def read_plan_arrays(path: Path) -> tuple[str, Arrays]:
    """(the id a file bears, the plan's arrays made of its variables), nothing of it believed yet."""
    try:
        variables = read_variables(path)
    except InvalidNetwork as error:
        raise InvalidPlan(str(error)) from error
    found = variables.get("format")
    if found != FORMAT:
        raise InvalidPlan(
            f"{path}: expected the format {FORMAT!r}, found {str(found)[:40]!r}; is it the right file?"
        )
    if set(variables) != set(_NAMES):
        odd = sorted(set(variables) ^ set(_NAMES))[0]
        raise InvalidPlan(f"{path}: {odd!r}: a plan has the variables {', '.join(_NAMES)}; {_AGAIN}")
    plan, document = variables["plan"], variables["document"]
    if not isinstance(plan, str) or not isinstance(document, str):
        raise InvalidPlan(f"{path}: plan, document: expected text; {_AGAIN}")
    try:
        promises = _json.parse(document)
    except ValueError as error:
        raise InvalidPlan(f"{path}: document: not readable as JSON; {_AGAIN}") from error
    if not isinstance(promises, dict):
        raise InvalidPlan(f"{path}: document: expected a table of promises; {_AGAIN}")
    network = _network(variables["network"], path)
    arrays = plan_arrays(promises, network, _sanitizers(variables, network, path))
    if arrays is None:
        raise InvalidPlan(f"{path}: what its agents send does not belong to its network; {_AGAIN}")
    arrays["document"] = np.array(document)
    return plan, arrays


def _network(variables: Any, path: Path) -> Network:
    if not isinstance(variables, dict):
        raise InvalidPlan(f"{path}: network: expected a struct; {_AGAIN}")
    try:
        return network_from_variables(variables)
    except (InvalidNetwork, NotObservable) as error:
        raise InvalidPlan(f"{path}: network: {error}") from error


def _sanitizers(variables: Mapping[str, Any], network: Network, path: Path) -> dict[str, Sanitizer]:
    agents = variables["agents"]
    names = [agents] if isinstance(agents, str) else agents
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise InvalidPlan(f"{path}: agents: expected cells of text; {_AGAIN}")
    if names != list(network.agents):
        raise InvalidPlan(f"{path}: agents: expected those of the network, in its order; {_AGAIN}")
    cells = [variables[name] for name in ("compression", "noise", "grid")]
    if any(not isinstance(each, list) or len(each) != network.S for each in cells):
        raise InvalidPlan(f"{path}: compression, noise, grid: expected a cell for each agent; {_AGAIN}")
    made = {}
    for place, (agent, compression, noise, grid) in enumerate(zip(network.agents, *cells, strict=True)):
        rows = network.blocks.rows(place)
        try:
            sanitizer = Sanitizer(
                np.reshape(compression, (-1, rows.stop - rows.start)),
                noise,
                offset=offsets(network)[network.blocks.rows(place)],
                grid=np.reshape(grid, -1),
            )
        except (VeilnetError, ValueError, TypeError) as error:
            raise InvalidPlan(f"{path}: {agent}: {error}; the file was changed: {_AGAIN}") from error
        made[agent] = sanitizer.for_agent(agent, network)
    return made
