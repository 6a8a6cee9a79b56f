"""Who says what where: the topics of a live network, and the names by which the broker knows its parties.

    <root>/messages/<agent>   an agent's sanitized messages: written by that agent, read by the centre
    <root>/acks/<agent>       what the centre has committed: written by the centre, read by that agent
    <root>/sums/<agent>       its part in the rounds of a sum: written by that agent, read by the centre
    <root>/rounds/<agent>     the centre's part in them: written by the centre, read by that agent
                              (a second centre, with which sums are split, has such a pair too)
    <root>/estimates          the newest estimate of the public parameters: written by the centre, read by readers
    <root>/history            what is not the newest: revisions of earlier epochs, catching up, by the same
    <root>/influx             the same in lines for InfluxDB: written by the centre, read by readers
    <root>/status             whether the centre is there, retained: written by the centre, read by readers
    <root>/heard              whether any agent was heard lately, retained, by the same
    <root>/lease              which centre is the one, retained: written and read by the centre and its standby
    <root>/copies             what the centre commits, for its standby: written and read by the same

An agent's name may hold anything; an :func:`identity` holds only letters, digits and ``. _ - = @``, at most 64 of
them. It is the common name of a certificate, the broker's user name, and the last level of a topic.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from veilnet._core.errors import InvalidRequest

CENTRE = "@centre"
"""The identity of the centre; no agent's, since ``@`` is encoded in those."""

STANDBY = "@standby"
"""The identity of a second centre, which follows the first and takes over."""

SECOND = "@second"
"""The second of two centres that do not collude, which speaks to the first one as agents do."""

LONGEST = 64  # characters of a common name (X.509, ub-common-name)
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_KEPT = 30  # characters that a shortened identity keeps of the name
_ROOT = re.compile(r"[A-Za-z0-9._-]{1,64}(/[A-Za-z0-9._-]{1,64}){0,3}")
_READER = re.compile(r"[A-Za-z0-9._-]{1,60}")


def identity(agent: str) -> str:
    """The identity of an agent: different for different names, and the name itself where that is plain.

    Other characters become ``=`` and two hexadecimal digits for each byte in UTF-8, as in quoted-printable text. What
    grows too long is cut, and ends in ``==`` and 32 digits of its SHA-256, which no uncut identity has.
    """
    if not agent:
        raise InvalidRequest("agent: expected a name, found an empty one")
    encoded = "".join(
        each if each in _PLAIN else "".join(f"={byte:02X}" for byte in each.encode()) for each in agent
    )
    if encoded in (".", ".."):  # an identity is the name of a folder too
        encoded = encoded.replace(".", "=2E")
    if len(encoded) <= LONGEST:
        return encoded
    return f"{encoded[:_KEPT]}=={hashlib.sha256(agent.encode()).hexdigest()[:32]}"


def reader_identity(name: str) -> str:
    """The identity of a program that reads estimates (``telegraf``): ``@telegraf``."""
    if not _READER.fullmatch(name) or name in (".", "..") or f"@{name}" in (CENTRE, STANDBY):
        raise InvalidRequest(
            f"reader: expected a name of at most 60 letters, digits and . _ -, not centre or standby, "
            f"found {name[:80]!r}"
        )
    return f"@{name}"


class _Below:
    """A topic below the root."""

    def __init__(self, level: str) -> None:
        self._level = level

    def __get__(self, topics: Topics, _owner: type) -> str:
        return f"{topics.root}/{self._level}"


@dataclass(frozen=True)
class Topics:
    """The topics below a root, so that several networks can share a broker."""

    root: str = "veilnet"

    def __post_init__(self) -> None:
        if not _ROOT.fullmatch(self.root):
            raise InvalidRequest(
                f"root: expected one to four levels of letters, digits and . _ -, as in home/veilnet, found "
                f"{self.root[:80]!r}"
            )

    def messages(self, agent: str) -> str:
        """Where an agent sends its messages."""
        return f"{self.root}/messages/{identity(agent)}"

    def acks(self, agent: str) -> str:
        """Where the centre tells an agent what it has committed."""
        return f"{self.root}/acks/{identity(agent)}"

    def sums(self, agent: str) -> str:
        """Where an agent takes part in the rounds of a sum."""
        return f"{self.root}/sums/{identity(agent)}"

    def rounds(self, agent: str) -> str:
        """Where the centre tells an agent its part in the rounds of a sum."""
        return f"{self.root}/rounds/{identity(agent)}"

    # of all agents, which the centre subscribes to
    all_messages, all_sums = _Below("messages/+"), _Below("sums/+")
    # what the centre says; ``status`` and ``heard`` in the words ONLINE and OFFLINE
    estimates, history, influx = _Below("estimates"), _Below("history"), _Below("influx")
    status, heard = _Below("status"), _Below("heard")
    # between centres (:mod:`veilnet.live.lease`)
    lease, copies = _Below("lease"), _Below("copies")


ONLINE, OFFLINE = "online", "offline"
