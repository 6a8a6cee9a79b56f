"""Searches are small where a test says so, in the quick run alone, and nowhere else."""

from __future__ import annotations

import pytest

from helpers.small_search import searches_are_small


@pytest.fixture(scope="module")
def first() -> bool:
    return searches_are_small()


@pytest.mark.small_search
def test_where_it_is_asked_for_fixtures_have_it_too(first: bool, request: pytest.FixtureRequest) -> None:
    assert first == searches_are_small() == bool(request.config.option.markexpr)


@pytest.mark.small_search
class TestOneOfSeveral:
    @pytest.mark.small_search(False)
    def test_can_be_left_out(self) -> None:
        assert not searches_are_small()


def test_elsewhere_everything_is_searched() -> None:
    assert not searches_are_small()
