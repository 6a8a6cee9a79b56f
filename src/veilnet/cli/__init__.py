"""The command ``veilnet``: one verb per module, imported only when it is called.

A verb ``check`` lives in ``veilnet/cli/check.py`` and is the function named ``command`` there, with typer's
annotations; its docstring is the long help::

    def command(network: Annotated[Path, typer.Argument(help="A network file.")], json: bool = False) -> None:
        \"\"\"Say whether privacy can be free in this network.\"\"\"

Such a module imports the mathematics inside the function, so that ``veilnet check --help`` stays quick too.
It raises what went wrong and lets :func:`main` say it: exit code 0 means done, 1 a truthful "no"
(``Infeasible``, or ``raise typer.Exit(1)`` for a promise that does not hold), 2 wrong input.
``VEILNET_DEBUG=1`` shows the traceback of any error.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from veilnet import __version__
from veilnet._core.errors import Infeasible, VeilnetError

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


def _load(verb: str) -> Any:
    """The verb's own command, with its options: imports the verb's module."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name=verb)(import_module(f"{__name__}.{verb}").command)
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
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        code, line = _explain(error)
        if line is None or os.environ.get("VEILNET_DEBUG"):
            raise
        sys.stderr.write(f"veilnet: error: {line}\n")
        return code
    return result if isinstance(result, int) else 0


def _reader_left() -> int:
    """Whoever read our output has closed the pipe: say nothing, and flush nothing at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + 13  # what a shell reports of a program ended by SIGPIPE


def _explain(error: Exception) -> tuple[int, str | None]:
    """Exit code and message of an error the user can mend; no message for one that is ours."""
    if isinstance(error, VeilnetError):
        return (1 if isinstance(error, Infeasible) else 2), _one_line(str(error))
    if isinstance(error, typer.Abort):
        return 130, "interrupted"
    if isinstance(error, OSError) and error.filename is not None:
        return 2, f"{error.filename}: {error.strerror}"
    usage = getattr(error, "format_message", None)  # typer's own errors, whatever module it keeps them in
    if usage is not None:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context is not None else ""
        return 2, _one_line(usage()) + hint
    return 1, None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """The entry point of the command."""
    sys.exit(run(sys.argv[1:]))
