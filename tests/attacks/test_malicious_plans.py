"""A plan that would send raw readings: the agent can see it, and refuse any plan but the one it trusts."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.coarse_networks import undithered
from helpers.honest_streams import honest_plan
from helpers.networks import random_network
from helpers.released import forget
from helpers.stream_plans import Kind, stream_network
from veilnet.cli import run
from veilnet.io import _reading
from veilnet.io.sanitizer_files import save_sanitizer
from veilnet.io.signing import make_key, sign_files
from veilnet.io.template import house
from veilnet.plans.plan import make_plan
from veilnet.plans.verification import verify
from veilnet.review.inspection import inspect

NAMES = ("temperature", "humidity", "vibration")


def sanitizer(compression: Any, noise: Any = None, **options: Any) -> vn.Sanitizer:
    return vn.Sanitizer(compression, noise, names=NAMES, agent="kitchen", **options)


def kinds(found: Any) -> list[str]:
    return [exposure.kind for exposure in found.exposures]


def test_per_reading_what_is_told() -> None:
    found = inspect(sanitizer([[1.0, 0, 0], [0, 2.0, 0]], [0.0, 9.0]))
    assert kinds(found) == ["exactly", "with noise", "withheld"]
    assert found.exposures[1].error == pytest.approx(1.5)  # noise of deviation 3 on twice the reading
    assert "temperature" in found.alarms[0]
    assert "humidity" not in found.alarms[0]


def test_mixed_readings_are_not_alarming() -> None:
    found = inspect(sanitizer([[0.7, 0.5, -0.3]]))
    assert kinds(found) == ["mixed with others"] * 3
    assert found.ok
    assert "no resolution" in found.notes[0]  # exact numbers protect continuous readings only
    assert not inspect(sanitizer([[0.7, 0.5, -0.3]], [1.0])).notes
    (dithered,) = inspect(sanitizer([[0.7, 0.5, -0.3]], resolution=[0.1, 0.1, 0.1])).notes
    assert "dithered before they are combined" in dithered
    assert (
        "some readings are continuous"
        in inspect(sanitizer([[0.7, 0.5, -0.3]], resolution=[0.1, 0, 0])).notes[1]
    )


@pytest.mark.parametrize("seed", range(5))
def test_as_many_independent_exact_rows_as_readings_are_everything(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turned = rng.standard_normal((3, 3)) * 10.0 ** rng.uniform(-4, 4, (3, 1))
    found = inspect(sanitizer(turned))
    assert kinds(found) == ["exactly"] * 3
    assert "EVERY raw reading" in found.alarms[0]
    two = inspect(sanitizer(turned[:2]))
    assert "exactly" not in kinds(two)


def test_noise_that_cancels_between_two_numbers_hides_nothing() -> None:
    # The same noise on both: their difference is a raw reading.
    found = inspect(sanitizer([[1.0, 0.5, 0], [1.0, 0.5, 1.0]], np.full((2, 2), 25.0)))
    assert kinds(found)[2] == "exactly"
    assert not found.ok


def test_recovered_errors_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(4)
    compression, root = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    theta = root @ root.T
    found = inspect(sanitizer(compression, theta))
    expected = np.sqrt(np.diag(np.linalg.inv(compression.T @ np.linalg.inv(theta) @ compression)))
    assert [exposure.error for exposure in found.exposures] == pytest.approx(expected.tolist(), rel=1e-8)


def test_two_readings_in_one_number() -> None:
    packed = inspect(sanitizer([[1.0, 1e-6, 0.0]], grid=[2.0**-40]))
    assert "temperature in its high digits and humidity in its low ones" in packed.alarms[0]
    # The attack: humidity in whole per cent, temperature in tenths, both from one number.
    temperature, humidity = 21.3, 57.0
    z = temperature + 1e-6 * humidity
    assert round(z, 1) == temperature
    assert round((z - round(z, 1)) * 1e6) == humidity
    # A grid, or noise, above the small part leaves nothing to read off.
    assert inspect(sanitizer([[1.0, 1e-6, 0.0]], grid=[2.0**-10])).ok
    assert inspect(sanitizer([[1.0, 1e-6, 0.0]], [0.01], grid=[2.0**-40])).ok
    assert inspect(sanitizer([[1.0, 1e-6, 0.0]], grid=[2.0**-40], resolution=[0.1, 1.0, 1.0])).ok
    # Units may explain a factor of a thousand: a note, no alarm.
    perhaps = inspect(sanitizer([[1.0, 1e-4, 0.0]], grid=[2.0**-40]))
    assert perhaps.ok
    assert "two readings at once" in perhaps.notes[0]
    # Limits are the measure: in pascals, 1e-3 is not small.
    limits = ([0, 9e4, 0], [40, 11e4, 1])
    assert inspect(sanitizer([[1.0, 1e-3, 0.0]], grid=[2.0**-20], limits=limits)).ok
    # A grid so fine that every reading within its limits counts as one of them: nothing true is sent.
    never = inspect(sanitizer([[1.0, 1e-3, 0.0]], grid=[2.0**-40], limits=limits))
    assert "clipped" in never.alarms[0]


def test_noise_far_below_the_range_is_alarming() -> None:
    found = inspect(sanitizer(np.eye(3), [1e-6] * 3, limits=([0, 0, 0], [40, 100, 1])))
    assert "hides next to nothing of temperature" in found.alarms[0]
    assert inspect(sanitizer(np.eye(3), [25.0, 25.0, 1.0], limits=([0, 0, 0], [40, 100, 1]))).ok


@pytest.mark.parametrize("noise", [None, [1e-18, 1e-18]])
def test_two_readings_in_one_combination_of_the_numbers(noise: Any) -> None:
    # No number is packed, but half their sum is temperature with humidity in its low digits.
    p, q = np.array([1.0, 1e-4, 0, 0]), np.array([0, 0.5, 0.5, 1.0])
    limits = ([0.0] * 4, [1.0] * 4)
    rows = [p + q, p - q]
    found = inspect(vn.Sanitizer(rows, noise, limits=limits))
    assert "reading 1 in its high digits and reading 2" in " ".join(found.alarms)
    assert "a combination of the numbers sent may carry" in " ".join(inspect(vn.Sanitizer(rows)).notes)
    far = np.array([1.0, 1e-6, 0, 0])
    assert not inspect(vn.Sanitizer([far + q, far - q])).ok  # more than units explain
    # A grid, or noise, above the small part leaves nothing to read off; nor is there anything in q with another.
    assert inspect(vn.Sanitizer(rows, grid=[2.0**-12] * 2, limits=limits)).ok
    assert inspect(vn.Sanitizer(rows, [1e-4, 1e-4], limits=limits)).ok
    assert inspect(vn.Sanitizer([q, [1.0, 0.3, -0.4, 0.2]], limits=limits)).ok


def test_packed_whatever_it_is_mixed_with() -> None:
    rng = np.random.default_rng(11)
    for _ in range(50):
        rows = np.concatenate([[[1.0, 1e-4, 0, 0, 0, 0]], rng.standard_normal((2, 6))])
        found = inspect(vn.Sanitizer(rng.standard_normal((3, 3)) @ rows, limits=([0.0] * 6, [1.0] * 6)))
        assert any("reading 1 in its high digits" in alarm for alarm in found.alarms)


def test_negligible_noise_is_alarming_without_limits() -> None:
    found = inspect(sanitizer(np.eye(3), [1e-12, 1.0, 1.0]))
    assert "hides next to nothing of temperature" in found.alarms[0]
    assert "humidity" not in found.alarms[0]
    assert "humidity (±1)" in found.notes[0]
    assert not inspect(sanitizer(1e6 * np.eye(3), [1e-2] * 3)).ok  # the coefficient counts
    assert inspect(sanitizer(np.eye(3), [1e-2] * 3)).ok


@pytest.mark.parametrize(
    ("gain", "row", "delay"),
    [([0.0, 1.0], [1.0, 0.0], 1), ([1.0, -1.0], [1.0, 1.0], 1), ([1.0, -1.0], [1.0, 1.0], 9)],
    ids=["another reading", "what the sum withholds", "later"],
)
def test_a_row_before_in_the_low_digits(gain: list[float], row: list[float], delay: int) -> None:
    """A memory that only waits: the first row shows none of it, and every later one the row before."""
    order = delay + 1
    memory = vn.Memory(np.eye(order, k=-1), [gain, *[[0.0, 0.0]] * delay])
    packing = vn.Sanitizer(
        [[*[0.0] * delay, 1e-4, *row]], memory=memory, grid=2.0**-24, names=["temperature", "humidity"],
        limits=([0, 0], [40, 100]),
    )  # fmt: skip
    # The attack: readings in whole units, the withheld ones of each row read off a later number.
    read = np.random.default_rng(0).integers(0, 40, (50, 2)).astype(float)
    sent = np.asarray(packing.stream(rng=0).sanitize(read))[:, 0]
    low = np.rint((sent - np.rint(sent)) * 1e4)
    assert np.array_equal(low[delay:], (read @ gain)[: 50 - delay])
    alarms = [each for each in inspect(packing).alarms if "two readings at once" in each]
    assert len(alarms) == 1
    assert f"{delay} row{'s' if delay > 1 else ''} before in its low ones" in alarms[0]
    blurred = inspect(packing.replace(noise=[[1e-2]]))
    assert not [each for each in blurred.alarms if "two readings at once" in each]


@pytest.mark.parametrize("kind", ["white", "coloured", "dithered"])
def test_no_alarm_on_memories_that_fade(kind: Kind) -> None:
    """What a filter forgets becomes as small as one likes, below many others: neither alarm nor note."""
    for seed in range(4):
        for plan in (vn.design(stream_network(seed, kind)), honest_plan(seed)):
            for each in plan.sanitizers.values():
                found = inspect(each)
                assert not [text for text in (*found.alarms, *found.notes) if "two readings" in text]


def test_each_reading_is_judged_by_what_is_known_of_it() -> None:
    limits = ([0, 0, -np.inf], [40, 100, np.inf])
    found = inspect(sanitizer(np.eye(3), [1e-6, 25.0, 4.0], limits=limits))
    assert "hides next to nothing of temperature" in found.alarms[0]  # whatever vibration has for limits
    assert "humidity" not in found.alarms[0]
    assert "vibration (±2)" in found.notes[0]
    stepped = inspect(sanitizer(np.eye(3), [25.0, 25.0, 1e-4], limits=limits, resolution=[0, 0, 1.0]))
    assert "vibration (±0.01 of a resolution of 1)" in stepped.alarms[0]


def test_no_alarm_on_the_plans_of_the_house() -> None:
    network = house()
    for plan in (vn.design(network), vn.design(network, method="perfect")):
        for agent, each in plan.sanitizers.items():
            raw = [e for e in inspect(each).alarms if "two readings" in e or "hides" in e]
            assert not raw, agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    network = random_network(1, noise="per agent", prior="covariance")
    vn.design(network).save(tmp_path / "plan")
    return tmp_path / "plan"


def sanitized(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    class Input:
        buffer = io.BytesIO(b"1,2,3\n")

    monkeypatch.setattr("sys.stdin", Input())
    forget(arguments)
    code = run(["sanitize", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def malicious(path: Path) -> None:
    """The agent's file replaced by a well-formed one, checksum and plan id and all, that sends everything."""
    plan = json.loads(path.read_text())["plan"]
    save_sanitizer(vn.Sanitizer(np.eye(3), agent="a0", grid=[2.0**-20] * 3), path, plan)


