"""Ten thousand damaged files and streams: never a traceback, never a row that should not leave.

Mutations of sealed files either break the checksum or, with the checksum made right again as a forger would,
the content; then a file may load, but only into something valid. For streams an independent, pedantic reader
of the same lines says which rows may be released.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from helpers.forged_plans import forged_id
from veilnet.agent.randomness import noise_source
from veilnet.agent.release import release_valid
from veilnet.io import _sealed, sanitizer_files
from veilnet.io.centre_files import load_centre
from veilnet.io.merging import MessageFile
from veilnet.io.message_streams import MessageMark
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.sources import RowSource
from veilnet.plans.plan import make_plan

pytestmark = pytest.mark.slow

PER_EXAMPLE = 25  # mutated inputs in each example of hypothesis
EXAMPLES = {"damaged plans": 80, "forged plans": 50, "networks": 70, "streams": 120, "messages": 40}


def small_network() -> vn.Network:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4))
    return vn.Network(
        observe={"a": rng.standard_normal((2, 3)), "b c": rng.standard_normal((2, 3))},
        noise=root @ root.T + np.eye(4),
        public={"u": [[1.0, 0, 0]]},
        private={"g": [[0.0, 1, 0]]},
        prior=vn.Prior(covariance=np.eye(3), mean=[1.0, 2, 3]),
        offset=[1.0, 2, 3, 4],
        units={"u": "K"},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("fuzz")
    network = small_network()
    sanitizers = {
        "a": vn.Sanitizer([[1.0, 0.5]], 0.3, offset=[1.0, 2], limits=(-50, 50)),
        "b c": vn.Sanitizer(noise=[[1.0, 0.2], [0.2, 1.0]], names=["p", "q"]),
    }
    make_plan(network, sanitizers, "by hand", details={"gap": np.inf}).save(target / "plan")
    network.save(target / "network.toml")
    network.save(target / "network.json")
    network.save(target / "network.npz")
    return target


# --- mutations


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Bit flips, truncation, swaps, repetitions, insertions: one or a few of them."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        size = len(changed)
        if size < 4:
            break
        start, stop = sorted(int(k) for k in rng.integers(0, size, 2))
        match int(rng.integers(7)):
            case 0:
                changed[start] ^= 1 << int(rng.integers(8))
            case 1:
                del changed[start:]
            case 2:
                del changed[start : min(stop, start + 40)]
            case 3:
                changed[start:start] = changed[start : min(stop, start + 60)]
            case 4:
                changed[start:start] = TOKENS[int(rng.integers(len(TOKENS)))]
            case 5:
                changed[start], changed[stop] = changed[stop], changed[start]
            case _:
                _swap_lines(rng, changed)
    return bytes(changed)


TOKENS = (
    b"NaN", b"-Infinity", b"1e999", b"null", b"[]", b"{}", b'"x"', b",", b"\n", b"\x00", b"\xff", b"[" * 2000,
    b"9" * 400, b"true", b"-0", b"1_0", b'"', b";", b"\r", "٣".encode(), b"\\ud800", b"#", b"=",
)  # fmt: skip


def _swap_lines(rng: np.random.Generator, changed: bytearray) -> None:
    lines = bytes(changed).split(b"\n")
    one, other = rng.integers(0, len(lines), 2)
    lines[one], lines[other] = lines[other], lines[one]
    changed[:] = b"\n".join(lines)


ODD: tuple[Any, ...] = (
    None, True, "x", "", "inf", "nan", -1, 0, 2**70, 1e308, -1e308, 1e-320, [], {}, [[]], [1.0], [[1.0]],
    [[1.0, "x"]], {"file": "plan.json"}, {"file": "/etc/passwd"}, 0.5, 10**400,
)  # fmt: skip


def twisted(rng: np.random.Generator, value: Any) -> Any:
    """A JSON value with something in it replaced, dropped, repeated, renamed or scaled."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        names = list(value)
        name = names[int(rng.integers(len(names)))]
        match int(rng.integers(14)):
            case 0:
                return {n: v for n, v in value.items() if n != name}
            case 1:
                return value | {name + "x": value[name]}
            case 2:
                other = names[int(rng.integers(len(names)))]
                return value | {name: value[other], other: value[name]}
            case _:
                return value | {name: twisted(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = int(rng.integers(len(value)))
        match int(rng.integers(8)):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return [*value, value[place]]
            case _:
                return [*value[:place], twisted(rng, value[place]), *value[place + 1 :]]
    if isinstance(value, float) and rng.random() < 0.5:
        return value * float(rng.choice([-1.0, 0.0, 1e-300, 1e300, 2.0, 1 + 1e-12]))
    return ODD[int(rng.integers(len(ODD)))]


# --- plans, sanitizers and centres


def original(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def loads_of(path: Path) -> Any:
    """Load a file of a plan folder as its owner would."""
    if path.name == "plan.json":
        return vn.Plan.load(path.parent)
    return load_centre(path) if path.name == "center.json" else vn.Sanitizer.load(path)


def complaint_about(work: Callable[[], object]) -> str:
    """What veilnet says against it, empty if nothing; any other error is a failure of the test."""
    try:
        work()
    except vn.VeilnetError as error:
        return str(error)
    return ""


FILES = ("plan.json", "center.json", "a.json", "b c.json")


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
@settings(max_examples=EXAMPLES["damaged plans"])
@given(st.integers(0, 2**32), st.sampled_from(FILES))
def test_damaged_plan_files_are_refused(folder: Path, part: int, seed: int, name: str) -> None:
    rng = np.random.default_rng([seed, part])
    path = folder / "plan" / name
    content = path.read_bytes()
    document = original(path)
    try:
        for _ in range(PER_EXAMPLE):
            mutated = damaged(rng, content)
            path.write_bytes(mutated)
            complaint = complaint_about(lambda: loads_of(path))
            assert len(complaint) < 1000
            # only what reads as the very same content, such as another space, may load
            assert name in complaint or json.loads(mutated) == document
    finally:
        path.write_bytes(content)


@pytest.mark.long
@settings(max_examples=EXAMPLES["forged plans"])
@given(st.integers(0, 2**32), st.sampled_from(FILES))
def test_forged_plan_files_load_as_something_valid_or_not_at_all(folder: Path, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    path = folder / "plan" / name
    content = path.read_bytes()
    document = original(path)
    document.pop("checksum")
    try:
        for _ in range(PER_EXAMPLE):
            forged = twisted(rng, document)
            if not isinstance(forged, dict):
                forged = {"format": forged}
            try:
                if name == "plan.json":
                    with suppress(vn.VeilnetError, KeyError, AttributeError, TypeError):
                        forged |= {"plan": forged_id(forged)}
                path.write_bytes(_sealed.seal(forged))
            except ValueError:
                continue  # not even a forger can write that
            complaint = complaint_about(lambda: loads_of(path))
            if complaint:
                assert ".json" in complaint
                continue
            loaded = loads_of(path)
            if name == "plan.json":
                assert forged["plan"] == document["plan"], "the agents' files are tied to another plan"
            elif name == "center.json":
                estimate = vn.Fusion(loaded).estimate(np.zeros((2, loaded.blocks.total)))
                assert np.array_equal(np.isnan(estimate.public), ~estimate.estimable) or not np.isfinite(
                    np.abs(forged_numbers(forged)).max() * 1e-100
                )
            else:
                _run_forged(loaded)
    finally:
        path.write_bytes(content)


def forged_numbers(document: Any) -> np.ndarray:
    """All numbers in a document."""
    if isinstance(document, dict):
        parts = [forged_numbers(item) for item in document.values()]
    elif isinstance(document, list):
        parts = [forged_numbers(item) for item in document]
    else:
        return np.array([float(document)] if isinstance(document, int | float) else [0.0])
    return np.concatenate(parts) if parts else np.zeros(1)


def _run_forged(sanitizer: vn.Sanitizer) -> None:
    rows = np.array([[1.0] * sanitizer.readings, [np.nan] * sanitizer.readings, [1e300] * sanitizer.readings])
    try:
        released = release_valid(sanitizer.recipe, rows, noise_source(0))
    except vn.VeilnetError:
        return
    assert not released.valid[1]
    assert np.isfinite(released.values).all()
    assert sanitizer.grid is not None
    steps = released.values / sanitizer.grid
    assert np.array_equal(steps, np.rint(steps))


# --- networks


@settings(max_examples=EXAMPLES["networks"])
@given(st.integers(0, 2**32), st.sampled_from(["network.toml", "network.json", "network.npz"]))
def test_damaged_networks_load_or_are_refused(folder: Path, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    content = (folder / name).read_bytes()
    path = folder / f"damaged-{name}"
    for _ in range(PER_EXAMPLE):
        if name == "network.json" and rng.random() < 0.5:
            try:
                mutated = json.dumps(twisted(rng, json.loads(content))).encode()
            except ValueError:
                continue
        else:
            mutated = damaged(rng, content)
        path.write_bytes(mutated)
        complaint = complaint_about(lambda: vn.Network.load(path))
        if complaint:
            assert name in complaint
        else:
            assert np.isfinite(vn.Network.load(path).H).all()


# --- streams

_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def pedantic_csv(content: bytes, columns: int) -> set[tuple[float, ...]]:
    """Every line that is plainly so many finite numbers, quoted or not, by a reader of its own."""
    good = set()
    for line, between in itertools.product(content.split(b"\n"), b",;\t"):
        cells = line.removeprefix(b"\xef\xbb\xbf").split(bytes([between]))
        fields = [field.strip(b' \t\r\x0b\x0c"') for field in cells]
        if between != b","[0]:
            fields = [field.replace(b",", b".", 1) for field in fields]
        if len(fields) == columns and all(_DECIMAL.fullmatch(field) for field in fields):
            numbers = tuple(float(field) for field in fields)
            if all(map(math.isfinite, numbers)):
                good.add(numbers)
    return good


def pedantic_json(content: bytes, columns: int) -> set[tuple[float, ...]]:
    good = set()
    for line in content.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            value = value.get("readings")
        if isinstance(value, list) and len(value) == columns:
            try:
                numbers = tuple(float(item) for item in value if type(item) in (int, float))
            except OverflowError:
                continue
            if len(numbers) == columns and all(map(math.isfinite, numbers)):
                good.add(numbers)
    return good


def stream(rng: np.random.Generator, kind: str) -> bytes:
    """Six rows, distinct, some beyond the limits, of one of the forms the filter reads."""
    rows = rng.uniform(-80, 80, (6, 2)).round(3).tolist()
    if kind == "csv":
        lines = [f"{a},{b}" for a, b in rows]
        return "\n".join((["one,two"] if rng.random() < 0.3 else []) + lines).encode() + b"\n"
    if rng.random() < 0.5:
        return "\n".join(f"[{a}, {b}]" for a, b in rows).encode() + b"\n"
    return "\n".join(f'{{"row": {k + 1}, "readings": [{a}, {b}]}}' for k, (a, b) in enumerate(rows)).encode()


@settings(max_examples=EXAMPLES["streams"])
@given(st.integers(0, 2**32), st.sampled_from(["csv", "jsonl"]))
def test_damaged_streams_release_only_whole_rows(folder: Path, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    agent = vn.Sanitizer.load(folder / "plan/a.json")
    for _ in range(PER_EXAMPLE):
        content = damaged(rng, stream(rng, kind))
        allowed = (pedantic_csv if kind == "csv" else pedantic_json)(content, 2)
        reader = ReadingReader(RowSource("damaged", content, kind), 2)
        numbered: list[int] = []
        try:
            for block in reader.blocks(3):
                released = release_valid(agent.recipe, block.values(2), noise_source(1))
                assert len(block.rows) + len(block.refused) <= 3 + content.count(b"\n")
                for row, numbers, valid in zip(block.rows, block.numbers, released.valid, strict=True):
                    if valid:
                        numbered.append(row)
                        assert tuple(numbers) in allowed, content
                known = agent.recipe.examine(block.values(2))[0][released.valid] + agent.offset
                assert np.max(np.abs(known), initial=0.0) <= 50 + 1e-9
                for _, _, reason in block.refused:
                    assert not re.search(r"\d\.\d", reason), "a reason never quotes a value"
                assert len(released.values) == released.valid.sum()
        except vn.VeilnetError:
            pass
        assert numbered == sorted(set(numbered)), "each row once, in order"


@settings(max_examples=EXAMPLES["messages"])
@given(st.integers(0, 2**32), st.sampled_from(["csv", "jsonl"]))
def test_damaged_messages_are_reported_not_raised(folder: Path, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    fusion = vn.Fusion(load_centre(folder / "plan/center.json"))
    if kind == "csv":
        whole = b"row,plan,agent,z1\n" + b"".join(b"%d,0123abcd,a,%.3f\n" % (k, k / 7) for k in range(1, 8))
    else:
        line = b'{"row": %d, "plan": "0123abcd", "agent": "a", "values": [%.3f]}\n'
        whole = b"".join(line % (k, k / 7) for k in range(1, 8))
    for _ in range(PER_EXAMPLE):
        try:
            source = RowSource("a", damaged(rng, whole), kind)
            file = MessageFile(source, 1, mark=MessageMark("0123abcd", "a"), report=lambda *_: None)
            rows, values = file.take(2**62)
            estimate = fusion.estimate({"a": values})
        except vn.VeilnetError:
            continue
        assert len(set(rows.tolist())) == len(rows)
        present = np.isfinite(values).all(axis=1)
        assert [missing == ("b c",) for missing in estimate.missing] == present.tolist()


def test_ten_thousand_inputs_are_tried() -> None:
    """Some forged values cannot be written at all and are not counted: they are few."""
    twice = EXAMPLES["damaged plans"]  # of which --long draws as many again
    assert PER_EXAMPLE * (sum(EXAMPLES.values()) + twice) >= 11_000


def test_every_document_that_is_written_reads_back(tmp_path) -> None:
    """Mutations start from files that load: the fuzzing above would otherwise prove nothing."""
    sanitizer = vn.Sanitizer([[1.0, 0.5]], 0.3, grid=2.0**-12)
    path = tmp_path / "one.json"
    path.write_bytes(_sealed.seal(sanitizer_files.to_document(sanitizer, None)))
    assert vn.Sanitizer.load(path).grid == 2.0**-12
