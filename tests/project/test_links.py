"""No dead link: every local link and anchor of every Markdown page leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.code_blocks import ROOT, pages

_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```[ \t]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as both GitHub and the site make them."""
    found: dict[str, int] = {}
    made = set()
    for line in re.sub(r"^```.*?^```[ \t]*$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        if not re.match(r"#{1,6} ", line):
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        made.add(f"{slug}-{count}" if count else slug)
    return made


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for address in _LINK.findall(_CODE.sub("", text)):
        if "://" in address or address.startswith("mailto:"):
            continue
        path, _, anchor = address.partition("#")
        target = (page.parent / path).resolve() if path else page
        there = target.exists()
        if there and anchor and target.suffix == ".md":
            there = anchor in anchors(target.read_text(encoding="utf-8"))
        if not there:
            dead.append(address)
    return dead


@pytest.mark.parametrize("page", pages())
def test_no_dead_link(page: str) -> None:
    path = ROOT / page
    assert not dead_links(path, path.read_text(encoding="utf-8"))


def test_dead_links_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = (
        "# A title\n\n## Erratum 1, at last\n\n[a](page.md#a-title) [b](#erratum-1-at-last) [c](other.md) "
        "[d](#nowhere) `[e](code.md)` [f](https://example.org/x) ![g](no.png)\n"
    )
    page.write_text(text, encoding="utf-8")
    assert dead_links(page, text) == ["other.md", "#nowhere", "no.png"]