def test_inspect_is_loud_and_says_no(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(folder / "a0.json")]) == 0
    malicious(folder / "a0.json")
    assert run(["inspect", str(folder / "a0.json")]) == 1
    assert "ALARM: EVERY raw reading can be recovered exactly" in capfd.readouterr().out
    assert run(["inspect", str(folder / "a0.json"), "--json"]) == 1
    answer = json.loads(capfd.readouterr().out)
    assert [each["kind"] for each in answer["readings"]] == ["exactly"] * 3
    assert run(["inspect", str(folder / "a0.json"), "--pin"]) == 1  # what alarms is not pinned
    assert not (folder / "a0.trust").exists()


def test_a_pinned_agent_sends_nothing_by_another_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = folder / "a0.json"
    assert run(["inspect", str(file), "--pin"]) == 0
    capfd.readouterr()
    code, out, _ = sanitized(monkeypatch, capfd, str(file))
    assert code == 0
    assert len(out.splitlines()) == 2
    malicious(file)
    code, out, err = sanitized(monkeypatch, capfd, str(file))
    assert (code, out) == (2, "")
    assert "not trusted" in err


def test_a_fingerprint_on_the_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = str(folder / "a0.json")
    run(["inspect", file, "--json"])
    mark = json.loads(capfd.readouterr().out)["fingerprint"]
    assert sanitized(monkeypatch, capfd, file, "--trust", mark)[0] == 0
    assert sanitized(monkeypatch, capfd, file, "--trust", "0" * 64)[:2] == (2, "")
    assert sanitized(monkeypatch, capfd, file, "--trust", "no-such-file")[:2] == (2, "")


