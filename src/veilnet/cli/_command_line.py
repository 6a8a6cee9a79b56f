"""How verbs are declared, read and explained: annotated functions, by argparse.

A verb is a function ``command`` whose parameters have an :func:`argument` or an :func:`option` for a default::

    def command(network: Path = argument("A network file."), json: bool = JSON) -> int | None:

Its docstring is the long help. It returns its exit code, or None for 0. argparse loads in a fraction of the time of
click or typer, and ``sanitize`` and ``fuse`` are started for every batch of readings.
"""

from __future__ import annotations

import argparse
import inspect
import textwrap
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from veilnet._core.errors import InvalidRequest
from veilnet._core.spelling import did_you_mean
from veilnet.cli._examples import example_text

Command = Callable[..., int | None]


@dataclass(frozen=True)
class Argument:
    """A parameter given by its place; a list takes one or more. Without a default it is required."""

    help: str
    default: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Option:
    """A parameter given by its name; a bool takes no value, a list may be repeated.

    ``metavar`` stands for the value in the help; ``short`` is a letter for it, ``-v``; ``yes_or_no`` gives a bool a
    ``--no-`` form too, and a name such as ``--stream/--rows`` one of its own. A list of so
    many ``values`` takes them all at once.
    """

    name: str
    help: str
    at_least: float | None = None
    at_most: float | None = None
    metavar: str | None = None
    yes_or_no: bool = False
    default: Any = None
    required: bool = False
    values: int | None = None
    short: str | None = None


# Where the parameter's own type is expected.
argument: Callable[..., Any] = Argument
option: Callable[..., Any] = Option

# What several verbs ask for.
PRIVATE_ERROR = option(
    "--private-error",
    "Smallest standard error allowed: 2x the raw one, or in units, 12steps/min. For every private "
    "parameter, or by name, gait=2x (repeat). gait=worst:2x holds in every direction. For a secret: "
    "presence=auc:0.6, accuracy:0.6, power:0.05 or mu:0.5.",
    metavar="[NAME=]ERROR",
)
PUBLIC_ERROR = option(
    "--public-error", "How much the public standard error may grow, such as 5%.", metavar="PERCENT"
)
PRIVACY = option(
    "--privacy",
    "The same on the paper's scale: p, the growth of an error variance (3 for 2x), or gait=3 (repeat).",
    metavar="[NAME=]P",
)
UTILITY_LOSS = option(
    "--utility-loss",
    "The same on the paper's scale: growth of the public error variance, 0.1025 for 5%.",
    metavar="NUMBER",
)
SUMMED = option(
    "--summed",
    "Agents whose messages the centre sees only as a sum: all, or kitchen,hall (repeat).",
    metavar="AGENTS",
)
JSON = option("--json", "Answer in JSON.")
VERBOSE = option("--verbose", "Show all details.", short="-v")
PAPER = option("--paper", "Also show the paper's u and p (growth of error variances).")
PLOT = option("--plot", "Picture to write (.svg).")
ACCEPT = option("--accept", "Doubt of the fit to accept, by name, so that it is not repeated (repeat).")
BROKER = option("--broker", "Broker address, such as mqtts://host:8883.", required=True)
ROOT = option("--root", "Topic prefix.", default="veilnet")
TRUST = option("--trust", "Fingerprint, public key or trust file; any other plan is refused.")
ACCEPTED = option(
    "--accepted", "Record of the signed plan that was agreed to; beside the agent's file by default."
)
HEADER = option(
    "--header",
    "Whether a CSV starts with column names; by default as the plan and the first line say.",
    yes_or_no=True,
)
PORT = option("--port", "Port on this machine; 0 picks a free one.", default=0)
GATE = option("--gate", "Probability per row of rejecting a message that fits the model (default 1e-6).")
METRICS = option(
    "--metrics",
    "Serve /metrics (Prometheus) and /health on this port of the loopback (0: any), or on name:port.",
)
LOG = option("--log", "Log format: text or json, with time and level.")
KEEP = option("--keep", "Name messages that contradict the model, but use them.")
HEAD = option("--head", "The ledger's head at the last audit.")


