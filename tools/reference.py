"""Reference pages from docstrings and from the command line's own help, as Markdown.

A docstring explains a parameter by a line ``name: ...``, or ``one, other: ...``, with more lines indented below it;
these become a list. All else is paragraphs, and indented formulas and examples.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any, get_type_hints

_ENTRY = re.compile(r"^(\w+(?:, \w+)*):\s+(\S.*)$")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def named(path: str) -> Any:
    """The object of a dotted name: the longest part that is a module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ValueError(f"{path}: no such name")


def reference(path: str) -> str:
    """Everything about one public name, headings from the second level on."""
    thing, name = named(path), path.removeprefix("veilnet.")
    shown = name if "." in name else f"vn.{name}"
    parts = [f"## {shown.rpartition('.')[2] if '.' in name else shown}", ""]
    if "." in name:
        parts += [f"`{path}`", ""]
    if not (inspect.isclass(thing) and issubclass(thing, BaseException)):
        parts += _signature(shown.rpartition(".")[2] if "." in name else shown, thing)
    parts += [in_markdown(_doc(thing)), ""]
    if inspect.isclass(thing):
        for member, kind, raw in _members(thing):
            parts += [f"### {name.rpartition('.')[2]}.{member}", ""]
            if kind == "property":
                parts += ["A property.", ""]
            else:
                parts += _signature(f"{name.rpartition('.')[2]}.{member}", raw)
            parts += [in_markdown(_doc(raw)), ""]
    return "\n".join(parts)


def _doc(thing: Any) -> str:
    """A docstring; of a class also those of the classes it extends, whose fields it has too."""
    if not inspect.isclass(thing):
        return inspect.getdoc(thing) or ""
    own = [vars(each).get("__doc__") or "" for each in thing.__mro__ if each.__module__.startswith("veilnet")]
    return "\n\n".join(inspect.cleandoc(text) for text in own if text)


def _members(kind: type) -> Iterator[tuple[str, str, Any]]:
    for name, raw in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(raw, classmethod | staticmethod):
            yield name, "method", raw.__func__
        elif inspect.isfunction(raw):
            yield name, "method", raw
        elif isinstance(raw, property | cached_property) or type(raw).__name__ == "derived":
            yield name, "property", raw


def _signature(shown: str, thing: Any) -> list[str]:
    """The call as one would write it, one parameter a line where it is long."""
    try:
        call = inspect.signature(thing)
    except (TypeError, ValueError):
        return []
    words, starred = [], False
    for each in call.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        words.append(_parameter(each))
    back = "" if call.return_annotation is call.empty else f" -> {_annotation(call.return_annotation)}"
    line = f"{shown}({', '.join(words)}){back}"
    if len(line) > 90:
        line = "\n".join([f"{shown}(", *(f"    {word}," for word in words), f"){back}"])
    return ["```python", line, "```", ""]


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = "" if each.annotation is each.empty else f": {_annotation(each.annotation)}"
    default = "" if each.default is each.empty else f" = {_default(each.default)}"
    return f"{stars}{each.name}{kind}{default}"


def _annotation(kind: Any) -> str:
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def _default(value: Any) -> str:
    shown = repr(value)
    return "..." if " at 0x" in shown or "<factory>" in shown else shown


def in_markdown(docstring: str) -> str:
    """A docstring as Markdown."""
    lines = [_ROLE.sub(_last_name, line).replace("``", "`") for line in docstring.splitlines()]
    made: list[str] = []
    place = 0
    while place < len(lines):
        entry = _ENTRY.match(lines[place])
        if entry and (not made or not made[-1] or made[-1].startswith("- **")):
            words = [entry.group(2)]
            while place + 1 < len(lines) and lines[place + 1].startswith(" "):
                place += 1
                words.append(lines[place].strip())
            names = ", ".join(f"`{each}`" for each in entry.group(1).split(", "))
            made.append(f"- **{names}**: {_safe(' '.join(words))}")
        elif lines[place].startswith("    "):
            block = []
            while place < len(lines) and (lines[place].startswith("    ") or not lines[place].strip()):
                block.append(lines[place][4:])
                place += 1
            while block and not block[-1].strip():
                block.pop()
            made += ["", "```text", *block, "```", ""]
            continue
        else:
            line = lines[place]
            made.append(_safe(line[:-1] if line.endswith("::") else line))
        place += 1
    return "\n".join(made)


def _last_name(found: re.Match[str]) -> str:
    return f"`{found.group(1).removeprefix('veilnet.')}`"


def _safe(line: str) -> str:
    """Stars and lower-than signs outside of code are meant as such; a star that marks a word stays."""
    pieces = re.split(r"(`[^`]*`)", line)
    return "".join(each if each.startswith("`") else each.replace("<", "&lt;") for each in pieces)


def command_line() -> str:
    """Every verb with what it takes, from the annotations that its own help is made of."""
    from veilnet.cli import VERBS

    parts = []
    for verb, short in VERBS.items():
        parts += [f"### {verb}", "", short, ""]
        command = getattr(import_module(f"veilnet.cli.{verb}"), "command", None)
        if command is not None:
            parts += [in_markdown(inspect.getdoc(command) or ""), "", *_options(command), ""]
    return "\n".join(parts)


def _options(command: Any) -> Iterator[str]:
    """A table of arguments and options."""
    hints = get_type_hints(command, include_extras=True)
    rows = []
    for name in inspect.signature(command).parameters:
        (told, *_) = getattr(hints[name], "__metadata__", (None,))
        if told is None:
            continue
        shown = f"`{getattr(told, 'name', name.upper())}`"
        words = " ".join((told.help or "").split()).replace("|", "\\|")
        rows.append(f"| {shown} | {_safe(words)} |")
    if rows:
        yield from ("| what | means |", "|---|---|", *rows)
