"""Who may change a plan: no step back, no frozen plan, no more told than was agreed to. In doubt nothing is sent."""

from __future__ import annotations

import base64
import io
import json
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.released import forget
from helpers.small_network import small_network
from veilnet.cli import run
from veilnet.io.acceptance import accept, read_accepted
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.io.signing import PAYLOAD_TYPE, make_key, sign_files
from veilnet.io.statements import StatedPromise, Statement, read_statement, version_of
from veilnet.io.trust import read_trust, require_trust

Sanitized = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan, and the keys of its designer and of another one."""
    place = tmp_path_factory.mktemp("changed")
    vn.design(small_network()).save(place / "plan")
    for name in ("designer", "second"):
        make_key(place / f"{name}.key")
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "place")


@pytest.fixture
def sanitized(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Sanitized:
    """Run the agent of the hall on two readings, trusting the designer: exit code, what was sent, what was said."""

    def run_it(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1.0,2.0\n3.0,4.0\n")))
        capfd.readouterr()
        forget([hall(place)])
        code = run(["sanitize", str(hall(place)), "--trust", str(place / "designer.pub"), *arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run_it


def hall(place: Path) -> Path:
    return place / "plan" / "hall.json"


def sign(place: Path, key: str = "designer", **options: object) -> Statement:
    return sign_files([hall(place)], place / f"{key}.key", **options)[1]  # type: ignore[arg-type]


def replaced(place: Path, change: Callable[[vn.Sanitizer], vn.Sanitizer]) -> None:
    """Another sanitizer in the agent's file, of the same plan id, as a designer could make it."""
    plan = json.loads(hall(place).read_text())["plan"]
    save_sanitizer(change(vn.Sanitizer.load(hall(place))), hall(place), plan)


def louder(sanitizer: vn.Sanitizer) -> vn.Sanitizer:
    return sanitizer.replace(noise=sanitizer.noise + np.eye(sanitizer.sent))


def raw(sanitizer: vn.Sanitizer) -> vn.Sanitizer:
    return vn.Sanitizer(
        np.eye(sanitizer.readings),
        agent=sanitizer.agent,
        grid=[2.0**-20] * sanitizer.readings,
        names=sanitizer.names,
    )


def refused(answer: tuple[int, str, str], why: str) -> None:
    code, out, err = answer
    assert (code, out) == (2, "")
    assert why in err


def test_an_older_version_is_never_run_again(place: Path, sanitized: Sanitized) -> None:
    sign(place, version=1)
    old = {path: path.read_bytes() for path in (hall(place), hall(place).with_name("hall.json.dsse"))}
    assert sanitized()[0] == 0
    replaced(place, louder)
    sign(place, version=2)
    assert sanitized()[0] == 0
    for path, content in old.items():
        path.write_bytes(content)
    refused(sanitized(), "version 2 was run already")
    refused(sanitized(), "version 2 was run already")  # nor at the second attempt
    assert run(["inspect", str(hall(place)), "--trust", str(place / "designer.pub"), "--confirm"]) == 1
    refused(sanitized(), "version 2 was run already")  # nor by consent


def test_the_same_plan_may_be_signed_anew(place: Path, sanitized: Sanitized) -> None:
    first = sign(place)
    assert sanitized()[0] == sanitized()[0] == 0
    second = sign(place)
    assert second.version > first.version
    assert sanitized()[0] == 0


def test_an_expired_plan_is_not_run(place: Path, sanitized: Sanitized) -> None:
    signed = sign(place, now=datetime.now(UTC) - timedelta(days=8), days=7)
    refused(sanitized(), "expired on")
    assert not hall(place).with_suffix(".accepted").exists()
    assert signed.complaint(signed.until()) == ""
    assert "expired" in signed.complaint(signed.until() + timedelta(seconds=1))
    sign(place)
    assert sanitized()[0] == 0


def test_a_clock_before_the_signature_is_broken(place: Path, sanitized: Sanitized) -> None:
    sign(place, now=datetime.now(UTC) + timedelta(days=3))
    refused(sanitized(), "the clock of this machine says")


def test_a_plan_that_tells_more_waits_for_consent(
    place: Path, sanitized: Sanitized, capfd: pytest.CaptureFixture[str]
) -> None:
    trust = ["--trust", str(place / "designer.pub")]
    sign(place)
    assert run(["inspect", str(hall(place)), *trust]) == 0
    assert sanitized()[0] == 0
    honest = hall(place).read_bytes()
    replaced(place, raw)
    sign(place)
    refused(sanitized(), "it tells more than the plan that was agreed to")
    capfd.readouterr()
    assert run(["inspect", str(hall(place)), *trust]) == 1
    said = capfd.readouterr().out
    assert "MORE than the plan agreed to: more would be revealed of" in said
    assert "with --confirm" in said
    refused(sanitized(), "agreed to")  # reading it is no consent
    assert run(["inspect", str(hall(place)), *trust, "--confirm"]) == 1  # agreed to, and still alarming
    assert "Agreed:" in capfd.readouterr().out
    assert sanitized()[0] == 0
    hall(place).write_bytes(honest)
    sign(place)
    assert sanitized()[0] == 0


