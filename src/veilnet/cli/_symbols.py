"""What verbs do with plans of symbols; each verb asks :func:`is_symbols` first, and hands over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from csv import writer
from io import StringIO
from json import dumps, loads
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from veilnet.io.cells import as_cell
from veilnet.symbols.agent_files import is_symbol_file

if TYPE_CHECKING:
    from veilnet._core.types import Array, Integers
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.merging import Rows
    from veilnet.io.row_keys import RowKey
    from veilnet.io.statements import Statement
    from veilnet.symbols.agent import SymbolAgent
    from veilnet.symbols.centre import SymbolCentre, SymbolEstimate


_YES = {True: "yes", False: "NO"}


def is_symbols(path: Path) -> bool:
    """Whether a folder is a plan of symbols, or a file one of its files."""
    try:
        with (path / "plan.json" if path.is_dir() else path).open("rb") as file:
            return is_symbol_file(file.read(64))
    except OSError:
        return False


def fit_symbols(
    data: Path,
    agents: Mapping[str, Sequence[str]],
    public: Mapping[str, Sequence[str]],
    private: Mapping[str, Sequence[str]],
    out: Path | None,
    *,
    guessed: list[str] | None,
    public_loss: str | None,
    blocks: str | None,
    confidence: float | None,
    seed: int | None,
    json: bool,
) -> None:
    """Learn a plan of symbols, and save it."""
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import amounts, fraction, print_json, progress, tell
    from veilnet.symbols.learning import learn_symbols

    if len(public) != 1:
        raise InvalidRequest(f"--public: symbols tell of one column, found {', '.join(public)}")
    with progress("learning symbols", 1.0) as steps:
        plan = learn_symbols(
            data,
            agents,
            next(iter(public.values()))[0],
            [column for columns in private.values() for column in columns],
            guessed=amounts(guessed, "--guessed"),
            public_loss=None if public_loss is None else fraction(public_loss, "--public-loss"),
            blocks=blocks,
            confidence=0.95 if confidence is None else confidence,
            seed=seed or 0,
            progress=lambda _, part: steps.update(part),
        )
    if out is not None:
        plan.save(out)
    if json:
        print_json(
            {
                "score": plan.score,
                "raw_score": plan.raw_score,
                "calibration": plan.calibration,
                "symbols": {name: agent.symbols for name, agent in plan.agents.items()},
                "certificate": {name: _figures(each) for name, each in plan.certificate.items()},
                "written": out,
            }
        )
        return
    tell(plan)
    tell("All this is in one row: evidence adds up over rows of one person (veilnet audit shows how fast).")
    if out is not None:
        tell(f"\nWrote {out}. Next:\n  veilnet verify {out}\n  veilnet inspect {out}/AGENT.json")


def verify_symbols(folder: Path, *, json: bool) -> int:
    """Recompute every certificate from its counts, and compare agents' and centre's files with the plan."""
    from veilnet.cli._shared import print_json, tell
    from veilnet.symbols.certificate import Unconfirmed
    from veilnet.symbols.files import other_files
    from veilnet.symbols.plan import SymbolPlan

    try:
        plan = SymbolPlan.load(folder)
    except Unconfirmed as error:
        if json:
            print_json({"ok": False, "reason": str(error)})
        else:
            tell(f"NOT confirmed: do not use this plan ({error}).")
        return 1
    other = other_files(vars(plan), folder)
    if json:
        promised = {name: _figures(each) for name, each in plan.certificate.items()}
        print_json({"ok": not other, "certificate": promised, "other_files": other})
        return 1 if other else 0
    tell(plan)
    for name in other:
        tell(f"- {folder / name}: missing, or not what the plan says")
    tell("NOT confirmed: do not use this plan." if other else "Every promise follows from the counts.")
    return 1 if other else 0


def check_symbols(folder: Path) -> None:
    """An error where a plan of symbols does not hold; its promise is in plan.json, which is signed with the rest."""
    from veilnet._core.errors import InvalidPlan
    from veilnet.symbols.files import other_files
    from veilnet.symbols.plan import SymbolPlan

    other = other_files(vars(SymbolPlan.load(folder)), folder)
    if other:
        raise InvalidPlan(f"{folder / other[0]}: missing, or not what the plan says; save the plan again")


def inspect_symbols(path: Path, trust: Sequence[str], *, pin: bool, json: bool) -> int:
    """What an agent of symbols says, in words."""
    from veilnet._core.errors import InvalidPlan
    from veilnet.cli._shared import print_json, tell
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.trust import fingerprint, pinned, require_trust
    from veilnet.io.trust import pin as pin_file
    from veilnet.symbols.agent_files import agent_from_bytes

    content = sealed_bytes(path)
    agent, plan = agent_from_bytes(content, path)
    distrust = ""
    try:
        pins = pinned(path, trust) if trust or not pin else ()
        require_trust(path, content, pins)
    except InvalidPlan as error:
        pins, distrust = (), str(error)
    mark = fingerprint(content)
    if json:
        said = {
            "symbols": agent.symbols,
            "meanings": agent.meanings,
            "keep": agent.keep,
            "readings": agent.names,
        }
        trusted = False if distrust else (True if pins else None)
        print_json({"agent": agent.agent, "plan": plan, "fingerprint": mark, "trusted": trusted} | said)
    else:
        tell(agent.describe())
        tell(f"Plan {plan}; fingerprint of this file {mark}")
        if distrust:
            tell(distrust)
    if pin and not distrust:
        tell(f"Pinned in {pin_file(path, content)}: sanitize refuses any other file in its place.")
    return 1 if distrust else 0


def runnable(
    path: Path, content: bytes, trust: Sequence[str], accepted: Path | None
) -> tuple[Sanitizer | SymbolAgent, str | None, Statement | None]:
    """(agent, plan id, what was signed) of an agent's file that may be run now; InvalidPlan, and nothing is sent.

    Of a signed file of symbols it is remembered which version was run; no older one is run after it.
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.io.acceptance import accept, runnable_sanitizer
    from veilnet.io.trust import pinned, require_trust
    from veilnet.symbols.agent_files import agent_from_bytes

    if not is_symbol_file(content):
        return runnable_sanitizer(path, content, trust, accepted)
    signed = require_trust(path, content, pinned(path, trust))
    agent, plan = agent_from_bytes(content, path)
    if signed is not None:
        accept(path, None, signed, accepted)
    elif accepted is not None:
        raise InvalidRequest("--accepted: it goes with a signed plan; give --trust and the public key")
    return agent, plan, signed