# What stands for the value of options that several verbs have, or whose value has a form of its own.
_METAVARS = {
    "--accept": "NAME", "--agent": "NAME=COL,COL", "--blocks": "COL", "--broker": "URL", "--format": "csv|jsonl",
    "--group": "COL", "--guessed": "[NAME=]PART", "--head": "HASH", "--join": "last|mean",
    "--least-privacy": "[NAME=]P", "--method": "METHOD", "--missing": "refuse|drop", "--only": "SECTION",
    "--port": "PORT", "--power": "[AGENT=]POWER", "--private": "[NAME=]COL,COL", "--public": "[NAME=]COL,COL",
    "--public-loss": "FRACTION", "--root": "TOPIC", "--run": "AGENT=COMMAND", "--seed": "SEED",
    "--stale": "DURATION", "--step": "DURATION", "--time": "COL", "--trust": "KEY|FILE", "--wait": "DURATION",
    "--within": "DURATION",
}  # fmt: skip


class _Formatter(argparse.HelpFormatter):
    """Fills each paragraph, and leaves lines that are indented, the examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = textwrap.dedent(text).strip().split("\n\n")
        return "\n\n".join(
            each if "\n  " in each else textwrap.fill(each, width, initial_indent=indent)
            for each in paragraphs
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidRequest(f"{message} (see '{self.prog} --help')")


def call(name: str, command: Command, words: Sequence[str]) -> int:
    """Call the command of this name (``check``, ``live keys``) with what was typed; its exit code."""
    parser = parser_of(name, command)
    given, unknown = parser.parse_known_intermixed_args(words)
    for each in unknown:
        if not each.startswith("-"):
            hint = ": write 5% without a space" if each == "%" else ""
            parser.error(f"unexpected argument {each!r}{hint}")
        parser.error(
            f"no such option: {each}{did_you_mean(each.partition('=')[0], parser._option_string_actions)}"
        )
    return command(**vars(given)) or 0


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    """The parser for a command's annotated parameters."""
    made = _Parser(
        prog=f"veilnet {name}",
        description=inspect.getdoc(command) or "",
        epilog=example_text(name),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    hints = get_type_hints(command)
    for parameter, given in inspect.signature(command).parameters.items():
        _add(made, parameter, hints[parameter], given.default)
    return made


def _add(parser: argparse.ArgumentParser, parameter: str, kind: Any, declared: Argument | Option) -> None:
    """Tell argparse of one parameter."""
    default = False if kind is bool and declared.default is None else declared.default
    kind = _not_none(kind)
    is_required = default is inspect.Parameter.empty or (isinstance(declared, Option) and declared.required)
    is_list = get_origin(kind) is list
    value = get_args(kind)[0] if is_list else kind
    settings: dict[str, Any] = {"help": _literal(declared.help), "default": None if is_required else default}
    if isinstance(default, str | int | float | Path) and not isinstance(default, bool):
        settings["help"] += _literal(f" (default: {default})")
    if isinstance(declared, Argument):
        nargs = ("+" if is_list else None) if is_required else ("*" if is_list else "?")
        parser.add_argument(parameter, **settings, **_read_as(value), nargs=nargs)
        return
    if declared.yes_or_no:
        settings["action"] = argparse.BooleanOptionalAction
    elif value is bool:
        settings["action"] = "store_true"
    else:
        settings |= _read_as(value, declared.at_least, declared.at_most)
        settings |= {"metavar": declared.metavar or _metavar(declared.name, value), "required": is_required}
        if declared.values:
            settings |= {"nargs": declared.values, "metavar": tuple((declared.metavar or "").split())}
        elif is_list:
            settings["action"] = "append"
    name, _, opposite = declared.name.partition("/")
    if opposite:
        no = f"Not {name}."
        parser.add_argument(opposite, dest=parameter, action="store_false", default=default, help=no)
    parser.add_argument(*filter(None, (declared.short, name)), dest=parameter, **settings)


def _literal(text: str) -> str:
    """A text that argparse leaves as it is: ``5%`` is no format to fill in."""
    return text.replace("%", "%%")


def _not_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _metavar(name: str, kind: Any) -> str:
    return _METAVARS.get(name) or ("FILE" if kind is Path else "NUMBER" if kind in (int, float) else "TEXT")


def _read_as(kind: Any, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    """How argparse makes a value of this kind from text; it makes one line of what goes wrong."""
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if kind not in (int, float):
        return {"type": kind}
    expected = "a whole number" if kind is int else "a number"

    def read(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}") from None
        if at_least is not None and not number >= at_least:
            raise argparse.ArgumentTypeError(f"expected at least {at_least:g}, found {number:g}")
        if at_most is not None and not number <= at_most:
            raise argparse.ArgumentTypeError(f"expected at most {at_most:g}, found {number:g}")
        return number

    return {"type": read}
