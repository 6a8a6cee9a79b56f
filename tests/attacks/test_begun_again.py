"""The same readings under fresh noise: a stream begun a second time, a log passed off as another's continuation.

Before, ``sanitize`` of a stream with another memory and file released all of its rows once more; and a longer log
whose lines were only counted was taken for the continuation of the one before. A live agent with a new store sent an
old log again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import with_memory
from helpers.said import says
from veilnet import cli
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.released_rows import released_beside
from veilnet.io.row_keys import COUNTED
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.io.sources import RowSource
from veilnet.live.agent import LiveAgent
from veilnet.live.epochs import Epochs
from veilnet.live.feeding import feed
from veilnet.live.keys import make_keys
from veilnet.live.messages import Seal
from veilnet.live.seals import make_seals

ROWS = 60
Run = Callable[..., tuple[int, str, str]]
Live = Callable[..., int]


@pytest.fixture(params=["rows", "stream"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An agent's file, with a memory or without, and a log of its readings."""
    sanitizer = with_memory(np.random.default_rng(0), readings=2, order=3, sent=2).replace(agent="kitchen")
    if request.param == "rows":
        sanitizer = vn.Sanitizer(np.eye(2), np.eye(2), grid=2.0**-10, agent="kitchen")
    save_sanitizer(sanitizer, tmp_path / "kitchen.json", "cf6785d0" * 8)
    write(tmp_path / "log.csv", readings(0))
    return tmp_path / "kitchen.json"


def readings(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, 2))


def write(path: Path, rows: np.ndarray) -> Path:
    path.write_text("a,b\n" + "".join(f"{one!r},{other!r}\n" for one, other in rows.tolist()))
    return path


