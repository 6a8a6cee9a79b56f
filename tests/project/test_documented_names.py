"""Pages speak of no public name that does not exist, and of the modules that scripts import beside ``veilnet``."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import veilnet as vn

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BESIDE = (
    "veilnet.adapters.kalman",
    "veilnet.adapters.stone_soup",
    "veilnet.adapters.frames",
    "veilnet.learn",
)


def spoken_of(text: str) -> set[str]:
    """Names that a page calls veilnet's own, as vn.Name or veilnet.Name."""
    return set(re.findall(r"\b(?:vn|veilnet)\.([A-Za-z]\w*)", text))


def words() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def test_pages_speak_of_no_name_that_is_not_there() -> None:
    modules = {path.stem for path in (ROOT / "src" / "veilnet").iterdir()}
    for page in PAGES:
        strangers = spoken_of(page.read_text(encoding="utf-8")) - set(vn.__all__) - modules
        assert not {name for name in strangers if not name.startswith("__")}, page


def test_the_reader_finds_planted_names() -> None:
    assert spoken_of("`vn.design(network)`, veilnet.Plan and myvn.x") == {"design", "Plan"}


@pytest.mark.parametrize("module", BESIDE)
def test_modules_beside_are_documented(module: str) -> None:
    """Each name they export has a docstring that explains every parameter, and stands on some page."""
    loaded: Any = import_module(module)
    text = words()
    assert re.search(rf"\b{re.escape(module)}\b", text), f"no page speaks of {module}"
    for name in loaded.__all__:
        thing = getattr(loaded, name)
        if not callable(thing):
            continue
        docstring = inspect.getdoc(thing) or ""
        assert docstring, f"{module}.{name} has no docstring"
        if inspect.isfunction(thing):
            for parameter in inspect.signature(thing).parameters:
                entry = rf"^\s*(?:\w+, )*{parameter}(?:, \w+)*:\s+\S|``{parameter}``"
                assert re.search(entry, docstring, re.MULTILINE), f"{module}.{name}: {parameter}"