def refuse_other(options: Mapping[str, Any]) -> None:
    """Refuse options that have no meaning for plans of symbols."""
    from veilnet._core.errors import InvalidRequest

    given = [name for name, value in options.items() if value]
    if given:
        raise InvalidRequest(f"{given[0]}: not for a plan of symbols; leave it out")


def fuse_symbols(
    center: Path,
    paths_of: Callable[[tuple[str, ...]], dict[str, Path]],
    out: Path | None,
    format: str | None,
    within: int,
    *,
    trust_counts: bool,
    json: bool,
) -> int:
    """Estimate the public quantity in every row that some agent sent, and watch the law of what is sent.

    paths_of: the file of messages of each of the agents.
    """
    from veilnet.cli._lines import speaker
    from veilnet.io._atomic import replacing
    from veilnet.io.merging import MessageFile, aligned, common_key, require_equal_counts
    from veilnet.io.message_streams import MessageMark
    from veilnet.io.row_keys import COUNTED
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import format_for
    from veilnet.symbols.drift import symbol_drift
    from veilnet.symbols.files import read_centre

    say, bad = speaker("fuse"), []
    centre, plan = read_centre(center)
    paths = paths_of(tuple(centre.agents))
    kind = format_for(out, given="jsonl" if json and out is None else None)

    def leave_out(source: RowSource, line: int, reason: str) -> None:
        bad.append(line)
        say(f"{source}, line {line} left out: {reason}")

    with ExitStack() as stack:
        files = {
            agent: MessageFile(
                RowSource(str(path), stack.enter_context(path.open("rb")), format_for(path, given=format)),
                1,
                mark=MessageMark(plan, agent),
                report=leave_out,
            )
            for agent, path in paths.items()
        }
        key = common_key(files, trust_counts=trust_counts)
        if key == COUNTED:
            require_equal_counts({agent: file.last_in_file() for agent, file in files.items()})
        target = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
        if kind == "csv":
            _line(target, ["time" if key.is_time else "row", centre.public, "chance", "missing"])
        sent: list[dict[str, Integers]] = []
        for rows, arrived in aligned(files, within):
            sent.append(_symbols_of(arrived, centre))
            _write(target, kind, centre, rows, centre.estimate(sent[-1]), key)
        target.flush()
    joined = {agent: np.concatenate([each[agent] for each in sent]) for agent in (sent[0] if sent else ())}
    drift = symbol_drift(centre, joined) if joined else None
    changed = drift is not None and drift.changed
    if changed:
        say(str(drift))
    if out is not None:
        sys.stdout.write(f"Wrote {out}: {sum(len(each) for each in joined.values())} messages\n")
    return 1 if bad or changed else 0


