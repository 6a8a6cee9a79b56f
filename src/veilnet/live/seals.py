"""The secrets that seal messages: one for each agent, known to that agent and the centre, and to nobody else.

They lie beside the keys of :mod:`veilnet.live.keys`::

    keys/agents/<agent>/seal.key       handed to the agent with its certificate
    keys/centre/seals/<agent>.key      handed to the centre

Transport security ends at the broker. These secrets do not pass it, so what the broker hands on is what the agent
sealed, or is refused.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.io._atomic import moved_into_place
from veilnet.live.keys import Credentials, KeyFolder
from veilnet.live.messages import Seal
from veilnet.live.topics import identity

__all__ = ["agent_seal", "centre_seals", "make_seals"]

_BYTES = 32


def make_seals(keys: KeyFolder, agents: Iterable[str]) -> list[str]:
    """A secret for each agent and the centre; one that both have already is kept. Agents with new ones."""
    new = []
    for agent in agents:
        mine, theirs = keys.agent(agent).folder / "seal.key", _at_centre(keys.centre, agent)
        if mine.exists() and theirs.exists() and mine.read_bytes() == theirs.read_bytes():
            continue
        secret = secrets.token_hex(_BYTES).encode() + b"\n"
        for path in (theirs, mine):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(moved_into_place(path, secret, 0o600))
        new.append(agent)
    return new


def agent_seal(credentials: Credentials, agent: str) -> Seal:
    """The seal in this agent's folder; another party's folder is refused.

    A message is sealed when its noise is drawn, and never drawn again: sealed as somebody else, it is lost.
    """
    theirs = identity(agent)
    if not credentials.folder.is_dir():
        raise InvalidRequest(
            f"{credentials.folder}: no such folder; 'veilnet live keys' makes that of {agent!r}, and calls "
            f"it {theirs}"
        )
    seal = _read(credentials.folder / "seal.key")
    found = credentials.identity()
    if found != theirs:
        raise InvalidRequest(
            f"{credentials.folder}: expected the folder of {agent!r} (its certificate says {theirs}), found that of "
            f"{found}; nothing was sent: give this agent's own folder of 'veilnet live keys'"
        )
    return seal


def centre_seals(credentials: Credentials, agents: Iterable[str]) -> dict[str, Seal]:
    """agent -> seal, of every agent whose secret the centre has."""
    found = {}
    for agent in agents:
        path = _at_centre(credentials, agent)
        if path.exists():
            found[agent] = _read(path)
    if not found:
        raise InvalidRequest(
            f"{credentials.folder}: holds no agent's seal; expected the folder keys/centre of 'veilnet live keys'"
        )
    return found


def _at_centre(credentials: Credentials, agent: str) -> Path:
    return credentials.folder / "seals" / f"{identity(agent)}.key"


def _read(path: Path) -> Seal:
    try:
        return Seal(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except FileNotFoundError:
        raise InvalidRequest(f"{path}: no such file; 'veilnet live keys' makes it") from None
    except ValueError:
        raise InvalidRequest(f"{path}: not a seal's secret; 'veilnet live keys' makes one") from None
