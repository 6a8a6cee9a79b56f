"""What one agent runs, out of a plan in parts."""

from __future__ import annotations

from os import PathLike

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.names import NumberedNames
from veilnet._core.validation import unknown
from veilnet.agent.sanitizer import Sanitizer
from veilnet.cluster.parts import Parts, opened, read_part
from veilnet.cluster.sending import plan_name, read_plan_part
from veilnet.io._sealed import seal
from veilnet.io.sanitizer_files import to_document
from veilnet.model.readings import MOST_DRAWS, dither_variance
from veilnet.model.usual import usual_of

__all__ = ["agent_file", "sanitizer_of"]


def sanitizer_of(parts: Parts, part: str, place: int) -> Sanitizer:
    """What the agent at a place of a part runs."""
    known = [each.name for each in parts.parts]
    if part not in known:
        raise unknown([part], known, "part", error=InvalidRequest)
    found = read_plan_part(parts.folder, part)
    count = len(found["sent"])
    if place not in range(count):
        raise InvalidRequest(f"place: expected 0 to {count - 1} in {part}, found {place}")
    sent = int(found["sent"][place])
    rows = np.array(found["compression"][place, :sent])
    noisy = found["variances"][place, :sent] if "variances" in found else np.zeros(sent)
    own = read_part(parts.folder / part, parts.length)
    steps = None if own.resolution is None else own.resolution[place]
    variances = np.diag(own.noise[place]) - (0.0 if steps is None else dither_variance(steps, MOST_DRAWS))
    return Sanitizer(
        rows,
        np.diag(noisy),
        offset=own.offset[place],
        grid=found["grid"][place, :sent],
        resolution=steps,
        agent=own.names[place] if own.names is not None else _number(parts, part, place),
        usual=usual_of(parts.prior, own.observe[place], variances, own.offset[place]),  # before dither
    )


def agent_file(parts: Parts | str | PathLike[str], agent: str) -> tuple[str, bytes]:
    """The name of the plan, and the content of the file that one agent needs, as a plan in one piece would have it.

    parts: the network, or its folder; it was designed.
    agent: its name, or its number among all agents ("agent0042") where parts give no names.
    """
    network = opened(parts)
    if agent == "center":
        raise InvalidRequest(
            "agent: networks in parts have none for the centre; 'veilnet fuse' takes their folder and one of messages"
        )
    part, place = _found(network, agent)
    plan = plan_name(network.folder)
    return plan, seal(to_document(sanitizer_of(network, part, place), plan))


def _found(parts: Parts, agent: str) -> tuple[str, int]:
    """The part and the place in it of an agent: by its number among all, or by its own name."""
    numbered = NumberedNames(parts.agents)
    left = numbered.index(agent) if agent in numbered else parts.agents
    for part in parts.parts:
        if left < part.agents:
            if _name(parts, part.name, left) == agent:
                return part.name, left
            break
        left -= part.agents
    for part in parts.parts:
        names = read_part(parts.folder / part.name, parts.length).names
        if names is not None and agent in names:
            return part.name, names.index(agent)
    raise InvalidRequest(f"agent: {agent!r} is none of the {parts.agents} agents of {parts.folder}")


def _name(parts: Parts, part: str, place: int) -> str:
    """Its own name, or its number among all agents."""
    given = read_part(parts.folder / part, parts.length).names
    return _number(parts, part, place) if given is None else given[place]


def _number(parts: Parts, part: str, place: int) -> str:
    """Its number among all agents."""
    before = [each.name for each in parts.parts].index(part)
    return NumberedNames(parts.agents)[sum(p.agents for p in parts.parts[:before]) + place]
