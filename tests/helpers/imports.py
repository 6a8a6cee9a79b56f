"""The import graph of a package, read from its source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import: the module it stands in, the module it names, and the function it stands in, if any."""

    by: str
    of: str
    function: str


def imports_of(root: Path, package: str) -> list[Import]:
    """Every import of the package's own modules, wherever it stands; those for type checkers alone count too."""
    modules = {name_of(path, root, package): path for path in sorted(root.rglob("*.py"))}
    names = frozenset(modules)
    return [
        Import(name, of, function)
        for name, path in modules.items()
        for of, function in _targets_in(path.read_text(encoding="utf-8"), names, package)
    ]


@cache
def _targets_in(text: str, modules: frozenset[str], package: str) -> tuple[tuple[str, str], ...]:
    """What a source imports, and in which function; read once, however often the same text is asked about."""
    return tuple(_targets(ast.parse(text), "", modules, package))


def name_of(path: Path, root: Path, package: str) -> str:
    """The dotted name of a file."""
    parts = [package, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(
    node: ast.AST, function: str, modules: frozenset[str], package: str
) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = function or child.name
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and child.module is not None and child.level == 0:
            # `from package import module` names the module, `from module import name` the module before it
            names = [
                longer if (longer := f"{child.module}.{alias.name}") in modules else child.module
                for alias in child.names
            ]
        else:
            names = []
        for name in names:
            if name == package or name.startswith(f"{package}."):
                yield name, inside
        yield from _targets(child, inside, modules, package)


def cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The knots of a graph: its strongly connected parts of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found
