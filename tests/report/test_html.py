"""HTML is escaped by construction; the strict reader of pages finds what is wrong."""

from __future__ import annotations

import pytest

from helpers.pages import read_page
from veilnet.report.html import Html, element, shown, table
from veilnet.report.svg import nice_ticks


def test_what_is_not_html_is_escaped() -> None:
    made = element("td", "<script>alert(1)</script>", title='" onload="x', class_="a")
    assert made == ('<td title="&quot; onload=&quot;x" class="a">&lt;script&gt;alert(1)&lt;/script&gt;</td>')
    assert element("p", element("b", "x"), None, Html("<i></i>")) == "<p><b>x</b><i></i></p>"


def test_names_are_cut_and_cleaned() -> None:
    assert shown("kitchen") == "kitchen"
    long = shown("x" * 9_990 + "the end of it")
    assert len(long) < 100
    assert long.endswith("…he end of it (10,003 characters)")
    assert shown("a\u202eb\x00c") == "a\ufffdb\ufffdc"
    assert shown("a long name", most=6) == "a lon…"


def test_a_table_names_its_columns_and_rows() -> None:
    root = read_page(table("caption & more", ("a", "b"), [["<1>", "2"]], numeric=(1,)))
    assert root.one("caption").text == "caption & more"
    assert [each.attributes["scope"] for each in root.all("th")] == ["col", "col", "row"]
    assert root.one("table").cells() == [["<1>", "2"]]


@pytest.mark.parametrize(
    "broken",
    ["<p><b></p></b>", "<div>", "<p></p></p>", '<p id="a"></p><p id="a"></p>', '<p a="1" a="2"></p>'],
)
def test_the_reader_of_pages_finds_what_is_wrong(broken: str) -> None:
    with pytest.raises(AssertionError):
        read_page(broken)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 17), (1, 1.04), (1e-9, 3e-9), (-1e6, 1e6), (2, 2)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-9 * abs(low) <= tick <= high + 1e-9 * abs(high) for tick in ticks)
