"""What is doubtful about a network: said when it was fitted and wherever it is used, until it is dealt with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from veilnet._core.errors import InvalidNetwork, InvalidRequest

LONGEST_WORDS = 2000
_NAME = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True)
class Doubt:
    """One reason why promises may be less true than they look.

    name:     short, to accept it by: "noise-memory". Small letters, digits and hyphens, 40 at most.
    words:    what was seen, what it means, what helps; 2000 printable characters at most.
    accepted: somebody has read it and answers for it; it is then named, not repeated.
    """

    name: str
    words: str
    accepted: bool = False

    def __str__(self) -> str:
        return self.words


def read_doubts(doubts: Any) -> tuple[Doubt, ...]:
    """The doubts of a network, each of another name."""
    if doubts is not None and not isinstance(doubts, Iterable):
        raise InvalidNetwork(f"doubts: expected a list of veilnet.Doubt, found {doubts!r}")
    found = () if doubts is None else tuple(doubts)
    for doubt in found:
        if not isinstance(doubt, Doubt):
            raise InvalidNetwork(f"doubts: expected veilnet.Doubt, found {type(doubt).__name__}")
        for what, text in (("a name", doubt.name), ("words", doubt.words)):
            if not isinstance(text, str) or not text.strip():
                raise InvalidNetwork(f"doubts: expected {what} for each, found {text!r}")
        if not _NAME.fullmatch(doubt.name):
            raise InvalidNetwork(
                "doubts: a name has up to 40 small letters, digits and hyphens, as noise-law does, found "
                f"{doubt.name[:40]!r}"
            )
        if len(doubt.words) > LONGEST_WORDS or not doubt.words.isprintable():
            raise InvalidNetwork(
                f"doubts: {doubt.name}: expected words of at most {LONGEST_WORDS} printable characters on one line, "
                f"found {len(doubt.words)}: {doubt.words[:40]!r}..."
            )
        if not isinstance(doubt.accepted, bool):
            raise InvalidNetwork(f"doubts: {doubt.name}: accepted is True or False, found {doubt.accepted!r}")
    names = [doubt.name for doubt in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidNetwork(f"doubts: {twice[0]!r} is given twice; give each name once")
    return found


def accepted(doubts: Sequence[Doubt], names: str | Iterable[str]) -> tuple[Doubt, ...]:
    """The doubts, that of this name or those of these accepted; a name that none of them has is an error."""
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not all(isinstance(name, str) for name in listed):
        raise InvalidRequest(f"accept: expected the name of a doubt, or several, found {names!r}")
    wanted, known = set(listed), [doubt.name for doubt in doubts]
    for name in sorted(wanted - set(known)):
        have = f"the network's doubts are {', '.join(known)}" if known else "the network has no doubts"
        raise InvalidRequest(f"accept: there is no doubt {name!r}; {have}")
    return tuple(replace(doubt, accepted=doubt.accepted or doubt.name in wanted) for doubt in doubts)


def doubt_notes(doubts: Sequence[Doubt]) -> list[str]:
    """What is still doubtful, a sentence or two each, how to deal with it, and the names of what was accepted."""
    still = [doubt for doubt in doubts if not doubt.accepted]
    notes = [f"Doubtful ({doubt.name}): {doubt.words}" for doubt in still]
    if still:
        notes.append(
            "Promises are as sure as these doubts allow. Fit again, transform the readings, or accept a doubt by "
            f'its name, for a plan: design --accept {still[0].name}, or network.accepting(["{still[0].name}"]).'
        )
    known = [doubt.name for doubt in doubts if doubt.accepted]
    return [*notes, f"Doubts that were accepted: {', '.join(known)}."] if known else notes
