"""The code in the documentation runs, and prints what the documentation says it prints."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
_SNIPPET = re.compile(r"```python\n(.*?)```\s*(?:```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", ["when-is-privacy-free.md"])
def test_examples_print_what_the_page_shows(page: str) -> None:
    snippets = _SNIPPET.findall((DOCS / page).read_text(encoding="utf-8"))
    assert snippets
    names: dict[str, object] = {}
    for code, expected in snippets:
        shown = io.StringIO()
        with redirect_stdout(shown):
            exec(compile(code, page, "exec"), names)
        if expected:
            assert [_rounded(line) for line in shown.getvalue().splitlines()] == [
                _rounded(line) for line in expected.splitlines()
            ]


def _rounded(line: str) -> str:
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found.group()):.6g}", line).replace(
        "-0 ", "0 "
    )
