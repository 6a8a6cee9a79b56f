"""What people read is in the field's words and in short sentences: the source, its messages and help, the pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "veilnet"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BANNED = re.compile(
    r"(?<![a-z])(un)?told(?![a-z])|\b(tells? of|of streams|heed(s|ed)?|whoever)\b", re.IGNORECASE
)
LONGEST = 30  # words of a sentence


def banned(text: str) -> list[str]:
    """Each line of a text that has a banned word, in prose or in a name."""
    return [line.strip() for line in text.splitlines() if BANNED.search(line)]


def sentences(text: str) -> Iterator[str]:
    """Sentences of a text; a semicolon and a blank line end one, too."""
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?;])[)\"'”*]*\s+", " ".join(paragraph.split()))


def long_ones(text: str) -> list[str]:
    return [each for each in sentences(text) if len(re.findall(r"[^\W_][^\s]*", each)) > LONGEST]


def messages(path: Path) -> Iterator[str]:
    """The texts of a module that are not docstrings, what is filled in as one word."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inner: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in docstrings or id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            inner |= {id(each) for each in node.values}
            yield "".join(each.value if isinstance(each, ast.Constant) else "X" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def prose(page: str) -> str:
    """A page without code, formulas, addresses and comments; cells of tables and items of lists stand apart."""
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    page = re.sub(r"^```.*?^```", "\n\n", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"\$\$.*?\$\$", "\n\n", page, flags=re.DOTALL)
    page = re.sub(r"`[^`]*`", "X", re.sub(r"\$[^$]*\$", "X", re.sub(r"\]\([^)]*\)", "]", page)))
    page = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", page, flags=re.MULTILINE)
    return re.sub(r"^(#.*)$", r"\n\n\1\n\n", page.replace("|", "\n\n"), flags=re.MULTILINE)


# The column of estimates in the stores that centres keep: its name stays, or stores of before could not be read.
STORED = ("told INTEGER NOT NULL", "made, told, public", "max(e.told)", "told DESC")


def test_the_source_has_no_banned_word_in_prose_or_names() -> None:
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in {".py", ".js", ".html", ".c", ".h", ".toml"}:
            found = banned(path.read_text(encoding="utf-8"))
            assert not [line for line in found if not any(each in line for each in STORED)], path


def test_pages_have_no_banned_word() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        # what a benchmark printed stays as it was printed, until it is run again
        assert not banned(re.sub(r"<!-- output .*?<!-- end of output -->", "", text, flags=re.DOTALL)), page


def test_messages_have_short_sentences() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        texts = [text for text in messages(path) if not re.match(r"\s*(CREATE|SELECT|INSERT) ", text)]
        assert not [each for text in texts for each in long_ones(text)], path


def test_pages_have_short_sentences() -> None:
    for page in PAGES:
        assert not long_ones(prose(page.read_text(encoding="utf-8"))), page


def test_pages_open_with_what_their_reader_can_do() -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        opening = prose(page.read_text(encoding="utf-8")).split("\n\n\n")[1]
        assert re.match(r"(With|After) this (page|tutorial)\b", " ".join(opening.split())), page


def test_planted_words_and_sentences_are_found() -> None:
    assert len(banned("who is told\nrows_told = 1\nuntold\nWhoever heeds\nit tells of x\nbold streams")) == 5
    assert not long_ones("word " * 30 + ". " + "word " * 20)
    assert long_ones("word " * 31)
