"""What is signed of a file of a plan: which bytes, of which version, until when, and what the plan promises.

format    "veilnet-signed/1"
file      its name when it was signed, for people
sha256    of its bytes: these are what is signed
plan      id of the plan it belongs to, null for a file of no plan
version   a whole number that goes up with every plan, so that nobody can put an older one back
signed    when it was signed, in UTC
expires   until when it may be run: a newer plan cannot be held back for ever
promise   public parameters, utility and privacy of the plan as they were verified when it was signed; may be null
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.io._formats import check_json_format
from veilnet.io._json import plain

if TYPE_CHECKING:
    from veilnet.plans.plan import Plan

FORMAT = "veilnet-signed/1"
DAYS = 365
_MOST_DAYS = 3650
_SKEW = timedelta(days=1)
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_LARGEST = 2**53  # what every reader of JSON reads exactly
_DIGEST = re.compile(r"[0-9a-f]{64}")


class StatedPromise(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a plan promises: utility u <= 0, and p_j of each private parameter; "inf" where it is infinite.

    constant:  of a plan for single rows, which part of the standard error of one row 100 rows of a constant x leave.
    with_gaps: of a stream, p_j around a missed row and at a start; empty where it was not computed.
    changes:   how surely the change of each secret is seen, in words: in the model, and in the fit's log if more.
    helped:    of a plan of sums, p_j if the worst one agent helps the centre.
    """

    public: list[str]
    utility: float | str
    privacy: dict[str, float | str]
    constant: dict[str, float] | None = None
    with_gaps: dict[str, float | str] | None = None
    changes: dict[str, str] | None = None
    helped: dict[str, float | str] | None = None

    @classmethod
    def of(cls, plan: Plan) -> StatedPromise:
        """The promise of a plan."""
        from veilnet.bounds.typical_errors import typical_errors

        parts = {
            name: error.constant / error.sent if error.sent else 1.0
            for name, error in typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy).items()
            if name in plan.privacy and error.constant is not None and error.sent is not None
        }
        constant = {name: 1.0 if math.isnan(part) else part for name, part in parts.items()}
        return cls(
            list(plan.network.public),
            plain(float(plan.utility)),
            plain(dict(plan.privacy)),
            constant or None,
            plain(dict(plan.privacy_with_gaps)) if plan.network.is_stream else None,
            {name: _seen(plan, name) for name in plan.detectability} or None,
            plain(dict(plan.colluding)) if plan.network.members else None,
        )

    def numbers(
        self,
    ) -> tuple[float, dict[str, float], dict[str, float] | None, dict[str, float] | None]:
        """(utility, privacy, with_gaps, helped) as numbers."""
        with_gaps, helped = (
            None if stated is None else _floats(stated) for stated in (self.with_gaps, self.helped)
        )
        return float(self.utility), _floats(self.privacy), with_gaps, helped


def _seen(plan: Plan, name: str) -> str:
    """How surely the change of a secret is seen, by the best detector there is in the model, and by learned ones."""
    from veilnet.model.fitted import log_headlines

    known, shown = plan.network.log_aucs, plan.detectability[name].in_words(plan.network.unit(name))
    in_log = log_headlines({name: known[name]} if name in known else {}, {})
    seen = "sums alone" if plan.network.members else "all messages"
    best = f"{shown}, in the model, for anybody who knows the plan and sees {seen}"
    return "; ".join([best, *(each.removeprefix(f"{name}: ").removesuffix(".") for each in in_log)])


class Statement(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The keys of what is signed."""

    format: str
    file: str
    sha256: str
    plan: str | None
    version: int
    signed: str
    expires: str
    promise: StatedPromise | None

    def until(self) -> datetime:
        """Until when it may be run."""
        return _moment(self.expires)

    def complaint(self, now: datetime | None = None) -> str:
        """Why it must not be run at this time; empty if it may."""
        now = now or datetime.now(UTC)
        if now > self.until():
            return f"its signature of version {self.version} expired on {self.expires}; ask for a new one"
        if now < _moment(self.signed) - _SKEW:
            return (
                f"it was signed on {self.signed}, and the clock of this machine says {now:{_MOMENT}}; set it"
            )
        return ""

    def encoded(self) -> bytes:
        """The bytes that are signed."""
        return msgspec.json.encode(self)


def make_statement(
    file: str,
    sha256: str,
    plan: str | None,
    version: int,
    days: float,
    promise: StatedPromise | None,
    now: datetime,
) -> Statement:
    """The statement of a file, valid for so many days from now."""
    if not 0 < version <= _LARGEST:
        raise InvalidRequest(f"--version: expected a whole number from 1 to 2^53, found {version}")
    if not 0 < days <= _MOST_DAYS:
        raise InvalidRequest(f"--days: expected 1 to {_MOST_DAYS}, found {days}")
    end = now + timedelta(days=days)
    return Statement(FORMAT, file, sha256, plan, version, f"{now:{_MOMENT}}", f"{end:{_MOMENT}}", promise)


def read_statement(content: bytes) -> Statement:
    """The statement in the payload of an envelope whose signature was verified; InvalidPlan if it is none."""
    check_json_format(content, FORMAT)
    try:
        found = msgspec.json.decode(content, type=Statement)
        found.until()
        _moment(found.signed)
        if found.promise is not None:
            found.promise.numbers()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidPlan(f"what was signed is not readable ({type(error).__name__})") from None
    if not 0 < found.version <= _LARGEST or not _DIGEST.fullmatch(found.sha256):
        raise InvalidPlan("what was signed is not a statement of this version of veilnet")
    return found


def version_of(moment: datetime) -> int:
    """A version that goes up by itself: 20261117093000 for 2026-11-17 09:30:00 in UTC."""
    return int(f"{moment.astimezone(UTC):%Y%m%d%H%M%S}")


def _floats(stated: Mapping[str, float | str]) -> dict[str, float]:
    return {name: float(value) for name, value in stated.items()}


def _moment(text: str) -> datetime:
    return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)


def plan_id_in(document: Any) -> str | None:
    """The id of the plan that the table of a file names."""
    found = document.get("plan") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None
