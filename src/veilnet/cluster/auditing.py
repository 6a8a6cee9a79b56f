"""The audit of a network in parts: every promise recomputed, and put to the test on simulated readings.

What the workers simulate is in :mod:`veilnet.cluster.simulating`; here it is judged. Of a plan as promised the mean
square of the attacker's error on each private parameter, and of the centre's on what is public, may stray from the
promise only as far as :class:`veilnet.auditing.statistics.SquareSum` allows, and the noise of no agent may have
another variance than its part of the plan says.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet._core.words import counted, join_names, times
from veilnet.auditing.promise import SECTION, Beside, certified_row, judged_row, most_exposed_row
from veilnet.auditing.report import AuditReport, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import FALSE_ALARM, SquareSum, part_of
from veilnet.bounds.knowledge import crlb, knowledge_of_factor
from veilnet.cluster.calls import AGENTS, verify
from veilnet.cluster.fusing import known_from, mean_of, view_of
from veilnet.cluster.parts import Parts, opened
from veilnet.cluster.plans import plan_name, promise_of
from veilnet.cluster.running import over_parts
from veilnet.cluster.simulating import Simulated, drawn_x, simulated_sums
from veilnet.designs.questions import read_count
from veilnet.model.network import Network
from veilnet.plans.certificate import Certificate, Promise

__all__ = ["audit"]

ROWS = 1000
"""Rows that are simulated when nothing is said."""
DEPLOYED = "what is deployed"


def audit(
    parts: Parts | str | PathLike[str],
    *,
    rows: int = ROWS,
    seed: int = 0,
    client: Any = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Put the promises of a network in parts to the test; ``.ok`` says whether every one holds.

    parts: the network, or its folder; it was designed.
    rows:  how many rows of readings are simulated: the more, the smaller a leak that is found (an error variance a
           third below its promise at 1,000 rows, a tenth below it at 15,000).
    seed:  of what is simulated.

    The other arguments are those of :func:`veilnet.cluster.check`. A sound plan fails with a chance of at most one
    in a million (``report.false_alarm``). What else :func:`veilnet.audit` looks at (learned attackers, collusion,
    repetition, wrong models) is for networks in one piece.
    """
    network = opened(parts)
    count, chosen = read_count(rows, "rows", least=2), read_count(seed, "seed", least=0)
    promise, whole = promise_of(network)
    try:
        found = certified_rows(verify(network, client=client, progress=progress))
    except InvalidPlan as error:
        found = [_failed("certificate", f"could not be recomputed: {error}.")]
    try:
        simulated: Simulated = over_parts(
            simulated_sums, network, chosen, count, whole, client=client, progress=progress, what="simulating"
        )
    except InvalidPlan as error:
        found.append(_failed("simulation", f"could not be run: {error}."))
    else:
        with one_thread():
            x = drawn_x(chosen, count, whole) - mean_of(whole)
            known = known_from(whole, simulated.information)
            found = [*_deployed(simulated, count), *found, *_attacked(whole, promise, simulated, x)]
            found += [
                most_exposed_row(name, promise.privacy[name], known.worst_growth(matrix), matrix)
                for name, matrix in whole.private.items()
            ]
    hidden = join_names([f"on {name} {times(1 + each)}" for name, each in promise.privacy.items()])
    return AuditReport(
        tuple(found),
        FALSE_ALARM,
        title=f"Audit of the plan for {counted(network.agents, 'agent')} in {counted(len(network.parts), 'part')}",
        promised=f"Promised: the variance of the centre's error grows {hidden}.",
        plan=plan_name(network.folder),
        takes_data=False,
    )


def certified_rows(certificate: Certificate) -> list[Row]:
    """A row for every promise that was recomputed."""
    *findings, agents = certificate.findings
    assert agents.what == AGENTS
    shown = {"promised": f"{agents.promised:,.0f}", "counted": f"{agents.found:,.0f}"}
    verdict = _judged(ok=agents.ok)
    row = Row(SECTION, "agents in all parts", agents.promised, agents.found, verdict, shown=shown)
    return [*map(certified_row, findings), row]


