"""The drawing of the rooms in CONTRIBUTING.md is true: of the tree, and of who imports whom."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from helpers.imports import Import, cycles, imports_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "veilnet"
# Methods that know their file format, and what confirms what they read, only when they are called.
LAZY = {"load", "save", "load_plan", "verify"}
# Methods that are drawn by the report, which knows everybody, only when they are called.
DRAWN = {"report", "_repr_html_"}


def drawn_rooms() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawing = text.split("```text\n", 1)[1].split("```", 1)[0]
    return re.findall(r"^  (\w+)(?:/|\.py)\s", drawing, flags=re.MULTILINE)


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def when_called(each: Import) -> bool:
    if each.function in DRAWN:
        return each.of.startswith("veilnet.report.")
    if each.function == "__str__":  # a plan is put into words by a module that knows plans
        return each.of == "veilnet.plans.in_words"
    if each.function == "_by_the_paper":  # design(method="alternating") is for comparison with the paper
        return each.of.startswith("veilnet.paper.alternating")
    return each.function in LAZY and each.of.startswith(("veilnet.io.", "veilnet.plans.verification"))


def upward(imports: list[Import], rooms: list[str]) -> list[str]:
    """Imports of a room from one below it, but for file formats that a method loads when it is called."""
    rank = {name: place for place, name in enumerate(rooms)}
    return [
        f"{each.by} imports {each.of}"
        for each in imports
        if room_of(each.by) in rank
        and room_of(each.of) in rank
        and rank[room_of(each.of)] > rank[room_of(each.by)]
        and not when_called(each)
    ]


def knots(imports: list[Import]) -> list[list[str]]:
    """Modules that import each other, in a circle of any length, but for file formats as above."""
    edges: dict[str, set[str]] = defaultdict(set)
    for each in imports:
        if not when_called(each) and each.by != each.of:
            edges[each.by].add(each.of)
    return cycles(edges)


def past_the_front_page(imports: list[Import], pages: set[str]) -> list[str]:
    """Imports of a solver's inner modules from another room."""
    return [
        f"{each.by} imports {each.of}"
        for each in imports
        for page in pages
        if each.of.startswith(f"{page}.") and room_of(each.by) != room_of(page)
    ]


def solver_pages() -> set[str]:
    return {f"veilnet.designs.{path.parent.name}" for path in (SOURCE / "designs").glob("*/__init__.py")}


def test_the_drawing_shows_the_rooms_there_are() -> None:
    there = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    there |= {path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")}
    assert sorted(drawn_rooms()) == sorted(there)


def test_imports_point_one_way() -> None:
    assert upward(imports_of(SOURCE, "veilnet"), drawn_rooms()) == []


def test_there_is_no_knot() -> None:
    assert knots(imports_of(SOURCE, "veilnet")) == []


def test_solvers_are_reached_by_their_front_page() -> None:
    assert len(solver_pages()) >= 3
    assert past_the_front_page(imports_of(SOURCE, "veilnet"), solver_pages()) == []


def test_every_package_says_what_is_in_it() -> None:
    for page in SOURCE.rglob("__init__.py"):
        first = page.read_text(encoding="utf-8").lstrip()
        assert first.startswith('"""'), f"{page.relative_to(ROOT)} has no front page"


def test_inside_nobody_goes_through_the_front_door() -> None:
    """`import veilnet` is for users, the command line and the version; inside, modules are named where they live."""
    found = [each for each in imports_of(SOURCE, "veilnet") if each.of == "veilnet"]
    assert {room_of(each.by) for each in found} <= {"cli", "paper"}


@pytest.mark.parametrize(
    ("module", "planted", "finds"),
    [
        ("model/network.py", "from veilnet.designs import choice", "upward"),
        ("model/network.py", "def draw():\n    from veilnet.io import streams", "upward"),
        ("_core/words.py", "import veilnet.auditing.ledger", "upward"),
        ("agent/normal_form.py", "from veilnet.agent.sanitizer import Sanitizer", "knot"),
        ("agent/recipe.py", "def late():\n    from veilnet.agent import release", "knot"),
        ("paper/figures.py", "from veilnet.designs.joint.search import solve", "past"),
    ],
)
def test_a_planted_knot_is_found(module: str, planted: str, finds: str, tmp_path: Path) -> None:
    for path in SOURCE.rglob("*.py"):
        copy = tmp_path / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{planted}\n")
    imports = imports_of(tmp_path, "veilnet")
    found = {
        "upward": upward(imports, drawn_rooms()),
        "knot": knots(imports),
        "past": past_the_front_page(imports, solver_pages()),
    }
    assert found[finds]


def test_no_two_test_files_have_one_name() -> None:
    """Folders of tests are no packages: pytest would take the second file of a name for the first."""
    names = [path.name for path in Path(__file__).resolve().parents[1].rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