def _write(
    target: IO[bytes], kind: str, centre: SymbolCentre, rows: Rows, told: SymbolEstimate, key: RowKey
) -> None:
    """A line for each row: the public value, how sure, and who is missing."""
    sure = (
        [None] * len(rows) if told.probabilities is None else told.probabilities.max(axis=1).round(4).tolist()
    )
    for row, value, chance, gone in zip(rows.tolist(), told.public.tolist(), sure, told.missing, strict=True):
        if kind == "csv":
            _line(target, [key.text(row), str(value), "" if chance is None else str(chance), ";".join(gone)])
            continue
        place = {"time" if key.is_time else "row": loads(key.json(row))}
        said = place | {"public": {centre.public: value}, "chance": chance, "missing": list(gone)}
        target.write(f"{dumps(said, ensure_ascii=False)}\n".encode())


def _line(target: IO[bytes], cells: Sequence[str]) -> None:
    text = StringIO()
    writer(text, lineterminator="\n").writerow([as_cell(cell) for cell in cells])
    target.write(text.getvalue().encode())


def _symbols_of(messages: Mapping[str, Array], centre: SymbolCentre) -> dict[str, Integers]:
    """agent -> symbols of rows of messages; -1 where none came, or what came is no symbol of the plan."""
    found = {}
    for agent, values in messages.items():
        column = np.nan_to_num(values[:, 0], nan=-1, posinf=-1)
        known = (column == np.floor(column)) & (column >= 0) & (column < centre.agents[agent])
        found[agent] = np.where(known, column, -1).astype(np.intp)
    return found


def audit_symbols(folder: Path, data: Path | None, seed: int, *, json: bool) -> int:
    """Attackers that learn from what agents send of a table; they must stay under the certificate."""
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import console, print_json, table, tell
    from veilnet.symbols.attackers import attack
    from veilnet.symbols.plan import SymbolPlan

    if data is None:
        raise InvalidRequest(
            "--data: attackers on symbols learn from a table; give one the plan did not learn from"
        )
    plan = SymbolPlan.load(folder)
    found = attack(plan, data, seed=seed)
    ok = all(each.ok is not False for each in found)  # some one-row attack was tried, or attack() had refused
    if json:
        print_json({"ok": ok, "attacks": found})
        return 0 if ok else 1
    tell(plan)
    shown = [
        [
            each.private,
            each.rows,
            each.attacker,
            f"{each.right:.3f}",
            _or_nothing(each.promised),
            "-" if each.ok is None else _YES[each.ok],
        ]
        for each in found
    ]
    console.print(table(["private", "rows", "attacker", "right", "at most", "holds"], shown))
    tell("Of several rows of one value nothing is promised: the lines show how evidence adds up.")
    tell(
        "No attacker is above the certificate."
        if ok
        else "NOT as promised: an attacker is above the certificate."
    )
    return 0 if ok else 1


def _or_nothing(promised: float | None) -> str:
    return "-" if promised is None else f"{promised:.3f}"


def _figures(certificate: Any) -> dict[str, Any]:
    names = ("guessed", "error", "chance", "rows", "cells", "blocks", "confidence")
    return {name: getattr(certificate, name) for name in names}