def test_a_plan_that_tells_less_is_run_and_consent_stays(place: Path, sanitized: Sanitized) -> None:
    sign(place)
    assert sanitized()[0] == 0
    honest = hall(place).read_bytes()
    replaced(place, louder)
    sign(place)
    assert sanitized()[0] == 0
    hall(place).write_bytes(honest)  # tells more than the last one, not more than was agreed to
    sign(place)
    assert sanitized()[0] == 0
    replaced(place, lambda each: each.replace(compression=each.compression + 1e-3))
    sign(place)
    refused(sanitized(), "it tells more")


def test_two_files_of_one_version_are_refused(place: Path, sanitized: Sanitized, tmp_path: Path) -> None:
    sign(place, version=5)
    assert sanitized()[0] == 0
    hall(place).with_name("hall.json.dsse").unlink()
    replaced(place, louder)
    sign(place, version=5)
    refused(sanitized(), "another file was signed as version 5, too")
    assert sanitized("--accepted", str(tmp_path / "fresh.accepted"))[0] == 0  # by itself it is a good one


def test_a_record_that_is_damaged_or_cannot_be_kept_stops_the_agent(
    place: Path, sanitized: Sanitized
) -> None:
    sign(place)
    assert sanitized()[0] == 0
    record = hall(place).with_suffix(".accepted")
    content = record.read_bytes()
    for spoiled in (b"", content[:-20], content.replace(b'"version": 2', b'"version": 1'), b"{}"):
        record.write_bytes(spoiled)
        code, out, _ = sanitized()
        assert (code, out) == (2, "")
    record.write_bytes(content)
    assert sanitized()[0] == 0
    refused(
        sanitized("--accepted", str(place / "nowhere" / "x.accepted")), "has to remember which plan it ran"
    )


def test_a_record_is_of_one_agent(place: Path, sanitized: Sanitized, tmp_path: Path) -> None:
    sign(place)
    record = tmp_path / "one.accepted"
    assert sanitized("--accepted", str(record))[0] == 0
    attic = place / "plan" / "attic.json"
    sign_files([attic], place / "designer.key")
    arguments = ["--trust", str(place / "designer.pub"), "--accepted", str(record)]
    assert run(["sanitize", str(attic), *arguments]) == 2


def test_a_record_without_a_signed_plan_is_a_mistake(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["sanitize", str(hall(place)), "--accepted", str(place / "x")]) == 2
    assert "it goes with a signed plan" in capfd.readouterr().err
    assert run(["inspect", str(hall(place)), "--confirm"]) == 2
    assert "only a signed plan is agreed to" in capfd.readouterr().err


def test_a_statement_cannot_be_changed_or_borrowed(place: Path, sanitized: Sanitized) -> None:
    sign(place, version=3)
    target = hall(place).with_name("hall.json.dsse")
    envelope = json.loads(target.read_text())
    stated = json.loads(base64.b64decode(envelope["payload"]))
    assert stated["version"] == 3
    for change in (
        {"version": 4},
        {"expires": "2099-01-01T00:00:00Z"},
        {"promise": None if stated["promise"] else {"public": [], "utility": 0.0, "privacy": {"who": "inf"}}},
        {"sha256": "0" * 64},
    ):
        forged = envelope | {"payload": base64.b64encode(json.dumps(stated | change).encode()).decode()}
        target.write_text(json.dumps(forged))
        refused(sanitized(), "no valid signature by a trusted key")
    shutil.copy(target.with_name("hall.json"), target.with_name("other.json"))
    target.write_text(json.dumps(envelope | {"payloadType": "application/vnd.veilnet.plan-file+json"}))
    refused(sanitized(), "with a version and an expiry")
    target.write_text(json.dumps(envelope | {"payloadType": "text/plain"}))
    refused(sanitized(), "not the signature of a file of a plan")
    target.write_text(json.dumps(envelope))
    replaced(place, louder)
    refused(sanitized(), "that of another file")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"version": 2**60},
        {"version": 1.5},
        {"expires": "tomorrow"},
        {"signed": "2026-13-01T00:00:00Z"},
        {"sha256": "abc"},
        {"format": "veilnet-signed/2"},
        {"promise": {"public": [], "utility": "much", "privacy": {}}},
        {"more": 1},
    ],
)
def test_a_statement_that_makes_no_sense_is_refused_even_if_it_is_signed(
    change: dict[str, object], place: Path, sanitized: Sanitized
) -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    from veilnet.io.signing import read_secret_key

    stated = json.loads(sign(place).encoded()) | change
    envelope = Envelope(json.dumps(stated).encode(), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(read_secret_key(place / "designer.key")))
    hall(place).with_name("hall.json.dsse").write_text(json.dumps(envelope.to_dict()))
    newer = "made by a newer veilnet: upgrade this one"
    refused(sanitized(), newer if "format" in change else "what was signed is not")


