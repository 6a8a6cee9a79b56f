"""A hostile broker hands readers what it likes; one that checks takes what the centre signed, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veilnet._core.errors import InvalidRequest
from veilnet.io import signing
from veilnet.io._atomic import create
from veilnet.live.keys import KeyFolder, make_keys
from veilnet.live.messages import MOST_BYTES, Malformed
from veilnet.live.seals import EstimateReader, EstimateSigner, make_seals
from veilnet.live.topics import Topics

TOPICS = Topics()
TABLE = {"epoch": 7, "revision": 0, "estimates": {"Wärme": {"value": 20.5, "deviation": 0.1, "unit": "°C"}}}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    made = make_keys(tmp_path_factory.mktemp("keys"), ["hall"], readers=["screen"]).keys
    make_seals(made, ["hall"], ["screen"])
    return made


@pytest.fixture
def signer(keys: KeyFolder) -> EstimateSigner:
    return EstimateSigner(keys.centre, TOPICS)


@pytest.fixture
def reader(keys: KeyFolder) -> EstimateReader:
    return EstimateReader(keys.reader("screen"), TOPICS)


def test_an_estimate_is_read_as_it_was_published_and_is_plain_json_too(
    signer: EstimateSigner, reader: EstimateReader
) -> None:
    payload = signer.payload(TABLE)
    plain, checked = json.loads(payload), reader.open(payload)
    assert len(plain.pop("signature")) == 128
    assert plain == checked
    assert {name: checked[name] for name in TABLE} == TABLE


def test_what_is_invented_or_changed_is_refused(signer: EstimateSigner, reader: EstimateReader) -> None:
    with pytest.raises(Malformed, match="malformed"):
        reader.open(json.dumps(TABLE | {"published": "2999-01-01T00:00:00.000000Z"}).encode())
    payload = signer.payload(TABLE)
    for place in range(len(payload)):
        changed = bytearray(payload)
        changed[place] ^= 1
        with pytest.raises(Malformed):
            reader.open(bytes(changed))
    with pytest.raises(Malformed):
        reader.open(payload + b" ")
    with pytest.raises(Malformed, match="malformed"):
        reader.open(b"{" + bytes(MOST_BYTES))
    twice = payload[:-1] + b', "signature": "' + b"0" * 128 + b'"}'
    with pytest.raises(Malformed, match="signature"):
        reader.open(twice)
    assert reader.open(payload)["epoch"] == 7  # none of it kept the true one away


def test_another_key_another_network_and_what_was_before_are_refused(
    tmp_path: Path, signer: EstimateSigner, reader: EstimateReader, keys: KeyFolder
) -> None:
    other = make_keys(tmp_path, ["hall"]).keys
    make_seals(other, ["hall"])
    with pytest.raises(Malformed, match="signature"):
        reader.open(EstimateSigner(other.centre, TOPICS).payload(TABLE))
    with pytest.raises(Malformed, match="signature"):
        reader.open(EstimateSigner(keys.centre, Topics("elsewhere")).payload(TABLE))
    old, new = signer.payload(TABLE), signer.payload(TABLE | {"epoch": 8})
    assert reader.open(new)["epoch"] == 8
    for earlier, word in ((old, "again"), (new, "repeated")):
        with pytest.raises(Malformed, match=word):
            reader.open(earlier)


def test_readers_get_the_public_half_and_a_key_that_is_there_is_kept(keys: KeyFolder) -> None:
    secret = (keys.centre.folder / "estimates.key").read_bytes()
    make_seals(keys, ["hall"], ["screen"])
    assert (keys.centre.folder / "estimates.key").read_bytes() == secret
    assert (keys.centre.folder / "estimates.key").stat().st_mode & 0o077 == 0
    folder = keys.reader("screen").folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca.crt",
        "centre.pub",
        "party.crt",
        "party.key",
    ]
    assert b"PRIVATE" not in (folder / "centre.pub").read_bytes()
    with pytest.raises(InvalidRequest, match=r"estimates\.key: no such file"):
        EstimateSigner(keys.reader("screen"), TOPICS)
    with pytest.raises(InvalidRequest, match=r"centre\.pub: no such file"):
        EstimateReader(keys.agent("hall"), TOPICS)


@pytest.mark.parametrize("call", [1, 2])
def test_keys_that_were_being_made_when_a_run_was_killed_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    calls: list[Path] = []

    def killed(path: Path, content: bytes, *, mode: int = 0o666) -> None:
        calls.append(path)
        if len(calls) == call:
            raise KeyboardInterrupt
        create(path, content, mode=mode)

    made = make_keys(tmp_path, ["hall"], readers=["screen"]).keys
    with monkeypatch.context() as patch:
        patch.setattr(signing, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            make_seals(made, ["hall"], ["screen"])
    make_seals(made, ["hall"], ["screen"])
    payload = EstimateSigner(made.centre, TOPICS).payload({"epoch": 1})
    assert EstimateReader(made.reader("screen"), TOPICS).open(payload)["epoch"] == 1
    assert (made.centre.folder / "estimates.key").stat().st_mode & 0o777 == 0o600