def test_signed_plans(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    key, other = tmp_path / "designer.key", tmp_path / "stranger.key"
    assert run(["sign", str(folder), "--new-key", str(key)]) == 0
    assert run(["sign", "--new-key", str(other)]) == 0
    assert key.stat().st_mode & 0o077 == 0
    public, file = str(tmp_path / "designer.pub"), folder / "a0.json"
    capfd.readouterr()
    assert sanitized(monkeypatch, capfd, str(file), "--trust", public)[0] == 0
    # Another key, another agent's envelope, a changed envelope, no envelope, and a changed file: nothing is sent.
    assert sanitized(monkeypatch, capfd, str(file), "--trust", str(tmp_path / "stranger.pub"))[:2] == (2, "")
    kept = (folder / "a0.json.dsse").read_bytes()
    for spoiled in (
        (folder / "a1.json.dsse").read_bytes(),
        kept.replace(b'"sig": "', b'"sig": "AAAA'),
        b"{}",
        b"[" * 100_000,
        b'{"payload": 1, "payloadType": 2, "signatures": 3}',
    ):
        (folder / "a0.json.dsse").write_bytes(spoiled)
        code, out, err = sanitized(monkeypatch, capfd, str(file), "--trust", public)
        assert (code, out) == (2, "")
        assert "not trusted" in err
    (folder / "a0.json.dsse").unlink()
    assert sanitized(monkeypatch, capfd, str(file), "--trust", public)[:2] == (2, "")
    (folder / "a0.json.dsse").write_bytes(kept)
    assert sanitized(monkeypatch, capfd, str(file), "--trust", public)[0] == 0
    malicious(file)
    assert sanitized(monkeypatch, capfd, str(file), "--trust", public)[:2] == (2, "")
    # The attacker signs with a key of their own: still not trusted.
    sign_files([file], other)
    assert sanitized(monkeypatch, capfd, str(file), "--trust", public)[:2] == (2, "")


@pytest.fixture
def swapped_after_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agent's file; whoever writes there replaces it by a malicious one as soon as it was read once."""
    file = folder / "a0.json"
    original = _reading.read_bytes

    def read_then_swapped(path: Path, limit: int) -> bytes:
        content = original(path, limit)
        if path == file:
            malicious(file)
        return content

    monkeypatch.setattr(_reading, "read_bytes", read_then_swapped)
    return file


def test_what_runs_is_what_was_checked(
    swapped_after_reading: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = swapped_after_reading
    honest = file.read_bytes()
    sent = vn.Sanitizer.load(file).sent
    file.write_bytes(honest)
    code, out, err = sanitized(
        monkeypatch, capfd, str(file), "--trust", hashlib.sha256(honest).hexdigest(), "--json"
    )
    assert file.read_bytes() != honest  # it was swapped, and yet
    assert code == 0, err
    assert sent < 3
    assert len(json.loads(out.splitlines()[-1])["values"]) == sent
    # The other way about: what is read first is malicious, and an honest file later does not save it.
    assert sanitized(monkeypatch, capfd, str(file), "--trust", hashlib.sha256(honest).hexdigest())[:2] == (
        2,
        "",
    )


def test_a_signature_is_checked_on_the_bytes_that_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = folder / "a0.json"
    honest = file.read_bytes()
    make_key(tmp_path / "designer.key")
    sign_files([file], tmp_path / "designer.key")
    malicious(file)

    def read_then_mended(path: Path, limit: int) -> bytes:
        content = path.read_bytes()[:limit]
        path.write_bytes(honest)
        return content

    monkeypatch.setattr(_reading, "read_bytes", read_then_mended)
    assert sanitized(monkeypatch, capfd, str(file), "--trust", str(tmp_path / "designer.pub"))[:2] == (2, "")
    assert file.read_bytes() == honest


def test_pinned_is_what_was_inspected(swapped_after_reading: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = swapped_after_reading
    honest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert run(["inspect", str(file), "--pin", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["fingerprint"] == honest
    assert json.loads(file.with_suffix(".trust").read_text())["fingerprints"] == [honest]


def test_a_pin_beside_the_file_binds_whatever_the_command_line_trusts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = folder / "a0.json"
    assert run(["inspect", str(file), "--pin"]) == 0
    honest = hashlib.sha256(file.read_bytes()).hexdigest()
    capfd.readouterr()
    assert sanitized(monkeypatch, capfd, str(file), "--trust", honest)[0] == 0
    assert sanitized(monkeypatch, capfd, str(file), "--trust", "0" * 64)[:2] == (2, "")
    malicious(file)
    make_key(tmp_path / "designer.key")
    sign_files([file], tmp_path / "designer.key")  # another plan of the very designer
    for trust in (hashlib.sha256(file.read_bytes()).hexdigest(), str(tmp_path / "designer.pub")):
        code, out, err = sanitized(monkeypatch, capfd, str(file), "--trust", trust)
        assert (code, out) == (2, "")
        assert "not trusted" in err
    file.with_suffix(".trust").unlink()
    assert sanitized(monkeypatch, capfd, str(file), "--trust", str(tmp_path / "designer.pub"))[0] == 0


def test_what_is_not_trusted_is_not_pinned(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = folder / "a0.json"
    assert run(["inspect", str(file), "--pin", "--trust", "0" * 64]) == 1
    assert "Not pinned: it is not trusted" in capfd.readouterr().out
    assert not file.with_suffix(".trust").exists()


def test_a_plan_that_does_not_hold_is_not_signed(folder: Path, tmp_path: Path) -> None:
    malicious(folder / "a0.json")
    assert run(["sign", str(folder), "--new-key", str(tmp_path / "designer.key")]) == 2
    assert not list(folder.glob("*.dsse"))


def test_verify_says_which_agents_send_raw_readings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = random_network(1, noise="per agent", prior="covariance")
    plan = make_plan(
        network, {agent: vn.Sanitizer.raw(len(rows)) for agent, rows in network.observe.items()}, "test"
    )
    plan.save(tmp_path / "plan")
    notes = {check.what: check.note for check in verify(tmp_path / "plan", network)}
    assert "EVERY raw reading" in notes["what a0 sends"]
    run(["verify", str(tmp_path / "plan")])
    assert "raw reading" in " ".join(capfd.readouterr().out.split())


def test_verify_and_inspect_say_what_becomes_of_readings_in_steps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who only verifies or inspects a plan reads it too: dithered first, or protected only if continuous."""
    for name, network in (("stated", house()), ("unstated", undithered(house()))):
        vn.design(network).save(tmp_path / name)
        assert run(["verify", str(tmp_path / name)]) == 0
        said = " ".join(capfd.readouterr().out.split())
        assert ("No resolution was stated for kitchen" in said) == (name == "unstated")
        assert ("dithered by one or two steps" in said) == (name == "stated")
        assert run(["inspect", str(tmp_path / name / "hall.json")]) == 0
        said = " ".join(capfd.readouterr().out.split())
        steps = (
            "dithered before they are combined: temperature (±0.1), humidity (±0.05) and vibration (±0.25)"
        )
        assert (steps in said) == (name == "stated")
        assert ("this file states no resolution" in said) == (name == "unstated")


def within_one(rows: list[list[float]] | np.ndarray) -> vn.Sanitizer:
    """Exact numbers of readings that lie between -1 and 1."""
    compression = np.asarray(rows, dtype=float)
    readings = compression.shape[1]
    return vn.Sanitizer(compression, limits=(-np.ones(readings), np.ones(readings)), agent="a")


@pytest.mark.parametrize(("readings", "sent"), [(8, 4), (20, 5), (20, 15)])
def test_many_readings_at_random_are_no_packing(readings: int, sent: int) -> None:
    """Of 20 random coefficients one is small by chance: a quarter to a half of such plans used to be an alarm."""
    alarms = [
        inspect(
            within_one(np.random.default_rng([readings, sent, k]).standard_normal((sent, readings)))
        ).alarms
        for k in range(40)
    ]
    assert not any(alarms)


@pytest.mark.parametrize(
    "row",
    [
        [1.0, 1.0, 1e-4],  # a sum lies on the grid of its readings
        [1.0, 1.5, 1e-4],
        [1.0, 1.00001, 1e-3],  # nearly so, which blurs less than what stands below
        [1.0, 0.7310585, 1e-7],  # in no simple proportion, but so much larger that it does not matter
        [1.0, 1e-3, 1e-6],
    ],
)
def test_a_reading_below_others_is_an_alarm_where_it_stays_legible(row: list[float]) -> None:
    assert any("low ones" in alarm for alarm in inspect(within_one([row])).alarms)


def test_a_reading_that_others_blur_is_worth_a_note() -> None:
    found = inspect(within_one([[1.0, 0.7310585, 1e-4]]))
    assert not found.alarms
    assert any("in no simple proportion" in note for note in found.notes)


def test_one_packed_number_is_found_among_many_random_ones() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((10, 20))
    rows[0] = 0.0
    rows[0, [4, 11]] = 1.0, 1e-4
    assert inspect(within_one(rows)).alarms
