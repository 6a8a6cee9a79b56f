"""Whether a signed plan may follow the one that an agent ran before: no step back, and no more than was agreed to.

A key that is trusted once is trusted for every plan that it signs, so an agent remembers, in ``kitchen.accepted``
beside ``kitchen.json`` (or where ``--accepted`` says):

format       "veilnet-accepted/3"
version      of the newest plan that it ran; anything older is refused (a roll-back)
fingerprint  of the file of that version: two files of one version are refused
agreed       the sanitizer that the agent's owner agreed to: the first that ran, or the last that was confirmed with
             'veilnet inspect --confirm'; what tells more (:mod:`veilnet.review.order`) is refused until confirmed;
             left out in the record of a centre, which tells nothing of its own
checksum     see :mod:`veilnet.io._sealed`

A plan that tells less is run without asking and does not change what was agreed to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io import sanitizer_files
from veilnet.io._atomic import write_bytes
from veilnet.io._kinds import TEXT, WHOLE, Maybe, Table
from veilnet.io._sealed import open_sealed, seal
from veilnet.io.statements import Statement
from veilnet.io.trust import pinned, pins_beside, require_trust
from veilnet.review.order import what_more

FORMAT = "veilnet-accepted/3"
ACCEPTED = Table(version=WHOLE, fingerprint=TEXT, agreed=Maybe(sanitizer_files.SANITIZER))


_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Accepted:
    """The newest version that ran, its file, and the sanitizer that was agreed to."""

    version: int
    fingerprint: str
    agreed: Sanitizer | None


def accepted_beside(path: Path) -> Path:
    """Where it is kept what an agent agreed to: ``kitchen.accepted`` beside ``kitchen.json``."""
    return path.with_suffix(".accepted")


def read_accepted(record: Path) -> Accepted | None:
    """What is remembered; None before the first plan. A damaged record is an error: nothing is sent then."""
    if not record.exists():
        return None
    found = ACCEPTED.values(open_sealed(record, FORMAT), record)
    agreed = None if found["agreed"] is None else sanitizer_files.from_values(found["agreed"], record)
    return Accepted(found["version"], found["fingerprint"], agreed)


def step_back(statement: Statement, before: Accepted | None) -> str:
    """Why a statement must not follow what ran before, even if confirmed; empty if it may."""
    if before is None or statement.version > before.version:
        return ""
    if statement.version < before.version:
        return (
            f"it is version {statement.version}, and version {before.version} was run already: an older plan is "
            "never run again; ask the designer to sign it as a new version"
        )
    if statement.sha256 != before.fingerprint:
        return f"another file was signed as version {statement.version}, too; ask the designer which is right"
    return ""


def revealed_beyond(sanitizer: Sanitizer, statement: Statement, before: Accepted | None) -> tuple[str, ...]:
    """What a signed sanitizer tells beyond what was agreed to, in words."""
    if before is None:
        return ()
    agreed = before.agreed
    if agreed is None:
        return ("what is remembered is of a centre, not of an agent",)
    if sanitizer.agent != agreed.agent:
        return (f"it is the file of {sanitizer.agent!r}, and what was agreed to that of {agreed.agent!r}",)
    more = what_more(sanitizer, agreed)
    # Another plan of a sum is always agreed to anew: an agent's file does not say what hides its messages.
    if sanitizer.summed and agreed.summed and before.fingerprint != statement.sha256:
        more += ("what the other members of its sum add is not in its file, and may be less than before",)
    return more


class PlanFile:
    """A file of a plan, of which only what may be run now is read: the one gate of agents and centres.

    path:   the file.
    trust:  what ``--trust`` says, beside the pins next to the file; nothing if None.
    record: where it is remembered what was agreed to; beside the file if None.
    """

    def __init__(self, path: Path, trust: str | None = None, record: Path | None = None) -> None:
        self.path, self._trust, self._record = path, trust, record

    @property
    def agreed(self) -> tuple[Path, Path]:
        """The record and the pins: where they change, a file that was refused may be run."""
        return self._record or accepted_beside(self.path), pins_beside(self.path)

    def runnable(
        self, content: bytes, read: Callable[[bytes, Path], tuple[_Read, str | None]]
    ) -> tuple[_Read, str | None, Statement | None]:
        """(what is in the bytes of the file, plan id, what was signed); InvalidPlan, and nothing is sent.

        read: makes (what is in them, plan id) of the bytes.

        What tells more than was agreed to is refused where it is a sanitizer; of anything else its version alone is
        remembered. A process that runs for long asks ``statement.complaint()`` again, since a signature expires.
        """
        given = () if self._trust is None else (self._trust,)
        signed = require_trust(self.path, content, pinned(self.path, given))
        found, plan = read(content, self.path)
        if signed is not None:
            accept(self.path, found if isinstance(found, Sanitizer) else None, signed, self._record)
        elif self._record is not None:
            raise InvalidRequest("--accepted: it goes with a signed plan; give --trust and the public key")
        return found, plan, signed


def accept(
    path: Path,
    sanitizer: Sanitizer | None,
    statement: Statement,
    record: Path | None = None,
    *,
    confirmed: bool = False,
) -> None:
    """Remember, durably, that a signed file is run from now on; InvalidPlan if it must not be, and nothing is sent.

    path:      the agent's file, to name it; ``sanitizer`` is what it holds, ``statement`` what was signed of it. Of
               the centre's file there is no sanitizer, and its version alone is remembered.
    record:    where to remember; beside the file if None.
    confirmed: whether the agent's owner agreed to it, however much it tells.
    """
    where = record or accepted_beside(path)
    before = read_accepted(where)
    why = step_back(statement, before)
    if why:
        raise InvalidPlan(f"{path}: refused ({why}), so nothing is sent")
    more = () if confirmed or sanitizer is None else revealed_beyond(sanitizer, statement, before)
    if more:
        place = "" if record is None else f" --accepted {record}"
        raise InvalidPlan(
            f"{path}: refused (it tells more than the plan that was agreed to: {join_names(more)}), so nothing is "
            f"sent; read it with 'veilnet inspect {path} --trust KEY{place}', and agree with --confirm"
        )
    agreed = sanitizer if before is None or confirmed else before.agreed
    now = Accepted(statement.version, statement.sha256, agreed)
    if before is None or confirmed or (before.version, before.fingerprint) != (now.version, now.fingerprint):
        said = None if agreed is None else sanitizer_files.values_of(agreed)
        try:
            write_bytes(where, seal(ACCEPTED.document(FORMAT, vars(now) | {"agreed": said})))
        except OSError as error:
            raise InvalidPlan(
                f"{where}: cannot be written ({error.strerror}), and an agent has to remember which plan it ran, so "
                "nothing is sent; give --accepted FILE in a folder of the agent's own"
            ) from None
