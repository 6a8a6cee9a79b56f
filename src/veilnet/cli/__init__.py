"""The command ``veilnet``: one verb per module, imported only when it is called.

A verb ``check`` lives in ``veilnet/cli/check.py`` and is the function named ``command`` there, with typer's
annotations; its docstring is the long help::

    def command(network: Annotated[Path, typer.Argument(help="A network file.")], json: bool = False) -> None:
        \"\"\"Say whether privacy can be free in this network.\"\"\"

A group of commands (``veilnet live keys``) has a table ``commands``, name -> function, in their place.

Such a module imports the mathematics inside the function, so that ``veilnet check --help`` stays quick too. The verbs
of ``QUICK`` run in loops: they do without typer, see ``_quick``.
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
from importlib import import_module
from pathlib import Path

from veilnet._core.errors import Infeasible, VeilnetError

INTERNAL_ERROR = 3

VERBS = {
    "demo": "The whole story on a small house, in a minute.",
    "init": "Write a commented network file to start from.",
    "check": "Can privacy be free here? Who stands in the way?",
    "design": "Find what each agent should send.",
    "frontier": "Utility against privacy, from nothing to everything.",
    "inspect": "What would an agent's file send of each reading?",
    "extract": "One agent's own file, out of a plan that is one file.",
    "sign": "Sign the files of a plan, for agents that trust your key.",
    "sanitize": "Make an agent's readings safe to send.",
    "fuse": "Estimate the public parameters from what arrived.",
    "agent": "Run an agent: read, sanitize, send over a broker.",
    "center": "Run the centre: receive over a broker, estimate, acknowledge.",
    "audit": "Attack a plan and report what can be learned.",
    "verify": "Recompute what a saved plan promises.",
    "report": "One page that shows a plan, to look at and to hand on.",
    "live": "Keys, a demo and the status of agents and a centre over a broker.",
    "studio": "A plan live in the browser: drag privacy, see what it costs.",
    "fit": "Make a network from calibration data.",
    "refit": "Make a new plan from new calibration data, and compare.",
    "reproduce": "Repeat the experiments of the paper.",
    "bench": "Measure how fast this machine does it.",
    "doctor": "What works on this machine, and what to do about the rest.",
}
QUICK = ("sanitize", "fuse")


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; user mistakes become one line on standard error."""
    try:
        code = _call(arguments or ["--help"])
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer makes this of it
            return _reader_left()
        raise
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(": ".join(["veilnet: interrupted", *filter(None, [str(interrupt)])]) + "\n")
        return 130
    except Exception as error:
        if os.environ.get("VEILNET_DEBUG"):
            traceback.print_exception(error)
        code, line = _explain(error, arguments[0] if arguments else "")
        sys.stderr.write(f"veilnet: {line}\n")
        if isinstance(error, OSError):
            _drop_output_if_stuck()
    return code


def _call(arguments: list[str]) -> int:
    if arguments[0] in QUICK:
        from veilnet.cli import _quick

        return _quick.run(arguments[0], import_module(f"{__name__}.{arguments[0]}").command, arguments[1:])
    from veilnet.cli import _group

    return _group.run(VERBS, arguments)


def _reader_left() -> int:
    """Whoever read our output has closed the pipe: say nothing, and flush nothing at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + 13  # what a shell reports of a program ended by SIGPIPE


def _drop_output_if_stuck() -> None:
    """What standard output could not take, its disk being full, must not raise once more when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _explain(error: Exception, verb: str) -> tuple[int, str]:
    """Exit code and one line for an error: what the user can mend, or a call for help with what is ours."""
    if isinstance(error, VeilnetError):
        from veilnet.cli._options import in_options

        words = in_options(_one_line(str(error)), verb) if verb in VERBS else _one_line(str(error))
        return (1 if isinstance(error, Infeasible) else 2), f"error: {words}"
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
