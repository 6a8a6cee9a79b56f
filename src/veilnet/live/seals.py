"""The secrets that seal messages, and the key that signs estimates: what the broker hands on is what they made.

Messages have a secret for each agent, known to that agent and the centre, and to nobody else. Estimates are read by
many, who must not be able to make any: the centre signs them (Ed25519), and readers have the public half.

They lie beside the keys of :mod:`veilnet.live.keys`::

    keys/agents/<agent>/seal.key       handed to the agent with its certificate
    keys/agents/<agent>/identity.key   of a member of a sum: what it proves to the other members who it is with
    keys/agents/<agent>/members/       of a member of a sum: the public halves of all members' identities
    keys/second/                       the same for the second of two centres, a party of each sum
    keys/centre/seals/<agent>.key      handed to the centre
    keys/centre/estimates.key          handed to the centre
    keys/standby/                      copies of the centre's, handed to its standby
    keys/readers/<name>/centre.pub     handed to the reader with its certificate

Transport security ends at the broker. These secrets do not pass it, so what the broker hands on is what the agent
sealed, or is refused.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import InvalidRequest
from veilnet.io._atomic import write_bytes
from veilnet.io.signing import make_key, read_public_key, read_secret_key
from veilnet.live.keys import Credentials, KeyFolder
from veilnet.live.messages import Malformed, Seal
from veilnet.live.topics import SECOND, Topics, identity

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_BYTES = 32
_SIGNATURE = 64
_LARGEST = 2**24  # bytes of an estimate: of 500 public parameters, or a million agents that are missing
_REPEATS = 1000  # estimates back that a reader knows again
_SIGNED = re.compile(rb'(?s:(\{.*)), "signature": "([0-9a-f]{128})"\}')


def make_seals(
    keys: KeyFolder,
    agents: Iterable[str],
    readers: Iterable[str] = (),
    groups: Iterable[Collection[str]] = (),
) -> list[str]:
    """A secret for each agent and the centre; one that both have already is kept. Agents with new ones.

    groups: agents whose messages are added up, who have to know one another.

    The centre gets a key to sign estimates with, unless it has one, and readers its public half.
    """
    signing = _signing(keys.centre)
    if not signing.exists():
        signing.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        signing.with_suffix(".pub").unlink(missing_ok=True)
        make_key(signing)
    for name in readers:
        write_bytes(_checking(keys.reader(name)), signing.with_suffix(".pub").read_bytes())
    new = []
    for members in groups:
        _make_identities(keys, members)
    for agent in agents:
        mine, theirs = keys.agent(agent).folder / "seal.key", _at_centre(keys.centre, agent)
        if mine.exists() and theirs.exists() and mine.read_bytes() == theirs.read_bytes():
            continue
        secret = secrets.token_hex(_BYTES).encode() + b"\n"
        for path in (theirs, mine):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_bytes(path, secret, mode=0o600)
        new.append(agent)
    if keys.standby.folder.exists():  # it does what the centre does
        for path in (signing, *(keys.centre.folder / "seals").glob("*.key")):
            copy = keys.standby.folder / path.relative_to(keys.centre.folder)
            copy.parent.mkdir(exist_ok=True, mode=0o700)
            write_bytes(copy, path.read_bytes(), mode=0o600)
    return new


def _make_identities(keys: KeyFolder, agents: Collection[str]) -> None:
    """An identity for each member of a sum, kept where there is one, and the public halves of all for each."""
    publics = {}
    for agent in agents:
        secret = keys.agent(agent).folder / "identity.key"
        if not secret.exists():
            secret.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            secret.with_suffix(".pub").unlink(missing_ok=True)
            make_key(secret)
        publics[agent] = secret.with_suffix(".pub").read_bytes()
    for agent in agents:
        folder = keys.agent(agent).folder / "members"
        folder.mkdir(exist_ok=True, mode=0o700)
        for member, public in publics.items():
            write_bytes(folder / f"{identity(member)}.pub", public)


def agent_identity(credentials: Credentials) -> Ed25519PrivateKey:
    """What an agent proves to the other members of a sum who it is with."""
    secret: Ed25519PrivateKey = read_secret_key(_there(credentials.folder / "identity.key"))
    return secret


def member_identities(credentials: Credentials, members: Iterable[str]) -> dict[str, Ed25519PublicKey]:
    """member -> its identity, as far as this agent's folder has them."""
    files = {member: credentials.folder / "members" / f"{identity(member)}.pub" for member in members}
    return {member: read_public_key(file) for member, file in files.items() if file.is_file()}


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


