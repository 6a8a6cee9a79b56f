"""Who may come in: one browser, by an address that works once; nobody else's page, host or flood."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from veilnet.studio.app import application
from veilnet.studio.guard import Guard
from veilnet.studio.uploads import MOST_BYTES
from veilnet.studio.workbench import Workbench

HOME = "http://127.0.0.1:8123"
ORIGIN = {"origin": HOME}
MOST = 100_000


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    bench = Workbench(tmp_path)
    yield Guard(application(bench), port=8123, most_bytes=MOST)
    bench.close()


@pytest.fixture
def outside(guard: Guard) -> TestClient:
    return TestClient(guard, base_url=HOME, follow_redirects=False)


@pytest.fixture
def inside(guard: Guard, outside: TestClient) -> TestClient:
    answer = outside.get(guard.address)
    assert answer.status_code == 303
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    return outside


@pytest.mark.parametrize("address", ["/", "/api/view", "/studio.js", "/download/plan.zip"])
def test_nothing_is_answered_without_the_one_time_address(outside: TestClient, address: str) -> None:
    answer = outside.get(address)
    assert answer.status_code == 403
    assert "veilnet studio" in answer.text


def test_the_address_works_once_and_no_other_does(guard: Guard, outside: TestClient) -> None:
    assert outside.get("/start/").status_code == 403
    assert outside.get(guard.address[:-1]).status_code == 403
    assert outside.get(guard.address).status_code == 303
    assert outside.get("/").status_code == 200
    elsewhere = TestClient(guard, base_url=HOME, follow_redirects=False)
    assert elsewhere.get(guard.address).status_code == 403
    assert elsewhere.get("/", headers={"cookie": "veilnet_studio=guess"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:9", "127.0.0.1", "localhost.evil.example:8123", ""]
)
def test_a_name_that_merely_points_here_is_refused(inside: TestClient, host: str) -> None:
    assert inside.get("/api/view", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9", "https://127.0.0.1:8123"]
)
def test_requests_of_other_pages_are_refused_even_with_the_cookie(inside: TestClient, origin: str) -> None:
    assert inside.post("/api/example", headers={"origin": origin}).status_code == 403
    assert inside.get("/api/view", headers={"origin": origin}).status_code == 403


def test_changes_need_to_say_where_they_come_from(inside: TestClient) -> None:
    assert inside.post("/api/example").status_code == 403
    assert inside.get("/api/view").json()["loaded"] is None
    assert inside.post("/api/example", headers=ORIGIN).status_code == 200
    assert inside.get("/api/view").json()["loaded"]["name"] == "house.toml"


def test_a_flood_is_refused_by_its_length_and_while_it_arrives(inside: TestClient) -> None:
    much = b"x" * (MOST + 1)
    said = inside.post("/api/network?name=a.toml", content=much, headers=ORIGIN)
    assert said.status_code == 413

    def drops() -> Iterator[bytes]:  # no length is given
        for _ in range(20):
            yield much[: MOST // 10]

    unsaid = inside.post("/api/network?name=a.toml", content=drops(), headers=ORIGIN)
    assert unsaid.status_code == 413
    lying = inside.get("/api/view", headers={"content-length": "-1"})
    assert lying.status_code == 413


def test_pages_may_load_nothing_from_elsewhere(inside: TestClient) -> None:
    answer = inside.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    for name in ("index.html", "studio.js", "studio.css", "report.css"):
        text = inside.get(f"/{name}").text
        assert "://" not in text, name


def test_unknown_addresses_and_unreadable_requests_get_a_plain_answer(inside: TestClient) -> None:
    assert inside.get("/api/../../secret").status_code in (403, 404)
    assert inside.post("/api/nonsense", json={}, headers=ORIGIN).json()["error"].endswith("no such address")
    unreadable = inside.post("/api/ask", content=b"{", headers={**ORIGIN, "content-type": "application/json"})
    assert unreadable.status_code == 400
    assert (
        inside.post("/api/ask", json={"loss": 0.1}, headers=ORIGIN)
        .json()["error"]
        .startswith("nothing is open")
    )


def test_a_hundred_megabytes_are_refused_by_the_limit_that_is_served(tmp_path: Path) -> None:
    """As one body whose length is told, and as one that merely goes on; what arrived meanwhile is not kept."""
    bench = Workbench(tmp_path)
    guard = Guard(application(bench), port=8123, most_bytes=MOST_BYTES)
    client = TestClient(guard, base_url=HOME, follow_redirects=False)
    client.get(guard.address)
    megabyte = b"1,2\n" * 250_000
    told = {**ORIGIN, "content-length": "100000000"}

    def drops() -> Iterator[bytes]:
        for _ in range(100):
            yield megabyte

    for headers in (told, ORIGIN):
        answer = client.post("/api/table?name=a.csv", content=drops(), headers=headers)
        assert answer.status_code == 413
        assert answer.text == "A file may have at most 50 MB here."
    assert bench.table is None
    assert not list(tmp_path.iterdir())
