"""A misspelt word is answered with the one that was meant. Without NumPy: the command line starts with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from itertools import islice
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST_COMPARED = 1000  # known words among which the one that was meant is looked for


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a complaint about an unknown word: the known one that is most like it, if any is."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(islice(known, _MOST_COMPARED)), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def names_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose TypeError for a keyword that it does not have names the nearest one that it has."""
    from inspect import signature

    known = signature(function).parameters

    @wraps(function)
    def called(*args: P.args, **keywords: P.kwargs) -> T:
        for name in keywords:
            if name not in known:
                what = function.__qualname__.removesuffix(".__init__")
                raise TypeError(
                    f"{what}() got an unexpected keyword argument {name!r}{did_you_mean(name, known)}"
                )
        return function(*args, **keywords)

    return called
