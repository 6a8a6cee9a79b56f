"""The verbs that typer reads: all but those of ``QUICK``, each loaded only when it is called."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import OptionInfo

from veilnet import __version__
from veilnet.cli._examples import example_text

_PACKAGE = __name__.rpartition(".")[0]


class Interrupted(Exception):
    """Ctrl-C while a verb was at work; typer would write an empty line for the original."""


def run(verbs: Mapping[str, str], arguments: list[str]) -> int:
    """Run one command line among the verbs (name -> line of help); its exit code."""
    try:
        result = _assemble(verbs)(args=arguments, prog_name="veilnet", standalone_mode=False)
    except (Interrupted, typer.Abort) as interrupt:
        raise KeyboardInterrupt(*interrupt.args) from interrupt
    return result if isinstance(result, int) else 0


def _load(verb: str, line: str | None) -> Any:
    """The verb's own command, with its options, or its group of commands: imports the verb's module.

    line: the verb's line of help, which a group has for its own.
    """
    module = import_module(f"{_PACKAGE}.{verb}")
    if verb in import_module(_PACKAGE).QUICK:
        return _of_quick(verb, module.command)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    example = _unwrapped(example_text(verb))
    commands = getattr(module, "commands", None)
    if commands is None:
        app.command(name=verb, epilog=example)(_interruptible(module.command))
        return typer.main.get_command(app)
    # without a callback a group of one would not ask for the name of its command
    app.callback(help=line, epilog=example)(_placeholder)
    for name, command in commands.items():
        app.command(name=name)(_interruptible(command))
    return typer.main.get_command(app)


def _interruptible(command: Any) -> Any:
    _name_values(command)

    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(*interrupt.args) from interrupt

    return wrapped


def _name_values(command: Any) -> None:
    """Let help say what to write after an option, and not of which type Python makes it."""
    command.__annotations__ = get_type_hints(command, include_extras=True)
    for hint in command.__annotations__.values():
        for option in get_args(hint)[1:]:
            if isinstance(option, OptionInfo) and option.metavar is None:
                option.metavar = _metavar(get_args(hint)[0])


def _metavar(kind: Any) -> str | None:
    """PATH, NUMBER or TEXT for the type of an option, of each item where it is a list; None for a flag."""
    found = {each for part in (get_args(kind) or (kind,)) for each in (get_args(part) or (part,))}
    if bool in found:
        return None
    return "PATH" if Path in found else "NUMBER" if found & {int, float} else "TEXT"


def _of_quick(verb: str, command: Any) -> Any:
    """The options of a verb that does without typer, as typer has them: shells complete it so."""
    from veilnet.cli._quick import parser

    def stand_in(**_: Any) -> None:
        """Never called."""

    options = [action for action in parser(verb, command)._actions if action.option_strings]
    stand_in.__annotations__ = {
        action.dest: Annotated[
            bool if action.nargs == 0 else str, typer.Option(action.option_strings[0], help=action.help)
        ]
        for action in options
        if action.dest != "help"
    }
    stand_in.__signature__ = Signature(  # type: ignore[attr-defined]  # what inspect looks at first
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in stand_in.__annotations__.items()
        ]
    )
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=verb)(stand_in)
    return typer.main.get_command(app)


def _unwrapped(text: str) -> str:
    """Text whose lines click leaves as they are."""
    return f"\b\n{text}" if text else ""


class _LazyGroup(TyperGroup):
    """Lists every verb by its one line of help; loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.commands:
            self.commands[args[0]] = _load(args[0], self.commands[args[0]].help)
        return super().resolve_command(ctx, args)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"veilnet {__version__}\n")
        raise typer.Exit


def _veilnet(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Let a fusion centre learn what it was promised, and nothing else."""


def _placeholder() -> None:
    """Stands for a verb whose module is not loaded."""


def _assemble(verbs: Mapping[str, str]) -> typer.Typer:
    assembled = typer.Typer(
        cls=_LazyGroup,
        epilog=_unwrapped(example_text("")),
        rich_markup_mode=None,
        pretty_exceptions_show_locals=False,  # older versions of typer show them: readings, among others
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    assembled.callback()(_veilnet)
    for verb, help_line in verbs.items():
        if find_spec(f"{_PACKAGE}.{verb}") is not None:
            assembled.command(name=verb, help=help_line)(_placeholder)
    return assembled
