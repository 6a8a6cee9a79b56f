"""The code in the documentation runs, and prints what the documentation says it prints."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
_SNIPPET = re.compile(r"```python\n(.*?)```\s*(?:```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/when-is-privacy-free.md", "docs/streams.md", "docs/scaling.md", "docs/adapters.md"],
)
def test_examples_print_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = _SNIPPET.findall((ROOT / page).read_text(encoding="utf-8"))
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
