"""The workbench as a page needs it: numbers for its sliders, and the pieces of the report for everything else."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from veilnet._core.words import NOTHING, at_most, join_names, percent, three_digits
from veilnet.bounds.detectability import Detectability
from veilnet.bounds.typical_errors import TypicalError, typical_errors
from veilnet.report.agents_section import agents_section
from veilnet.report.audit_section import audit_section
from veilnet.report.doubts_section import doubts_section
from veilnet.report.error_picture import in_words
from veilnet.report.frontier_section import frontier_section
from veilnet.report.html import Html, join, paragraph, shown, table
from veilnet.report.known_section import error_cards, gaps_note
from veilnet.report.symbols_picture import curve_figure
from veilnet.report.symbols_section import (
    promise_cards,
    rows_section,
    says_section,
    symbols_certificate,
    symbols_headline,
    symbols_lead,
)
from veilnet.report.verdict_section import verdict_section
from veilnet.report.words import at_least, fold, grows, headline
from veilnet.studio.choices import audit_choices, by_search, known_if
from veilnet.studio.uploads import MOST_BYTES, UploadedTable
from veilnet.studio.workbench import Loaded, Symbols, Workbench
from veilnet.symbols.plan import SymbolPlan

# Sliders end where silence does, but for this part; and so far beyond the free plan where nothing limits them.
_BEFORE_LIMIT = 0.98
_BEYOND = 30.0
_NEAR_GUESSING = 0.51  # an AUC; that of a secret can be dragged so far
_MOST_NAMED = 4
_MOST_PUBLIC = 3.0  # public errors so many-fold are the largest one can accept by dragging


def view(bench: Workbench) -> dict[str, Any]:
    """Everything the page shows."""
    table, symbols, loaded = bench.table, bench.symbols, bench.loaded
    return {
        "version": bench.version,
        "most_bytes": MOST_BYTES,
        "jobs": job_states(bench),
        "table": table and {"number": bench.opened["table"], **_table(table)},
        "symbols": symbols and {"number": bench.opened["symbols"], **_symbols(symbols)},
        "loaded": loaded and {"number": bench.opened["network"], **_loaded(loaded)},
    }


def _table(now: UploadedTable) -> dict[str, Any]:
    return {"name": shown(now.name), "columns": now.columns, "first": now.first}


def _symbols(now: Symbols) -> dict[str, Any]:
    """The plans of symbols to choose from, and everything about the chosen one."""
    plan = now.plan
    points = [(next(iter(each.certificate.values())).promise, each.score) for each in now.plans]
    together = (
        "Every point is a plan with a certificate of its own; they hold together: any one may be taken."
    )
    words = ["veilnet", "fit", now.name, "--symbols", "--public", plan.centre.public]
    for agent in plan.agents.values():
        words += ["--agent", f"{agent.agent}={','.join(agent.names)}"]
    for name, each in plan.certificate.items():
        words += ["--private", name, "--guessed", f"{name}={three_digits(each.promise)}"]
    words += ["--blocks", now.roles["blocks"]] if now.roles.get("blocks") else []
    return {
        "name": now.name,
        "chosen": now.chosen,
        "plans": [_choice(each) for each in now.plans],
        "headline": symbols_headline(plan),
        "lead": symbols_lead(plan),
        "command": " ".join(shlex.quote(word) for word in [*words, "--out", "plan"]),
        "html": {
            "curve": curve_figure(plan, points, together),
            "known": promise_cards(plan),
            "says": says_section(plan),
            "rows": rows_section(plan),
            "certificate": symbols_certificate(plan),
        },
    }


def _choice(plan: SymbolPlan) -> str:
    promised = []
    for name, each in plan.certificate.items():
        right, off = f"right at most {at_most(each.promise)}", f"off by at least {at_least(each.promise)}"
        promised.append(f"{shown(name)} {right if each.classes else off}")
    kind = "accuracy" if plan.centre.classes else "R²"
    return f"{join_names(promised)}: {kind} {three_digits(plan.score)}"


def job_states(bench: Workbench) -> dict[str, Any]:
    """How far each job is."""
    return {
        name: {"state": job.state, "what": job.what, "part": job.progress, "error": job.error}
        for name, job in bench.jobs.items()
    }


def _loaded(now: Loaded) -> dict[str, Any]:
    errors = typical_errors(now.network, now.plan.sanitizers)
    return {
        "name": now.name,
        "quick": now.quick,
        "by_search": by_search(now),
        "searching": now.searched is not None,
        "asked": _asked(now),
        "network": _network(now),
        "audit": audit_choices(now),
        "agents": [{"name": agent, "readings": len(rows)} for agent, rows in now.network.observe.items()],
        "headline": headline(now.plan, list(errors.values())),
        "free": _free(now),
        "public": _public(now, errors),
        "private": [_private(now, errors[name]) for name in now.network.private],
        "refined": now.refined,
        "command": now.ask.command(now.name, now.model_error),
        "silent": now.silent,
        "betrayed": now.betrayed,
        "html": {
            "errors": join([error_cards(list(errors.values()), now.plan), gaps_note(now.plan)]),
            "frontier": _frontier(now),
            "agents": agents_section(now.plan),
            "verdict": verdict_section(now.verdict),
            "what_if": _what_if(now, errors),
            "audit": audit_section(now.audit) if now.audit is not None else "",
            "doubts": doubts_section(now.plan),
        },
    }


def _asked(now: Loaded) -> dict[str, Any]:
    """The question that was asked last, as a page would send it."""
    asked = now.searched or now.ask
    names = {name: list(getattr(asked, name)) for name in ("worst", "give_up")}
    return {"privacy": dict(asked.privacy), "loss": asked.loss} | names


def _network(now: Loaded) -> dict[str, Any]:
    """What the network is, and how far it may be said to be off."""
    network = now.network
    words = f"{len(network.observe)} agents with {sum(map(len, network.observe.values()))} readings"
    why_not = ""
    if network.is_stream:
        words += ", as a stream"
        why_not = "An error of the model repeats in every row of a stream, so that it does not count as noise there."
    elif network.prior is None or network.prior.covariance is None:
        why_not = (
            "What a wrong model does depends on how large x is: this network has no full prior that says so."
        )
    return {"words": words, "model_error": network.model_error, "why_not": why_not}


def _free(now: Loaded) -> str:
    """What privacy costs nothing, in one sentence; the least of it where there are many private parameters."""
    seen = now.verdict.detectability
    hidden = [(name, each) for name, each in now.verdict.ceiling.items() if name not in seen]
    free = sorted(hidden, key=lambda each: each[1])[:_MOST_NAMED]
    grown = [f"on {shown(name)} {grows(float(np.sqrt(1 + ceiling)))}" for name, ceiling in free]
    parts = [f"the centre's error {join_names(grown)}"] if grown else []
    most = sorted(seen.items(), key=lambda each: -each[1].longest.auc)[:_MOST_NAMED]
    aucs = [f"that of {shown(name)} with AUC {each.longest.auc:.3f}" for name, each in most]
    parts += [f"of changes it sees {join_names(aucs)} (0.5 is guessing)"] if aucs else []
    return f"At no loss at all, {', and '.join(parts)}."


def _public(now: Loaded, errors: dict[str, TypicalError]) -> dict[str, Any]:
    """The public error, so many-fold of the one from raw readings, and how far it may be dragged."""
    public = [errors[name] for name in now.network.public if not errors[name].private]
    guess = [each.guessing / each.raw for each in public]
    most = float(np.sqrt(np.mean(np.square(guess)))) if guess else _MOST_PUBLIC
    grown = float(np.sqrt(1 - now.plan.utility))
    bound = "" if now.refined else "at most "
    return {
        "fold": grown,
        "grown": "nothing is lost"
        if grown < 1 + NOTHING
        else f"{bound}{percent(grown - 1)} larger than from raw readings",
        "most": min(most, _MOST_PUBLIC),
        "loss": -now.plan.utility,
        "raw": {each.name: _in_unit(each.raw, each.unit) for each in public},
        "sent": {each.name: _in_unit(each.sent or 0.0, each.unit) for each in public},
    }


def _private(now: Loaded, error: TypicalError) -> dict[str, Any]:
    """One private parameter, its errors so many-fold of the raw one: free, reached, and as far as silence goes."""
    name = error.name
    free, limit = now.verdict.ceiling[name], now.verdict.limit[name]
    most = _BEFORE_LIMIT * limit if np.isfinite(limit) else _BEYOND * (1 + min(free, 1e4))
    words = in_words(error)
    seen = now.plan.detectability.get(name)
    if seen is not None:
        return _secret(now, name, seen)
    every_direction = now.ask.loss is None and name in now.ask.worst
    reached = now.plan.worst_direction[name] if every_direction else now.plan.privacy[name]
    return {
        "name": name,
        "label": f"Centre's error on {shown(name)}, at least (private: larger is safer)",
        "auc": False,
        "several": len(now.network.private[name]) > 1,
        "kept": bool(free > NOTHING),
        "free": float(np.sqrt(1 + min(free, most))),
        "most": float(np.sqrt(1 + most)),
        "fold": float(np.sqrt(1 + min(reached, 1e12))),
        "unlimited": bool(np.isinf(now.plan.privacy[name])),
        "always_free": bool(free >= most),
        "words": f"{words['sent']} (raw {words['raw']}, prior only {words['prior only']})",
    }


def _secret(now: Loaded, name: str, seen: Detectability) -> dict[str, Any]:
    """One secret: the AUC with which its change is seen for free, now, and as near to guessing as one can drag."""
    free, reached = now.verdict.detectability[name].longest.auc, seen.longest
    change = seen.what(now.network.unit(name))
    lasts = "" if seen.lasting is None else f" over {seen.rows} rows"
    return {
        "name": name,
        "label": f"How surely {change} of {shown(name)} is seen{lasts}: AUC, at most (private: smaller is safer)",
        "auc": True,
        "several": False,
        "kept": True,
        "free": free,
        "most": _NEAR_GUESSING,
        "fold": reached.auc,
        "unlimited": False,
        "always_free": bool(free <= _NEAR_GUESSING),
        "words": f"AUC {reached.auc:.3f} (raw {reached.raw.auc:.3f}, guessing 0.5); right "
        f"{100 * reached.accuracy:.1f} % at even odds; {100 * reached.power:.1f} % found with 1 % false alarms",
    }


def _frontier(now: Loaded) -> Html:
    if now.curve is None:
        return paragraph("What more privacy would cost is being computed.", class_="soft")
    return frontier_section(now.plan, now.curve)


def _what_if(now: Loaded, errors: dict[str, TypicalError]) -> Html | str:
    """The errors as planned beside those when some agents are silent or betrayed."""
    if not now.silent and not now.betrayed:
        return ""
    changed, seen = known_if(now.plan, now.silent, now.betrayed)
    rows = []
    for name, error in errors.items():
        what = f"{shown(name)} ({'private' if error.private else 'public'})"
        if error.private and name in seen:
            aucs = [each[name].longest.auc for each in (now.plan.detectability, seen)]
            rows.append([what, *(f"AUC {each:.3f}" for each in aucs), f"{aucs[1] - aucs[0]:+.3f}"])
            continue
        before, after = error.sent or 0.0, changed[name].sent or 0.0
        rows.append([what, _in_unit(before, error.unit), _in_unit(after, error.unit), _change(before, after)])
    columns = ("parameter", "error as planned", "error then", "change")
    return table("The centre's errors if it came so", columns, rows, numeric=(1, 2, 3))


def _change(before: float, after: float) -> str:
    if np.isinf(before) and np.isinf(after):
        return fold(1.0)
    if after > before * (1 - NOTHING):
        return fold(after / before)
    return f"{100 * (1 - after / before):.2g} % smaller"


def _in_unit(value: float, unit: str) -> str:
    if np.isinf(value):
        return "without bound"
    return f"±{three_digits(value)}{f' {shown(unit)}' if unit else ''}"
