"""What verbs do with plans of symbols; each verb asks :func:`is_symbols` first, and hands over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.validation import refuse_unknown
from veilnet._core.words import three_digits
from veilnet.cli._lines import speaker
from veilnet.cli._shared import amounts, fraction, print_json, progress, show, table, tell
from veilnet.io._atomic import replacing
from veilnet.io.streams import format_for
from veilnet.symbols.agent_files import agent_from_bytes, is_symbol_file

if TYPE_CHECKING:
    from veilnet._core.types import Array, Integers
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.auditing.row import Row
    from veilnet.io.acceptance import PlanFile
    from veilnet.io.merging import Alignment, Rows
    from veilnet.io.row_keys import RowKey
    from veilnet.io.sources import RowSource
    from veilnet.io.statements import Statement
    from veilnet.symbols.agent import SymbolAgent
    from veilnet.symbols.centre import SymbolCentre, SymbolEstimate
    from veilnet.symbols.plan import SymbolPlan


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
    given: Mapping[str, Any],
    *,
    json: bool,
) -> None:
    """Learn a plan of symbols, and save it; ``given`` are options of :func:`veilnet.learn_symbols`, None left out."""
    from veilnet.symbols.learning import learn_symbols

    if len(public) != 1:
        raise InvalidRequest(f"--public: symbols say one column, found {', '.join(public)}")
    asked = {name: value for name, value in given.items() if value is not None}
    if "guessed" in asked:
        asked["guessed"] = amounts(asked["guessed"], "--guessed")
    if "public_loss" in asked:
        asked["public_loss"] = fraction(asked["public_loss"], "--public-loss")
    hidden = [column for columns in private.values() for column in columns]
    with progress("learning symbols", 1.0) as steps:
        known = next(iter(public.values()))[0]
        plan = learn_symbols(data, agents, known, hidden, progress=steps.reached, **asked)
    if out is not None:
        plan.save(out)
    if json:
        figures = {name: getattr(plan, name) for name in ("score", "raw_score", "calibration", "window")}
        for what in ("symbols", "epsilon"):
            figures[what] = {name: getattr(agent, what) for name, agent in plan.agents.items()}
        figures["curve"] = [
            {"score": score, "promised": dict(zip(plan.certificate, promised, strict=True))}
            for score, *promised in plan.curve.tolist()
        ]
        figures["certificate"] = {name: _figures(each) for name, each in plan.certificate.items()}
        print_json(figures | {"written": out})
        return
    tell(plan)
    tell("All this is in one row: evidence adds up over rows of one person (veilnet audit shows how fast).")
    tell(_other_choices(plan))
    if out is not None:
        tell(f"\nWrote {out}. Next:\n  veilnet verify {out}\n  veilnet inspect {out}/AGENT.json")


def _other_choices(plan: SymbolPlan) -> str:
    """What another --guessed would give, as far as the rows that learned let expect."""
    name = next(iter(plan.certificate))
    said = [f"{three_digits(each)} ({three_digits(score)})" for score, each, *_ in plan.curve.tolist()]
    return (
        f"What else --guessed could ask of {name}, and the {plan.centre.public} to expect, by the rows that learned: "
        f"{', '.join(dict.fromkeys(said))}."
    )


def unconfirmed(folder: Path) -> tuple[SymbolPlan | None, list[str]]:
    """A saved plan and why it is not to be used: promises that do not follow from counts, files that differ."""
    from veilnet.symbols.certificate import Unconfirmed
    from veilnet.symbols.files import other_files
    from veilnet.symbols.plan import SymbolPlan

    try:
        plan = SymbolPlan.load(folder)
    except Unconfirmed as error:
        return None, [str(error)]
    return plan, [
        f"{folder / name}: missing, or not what the plan says" for name in other_files(plan, folder)
    ]


def verify_symbols(folder: Path, *, json: bool) -> int:
    """Recompute every certificate from its counts, and compare agents' and centre's files with the plan."""
    plan, reasons = unconfirmed(folder)
    if json:
        promised = {name: _figures(each) for name, each in plan.certificate.items()} if plan else None
        print_json({"ok": not reasons, "reasons": reasons, "certificate": promised})
    else:
        last = "NOT confirmed: do not use this plan." if reasons else "Every promise follows from the counts."
        for line in filter(None, (plan, *(f"- {reason}" for reason in reasons), last)):
            tell(line)
    return 1 if reasons else 0


def inspect_symbols(
    path: Path, content: bytes, known: Mapping[str, Any], distrust: str, *, json: bool
) -> None:
    """What an agent of symbols says, in words, beside what is known of its file."""
    agent, plan = agent_from_bytes(content, path)
    if json:
        names = ("agent", "symbols", "meanings", "keep", "epsilon", "window")
        said = {name: getattr(agent, name) for name in names} | {"readings": agent.names}
        print_json({"plan": plan} | dict(known) | said)
        return
    which = f"Plan {plan}; fingerprint of this file {known['fingerprint']}"
    for line in filter(None, (agent.describe(), which, distrust)):
        tell(line)


def runnable(file: PlanFile, content: bytes) -> tuple[Sanitizer | SymbolAgent, str, Statement | None]:
    """(agent, plan id, what was signed) of an agent's file that may be run now; InvalidPlan, and nothing is sent.

    Of a signed file of symbols it is remembered which version was run; no older one is run after it.
    """
    from veilnet.io.sanitizer_files import sanitizer_from_bytes

    read: Any = agent_from_bytes if is_symbol_file(content) else sanitizer_from_bytes
    found, plan, signed = file.runnable(content, read)
    return found, plan or "", signed


def refuse_other(options: Mapping[str, Any]) -> None:
    """Refuse options that have no meaning for plans of symbols."""
    given = [name for name, value in options.items() if value]
    if given:
        raise InvalidRequest(f"{given[0]}: not for a plan of symbols; leave it out")


def fuse_symbols(
    center: Path,
    merged: Callable[..., AbstractContextManager[tuple[Any, RowKey, Alignment]]],
    out: Path | None,
    *,
    json: bool,
) -> int:
    """Estimate the public quantity in every row that some agent sent, and watch the law of what is sent.

    merged: opens the messages of (agent -> how many numbers it sends, the plan's id, who is called for bad lines).
    """
    from veilnet.io.estimate_files import column_of, csv_lines
    from veilnet.symbols.drift import symbol_drift
    from veilnet.symbols.files import read_centre

    say, bad = speaker("fuse"), []
    centre, plan = read_centre(center)
    kind = format_for(out, given="jsonl" if json and out is None else None)

    def leave_out(source: RowSource, line: int, reason: str) -> None:
        bad.append(line)
        say(f"{source}, line {line} left out: {reason}")

    sent: list[dict[str, Integers]] = []
    with ExitStack() as stack:
        _, key, aligned = stack.enter_context(merged(dict.fromkeys(centre.agents, 1), plan, leave_out))
        target = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))
        if kind == "csv":
            target.write(csv_lines([[column_of(key), centre.public, "chance", "missing"]]))
        for rows, arrived in aligned:
            sent.append(_symbols_of(arrived, centre))
            target.write(_lines(kind, centre.public, rows, centre.estimate(sent[-1]), key))
        target.flush()
    joined = {agent: np.concatenate([each[agent] for each in sent]) for agent in (sent[0] if sent else ())}
    drift = symbol_drift(centre, joined) if joined else None
    changed = drift is not None and bool(drift.changed)
    say(str(drift) if changed else "")
    if out is not None:
        sys.stdout.write(f"Wrote {out}: {sum(len(each) for each in joined.values())} messages\n")
    return 1 if bad or changed else 0


def _lines(kind: str, public: str, rows: Rows, fused: SymbolEstimate, key: RowKey) -> bytes:
    """A line for each row: the public value, how sure, and who is missing."""
    from veilnet.io.estimate_files import column_of, csv_lines

    likely = fused.probabilities
    chances = [None] * len(rows) if likely is None else likely.max(axis=1).round(4).tolist()
    found = zip(rows.tolist(), fused.public.tolist(), chances, fused.missing, strict=True)
    if kind == "csv":
        return csv_lines(
            [key.text(row), str(value), "" if chance is None else str(chance), ";".join(gone)]
            for row, value, chance, gone in found
        )
    said = (
        {
            column_of(key): loads(key.json(row)),
            "public": {public: value},
            "chance": chance,
            "missing": list(gone),
        }
        for row, value, chance, gone in found
    )
    return "".join(f"{dumps(each, ensure_ascii=False)}\n" for each in said).encode()


def _symbols_of(messages: Mapping[str, Array], centre: SymbolCentre) -> dict[str, Integers]:
    """agent -> symbols of rows of messages; -1 where none came, or what came is no symbol of the plan."""
    found = {}
    for agent, values in messages.items():
        column = np.nan_to_num(values[:, 0], nan=-1, posinf=-1)
        known = (column == np.floor(column)) & (column >= 0) & (column < centre.agents[agent])
        found[agent] = np.where(known, column, -1).astype(np.intp)
    return found


def audit_symbols(
    folder: Path, data: Path | None, seed: int, commands: Mapping[str, str], *, json: bool
) -> int:
    """Attackers that learn from what agents send of a table must stay under the certificate.

    commands: agent -> program that runs there, which must send what the plan says; these alone without a table.
    """
    from veilnet.io.audit_files import FORMAT
    from veilnet.symbols.attackers import attack
    from veilnet.symbols.plan import SymbolPlan

    if data is None and not commands:
        raise InvalidRequest(
            "--data: attackers on symbols learn from a table; give one the plan did not learn from"
        )
    plan = SymbolPlan.load(folder)
    programs = list(_programs(plan, commands, seed))
    ok = all(row.verdict != "fail" for _, row in programs)
    shown: dict[str, Any] = {"programs": [{"agent": agent, **asdict(row)} for agent, row in programs]}
    if not json:
        tell(plan)
        _tell_programs(programs)
    if data is not None:
        found, drift = attack(plan, data, seed=seed), plan.drift(plan.send(data))
        # some one-row attack was tried, or attack() had refused
        holds = all(each.ok is not False for each in found)
        ok = ok and holds and not drift.changed
        shown |= {"attacks": found, "drift": drift}
        if not json:
            _tell_attacks(found, drift, holds)
    if json:
        print_json({"format": FORMAT, "ok": ok, **shown})
    return 0 if ok else 1


def _programs(plan: SymbolPlan, commands: Mapping[str, str], seed: int) -> Iterator[tuple[str, Row]]:
    """What programs of agents do, beside the plan."""
    from veilnet.auditing.deployed.commands import CommandMechanism
    from veilnet.auditing.deployed.symbols import program_rows

    refuse_unknown(commands, plan.agents, "--run", error=InvalidRequest)
    for name, command in commands.items():
        agent = plan.agents[name]
        yield from ((name, row) for row in program_rows(agent, CommandMechanism(command, agent.names), seed))


def _tell_programs(programs: Sequence[tuple[str, Row]]) -> None:
    if not programs:
        return
    cells = [[agent, row.what, *row.cells.values()] for agent, row in programs]
    show(table(["agent", "what", *programs[0][1].cells], cells))
    wrong = [row.why for _, row in programs if row.verdict == "fail"]
    for why in wrong:
        tell(why)
    tell("NOT as planned: a program behaves differently." if wrong else "The programs do what the plan says.")


def _tell_attacks(found: Sequence[Any], drift: Any, holds: bool) -> None:
    shown = []
    for each in found:
        reached = f"{each.right:.3f} right" if each.error is None else f"±{three_digits(each.error)}"
        promised = "-" if each.promised is None else three_digits(each.promised)
        ok = {True: "yes", False: "NO", None: "-"}[each.ok]
        shown.append([each.private, each.rows, each.attacker, reached, promised, ok])
    show(table(["private", "rows", "attacker", "reaches", "promised", "holds"], shown))
    tell("Of several rows of one value nothing is promised: the lines show how evidence adds up.")
    tell(drift)
    broken = "NOT as promised: an attacker breaks the certificate."
    tell("No attacker breaks the certificate." if holds else broken)


def _figures(certificate: Any) -> dict[str, Any]:
    names = ("guessed", "error", "chance", "auc", "total_variation", "rows", "cells", "blocks", "confidence")
    return {name: getattr(certificate, name) for name in names}
