"""An HTML page taken apart with the standard library's parser, strictly: what is opened is closed, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"br", "col", "meta", "link", "hr", "img", "input"}


@dataclass
class Node:
    """One element, its attributes, and what is in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it, spaces made single."""
        parts = [each if isinstance(each, str) else each.text for each in self.children]
        return re.sub(r"\s+", " ", "".join(parts)).strip()

    def all(self, tag: str, of_class: str = "") -> list[Node]:
        """Elements in it, at any depth, in order."""
        found: list[Node] = []
        for child in self.children:
            if isinstance(child, Node):
                classes = child.attributes.get("class", "").split()
                if child.tag == tag and (not of_class or of_class in classes):
                    found.append(child)
                found += child.all(tag, of_class)
        return found

    def one(self, tag: str, of_class: str = "") -> Node:
        """The only such element in it."""
        (found,) = self.all(tag, of_class)
        return found

    def by_id(self, name: str) -> Node:
        """The only element with an id."""
        (found,) = [each for each in self.everything() if each.attributes.get("id") == name]
        return found

    def everything(self) -> list[Node]:
        """All elements in it."""
        inside = [child for child in self.children if isinstance(child, Node)]
        return [*inside, *(each for child in inside for each in child.everything())]

    def cells(self) -> list[list[str]]:
        """The rows of a table, without its head."""
        rows = self.one("tbody").all("tr")
        return [[each.text for each in row.children if isinstance(each, Node)] for row in rows]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("page")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        made = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(made)
        if tag not in _VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> where <{self._open[-1].tag}> is open"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def finish(self) -> Node:
        self.close()
        assert len(self._open) == 1, f"<{self._open[-1].tag}> is never closed"
        return self.root


def read_page(text: str) -> Node:
    """The page as a tree; an AssertionError where elements are not nested, or an id is used twice."""
    reader = _Reader()
    reader.feed(text)
    root = reader.finish()
    names = [each.attributes["id"] for each in root.everything() if "id" in each.attributes]
    assert len(names) == len(set(names)), "an id is used twice"
    return root
