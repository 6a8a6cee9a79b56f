"""Every page does what it says: its code is run from top to bottom, and prints what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.code_blocks import PLAIN, ROOT, RUN, Reader, blocks, mismatch, pages
from helpers.forked_veilnet import forked_veilnet

PAGES = {page: blocks((ROOT / page).read_text(encoding="utf-8")) for page in pages()}
WITH_CODE = [page for page, found in PAGES.items() if any(block.language in RUN for block in found)]
PINNED = "requirements.txt"
LEARNED = {"docs/tutorials/symbols.md"}
# What other pages show is found, to the few percent that numbers may differ by, by a small search too.
SEARCHED = ("docs/how-to/own-units.md",)


@pytest.fixture(scope="module")
def veilnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command; how it starts is not what pages are about."""
    with forked_veilnet(tmp_path_factory.mktemp("commands")) as line:
        yield line


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page if page in SEARCHED else pytest.param(page, marks=pytest.mark.small_search) for page in WITH_CODE],
)
def test_a_page_prints_what_it_shows(page: str, veilnet: str, tmp_path: Path) -> None:
    if page in LEARNED and os.environ.get("VEILNET_REQUIREMENTS", PINNED) != PINNED:
        pytest.skip("other versions of scikit-learn learn other symbols than the page shows")
    complaints = list(Reader(page, tmp_path, veilnet).complaints(PAGES[page]))
    assert not complaints, "\n".join(complaints)


def test_blocks_of_data_are_well_formed(tmp_path: Path) -> None:
    for number, page in enumerate(sorted(set(PAGES) - set(WITH_CODE))):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert not list(Reader(page, folder).complaints(PAGES[page]))


def test_nearly_all_code_is_run() -> None:
    """What is not run says why, and is the exception."""
    code = [block for found in PAGES.values() for block in found if block.language not in PLAIN]
    left_out = [block for block in code if block.not_run is not None]
    assert len(code) > 60
    assert len(left_out) <= 0.3 * len(code), f"{len(left_out)} of {len(code)} blocks are not run"
    assert all(len(str(block.not_run).split()) >= 2 for block in left_out)


def test_the_reader_finds_what_is_there() -> None:
    page = (
        "# A page\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nWords.\n\n```text\na picture\n```\n\n"
        "<!-- not run: needs a broker -->\n```sh\nexit 1\n```\n\n<!-- set-up\n```python\nx = 2\n```\n-->\n"
    )
    found = blocks(page)
    assert [(block.language, block.shown, block.not_run) for block in found] == [
        ("python", "1\n", None),
        ("text", None, None),
        ("sh", None, "needs a broker"),
        ("python", None, None),
    ]
    assert [block.line for block in found] == [3, 13, 18, 23]


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\nprint(1)\n```\n", "printed, but not shown"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "shown '2', printed '1'"),
        ("```sh\necho one\n```\n\n```text\ntwo\n```\n", "shown 'two', printed 'one'"),
        ("```toml\na = \n```\n", "line 1: Invalid value"),
        ("```json\n{1}\n```\n", "line 1: Expecting property name"),
        ("```matlab\nload plan\n```\n", "nobody runs 'matlab'"),
    ],
)
def test_what_is_wrong_is_said(page: str, complaint: str, tmp_path: Path) -> None:
    (said,) = Reader("page.md", tmp_path).complaints(blocks(page))
    assert complaint in said


def test_code_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page.md, line 1: exit code 3"):
        list(Reader("page.md", tmp_path).complaints(blocks("```sh\nexit 3\n```\n")))


def test_a_forked_command_is_the_command(veilnet: str, tmp_path: Path) -> None:
    """Arguments, folder, environment, all three streams and the exit code are those of the caller."""
    script = "veilnet init 'a house.toml'; printf 'a,b\n' | veilnet sanitize nothing.json || echo $?"

    def ran(place: Path, how: str) -> tuple[str, str, list[str]]:
        made = subprocess.run(
            ["sh", "-c", script.replace("veilnet", how)], cwd=place, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "VEILNET_DEBUG": "1"},
        )  # fmt: skip
        return made.stdout, made.stderr.splitlines()[-1], [each.name for each in place.iterdir()]

    places = tmp_path / "forked", tmp_path / "started"
    for place in places:
        place.mkdir()
    forked, started = ran(places[0], veilnet), ran(places[1], f'"{sys.executable}" -m veilnet')
    assert forked == started
    assert forked[0].endswith("2\n")
    assert forked[2] == ["a house.toml"]


def test_the_comparison_tells_differences() -> None:
    assert mismatch("a 1.00\n...\nb", "a 1.01\nx\ny\nb") is None
    assert mismatch("a 1.00", "a 1.20") is not None
    assert mismatch("a 7", "a 8") is not None
    assert mismatch("a", "a\nb") is not None
    assert mismatch("a\nb", "a") is not None
    assert mismatch("a\n...\nc", "a\nb") is not None
