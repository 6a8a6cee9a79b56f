"""Names of agents become topics and common names, one to one, whatever they hold."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilnet._core.errors import InvalidRequest
from veilnet.live.topics import CENTRE, LONGEST, Topics, identity, reader_identity

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)


@given(NAMES)
def test_an_identity_is_one_harmless_level(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._=-]+", identity(name))
    assert len(identity(name)) <= LONGEST


@given(st.lists(NAMES, unique=True, max_size=20))
def test_different_names_have_different_identities(names: list[str]) -> None:
    assert len({identity(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kitchen", "kitchen"),
        ("Küche", "K=C3=BCche"),
        ("a/+", "a=2F=2B"),
        ("=2F", "=3D2F"),  # what looks encoded is encoded once more
        ("/", "=2F"),
        ("@centre", "=40centre"),
        ("#", "=23"),
        ("two words", "two=20words"),
        ("%u", "=25u"),
        (".", "=2E"),  # it is a folder's name too
        ("..", "=2E=2E"),
        ("...", "..."),
    ],
)
def test_identities_that_are_known(name: str, expected: str) -> None:
    assert identity(name) == expected


def test_a_long_name_is_cut_and_told_apart() -> None:
    one, two = identity("a" * 100 + "b"), identity("a" * 100 + "c")
    assert one != two
    assert len(one) == len(two) <= LONGEST
    assert identity("a" * 64) == "a" * 64
    assert identity(one) != one  # no other agent can be called so


def test_nobody_else_is_the_centre() -> None:
    assert identity(CENTRE) != CENTRE
    with pytest.raises(InvalidRequest, match="not centre or standby"):
        reader_identity("centre")
    with pytest.raises(InvalidRequest, match="not centre or standby"):
        reader_identity("standby")
    for bad in ("", ".", "..", "a b", "a/b", "#", "x" * 61, "a\nuser root"):
        with pytest.raises(InvalidRequest, match="reader: expected a name"):
            reader_identity(bad)


def test_an_agent_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="found an empty one"):
        identity("")


@pytest.mark.parametrize("root", ["", "/", "a/", "+", "a/#", "$SYS", "a b", "a/b/c/d/e", "a\n"])
def test_a_root_that_is_a_pattern_or_none_is_refused(root: str) -> None:
    with pytest.raises(InvalidRequest, match="root: expected one to four levels"):
        Topics(root)
