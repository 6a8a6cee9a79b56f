"""A deployed sanitizer that is a program: readings as CSV on its standard input, messages on its output.

``veilnet sanitize plan/kitchen.json --again`` is one; so is whatever really runs at the agent.
"""

from __future__ import annotations

import csv
import io
import shlex
import subprocess
from collections.abc import Sequence

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array

_PATIENCE = 120.0  # seconds for one block of readings
_KEYS = ("row", "counted", "time")  # how rows may be identified


class CommandMechanism:
    """Runs a command for every block of readings: lines of N numbers in, ``row,...,z1,z2,...`` out.

    Where readings have names, a header with them goes first, as ``veilnet sanitize`` wants it.
    """

    def __init__(self, command: str | Sequence[str], names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        try:
            self.command = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise InvalidRequest(f"command: {error} in {command!r}") from None
        if not self.command:
            raise InvalidRequest("command: expected a program that reads readings as CSV, found nothing")

    def __call__(self, readings: Array) -> Array:
        """What the command answers to a block (T, N_i); refused rows, or other lines, are an error."""
        lines = "".join(",".join(map(repr, row)) + "\n" for row in readings.tolist())
        if self.names:
            first_line = io.StringIO()
            csv.writer(first_line, lineterminator="\n").writerow(self.names)
            lines = first_line.getvalue() + lines
        try:
            answer = subprocess.run(
                self.command, input=lines, capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidReading(f"{self.command[0]}: {error}") from None
        if answer.returncode != 0:
            reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise InvalidReading(f"{self.command[0]}: exit code {answer.returncode}: {reason[:200]}")
        rows = [row for row in csv.reader(answer.stdout.splitlines()) if row]
        first = 1  # column of the first number
        if rows and rows[0][0].strip().lower() in _KEYS:
            first = sum(name.strip() in (*_KEYS, "plan", "agent", "private") for name in rows.pop(0))
        try:
            return np.array([row[first:] for row in rows], dtype=np.float64).reshape(len(rows), -1)
        except ValueError:
            raise InvalidReading(f"{self.command[0]}: expected lines row,z1,z2,... of equal length") from None
