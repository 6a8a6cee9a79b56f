"""Which files veilnet reads and writes: every one begins with its format, a name and a version.

The version rises when a field is added, so that an older veilnet can say of a newer file what to do about it.
docs/reference/formats.md describes each of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from veilnet._core.errors import InvalidPlan, VeilnetError

NETWORK = "veilnet-network/5"
NETWORK_ARCHIVE = "veilnet-network-archive/5"
PLAN = "veilnet-plan/4"
PLAN_ARCHIVE = "veilnet-plan-archive/4"
SANITIZER = "veilnet-sanitizer/3"
CENTRE = "veilnet-centre/3"
PROOF = "veilnet-proof/5"
SYMBOL_PLAN = "veilnet-symbol-plan/5"
SYMBOL_AGENT = "veilnet-symbol-agent/2"
SYMBOL_CENTRE = "veilnet-symbol-centre/2"

# People write these by hand: fields are added, none changes.
_STILL_READ = {NETWORK: tuple(f"veilnet-network/{version}" for version in range(1, 5))}
NAMES_BEFORE = {
    CENTRE: ("veilnet-center", "veilnet-stream-center", "veilnet-sum-center"),
    NETWORK_ARCHIVE: ("veilnet-network",),
}
_AGAIN = {
    **dict.fromkeys((PLAN, PLAN_ARCHIVE, SANITIZER, CENTRE, PROOF), "design the plan again with this one"),
    NETWORK_ARCHIVE: "write it again from its .toml or .json file, or fit it again",
}


def check_format(found: Any, expected: str, error: type[VeilnetError] = InvalidPlan) -> None:
    """An error that says what to do, where a file is not of the format that is expected."""
    if found == expected or found in _STILL_READ.get(expected, ()):
        return
    if not isinstance(found, str):
        raise error(f"format: missing; the file should say that it is {expected!r}: is it the right file?")
    name, known = _parts(expected)
    other, version = _parts(found)
    if other == name and version > known:
        raise error(
            f"format: made by a newer veilnet: upgrade this one (found {found[:40]!r}, known is {expected!r})"
        )
    if (other == name and version > 0) or other in NAMES_BEFORE.get(expected, ()):
        again = _AGAIN.get(expected, "make the file again with this one")
        raise error(
            f"format: made by an earlier veilnet (found {found[:40]!r}, known is {expected!r}): {again}"
        )
    raise error(f"format: expected {expected!r}, found {found[:40]!r}; is it the right file?")


class _Headed(msgspec.Struct):
    format: str | None = None


def check_json_format(content: bytes | str, expected: str, error: type[VeilnetError] = InvalidPlan) -> None:
    """The same for a JSON text; nothing where it is none, which its reader will say."""
    try:
        found = msgspec.json.decode(content, type=_Headed).format
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    check_format(found, expected, error)


def base(form: str) -> str:
    """The name of a format, without its version."""
    return form.partition("/")[0]


def _parts(form: str) -> tuple[str, int]:
    """(name, version) of a format; version 0 where it has none."""
    name, _, version = form.partition("/")
    plain = version.isascii() and version.isdigit() and len(version) < 10
    return name, int(version) if plain else 0
