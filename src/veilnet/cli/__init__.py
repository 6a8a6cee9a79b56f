"""The command ``veilnet``: one verb per module, imported only when it is called.

A verb ``check`` lives in ``veilnet/cli/check.py`` and is the function named ``command`` there, with typer's
annotations; its docstring is the long help::

    def command(network: Annotated[Path, typer.Argument(help="A network file.")], json: bool = False) -> None:
        \"\"\"Say whether privacy can be free in this network.\"\"\"

Such a module imports the mathematics inside the function, so that ``veilnet check --help`` stays quick too.
It raises what went wrong and lets :func:`main` say it, in one line on standard error. Exit codes:

- 0: done;
- 1: a truthful "no" (``Infeasible``, or ``raise typer.Exit(1)`` for a promise that does not hold);
- 2: wrong input;
- 3: a fault of veilnet's own. The line asks for a report; it names the kind of fault and its place in the code, never
  its message, which might hold a reading;
- 130: interrupted (Ctrl-C).

``VEILNET_DEBUG=1`` shows the traceback of any error too, with its message.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from veilnet import __version__
from veilnet._core.errors import Infeasible, VeilnetError

INTERNAL_ERROR = 3

VERBS = {
    "demo": "The whole story on a small house, in a minute.",
    "init": "Write a commented network file to start from.",
    "check": "Can privacy be free here? Who stands in the way?",
    "design": "Find what each agent should send.",
    "frontier": "Utility against privacy, from nothing to everything.",
    "sanitize": "Make an agent's readings safe to send.",
    "fuse": "Estimate the public parameters from what arrived.",
    "audit": "Attack a plan and report what can be learned.",
    "verify": "Recompute what a saved plan promises.",
    "fit": "Make a network from calibration data.",
    "reproduce": "Repeat the experiments of the paper.",
    "bench": "Measure how fast this machine does it.",
}


class _Interrupted(Exception):
    """Ctrl-C while a verb was at work; typer would write an empty line for the original."""


def _load(verb: str) -> Any:
    """The verb's own command, with its options: imports the verb's module."""
    command = import_module(f"{__name__}.{verb}").command

    @wraps(command)
    def interruptible(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt as interrupt:
            raise _Interrupted(str(interrupt)) from interrupt

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=verb)(interruptible)
    return typer.main.get_command(app)


class _LazyGroup(TyperGroup):
    """Lists every verb by its one line of help; loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.commands:
            self.commands[args[0]] = _load(args[0])
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


def _assemble() -> typer.Typer:
    assembled = typer.Typer(
        cls=_LazyGroup,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_show_locals=False,  # older versions of typer show them: readings, among others
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    assembled.callback()(_veilnet)
    for verb, help_line in VERBS.items():
        if find_spec(f"{__name__}.{verb}") is not None:
            assembled.command(name=verb, help=help_line)(_placeholder)
    return assembled


app = _assemble()


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; user mistakes become one line on standard error."""
    try:
        result = app(args=arguments or ["--help"], prog_name="veilnet", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer makes this of it
            return _reader_left()
        raise
    except (_Interrupted, typer.Abort, KeyboardInterrupt) as interrupt:
        sys.stderr.write(": ".join(["veilnet: interrupted", *filter(None, [str(interrupt)])]) + "\n")
        return 130
    except Exception as error:
        if os.environ.get("VEILNET_DEBUG"):
            traceback.print_exception(error)
        code, line = _explain(error)
        sys.stderr.write(f"veilnet: {line}\n")
        return code
    return result if isinstance(result, int) else 0


def _reader_left() -> int:
    """Whoever read our output has closed the pipe: say nothing, and flush nothing at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + 13  # what a shell reports of a program ended by SIGPIPE


def _explain(error: Exception) -> tuple[int, str]:
    """Exit code and one line for an error: what the user can mend, or a call for help with what is ours."""
    if isinstance(error, VeilnetError):
        return (1 if isinstance(error, Infeasible) else 2), f"error: {_one_line(str(error))}"
    if isinstance(error, OSError) and error.strerror is not None:  # a file that is not there, a full disk
        where = "" if error.filename is None else f"{error.filename}: "
        return 2, f"error: {where}{error.strerror}"
    usage = getattr(error, "format_message", None)  # typer's own errors, whatever module it keeps them in
    if usage is not None:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context is not None else ""
        return 2, f"error: {_one_line(usage())}{hint}"
    return INTERNAL_ERROR, (
        f"internal error ({type(error).__name__}{_place(error)}): this is a fault of veilnet, not of yours. Please "
        "report it with the command you ran; VEILNET_DEBUG=1 shows more, which may include your numbers"
    )


def _place(error: Exception) -> str:
    """Where in veilnet an error arose, without what it was about."""
    package = Path(__file__).parents[1]
    ours = [
        f", {Path(frame.filename).relative_to(package).as_posix()} line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(package)
    ]
    return ours[-1] if ours else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """The entry point of the command."""
    sys.exit(run(sys.argv[1:]))