def test_versions_go_up_and_a_second_signature_is_of_the_same_version(
    place: Path, sanitized: Sanitized
) -> None:
    first = sign(place, version=7)
    assert sign(place, "second") == first  # vouches for what the first one stated
    assert sanitized()[0] == 0
    assert sanitized("--trust", str(place / "second.pub"))[0] == 0
    with pytest.raises(vn.VeilnetError, match="version 7 was signed before"):
        sign(place, version=7)
    again = sign(place)
    assert again.version >= version_of(datetime.now(UTC) - timedelta(days=1))
    ahead = again.version + 10**10  # a year
    assert sign(place, version=ahead).version == ahead
    assert sign(place).version == ahead + 1
    hall(place).with_name("hall.json.dsse").unlink()
    for options in ({"version": 0}, {"version": 2**60}, {"days": 5000}):
        with pytest.raises(vn.VeilnetError, match=r"--(version|days): expected"):
            sign(place, **options)


def test_sign_says_what_it_signed_and_inspect_what_is_promised(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = vn.Plan.load(place / "plan")
    trust = ["--trust", str(place / "designer.pub")]
    assert run(["inspect", str(hall(place)), "--json"]) == 0
    beside = json.loads(capfd.readouterr().out)["promise"]
    assert (
        run(["sign", str(place / "plan"), "--key", str(place / "designer.key"), "--days", "30", "--json"])
        == 0
    )
    signed = json.loads(capfd.readouterr().out)
    assert abs(version_of(datetime.now(UTC)) - signed["version"]) < 10**6
    alone = place / "alone"
    alone.mkdir()
    for name in ("hall.json", "hall.json.dsse"):
        shutil.copy(place / "plan" / name, alone)
    assert run(["inspect", str(alone / "hall.json"), *trust, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["promise"] == beside
    assert (told["version"], told["expires"]) == (signed["version"], signed["expires"])
    assert len(beside) == 1 + len(plan.privacy)
    assert "nothing is lost on warmth" in beside[0]
    for line, (name, gained) in zip(beside[1:], plan.privacy.items(), strict=True):
        assert name in line
        assert np.isinf(gained) == ("cannot be estimated from the messages" in line)
    assert run(["inspect", str(alone / "hall.json")]) == 0
    assert "No promise is stated" in capfd.readouterr().out


def test_a_promise_survives_infinity() -> None:
    promise = StatedPromise(
        ["u"], -0.05, {"a": "inf", "b": 2.0}, with_gaps={"a": "inf", "b": 1.5}, helped={"a": "inf", "b": 1.2}
    )
    now = datetime.now(UTC)
    stated = Statement(
        "veilnet-signed/1",
        "x",
        "0" * 64,
        None,
        1,
        f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "2099-01-01T00:00:00Z",
        promise,
    )
    found = read_statement(stated.encoded()).promise
    assert found is not None
    assert found.numbers() == (
        -0.05,
        {"a": np.inf, "b": 2.0},
        *({"a": np.inf, "b": each} for each in (1.5, 1.2)),
    )


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Some bytes changed, cut, repeated or moved."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        start, stop = sorted(int(k) for k in rng.integers(0, len(changed) + 1, 2))
        match int(rng.integers(4)):
            case 0:
                for place in rng.integers(0, max(len(changed), 1), 3):
                    if changed:
                        changed[place % len(changed)] ^= 1 << int(rng.integers(8))
            case 1:
                del changed[start : min(stop, start + 20)]
            case 2:
                changed[start:start] = changed[start : min(stop, start + 50)]
            case 3:
                changed = changed[:stop] + changed[:start]
    return bytes(changed)


def test_damaged_envelopes_and_records_are_refused_or_mean_the_same(place: Path) -> None:
    """Two hundred of each: a signature counts only for what was signed, a record only for what was written."""
    rng = np.random.default_rng(18)
    stated = sign(place)
    content, pins = hall(place).read_bytes(), (read_trust(str(place / "designer.pub")),)
    agent = vn.Sanitizer.load(hall(place))
    accept(hall(place), agent, stated)
    envelope, record = hall(place).with_name("hall.json.dsse"), hall(place).with_suffix(".accepted")
    originals = envelope.read_bytes(), record.read_bytes()
    counted = 0
    for _ in range(200):
        envelope.write_bytes(damaged(rng, originals[0]))
        try:
            assert require_trust(hall(place), content, pins) == stated
            counted += 1
        except vn.InvalidPlan:
            pass
        record.write_bytes(damaged(rng, originals[1]))
        try:
            found = read_accepted(record)
        except vn.VeilnetError:
            continue
        assert found is not None
        assert (found.version, found.fingerprint) == (stated.version, stated.sha256)
        assert found.agreed.same_as(agent)
    assert counted < 100  # most of them do matter
