"""What a message says, by its facts: the argument, what was expected and found, what to do; not by its sentence."""

from __future__ import annotations


def says(message: object, *facts: object) -> None:
    """Fail, with the whole message, where one of the facts is not in it."""
    missing = [str(fact) for fact in facts if str(fact) not in str(message)]
    assert not missing, f"{missing} not in: {message}"
