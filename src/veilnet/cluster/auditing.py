"""The audit of a network in parts: every promise recomputed, and put to the test on simulated readings.

What the workers simulate is in :mod:`veilnet.cluster.simulating`; here it is judged. Of a plan as promised the mean
square of the attacker's error on each private parameter, and of the centre's on what is public, may stray from the
promise only as far as :class:`veilnet.auditing.statistics.SquareSum` allows, and the noise of no agent may have
another variance than its part of the plan says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet._core.words import counted, join_names, times
from veilnet.auditing.attack.simulation import spread_of_x
from veilnet.auditing.promise import SECTION, Beside, certified_row, judged_row, most_exposed_row
from veilnet.auditing.report import AuditReport, Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import FALSE_ALARM, SquareSum, part_of
from veilnet.auditing.what_if.variants import prior_mean
from veilnet.bounds.knowledge import crlb, knowledge_of_factor
from veilnet.cluster.calls import AGENTS, verify
from veilnet.cluster.centre import known_from, solved
from veilnet.cluster.fusing import whole_of
from veilnet.cluster.parts import Parts, opened
from veilnet.cluster.promises import promise_of
from veilnet.cluster.running import over_all_batches
from veilnet.cluster.sending import plan_name
from veilnet.cluster.simulating import Simulated, drawn_x, simulated_sums, simulated_together
from veilnet.designs.questions import read_count
from veilnet.model.network import Network
from veilnet.plans.certificate import Finding, Promise

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
    promise = promise_of(network)
    found = _certified(lambda: verify(network, client=client, progress=progress).findings)
    with one_thread():
        whole = whole_of(network, client)
        change, mean = whole.in_raw_coordinates(np.eye(network.length)), prior_mean(whole)
        spread = spread_of_x(whole)
    try:
        simulated: Simulated = over_all_batches(
            simulated_sums,
            network.batches(),
            (network.folder, network.length, (chosen, count), spread, mean, change),
            client=client,
            progress=progress,
            what="simulating",
            join=simulated_together,
        )
    except InvalidPlan as error:
        found.append(_failed("simulation", f"could not be run: {error}."))
    else:
        found = [*_deployed(simulated, count), *found]
        with one_thread():
            found += _attacked(whole, promise, simulated, drawn_x(chosen, count, mean, spread))
            known = known_from(whole, simulated.information)
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


def _certified(verified: Callable[[], Sequence[Finding]]) -> list[Row]:
    """A row for every promise that was recomputed; one that says why where that was not possible."""
    try:
        findings = verified()
    except InvalidPlan as error:
        return [_failed("certificate", f"could not be recomputed: {error}.")]
    rows = [certified_row(each) for each in findings if each.what != AGENTS]
    for each in findings:
        if each.what == AGENTS:
            shown = {"promised": f"{each.promised:,.0f}", "counted": f"{each.found:,.0f}"}
            sentence = f"{shown['promised']} agents were promised for, the parts have {shown['counted']}."
            verdict: Judgement = "ok" if each.ok else "fail"
            row = Row(
                SECTION, "agents in all parts", each.promised, each.found, verdict, sentence, shown=shown
            )
            rows.append(row)
    return rows


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
    verdict: Judgement = "fail" if refused or strayed else "ok"
    shown = {"not as planned": str(refused + strayed or "none"), "above all": ""}
    found = [
        Row(DEPLOYED, "messages of all agents", 0, refused + strayed, verdict, f"{sentence}.", shown=shown)
    ]
    if not simulated.tested:
        return found
    # The smallest of so many p-values is below this but for the chance that the section may spend.
    limit = part_of(Section.DEPLOYED, FALSE_ALARM) / simulated.tested
    verdict = "fail" if simulated.least < limit else "ok"
    words = (
        "as planned for every agent"
        if verdict == "ok"
        else f"not as planned, above all for {simulated.worst}"
    )
    sentence = f"the variance of the noise in {rows} rows is {words}."
    figures = {
        "rows": rows,
        "numbers tested": simulated.tested,
        "least p-value": simulated.least,
        "limit": limit,
    }
    shown = {"not as planned": "some", "above all": simulated.worst}
    if verdict == "ok":
        shown = {"not as planned": "none", "above all": ""}
    row = Row(DEPLOYED, "noise of all agents", None, None, verdict, sentence, figures=figures, shown=shown)
    return [*found, row]


def _attacked(whole: Network, promise: Promise, simulated: Simulated, x: Array) -> list[Row]:
    """The errors of the attacker and of the centre over all rows, judged by what was promised of them."""
    growths = {name: promise.privacy[name] for name in whole.private}
    asked = [("public estimate", whole.U, 0.0 - promise.utility)]
    asked += [(f"attack on {name}", whole.private[name], growth) for name, growth in growths.items()]
    bound = crlb(whole)
    guessing = knowledge_of_factor(whole, np.zeros((0, whole.L)))
    found = []
    for place, (what, rows, growth) in enumerate(asked):
        solution = solved(whole, simulated.information, rows)
        raw = float(np.trace(rows @ bound @ rows.T))
        if not solution.estimable.all():
            # Not all of it can be estimated, so that its error as a whole is without bound: as good as any promise
            # for what is private.
            verdict: Judgement = "fail" if place == 0 and np.isfinite(growth) else "ok"
            sentence = f"{what}: as a whole it cannot be estimated from what is sent."
            found.append(Row(SECTION, what, raw * (1 + growth), np.inf, verdict, sentence))
            continue
        if np.isinf(growth):
            sentence = f"{what}: it was promised to be unknown, and can be estimated."
            error = float(np.trace(solution.covariance))
            found.append(Row(SECTION, what, np.inf, error, "fail", sentence))
            continue
        deviations = simulated.vectors @ solution.gain - (x - prior_mean(whole)) @ rows.T
        spectrum = np.maximum(np.linalg.eigvalsh(solution.covariance), 0.0)
        # The size is that which was promised, whatever the parts of the plan say now; they give its shape alone.
        law = SquareSum(spectrum * (raw * (1 + growth) / np.sum(spectrum)), len(x))
        typical = float(np.sqrt(raw / len(rows)))
        beside = Beside(typical * float(np.sqrt(1 + guessing.growth(rows))), typical, "", len(rows))
        square = float(np.sum(deviations**2)) / len(x)
        share = part_of(Section.PROMISE, FALSE_ALARM) / (2 * len(asked))
        found.append(judged_row(what, beside, square, law, share, public=place == 0))
    return found
