"""What the verbs share: options to read, a console, JSON, tables, and a progress bar that knows its place."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from veilnet.designs.questions import AtLeast, Target, Times

from veilnet._core.errors import InvalidRequest
from veilnet.io._json import plain

_PIPE_WIDTH = 120  # columns of a table that goes to a file or a pipe
_PATIENCE = 1.0  # seconds before a progress bar appears

_Read = TypeVar("_Read")


def fraction(text: str | None, option: str) -> Any:
    """A part of something as a number, which may be written as a percentage; None where none was given."""
    if text is None:
        return None
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InvalidRequest(f"{option}: expected 5% or 0.05, found {text!r}") from None


def growth(text: str, option: str, instead: str = "--private-error {}") -> float:
    """How much an error variance grows, as the paper counts it: p, 2 for one that is three times the raw one.

    instead: the option to write for somebody who means standard errors.
    """
    if text.endswith(("%", "x")):
        raise InvalidRequest(
            f"{option}: expected a plain number, the growth of a variance, found {text!r}; for standard errors write "
            f"{instead.format(text)}"
        )
    return amount(text, option)


def loss_allowed(text: str | None, option: str) -> float | None:
    """A utility loss, the growth of the public error variance: a plain number, which design() reads."""
    if text is None:
        return None
    value = growth(text, option, "--public-error {}")
    if value > 1:
        raise InvalidRequest(
            f"{option}: {text} lets the variance grow by {100 * value:g} %; for a standard error {text} % larger "
            f"write --public-error {text}%, for {text} as it is --public-error {(1 + value) ** 0.5:.6g}x"
        )
    return value


def private_error(text: str, option: str) -> Times | AtLeast:
    """A standard error: ``2x`` the raw one, ``50%`` more, or ``12 steps/min`` in its unit."""
    from veilnet.designs.questions import AtLeast, Times

    found = re.fullmatch(r"\s*([-+0-9.eE]*[0-9.])\s*(.*?)\s*", text)
    try:
        value, unit = float(found[1]), found[2]  # type: ignore[index]
    except (TypeError, ValueError):
        raise InvalidRequest(
            f"{option}: expected a standard error, found {text!r}; write 2x for twice the raw one, 50% for half as "
            "much again, or a number with its unit, 12steps/min"
        ) from None
    if unit == "%":
        return Times(1 + value / 100)
    return Times(value) if unit == "x" else AtLeast(value, unit)


def public_error(text: str, option: str) -> Times:
    """How much the public standard error may grow: ``5%``, or ``1.05x``."""
    from veilnet.designs.questions import AtLeast

    found = private_error(text, option) if text.strip().endswith(("%", "x")) else None
    if found is None or isinstance(found, AtLeast):
        raise InvalidRequest(
            f"{option}: expected 5% (a standard error at most 5 % larger) or 1.05x, found {text!r}"
        )
    return found


def asked_for(
    privacy: list[str] | None,
    private_errors: list[str] | None,
    utility_loss: str | None,
    public_errors: str | None,
) -> dict[str, Any]:
    """``privacy=`` and ``utility_loss=`` of a design, from the paper's options or from those in standard errors."""
    for one, other, name in (
        (privacy, private_errors, "--privacy and --private-error"),
        (utility_loss, public_errors, "--utility-loss and --public-error"),
    ):
        if one and other:
            raise InvalidRequest(f"{name}: expected one of them, found both; keep the one that you mean")
    loss: Any = loss_allowed(utility_loss, "--utility-loss")
    return {
        "privacy": targets(privacy, "--privacy") if privacy else targets(private_errors, "--private-error"),
        "utility_loss": public_error(public_errors, "--public-error") if public_errors else loss,
    }


def amounts(given: list[str] | None, option: str) -> float | dict[str, float] | None:
    """["10"] -> 10.0; ["gait=10", "presence=3"] -> a mapping."""
    return _one_or_by_name(given, option, lambda text: amount(text, option))


def targets(given: list[str] | None, option: str) -> Target | dict[str, Target] | None:
    """As :func:`amounts`, by :func:`growth` or, of --private-error, by :func:`private_error`.

    ``worst:5`` asks as much of every direction, ``auc:0.6`` of a secret.
    """
    from veilnet.designs.questions import Worst
    from veilnet.designs.secrets import Accuracy, Auc, Mu, Power

    of_secrets = {"auc": Auc, "accuracy": Accuracy, "power": Power, "mu": Mu}

    def read(text: str) -> Target:
        kind, colon, number = text.rpartition(":")
        if kind in of_secrets:
            return of_secrets[kind](amount(number, option))
        if colon and kind != "worst":
            known = ", ".join(f"{each}:number" for each in ("worst", *of_secrets))
            raise InvalidRequest(f"{option}: expected a number, or one of {known}; found {text!r}")
        reading = private_error if option == "--private-error" else growth
        return Worst(reading(number, option)) if colon else reading(text, option)  # type: ignore[arg-type]

    return _one_or_by_name(given, option, read)


def _one_or_by_name(
    given: list[str] | None, option: str, read: Callable[[str], _Read]
) -> _Read | dict[str, _Read] | None:
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return read(given[0])
    found = {}
    for item in given:
        _refuse_list(item, option)
        name, equals, number = item.rpartition("=")
        if not equals:
            raise InvalidRequest(f"{option}: expected one number, or name=number for each, found {item!r}")
        found[name] = read(number)
    return found


def _refuse_list(item: str, option: str) -> None:
    """An error for several name=number in one, which could also be one strange name."""
    parts = [part.strip() for part in item.split(",")]
    if len(parts) > 1 and all("=" in part.strip("=") for part in parts):
        raise InvalidRequest(
            f"{option}: expected one name=number, found {item!r}; repeat the option for each: "
            + " ".join(f"{option} {part}" for part in parts)
        )


