"""One name, one thing: no public class has the name of another, but for those that still wait for a better one."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "veilnet"
# Names that two classes share. The list only shrinks: give one of the two a name of its own and take it out.
SHARED = {
    "Certificate", "Ledger", "Splitting", "Table",
}  # fmt: skip


def public_classes() -> Counter[str]:
    return Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_no_two_public_classes_have_one_name() -> None:
    twice = {name for name, count in public_classes().items() if count > 1}
    assert not twice - SHARED, "another class has this name: choose one that says what is different"


def test_what_is_no_longer_shared_is_taken_from_the_list() -> None:
    counts = public_classes()
    assert counts["Sanitizer"] == 1, "or classes are not found"
    assert not {name for name in SHARED if counts[name] < 2}