def second_seal(credentials: Credentials) -> dict[str, Seal]:
    """The seal of the second centre, at the first one; empty where there is none."""
    path = _at_centre(credentials, SECOND)
    return {SECOND: _read(path)} if path.exists() else {}


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


class EstimateSigner:
    """Makes of an estimate what is published: its table, when it was published, and a signature over both.

    It stays a table in JSON, for readers that trust the broker.

    credentials: the centre's folder; ``topics`` of the network, so that no estimate stands for another network's.
    """

    def __init__(self, credentials: Credentials, topics: Topics) -> None:
        self._secret: Ed25519PrivateKey = read_secret_key(_there(_signing(credentials)))
        self._topics = topics
        self._last = 0

    def between_centres(self, content: bytes) -> bytes:
        """What one centre says to the other of this network: nobody else can."""
        return self._secret.sign(_signed("centres", content, self._topics)) + content

    def from_a_centre(self, payload: bytes) -> bytes:
        """What :meth:`between_centres` was given; Malformed where no centre of this network said it."""
        from cryptography.exceptions import InvalidSignature

        signature, content = payload[:_SIGNATURE], payload[_SIGNATURE:]
        try:
            self._secret.public_key().verify(signature, _signed("centres", content, self._topics))
        except InvalidSignature:
            raise Malformed("signature") from None
        return content

    def payload(self, table: Mapping[str, Any]) -> bytes:
        """An estimate as it is published, each later than the one before."""
        self._last = max(time.time_ns() // 1000, self._last + 1)
        seconds, rest = divmod(self._last, 10**6)
        made = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:06d}Z"
        body = json.dumps({**table, "published": made}, ensure_ascii=False, allow_nan=False).encode()
        signature = self._secret.sign(_signed("estimate", body, self._topics)).hex()
        return body[:-1] + f', "signature": "{signature}"}}'.encode()


class EstimateReader:
    """Opens what is published: an estimate that the centre signed, later than those before, or nothing.

    credentials: the reader's folder; ``topics`` of the network.
    """

    def __init__(self, credentials: Credentials, topics: Topics) -> None:
        self._public = read_public_key(_there(_checking(credentials)))
        self._topics = topics
        self._last: deque[str] = deque([""], _REPEATS)  # when those that came were published

    def open(self, payload: bytes) -> dict[str, Any]:
        """The table of an estimate; Malformed says why not.

        "malformed"; "signature"; "again" for an earlier one; "repeated" for one that came before: after a lost
        connection the centre says once more what the broker did not confirm.
        """
        from cryptography.exceptions import InvalidSignature

        found = _SIGNED.fullmatch(payload) if len(payload) <= _LARGEST else None
        if found is None:
            raise Malformed("malformed")
        body = found[1] + b"}"
        try:
            self._public.verify(bytes.fromhex(found[2].decode()), _signed("estimate", body, self._topics))
        except InvalidSignature:
            raise Malformed("signature") from None
        table: dict[str, Any] = json.loads(body)
        if table["published"] <= self._last[-1]:
            raise Malformed("repeated" if table["published"] in self._last else "again")
        self._last.append(table["published"])
        return table


def _signed(use: str, content: bytes, topics: Topics) -> bytes:
    """What is signed: for what, and for whose network."""
    return f"veilnet {use}\n{topics.root}\n".encode() + content


def _signing(credentials: Credentials) -> Path:
    return credentials.folder / "estimates.key"


def _checking(credentials: Credentials) -> Path:
    return credentials.folder / "centre.pub"


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InvalidRequest(f"{path}: no such file; 'veilnet live keys' makes it")
    return path


def _at_centre(credentials: Credentials, agent: str) -> Path:
    return credentials.folder / "seals" / f"{identity(agent)}.key"


def _read(path: Path) -> Seal:
    try:
        return Seal(bytes.fromhex(_there(path).read_text(encoding="ascii").strip()))
    except ValueError:
        raise InvalidRequest(f"{path}: not a seal's secret; 'veilnet live keys' makes one") from None