def amount(text: str, option: str) -> float:
    """A number given to an option."""
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{option}: expected a number, found {text!r}") from None


def check_file(path: Path | None) -> None:
    """An error for a file that could not be written, before anything is computed for it."""
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidRequest(f"{path}: expected a file, found a folder; choose another name")
    if not folder.is_dir():
        raise InvalidRequest(
            f"{path}: there is no folder {path.parent}; make it first, or choose another name"
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InvalidRequest(f"{path}: may not be written to; choose another name")


def check_plot(path: Path | None) -> None:
    """An error for a plot that could not be drawn or written, before anything is computed for it."""
    if path is not None and path.suffix.lower() != ".svg":
        raise InvalidRequest(f"{path}: expected a picture ending in .svg; choose another name")
    check_file(path)


def write_plot(path: Path | None, kind: str, what: Any) -> None:
    """Write a picture of :mod:`veilnet.report.plots`, where one was asked for; kind: errors, frontier, ..."""
    if path is not None:
        from veilnet.io._atomic import write_text
        from veilnet.report import plots

        write_text(path, getattr(plots, f"{kind}_plot")(what))


def refuse_without_ledger(ledger: Path | None, **compared: object) -> None:
    """Refuse what a ledger is to be compared with where there is none; compared: option -> what was given."""
    for option, value in compared.items():
        if value is not None and ledger is None:
            raise InvalidRequest(
                f"--{option}: there is no ledger to compare it with; give --ledger, or leave it out"
            )


@cache
def _console() -> Console:
    from rich.console import Console

    # Markup is off: names come from the user's files and may contain brackets. Use styles or rich.text.Text.
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(markup=False, highlight=False, emoji=False, width=None if is_terminal else _PIPE_WIDTH)


def show(*what: object, **how: Any) -> None:
    """Print a table, or a sentence whose lines are broken to fit the screen; how: as rich's ``Console.print``."""
    _console().print(*what, **how)


def tell(sentence: object) -> None:
    """Print a sentence as it is, however long its lines: what reads it, a terminal or a program, breaks them."""
    sys.stdout.write(f"{sentence}\n")


def tell_next(*words: object) -> None:
    """The command to go on with."""
    import shlex

    tell(f"Next:\n  veilnet {' '.join(shlex.quote(str(word)) for word in words)}")


def tell_address(address: str) -> None:
    """Where a browser finds what was started here."""
    tell(f"Open this address in a browser on this machine (it works once):\n\n  {address}\n\nCtrl-C ends it.")
    sys.stdout.flush()  # a reader at a pipe waits for the address


def microseconds(text: str | None, option: str) -> int:
    """A duration given to an option, 0 where none was."""
    from veilnet._core.durations import read_duration

    try:
        return 0 if text is None else read_duration(text)
    except ValueError as error:
        raise InvalidRequest(f"{option}: {error}") from None


def print_json(value: object) -> None:
    """Write a value as JSON."""
    sys.stdout.write(json_text(value))


def json_text(value: object) -> str:
    """A value as JSON, which knows no infinity: "inf", "-inf" and "nan" are written as strings."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> Table:
    """A table to print; numbers are shown to four digits and stand at the right of their column."""
    from rich.table import Table
    from rich.text import Text

    kept, heading = [list(row) for row in rows], None if title is None else Text(title)
    result = Table(title=heading, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        numeric = bool(kept) and all(_is_number(row[position]) for row in kept)
        result.add_column(Text(name), justify="right" if numeric else "left")
    for row in kept:
        result.add_row(*(Text(_shown(cell)) for cell in row))
    return result


def _is_number(cell: object) -> bool:
    return hasattr(cell, "__float__") and not isinstance(cell, bool)


def _shown(cell: Any) -> str:
    if cell is None or isinstance(cell, bool):
        return {None: "", True: "yes", False: "no"}[cell]
    return f"{float(cell):.4g}" if _is_number(cell) and not isinstance(cell, int) else str(cell)


class Steps:
    """How far a long computation has come; call :meth:`update` or :meth:`advance` from it."""

    def __init__(self, bar: Progress | None, description: str, total: float | None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task(description, total=total)

    def update(self, completed: float, total: float | None = None, what: str | None = None) -> None:
        """So much is done, of so much; of something else than before where that is said."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=completed, total=total, description=what)

    def reached(self, _what: str, part: float) -> None:
        """So great a part is done, as computations report it (:data:`veilnet._core.progress.Progress`)."""
        self.update(part)


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Steps]:
    """A progress bar on standard error: only on a terminal, and only if the work takes over a second."""
    bar = _bar()
    steps = Steps(bar, description, total)
    if bar is None:
        yield steps
        return
    ended = threading.Event()

    def show_if_slow() -> None:
        if not ended.wait(_PATIENCE):
            bar.start()

    waiting = threading.Thread(target=show_if_slow, daemon=True)
    waiting.start()
    try:
        yield steps
    finally:
        ended.set()
        waiting.join()
        bar.stop()


def _bar() -> Progress | None:
    """A bar on standard error; None where that is no terminal, which is seen without loading rich."""
    if not sys.stderr.isatty() and not any(name in os.environ for name in ("FORCE_COLOR", "TTY_COMPATIBLE")):
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=screen, transient=True)
    return bar if screen.is_terminal else None


def groups(summed: list[str] | None) -> bool | list[list[str]] | None:
    """What --summed asks for: all agents in one group, or lists of them."""
    if not summed:
        return None
    if summed == ["all"]:
        return True
    return [[name.strip() for name in each.split(",")] for each in summed]