@pytest.fixture
def sanitize(agent: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on a log; gives the exit code, what was sent to standard output, and complaints."""

    def call(log: str, *options: object) -> tuple[int, str, str]:
        capfd.readouterr()
        named = [str(agent.parent / each) if "." in str(each) else str(each) for each in options]
        code = cli.run(["sanitize", str(agent), "--in", str(agent.parent / log), *named])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def sent(folder: Path, out: str) -> int:
    """How many messages a file has."""
    path = folder / out
    return len(path.read_text().splitlines()) - 1 if path.exists() else 0


WAYS: dict[str, tuple[str, ...]] = {
    "in one go": ("--out", "second.csv"),
    "to standard output": (),
    "to standard output, row by row": ("--flush",),
    "from a new store": ("--store", "second.sqlite", "--out", "second.csv"),
    "from a new store, row by row": ("--store", "second.sqlite", "--out", "second.csv", "--flush"),
    "from a new store, to standard output": ("--store", "second.sqlite"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", ["in one go", "from a store"])
def test_readings_are_not_released_a_second_time(way: str, first: str, agent: Path, sanitize: Run) -> None:
    """By whatever store, file or pipe; nothing but a header has left."""
    before = ("--store", "first.sqlite") if first == "from a store" else ()
    assert sanitize("log.csv", *before, "--out", "first.csv")[0] == 0
    code, out, err = sanitize("log.csv", *WAYS[way])
    assert code == 2
    assert "--again" in err
    assert len(out.splitlines()) <= 1
    assert sent(agent.parent, "second.csv") <= 0
    assert sanitize("log.csv", *WAYS[way], "--again")[0] == 0  # whoever knows that nothing has left says so


@pytest.fixture
def offline(agent: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Runs a live agent that reaches no broker: what it would send stays in its outbox."""
    keys = make_keys(agent.parent / "keys", ["kitchen"]).keys
    make_seals(keys, ["kitchen"])
    nobody = SimpleNamespace(
        start=lambda: None, wake=lambda: None, drain=lambda _: True, stop=lambda: None, failure=None
    )
    monkeypatch.setattr("veilnet.live.sending.Sender", lambda *_: nobody)

    def call(store: str, *options: object) -> int:
        where = ["--broker", "mqtts://broker.example:8883", "--cert", str(keys.agent("kitchen").folder)]
        log = ["--in", str(agent.parent / "log.csv"), "--store", str(agent.parent / store)]
        return cli.run(["agent", str(agent), *where, *log, *map(str, options)])

    return call


@pytest.mark.parametrize("first", ["agent", "sanitize"])
def test_nor_by_a_live_agent_that_begins_anew(
    first: str, agent: Path, sanitize: Run, offline: Live, capfd: pytest.CaptureFixture[str]
) -> None:
    """A second ``--begin`` sent the whole log again, and so did one after ``sanitize``."""
    if first == "sanitize":
        assert sanitize("log.csv", "--out", "first.csv")[0] == 0
    else:
        assert offline("first.sqlite", "--begin") == 0
        assert offline("first.sqlite") == 0  # which goes on, and has nothing to do
    assert offline("second.sqlite", "--begin") == 2
    assert str(agent.with_suffix(".released")) in capfd.readouterr().err
    assert not (agent.parent / "second.sqlite").exists()


def test_a_live_agent_has_noted_what_it_sends_before_it_can_be_sent(agent: Path) -> None:
    """A run that is killed right after a block of readings has not forgotten them."""
    begin_agent_store(agent.parent / "first.sqlite", "kitchen")
    block = next(ReadingReader(RowSource(str(agent.parent / "log.csv")), 2).blocks(ROWS))
    with AgentStore(agent.parent / "first.sqlite", "kitchen") as store:
        live = LiveAgent(store, Seal(bytes(32)), vn.Sanitizer.load(agent), "cf6785d0" * 8)
        assert feed(live, block, COUNTED, Epochs(), print, released_beside(agent, 2)) == 0
    with pytest.raises(vn.InvalidRequest, match="released before"):
        released_beside(agent, 2).refuse(readings(0))


def test_nothing_is_sent_where_what_was_released_is_in_a_newer_file(agent: Path) -> None:
    """It is not to be moved away: what stands in it would be sent again."""
    kept = agent.with_suffix(".released")
    kept.write_text("veilnet-released/2\n")
    with pytest.raises(vn.InvalidRequest) as refused:
        released_beside(agent, 2)
    says(refused.value, kept.name, "newer veilnet", "upgrade")


def test_nor_by_the_next_plan(agent: Path, sanitize: Run) -> None:
    assert sanitize("log.csv", "--out", "first.csv")[0] == 0
    other = vn.Sanitizer.load(agent)
    save_sanitizer(other.replace(noise=other.noise + np.eye(2)), agent, "0" * 64)
    assert sanitize("log.csv", "--out", "second.csv")[0] == 2
    assert not (agent.parent / "second.csv").exists()


def test_a_store_that_is_lost_does_not_begin_anew(agent: Path, sanitize: Run) -> None:
    options = ("--store", "first.sqlite", "--out", "first.csv")
    assert sanitize("log.csv", *options)[0] == 0
    (agent.parent / "first.sqlite").unlink()
    content = (agent.parent / "first.csv").read_bytes()
    assert sanitize("log.csv", *options)[0] == 2
    assert (agent.parent / "first.csv").read_bytes() == content


def test_another_log_does_not_pass_for_more_of_the_same(agent: Path, sanitize: Run) -> None:
    """Row 21 of another log went out as row 21 of this one."""
    folder, options = agent.parent, ("--store", "first.sqlite", "--out", "first.csv")
    write(folder / "begun.csv", readings(0)[:20])
    assert sanitize("begun.csv", *options)[0] == 0
    write(folder / "other.csv", readings(1))
    code, _, err = sanitize("other.csv", *options)
    assert code == 2
    assert "other.csv" in err
    assert "'row'" in err
    assert sent(folder, "first.csv") == 20
    code, _, err = sanitize("log.csv", *options)  # this one begins with the twenty
    assert code == 0, err
    assert sent(folder, "first.csv") == ROWS
    write(folder / "cut.csv", readings(0)[:30])
    assert sanitize("cut.csv", *options)[0] == 1  # is it the right file?
    assert sent(folder, "first.csv") == ROWS


def test_a_line_that_was_not_whole_yet_is_read_when_it_is(agent: Path, sanitize: Run) -> None:
    """A log that is being written while it is read, of an agent that keeps nothing: the row is not given up."""
    if vn.Sanitizer.load(agent).order:
        pytest.skip("every row of a stream is told when it is read")
    folder, options = agent.parent, ("--store", "first.sqlite", "--out", "first.csv")
    whole = (folder / "log.csv").read_text().splitlines(keepends=True)
    (folder / "growing.csv").write_text("".join(whole[:11]) + whole[11][:-3])
    assert sanitize("growing.csv", *options)[0] == 1
    assert sent(folder, "first.csv") == 10
    (folder / "growing.csv").write_text("".join(whole))
    assert sanitize("growing.csv", *options)[0] == 0
    assert sent(folder, "first.csv") == ROWS


def test_where_nothing_can_be_noted_nothing_is_sent(
    agent: Path, sanitize: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veilnet.io.released_rows.os.access", lambda *_: False)
    code, out, err = sanitize("log.csv")
    assert (code, out) == (2, "")
    assert str(agent.with_suffix(".released")) in err
