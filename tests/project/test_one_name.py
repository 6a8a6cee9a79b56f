"""One name, one thing: no public class, and no public function of the core, has the name of another, but for some."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "veilnet"
# Names that two classes share. The list only shrinks: give one of the two a name of its own and take it out.
SHARED = {
    "Ledger", "Splitting", "Table",
}  # fmt: skip


# Rooms whose functions have names of their own.
CORE = {
    "_core", "agent", "bounds", "calibration", "centre", "designs", "model", "plans", "recheck", "review", "verdict",
}  # fmt: skip
# Verbs that say the same of a network in parts and at the command line: one name for one thing.
VERBS = {"audit", "check", "design", "verify"}
SHARED_FUNCTIONS = {"messages_of", "percent"}


def public_names(kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> dict[str, list[str]]:
    """name -> the room of each class or function that has it."""
    found: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.relative_to(SOURCE).parts[0])
    return found


def test_no_two_public_classes_have_one_name() -> None:
    found = public_names(ast.ClassDef)
    assert len(found["Sanitizer"]) == 1, "or classes are not found"
    twice = {name for name, rooms in found.items() if len(rooms) > 1}
    assert not twice - SHARED, "another class has this name: choose one that says what is different"
    assert not SHARED - twice, "no longer shared: take it from the list"


def test_no_public_function_of_the_core_has_the_name_of_another() -> None:
    found = public_names(ast.FunctionDef)
    assert len(found["power_plan"]) == 1, "or functions are not found"
    twice = {name for name, rooms in found.items() if len(rooms) > 1 and CORE & set(rooms)}
    assert not twice - SHARED_FUNCTIONS - VERBS, "another function has this name: say what is different"
    assert not SHARED_FUNCTIONS - twice, "no longer shared: take it from the list"
