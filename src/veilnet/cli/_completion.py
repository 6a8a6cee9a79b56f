"""Completion in a shell: a line for its start-up file, and what it is offered for a word that is being typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from veilnet._core.errors import InvalidRequest

# The words so far, without the command itself, are handed to ``veilnet --complete``; where it offers nothing, the
# shell offers files.
_BASH = """_veilnet_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(veilnet --complete "${COMP_WORDS[@]:1:COMP_CWORD}"))
}
complete -o default -F _veilnet_completion veilnet"""
_SCRIPTS = {
    "bash": _BASH,
    "zsh": f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": "complete --command veilnet --arguments '(veilnet --complete (commandline -opc)[2..] (commandline -ct))'",
}


def script(shell: str) -> str:
    """What the shell has to run once at its start."""
    if shell not in _SCRIPTS:
        raise InvalidRequest(f"--completion: expected {', '.join(_SCRIPTS)}, found {shell!r}")
    return _SCRIPTS[shell] + "\n"


def offered(words: Sequence[str], verbs: Iterable[str]) -> list[str]:
    """The verbs, commands of a group or options that the last of these words may become."""
    *before, last = words or [""]
    known: Iterable[str] = verbs
    if before:
        known = _of_verb(before[0], before[1:]) if before[0] in verbs else ()
    return sorted(each for each in known if each.startswith(last) and (last or not each.startswith("-")))


def _of_verb(verb: str, words: Sequence[str]) -> Iterable[str]:
    from veilnet.cli._command_line import parser_of

    module: Any = import_module(f"veilnet.cli.{verb}")
    commands = getattr(module, "commands", None)
    if commands is None:
        return parser_of(verb, module.command)._option_string_actions
    return parser_of(f"{verb} {words[0]}", commands[words[0]])._option_string_actions if words else commands
