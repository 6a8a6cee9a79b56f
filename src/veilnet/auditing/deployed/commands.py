"""A deployed sanitizer that is a program: readings as CSV on its standard input, messages on its output.

``veilnet sanitize plan/kitchen.json`` is one; so is whatever really runs at the agent.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array

_PATIENCE = 120.0  # seconds for one block of readings


class CommandMechanism:
    """Runs a command for every block of readings: lines of N numbers in, ``row,z1,z2,...`` out."""

    def __init__(self, command: str | Sequence[str]) -> None:
        try:
            self.command = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise InvalidRequest(f"command: {error} in {command!r}") from None
        if not self.command:
            raise InvalidRequest("command: expected a program that reads readings as CSV, found nothing")

    def __call__(self, readings: Array) -> Array:
        """What the command answers to a block (T, N_i); refused rows, or other lines, are an error."""
        lines = "\n".join(",".join(map(repr, row)) for row in readings.tolist()) + "\n"
        try:
            answer = subprocess.run(
                self.command, input=lines, capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidReading(f"{self.command[0]}: {error}") from None
        if answer.returncode != 0:
            reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise InvalidReading(f"{self.command[0]}: exit code {answer.returncode}: {reason[:200]}")
        rows = [line.split(",") for line in answer.stdout.splitlines() if line.strip()]
        if rows and rows[0][0].strip().lower() == "row":
            rows = rows[1:]
        try:
            numbers = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
        except ValueError:
            raise InvalidReading(f"{self.command[0]}: expected lines row,z1,z2,... of equal length") from None
        return numbers[:, 1:]