def _judged(*, ok: bool) -> Any:
    return "ok" if ok else "fail"


def _failed(what: str, sentence: str) -> Row:
    shown = {"outcome": sentence.partition(":")[0]}
    return Row(SECTION, what, None, None, "fail", f"{what}: {sentence}", shown=shown)


def _deployed(simulated: Simulated, rows: int) -> list[Row]:
    """Whether what agents sent is what their part of the plan says: its noise, and nothing else."""
    refused, strayed = simulated.refused, simulated.strayed
    sentence = "every agent sends what its part of the plan says, but for noise and rounding"
    if refused:
        sentence = f"{counted(refused, 'message')} of credible readings were not sent"
    elif strayed:
        sentence = f"{counted(strayed, 'number')} without noise are not what the plan says"
    shown = {"not as planned": str(refused + strayed or "none"), "above all": ""}
    verdict = _judged(ok=not refused + strayed)
    messages = Row(
        DEPLOYED, "messages of all agents", 0, refused + strayed, verdict, f"{sentence}.", shown=shown
    )
    if not simulated.tested:
        return [messages]
    # The smallest of so many p-values is below this but for the chance that the section may spend.
    limit = part_of(Section.DEPLOYED, FALSE_ALARM) / simulated.tested
    least, worst = simulated.worst
    ok = least >= limit
    words = "as planned for every agent" if ok else f"not as planned, above all for {worst}"
    shown = {"not as planned": "none" if ok else "some", "above all": "" if ok else worst}
    figures = {"rows": rows, "numbers tested": simulated.tested, "least p-value": least, "limit": limit}
    sentence = f"the variance of the noise in {rows} rows is {words}."
    noise = Row(
        DEPLOYED, "noise of all agents", None, None, _judged(ok=ok), sentence, figures=figures, shown=shown
    )
    return [messages, noise]


def _attacked(whole: Network, promise: Promise, simulated: Simulated, x: Array) -> list[Row]:
    """The errors of the attacker and of the centre over all rows, judged by what was promised of them.

    x: from the prior mean.
    """
    asked = [("public estimate", whole.U, 0.0 - promise.utility)]
    asked += [(f"attack on {name}", rows, promise.privacy[name]) for name, rows in whole.private.items()]
    bound = crlb(whole)
    guessing = knowledge_of_factor(whole, np.zeros((0, whole.L)))
    found = []
    for place, (what, rows, growth) in enumerate(asked):
        view = view_of(whole, simulated.information, rows)
        raw = float(np.trace(rows @ bound @ rows.T))
        if not view.estimable.all():
            # Not all of it can be estimated, so that its error as a whole is without bound: as good as any promise
            # for what is private.
            verdict = _judged(ok=place > 0 or np.isinf(growth))
            sentence = f"{what}: as a whole it cannot be estimated from what is sent."
            found.append(Row(SECTION, what, raw * (1 + growth), np.inf, verdict, sentence))
            continue
        if np.isinf(growth):
            sentence = f"{what}: it was promised to be unknown, and can be estimated."
            found.append(Row(SECTION, what, np.inf, float(np.trace(view.covariance)), "fail", sentence))
            continue
        square = float(np.sum((simulated.vectors @ view.gain.T - x @ rows.T) ** 2)) / len(x)
        spectrum = np.maximum(np.linalg.eigvalsh(view.covariance), 0.0)
        # The size is that which was promised, whatever the parts of the plan say now; they give its shape alone.
        law = SquareSum(spectrum * (raw * (1 + growth) / np.sum(spectrum)), len(x))
        typical = float(np.sqrt(raw / len(rows)))
        beside = Beside(typical * float(np.sqrt(1 + guessing.growth(rows))), typical, "", len(rows))
        share = part_of(Section.PROMISE, FALSE_ALARM) / (2 * len(asked))
        found.append(judged_row(what, beside, square, law, share, public=place == 0))
    return found
