"""Who may come in: one page, by an address that works once; nobody else's page, host, port or flood."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from veilnet.studio.app import PAGE, application
from veilnet.studio.guard import Guard
from veilnet.studio.uploads import MOST_BYTES
from veilnet.studio.workbench import Workbench

HOME = "http://127.0.0.1:8123"
ORIGIN = {"origin": HOME}
MOST = 100_000


HEADER = "veilnet-page"


@pytest.fixture
def guard() -> Iterator[Guard]:
    bench = Workbench()
    yield Guard(application(bench), page=PAGE, port=8123, most_bytes=MOST)
    bench.close()


@pytest.fixture
def outside(guard: Guard) -> TestClient:
    return TestClient(guard, base_url=HOME, follow_redirects=False)


def let_in(guard: Guard, client: TestClient) -> TestClient:
    """What the page does when it is opened."""
    page, once = guard.address.split("#start=")
    assert client.get(page).status_code == 200
    client.headers[HEADER] = client.post("/start", headers={**ORIGIN, HEADER: once}).text
    return client


@pytest.fixture
def inside(guard: Guard, outside: TestClient) -> TestClient:
    return let_in(guard, outside)


@pytest.mark.parametrize(
    "address", ["/api/view", "/api/jobs", "/download/plan.zip", "/live.html", "/live.js", "/nothing"]
)
def test_nothing_but_the_empty_page_is_answered_without_the_one_time_address(
    outside: TestClient, address: str
) -> None:
    answer = outside.get(address)
    assert answer.status_code == 403
    assert "veilnet printed" in answer.text


def test_the_address_works_once_and_no_other_does(guard: Guard, outside: TestClient) -> None:
    once = guard.address.partition("#start=")[2]
    for wrong in ("", once[:-1], "guess", "ö"):
        asked = {**ORIGIN, HEADER: wrong.encode()}
        assert outside.post("/start", headers=asked).status_code == 403
        assert outside.get("/api/view", headers=asked).status_code == 403
    assert outside.get("/api/view", headers={HEADER: once}).status_code == 403, "it is to be exchanged first"
    let_in(guard, outside)
    assert outside.get("/api/view").status_code == 200
    elsewhere = TestClient(guard, base_url=HOME, follow_redirects=False)
    assert elsewhere.post("/start", headers={**ORIGIN, HEADER: once}).status_code == 403


def test_no_other_server_on_this_machine_is_told(guard: Guard, outside: TestClient) -> None:
    """Cookies know no ports: whatever else serves on 127.0.0.1 got the studio's, and with it all that it holds."""
    page, once = guard.address.split("#start=")
    answers = [outside.get(page), outside.post("/start", headers={**ORIGIN, HEADER: once})]
    answers.append(outside.get("/api/view", headers={HEADER: answers[-1].text}))
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert not any("set-cookie" in answer.headers for answer in answers)
    assert not outside.cookies
    assert once not in page, "nor does the address line of a request tell it: browsers send no fragment"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:9", "127.0.0.1", "localhost.evil.example:8123", ""]
)
def test_a_name_that_merely_points_here_is_refused(inside: TestClient, host: str) -> None:
    assert inside.get("/api/view", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9", "https://127.0.0.1:8123"]
)
def test_requests_of_other_pages_are_refused_even_with_the_word(inside: TestClient, origin: str) -> None:
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
    for name in ("index.html", "door.js", "studio.js", "studio.css", "report.css"):
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


def test_a_hundred_megabytes_are_refused_by_the_limit_that_is_served() -> None:
    """As one body whose length is told, and as one that merely goes on; what arrived meanwhile is not kept."""
    bench = Workbench()
    guard = Guard(application(bench), page=PAGE, port=8123, most_bytes=MOST_BYTES)
    client = let_in(guard, TestClient(guard, base_url=HOME, follow_redirects=False))
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
