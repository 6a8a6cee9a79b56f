"""What the library says of its arguments, for somebody who typed options: ``utility_loss=`` is ``--utility-loss``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import signature

from veilnet.cli._command_line import Option

# name='value', name=True, name=10, name=(...) or a bare name=, with the option in brackets where it was said already
_ARGUMENT = re.compile(
    r"(?<![\w./=(-])(?P<name>[a-z]+(?:_[a-z]+)*)=(?:'(?P<quoted>[^']*)'|(?P<word>True|\d[\d.]*(?:e\d+)?)(?![\w.]))?"
    r"(?P<again> \(--[a-z-]+\))?(?![\w'\"{\[(=])"
)


# What is said beside a ratio of standard errors, for somebody who asks on the paper's scale.
_ON_PAPERS_SCALE = re.compile(r" \(p = [^()]*\)")
# The options in standard errors, which stand for arguments that have an option on the paper's scale too.
_IN_STANDARD_ERRORS = {"privacy": "--private-error", "utility_loss": "--public-error"}


def in_options(text: str, verb: str, typed: Iterable[str] = ()) -> str:
    """A message of the library in the options of a verb, wherever it speaks of an argument that is one of them.

    typed: the words after the verb; what the message is about is named as it was typed.
    """
    known = options_of(verb)
    given = {word.partition("=")[0] for word in typed}
    asked = known | {name: each for name, each in _IN_STANDARD_ERRORS.items() if each in given}

    def as_typed(found: re.Match[str]) -> str:
        option = known.get(found["name"])
        if option is None:
            return found[0]
        value = found["quoted"] if found["quoted"] is not None else found["word"]
        return option if value in (None, "True") else f"{option} {value}"

    about, colon, rest = text.partition(":")
    names = about.split(" and ")
    if colon and all(name in known for name in names):
        text = f"{' and '.join(asked[name] for name in names)}:{rest}"
    if "--private-error" in given:
        text = _ON_PAPERS_SCALE.sub("", text)
    return _ARGUMENT.sub(as_typed, text)


def options_of(verb: str) -> dict[str, str]:
    """Argument -> option, for all options of a verb, or of the commands of a group; none where there is no such."""
    try:
        module = import_module(f"veilnet.cli.{verb}")
        several = getattr(module, "commands", None) or {verb: module.command}
        return {name: each for one in several.values() for name, each in options_of_command(one).items()}
    except (ImportError, AttributeError, NameError):
        return {}


def options_of_command(command: Callable[..., object]) -> dict[str, str]:
    """Argument -> option, for all options of the function of a verb or of a command in a group."""
    declared = {name: each.default for name, each in signature(command).parameters.items()}
    return {name: each.name for name, each in declared.items() if isinstance(each, Option)}
