"""The documentation builds without a warning, refers to every public name, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import veilnet as vn
from helpers.code_blocks import ROOT

pytest.importorskip("mkdocs")
pytestmark = pytest.mark.slow

REFERENCE = re.compile(r"^::: (veilnet[\w.]*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert not [line for line in built.stderr.splitlines() if line.startswith(("WARNING", "ERROR"))], (
        built.stderr
    )
    return folder


def test_every_page_is_built(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page
    for page in ("index", "security", "contributing", "changelog"):
        assert (site / f"{page}.html").is_file(), page


def test_no_outside_address_is_loaded(site: Path) -> None:
    """Links to elsewhere may be followed; nothing is fetched to show a page."""
    elements = r"""<(?:script|img|iframe|source|audio|video)[^>]*\ssrc=["']?(https?:)?//"""
    styles = r"""<link[^>]*\shref=["']?(https?:)?//|url\(["']?(https?:)?//|@import ["'](https?:)?//"""
    loads = re.compile(f"{elements}|{styles}")
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not loads.search(page.read_text(encoding="utf-8")), page.relative_to(site)


def test_the_reference_has_every_public_name_once(site: Path) -> None:
    listed = [
        name
        for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
        for name in REFERENCE.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(listed) == len(set(listed))
    assert {f"veilnet.{name}" for name in vn.__all__} <= set(listed)
    built = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    assert ":::" not in built
    for name in vn.__all__:
        assert f'id="vn{name.lower()}"' in built, name
    assert "least utility loss. At or below the ceiling" in built  # a parameter of design


def test_the_command_line_is_told_whole(site: Path) -> None:
    from veilnet.cli import VERBS

    page = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f'<h3 id="{verb}"' in page, verb
    assert "--utility-loss" in page


def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    """The check can fail: a page with a dead link is refused."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n[nowhere](nowhere.md)\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("site_name: toy\nstrict: true\n", encoding="utf-8")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode != 0
