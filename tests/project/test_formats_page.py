"""The page of files is true: its tables are the code's."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.code_blocks import ROOT, table_under
from helpers.said import says
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.io import _formats, network_schema, sanitizer_files
from veilnet.io._kinds import Kind, Table
from veilnet.io.agent_ledger import digest_of, next_hash, start_hash
from veilnet.io.centre_files import KINDS
from veilnet.io.plan_files import PLAN
from veilnet.io.proof_files import PROOF
from veilnet.io.template import house
from veilnet.symbols import files as symbol_files
from veilnet.symbols.agent_files import AGENT

PAGE = (ROOT / "docs/reference/formats.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> dict[str, str]:
    """first cell -> second cell of the table under a heading."""
    return {name: cells[0] for name, cells in table_under(PAGE, heading).items()}


def fields(table: Table, *without: str) -> dict[str, str]:
    """name -> whether it is always there, as the page has it."""
    return {name: "yes" if name in table.needed else "no" for name in table.kinds if name not in without}


OF_ALL = ("kind", "plan", "public", "step")


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Fields of plan.json", fields(PLAN)),
        ("Fields of an agent's file", fields(sanitizer_files.SANITIZER)),
        ("Fields of every centre's file", {k: v for k, v in fields(KINDS["rows"]).items() if k in OF_ALL}),
        ("Fields of rows", fields(KINDS["rows"], *OF_ALL)),
        ("Fields of a stream", fields(KINDS["stream"], *OF_ALL)),
        ("Fields of a sum", fields(KINDS["sum"], *OF_ALL)),
        ("Fields of an agent of symbols", fields(AGENT)),
        ("Fields of the centre of symbols", fields(symbol_files.CENTRE)),
        ("Fields of a plan of symbols", fields(symbol_files.PLAN)),
    ],
)
def test_tables_of_sealed_files_are_those_of_the_code(heading: str, expected: dict[str, str]) -> None:
    assert rows_under(heading) == expected


def test_tables_of_networks_are_those_of_the_code() -> None:
    network = rows_under("Fields of a network")
    assert set(network) == set(network_schema.DOCUMENT_KEYS)
    assert {name for name, always in network.items() if always == "yes"} == {
        "format", "public", "private", "agents",
    }  # fmt: skip
    agent = rows_under("Fields of an agent of a network")
    assert set(agent) == set(network_schema.AGENT_KEYS)
    assert [name for name, always in agent.items() if always == "yes"] == ["observe"]
    assert set(rows_under("Arrays of a network")) == set(network_schema.COLUMNS)


def shape_of(kind: Any) -> str:
    """All names within a kind, in order."""
    if isinstance(kind, Table):
        inside = (
            f"{name}{'' if name in kind.needed else '?'}{shape_of(each)}" for name, each in kind.kinds.items()
        )
        return f"({','.join(inside)})"
    inner = getattr(kind, "_kind", None)
    return shape_of(inner) if isinstance(inner, Kind) else ""


# What each version holds. Other fields ask for a new version: raise it in _formats.py, and note its digest here.
KNOWN = {
    "veilnet-network/5": "db8249110eb6",
    "veilnet-network-archive/5": "bd2a546483d4",
    "veilnet-plan/4": "3e98b0fd122b",
    "veilnet-plan-archive/4": "efb501a6f2e2",
    "veilnet-sanitizer/3": "5a3b38362a25",
    "veilnet-centre/3": "3d590f000719",
    "veilnet-proof/5": "a075ad995a62",
    "veilnet-symbol-plan/5": "a9b5393ff9c8",
    "veilnet-symbol-agent/2": "c204fc9e20ed",
    "veilnet-symbol-centre/2": "e7140ceed910",
}
WITHIN = [f"{each.name} {each.keys}" for each in network_schema.FIELDS]
HELD = {
    _formats.NETWORK: [*network_schema.DOCUMENT_KEYS, *network_schema.AGENT_KEYS, *WITHIN],
    _formats.NETWORK_ARCHIVE: [*network_schema.COLUMNS, *WITHIN],
    _formats.PLAN: [shape_of(PLAN)],
    _formats.PLAN_ARCHIVE: [shape_of(PLAN), *(each.name for each in dataclasses.fields(SanitizerStack))],
    _formats.SANITIZER: [shape_of(sanitizer_files.SANITIZER)],
    _formats.CENTRE: [shape_of(each) for each in KINDS.values()],
    _formats.PROOF: [shape_of(PROOF)],
    _formats.SYMBOL_PLAN: [shape_of(symbol_files.PLAN)],
    _formats.SYMBOL_AGENT: [shape_of(AGENT)],
    _formats.SYMBOL_CENTRE: [shape_of(symbol_files.CENTRE)],
}


def test_a_version_rises_when_a_field_is_added() -> None:
    found = {
        form: hashlib.sha256("\n".join(sorted(held)).encode()).hexdigest()[:12] for form, held in HELD.items()
    }
    assert found == KNOWN


FORMATS = sorted({*re.findall(r"^\| `(veilnet-[a-z-]+/\d+)` \|", PAGE, re.MULTILINE)})


@pytest.mark.parametrize("form", FORMATS)
def test_the_next_version_asks_for_a_newer_veilnet_and_the_one_before_is_named(form: str) -> None:
    name, version = form.split("/")
    _formats.check_format(form, form)
    later, before = f"{name}/{int(version) + 1}", f"{name}/{int(version) - 1}"
    with pytest.raises(vn.VeilnetError) as newer:
        _formats.check_format(later, form)
    says(newer.value, "newer veilnet", "upgrade", later, form)
    if int(version) > 1 and form != _formats.NETWORK:  # which is still read
        with pytest.raises(vn.VeilnetError) as earlier:
            _formats.check_format(before, form)
        says(earlier.value, "earlier veilnet", before, form)


def test_the_page_names_every_format_of_the_code() -> None:
    written = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = re.compile(r'^_?[A-Z_]+ = "(veilnet-[a-z-]+/\d+)"$', re.MULTILINE)
    assert set(FORMATS) == {form for text in written for form in named.findall(text)}


def test_entries_of_a_ledger_are_chained_as_the_page_says() -> None:
    store, message = bytes(range(8)), b"a message"
    first = hashlib.sha256(f'["veilnet-releases","kitchen","{store.hex()}",100]'.encode()).digest()
    assert start_hash("kitchen", store, 100) == first
    digest = hashlib.sha256(message).hexdigest()
    entry = f'[1,1888889,"0123456789abcdef",true,"{digest}"]'.encode()
    expected = hashlib.sha256(first + entry).digest()
    assert next_hash(first, 1, 1888889, "0123456789abcdef", True, digest_of(message)) == expected


def test_the_id_of_a_plan_is_as_the_page_says(tmp_path: Path) -> None:
    plan = vn.design(house())
    plan.save(tmp_path / "plan.npz")
    plan.save(tmp_path / "plan")
    with np.load(tmp_path / "plan.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    digest = hashlib.sha256()
    for name in sorted(set(arrays) - {"format", "plan"}):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        text = array.dtype.kind == "U" and array.ndim == 0
        digest.update(str(array).encode("utf-32-le") if text else array.tobytes())
    assert digest.hexdigest()[:32] == str(arrays["plan"])
    assert f'"plan": "{arrays["plan"]}"' in (tmp_path / "plan/kitchen.json").read_text()
