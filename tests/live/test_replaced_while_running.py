"""An agent's signed file is replaced while the agent runs: it never sends by a plan that must not count any more.

No broker is needed: what was released is in the agent's store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import veilnet as vn
from helpers.said import says
from veilnet.cli import run
from veilnet.io.agent_store import AgentStore
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.io.signing import make_key, sign_files
from veilnet.io.statements import Statement
from veilnet.live import feeding
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals

BLOCK = 16  # readings that the agent takes from a file at a time
AGREED = vn.Sanitizer([[1.0, 1.0], [1.0, 0.0]], [1.0, 1.0], agent="attic", names=("a", "b"), grid=2.0**-10)


def run_replacing(
    folder: Path,
    new: vn.Sanitizer,
    monkeypatch: pytest.MonkeyPatch,
    then: Callable[[], object] = lambda: None,
    *,
    later: bool = False,
) -> tuple[int, int]:
    """(exit code, releases) of an agent whose file is replaced, as the next version, after one of three blocks.

    then: what happens after that block, or, later, after the next one.
    """
    file, key = folder / "attic.json", folder / "designer.key"
    make_key(key)
    save_sanitizer(AGREED, file, "cafe" * 16)
    sign_files([file], key, version=1)
    keys = make_keys(folder / "keys", ["attic"]).keys
    make_seals(keys, ["attic"])
    readings = folder / "readings.csv"
    readings.write_text("row,a,b\n" + "".join(f"{row},1.5,2.5\n" for row in range(1, 3 * BLOCK + 1)))
    original = feeding.feed

    blocks = iter(range(1, 100))

    def feed(*given: object) -> int:
        missed, block = original(*given), next(blocks)  # type: ignore[arg-type]
        if block == 1:
            save_sanitizer(new, file, "beef" * 16)
            sign_files([file], key, version=2)
        if block == (2 if later else 1):
            then()
        return missed

    monkeypatch.setattr(feeding, "feed", feed)
    arguments = [file, "--broker", "mqtts://127.0.0.1:1", "--cert", keys.agent("attic").folder, "--begin"]
    arguments += ["--in", readings, "--trust", key.with_suffix(".pub"), "--patience", 0]
    code = run(["agent", *map(str, arguments)])
    store = AgentStore(folder / "attic.sqlite", "attic")
    releases = store.ledger().releases
    store.close()
    return code, releases


def test_a_plan_that_lets_an_agent_send_nothing_ends_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _, releases = run_replacing(tmp_path, vn.Sanitizer.silent(2, agent="attic"), monkeypatch)
    assert releases == BLOCK
    says(capfd.readouterr().err, "sends nothing")


def test_a_plan_that_is_not_taken_up_does_not_lend_its_expiry_to_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fewer = vn.Sanitizer([[1.0]], [9.0], agent="attic", names=("a",), grid=2.0**-10)

    def expire() -> None:
        monkeypatch.setattr(
            Statement, "complaint", lambda self, _now=None: "it expired" if self.version == 1 else ""
        )

    code, releases = run_replacing(tmp_path, fewer, monkeypatch, expire)
    assert (code, releases) == (2, BLOCK)
    said = capfd.readouterr().err
    assert "it takes other readings" in said
    says(said, "nothing more is sent", "expired")


def test_a_refused_plan_is_taken_up_when_its_owner_has_confirmed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    more = AGREED.replace(noise=[0.5, 0.5])
    file, public = tmp_path / "attic.json", tmp_path / "designer.pub"

    def confirm() -> None:
        says(capfd.readouterr().err, "tells more", "--confirm")
        run(["inspect", str(file), "--trust", str(public), "--confirm"])

    _, releases = run_replacing(tmp_path, more, monkeypatch, confirm, later=True)
    assert releases == 3 * BLOCK
    says(capfd.readouterr().err, "takes effect")
    with closing(sqlite3.connect(tmp_path / "attic.sqlite")) as database:
        plans = database.execute(
            "SELECT plan, count(*) FROM releases GROUP BY plan ORDER BY min(sequence)"
        ).fetchall()
    assert [(plan[:4], count) for plan, count in plans] == [("cafe", 2 * BLOCK), ("beef", BLOCK)]
