"""The names by which ``sanitize`` declares its options."""

from veilnet.cli._command_line import Argument, Option

__all__ = ["Argument", "Option"]
