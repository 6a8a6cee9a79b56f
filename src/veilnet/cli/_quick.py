"""The command line of verbs that are started for every batch of readings.

Loading typer takes longer than the work of ``sanitize`` and ``fuse``. They are declared like any other verb, by an
annotated function ``command``, but with the :class:`Argument` and :class:`Option` of this module, for argparse. It
returns its exit code, or None for 0.
"""

from __future__ import annotations

import argparse
import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints

from veilnet._core.errors import InvalidRequest
from veilnet.cli._examples import example_text


@dataclass(frozen=True)
class Argument:
    """A parameter told by its place; a list takes one or more."""

    help: str


@dataclass(frozen=True)
class Option:
    """A parameter told by its name; a bool takes no value, ``yes_or_no`` gives it a ``--no-`` form too."""

    name: str
    help: str
    at_least: int | None = None
    yes_or_no: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidRequest(f"{message} (see '{self.prog} --help')")


def run(verb: str, command: Callable[..., int | None], arguments: Sequence[str]) -> int:
    """Read the arguments and call the command; the exit code."""
    try:
        given = parser(verb, command).parse_intermixed_args(arguments)
    except SystemExit as ended:  # --help was asked for, and given
        return int(ended.code or 0)
    return command(**vars(given)) or 0


def parser(verb: str, command: Callable[..., int | None]) -> argparse.ArgumentParser:
    """The parser for a command's annotated parameters."""
    made = _Parser(
        prog=f"veilnet {verb}",
        description=inspect.getdoc(command),
        epilog=example_text(verb),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, declared = get_args(_annotated(hints[name]))[:2]
        several = get_origin(kind) is list
        value = get_args(kind)[0] if several else _not_none(kind)
        if isinstance(declared, Argument):
            made.add_argument(
                name, type=_reader(value, None), nargs="+" if several else None, help=declared.help
            )
            continue
        settings: dict[str, Any] = {"dest": name, "default": parameter.default, "help": declared.help}
        if declared.yes_or_no:
            settings["action"] = argparse.BooleanOptionalAction
        elif value is bool:
            settings["action"] = "store_true"
        else:
            settings |= {"type": _reader(value, declared.at_least), "metavar": value.__name__.upper()}
        made.add_argument(declared.name, **settings)
    return made


def _annotated(hint: Any) -> Any:
    """``Annotated[...]``, which ``get_type_hints`` wraps where the default is None."""
    return hint if get_origin(hint) is Annotated else next(part for part in get_args(hint) if get_args(part))


def _not_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _reader(kind: Any, at_least: int | None) -> Callable[[str], Any]:
    """From text to a value of this kind; argparse makes one line of what goes wrong."""
    if kind is Path or kind is str:
        return kind

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}") from None
        if at_least is not None and number < at_least:
            raise argparse.ArgumentTypeError(f"expected at least {at_least}, found {number}")
        return number

    return read
