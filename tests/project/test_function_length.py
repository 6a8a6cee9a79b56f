"""No function is longer than what one can look at: 80 lines with its signature, not counting its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "veilnet"
MOST = 80


def longer_than(most: int, text: str) -> list[tuple[str, int]]:
    """Name and length of functions that are longer."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                length -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            if length > most:
                found.append((node.name, length))
    return found


def test_a_long_function_is_found_and_its_docstring_is_not_counted() -> None:
    text = 'def long(\n    a: int,\n) -> int:\n    """One.\n\n    Two.\n    """\n    return a\n'
    assert longer_than(3, text) == [("long", 4)]
    assert longer_than(4, text) == []


def test_no_function_is_longer_than_one_can_look_at() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert files
    assert {str(path): long for path in files if (long := longer_than(MOST, path.read_text("utf-8")))} == {}
