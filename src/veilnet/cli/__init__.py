"""The command ``veilnet``: one verb per module, imported only when it is called.

A verb ``check`` lives in ``veilnet/cli/check.py`` and is the function named ``command`` there, declared as
``_command_line`` says. A group of commands (``veilnet live keys``) has a table ``commands``, name -> function, in its
place. Such a module imports the mathematics inside the function, so that ``veilnet check --help`` stays quick too.
It raises what went wrong and lets :func:`main` say it, in one line on standard error. Exit codes:

- 0: done;
- 1: a truthful "no" (``Infeasible``, or what the command returns for a promise that does not hold);
- 2: wrong input;
- 3: an error in veilnet. The line asks for a report; it names the kind of fault and its place in the code, never
  its message, which might hold a reading;
- 130: interrupted (Ctrl-C).

``VEILNET_DEBUG=1`` shows the traceback of any error too, with its message.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from veilnet._core.errors import Infeasible, InvalidRequest, VeilnetError

INTERNAL_ERROR = 3

_STEPS = {
    "Begin": {
        "demo": "Everything on a small house, in a minute.",
        "init": "Write a commented network file to start from.",
        "fit": "Fit a network to calibration data.",
        "doctor": "Check this machine: what works, and how to fix the rest.",
    },
    "Plan": {
        "check": "Is privacy free here? Which agents limit it?",
        "design": "Find what each agent should send.",
        "frontier": "Public error against private error, as a curve.",
        "refit": "Redesign from new calibration data, and compare.",
        "report": "Show a plan as one self-contained HTML page.",
        "studio": "Design in the browser: drag privacy, see what it costs.",
    },
    "Trust": {
        "verify": "Recompute what a saved plan promises.",
        "audit": "Attack a plan and report what can be learned.",
        "inspect": "Show what an agent's file would send.",
        "sign": "Sign a plan, for agents that trust your key.",
        "reproduce": "Reproduce the paper's experiments.",
    },
    "Run": {
        "parts": "The same verbs for networks too large for one machine.",
        "extract": "Extract one agent's file from plan.npz.",
        "export": "Export an agent as C99, for microcontrollers.",
        "sanitize": "Turn an agent's readings into messages.",
        "fuse": "Estimate the public parameters from the messages.",
        "agent": "Run an agent: read, sanitize, send over a broker.",
        "center": "Run the centre: receive over a broker, estimate, acknowledge.",
        "live": "Keys, demo, status and backup of a live network.",
    },
}
VERBS = {verb: line for step in _STEPS.values() for verb, line in step.items()}


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; user mistakes become one line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        # As in files: other encodings have no ± or no σ. A file's name may be bytes that are no UTF-8.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        code = _call(arguments or ["--help"])
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as ended:  # argparse has shown the help, or a command ends with a truthful no
        code = int(ended.code or 0)
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(": ".join(["veilnet: interrupted", *filter(None, [str(interrupt)])]) + "\n")
        return 130
    except Exception as error:
        if os.environ.get("VEILNET_DEBUG"):
            traceback.print_exception(error)
        code, line = _explain(error, *(arguments or [""]))
        sys.stderr.write(f"veilnet: {line}\n")
        if isinstance(error, OSError):
            _drop_output_if_stuck()
    return code


def _call(arguments: list[str]) -> int:
    verb, *words = arguments
    if verb in VERBS:
        from veilnet.cli._command_line import call

        module = import_module(f"{__name__}.{verb}")
        if not hasattr(module, "commands"):
            return call(verb, module.command, words)
        if words and words[0] in module.commands:
            return call(f"{verb} {words[0]}", module.commands[words[0]], words[1:])
        if words and words[0] not in ("-h", "--help"):
            raise _unknown(f"{verb} ", words[0], module.commands)
        lines = {name: _first_line(command) for name, command in module.commands.items()}
        sys.stdout.write(_listing(verb, "COMMAND", VERBS[verb], {"Commands": lines}))
    elif verb in ("-h", "--help"):
        purpose = "Share sensor data for one estimate while provably limiting the others."
        sys.stdout.write(_listing("", "VERB", purpose, _STEPS))
    elif verb == "--version":
        from veilnet import __version__

        sys.stdout.write(f"veilnet {__version__}\n")
    elif verb == "--completion":
        from veilnet.cli._completion import script

        sys.stdout.write(script(words[0] if words else ""))
    elif verb == "--complete":
        from veilnet.cli._completion import offered

        sys.stdout.writelines(f"{each}\n" for each in offered(words, VERBS))
    else:
        raise _unknown("", verb, VERBS)
    return 0


def _listing(verb: str, kind: str, purpose: str, steps: Mapping[str, Mapping[str, str]]) -> str:
    """The help of the command itself, or of a verb that has commands of its own."""
    from veilnet.cli._examples import example_text

    name = f"veilnet {verb}".strip()
    width = max(len(each) for step in steps.values() for each in step) + 2
    lines = [f"usage: {name} {kind} ...", "", purpose]
    for step, verbs in steps.items():
        lines += ["", f"{step}:", *(f"  {each:<{width}}{line}" for each, line in verbs.items())]
    lines += ["", example_text(verb), "", f"'{name} {kind} --help' explains each of them."]
    if not verb:
        lines.append(
            "'veilnet --version' prints the version, 'veilnet --completion bash' (zsh, fish) a completion script."
        )
    return "\n".join(lines) + "\n"


def _first_line(command: object) -> str:
    return (command.__doc__ or "").partition("\n")[0]


def _unknown(before: str, word: str, known: Mapping[str, object]) -> InvalidRequest:
    from veilnet._core.spelling import did_you_mean

    hint = did_you_mean(word, known)
    return InvalidRequest(f"{word}: no such command{hint} (see 'veilnet {before}--help')")


def _reader_left() -> int:
    """The reader of our output has closed the pipe: say nothing, and flush nothing at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + 13  # what a shell reports of a program ended by SIGPIPE


def _drop_output_if_stuck() -> None:
    """What standard output could not take, its disk being full, must not raise once more when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _explain(error: Exception, verb: str, *words: str) -> tuple[int, str]:
    """Exit code and one line for an error: what the user can mend, or a call for help with what is ours."""
    if isinstance(error, VeilnetError):
        from veilnet.cli._options import in_options

        said = _one_line(str(error))
        said = in_options(said, verb, words) if verb in VERBS else said
        return (1 if isinstance(error, Infeasible) else 2), f"error: {said}"
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in ("scipy", "rich"):  # left out where only an agent was installed
        return (
            2,
            f"error: this needs {package}, which an agent does without: run 'pip install veilnet' for all of it",
        )
    if isinstance(error, OSError) and error.strerror is not None:  # a file that is not there, a full disk
        where = "" if error.filename is None else f"{error.filename}: "
        return 2, f"error: {where}{error.strerror}"
    return INTERNAL_ERROR, (
        f"internal error ({type(error).__name__}{_place(error)}): this is a bug in veilnet. Please "
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
    """The entry point of the command.

    Linear algebra runs on one thread unless the environment says otherwise: small factorisations by the thousand are
    up to tenfold slower where threads wait for each other.
    """
    if not any(name in os.environ for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")):
        os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    sys.exit(run(sys.argv[1:]))
