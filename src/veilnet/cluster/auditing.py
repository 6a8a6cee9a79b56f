"""The audit of a network in parts: every promise recomputed, and put to the test on simulated readings.

A worker draws the readings of its agents from the model, and sanitizes them by what is really in the parts of the
plan. What the messages tell is added up as for the centre (:mod:`veilnet.cluster.fusing`). Since the readings are
known here, so is what was added to them: numbers that carry noise are tested for its variance one by one, and those
that carry none must be what the plan says but for rounding.

Of a plan as promised the mean
square of the attacker's error on each private parameter, and of the centre's on what is public, may stray from the
promise only as far as :class:`veilnet.auditing.statistics.SquareSum` allows, and the noise of no agent may have
another variance than its part of the plan says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.progress import Progress
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet._core.words import counted, join_names, times
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.randomness import SeededNoise
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.measures import Compared
from veilnet.auditing.promise import SECTION, certified_row, judged_row, most_exposed_row
from veilnet.auditing.report import AuditReport, Row
from veilnet.auditing.row import Judgement
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import FALSE_ALARM, SquareSum, part_of, subgaussian_square_p
from veilnet.auditing.what_if.variants import prior_mean
from veilnet.bounds.knowledge import crlb, knowledge_of_factor
from veilnet.cluster.calls import AGENTS, verify
from veilnet.cluster.fusing import known_from, view_of, weights_of
from veilnet.cluster.messages import part_generator, release_of
from veilnet.cluster.parts import PartFile, Parts, opened
from veilnet.cluster.plans import plan_name, promise_of, sent_by
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import Summed, joined_by
from veilnet.designs.questions import read_count
from veilnet.model.network import Network
from veilnet.model.readings import MOST_DRAWS, dither_variance
from veilnet.plans.certificate import Certificate, Promise

ROWS = 1000
"""Rows that are simulated when nothing is said."""
_OF_X, _OF_READINGS, _OF_AGENTS = 1, 2, 3  # what a seed is used for, so that no two draw the same
_ALL = "agents in all parts"
_NOISY = 1e4  # a variance of so many squared steps of the grid is noise; what is less is rounding
_ROUNDED = 1e-3  # of a step, that the arithmetic of a sum may be off (veilnet.agent.grid.CROSSING_LIMIT)


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
    seed:  of the simulation.

    The other arguments are those of :func:`veilnet.cluster.check`. A sound plan fails with a chance of at most one
    in a million (``report.false_alarm``). What else :func:`veilnet.audit` looks at (learned attackers, collusion,
    repetition, wrong models) is for networks in one piece.
    """
    network = opened(parts)
    count, chosen = read_count(rows, "rows", least=2), read_count(seed, "seed", least=0)
    promise, whole = promise_of(network)
    try:
        certificate = verify(network, client=client, progress=progress)
        found = certified_rows(certificate, join_names(list(network.public)))
    except InvalidPlan as error:
        found = [_failed("certificate", "could not be recomputed", error)]
    try:
        simulated: Simulated = over_parts(
            simulated_sums, network, chosen, count, whole, client=client, progress=progress, what="simulating"
        )
    except InvalidPlan as error:
        found.append(_failed("simulation", "could not be run", error))
    else:
        with one_thread():
            x = drawn_x(chosen, count, whole) - prior_mean(whole)
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
        promised=f"Promised: the standard error grows {hidden}.",
        plan=plan_name(network.folder),
        takes_data=False,
    )


def _judged(ok: object) -> Judgement:
    return "ok" if ok else "fail"


def certified_rows(certificate: Certificate, public: str) -> list[Row]:
    """A row for every promise that was recomputed; ``public`` are the names of what is public."""
    *findings, agents = certificate.findings
    assert agents.what == AGENTS
    shown = {"promised": f"{agents.promised:,.0f}", "computed again": f"{agents.found:,.0f}"}
    counts = agents.promised, agents.found, _judged(agents.ok)
    return [*(certified_row(each, public) for each in findings), Row(SECTION, _ALL, *counts, shown=shown)]


def _failed(what: str, trouble: str, error: InvalidPlan) -> Row:
    return Row(SECTION, what, None, None, "fail", f"It {trouble}: {error}.", shown={"outcome": trouble})


def _deployed(simulated: Simulated, rows: int) -> list[Row]:
    """Whether what agents sent is what their part of the plan says: its noise, and nothing else."""
    section = Section.DEPLOYED.heading
    off = {"not sent of credible readings": simulated.refused, "without noise, and off": simulated.strayed}
    shown, count = {what: f"{many:,}" if many else "none" for what, many in off.items()}, sum(off.values())
    found = [
        Row(section, "messages of all agents", 0, count, _judged(not count), "", None, off, shown),
    ]
    if simulated.tested:
        # The smallest of so many p-values is below this but for the chance that the section may spend.
        limit = part_of(Section.DEPLOYED, FALSE_ALARM) / simulated.tested
        least, worst = simulated.worst
        figures = {"rows": rows, "numbers tested": simulated.tested, "least p-value": least, "limit": limit}
        why = "" if least >= limit else f"Its variance is not what the plan says, above all for {worst}."
        outcome = "not as planned" if why else "as planned"
        noise = Row(
            section, "noise of all agents", "as planned", outcome, _judged(not why), why, None, figures
        )
        found.append(noise)
    return found


def _attacked(whole: Network, promise: Promise, simulated: Simulated, x: Array) -> list[Row]:
    """The errors of the attacker and of the centre over all rows, judged by what was promised of them.

    x: from the prior mean.
    """
    asked = [("public estimate", whole.measured, 0.0 - promise.utility)]
    asked += [(f"attack on {name}", rows, promise.privacy[name]) for name, rows in whole.private.items()]
    bound = crlb(whole)
    guessing = knowledge_of_factor(whole, np.zeros((0, whole.L)))
    found = []
    for place, (what, rows, growth) in enumerate(asked):
        view = view_of(whole, simulated.information, rows)
        raw = float(np.trace(rows @ bound @ rows.T))
        estimable = bool(view.estimable.all())
        if not estimable or np.isinf(growth):
            # Where not all of it can be estimated, its error as a whole is without bound: as good as any promise for
            # what is private.
            error = float(np.trace(view.covariance)) if estimable else np.inf
            held = not estimable and (place > 0 or np.isinf(growth))
            found.append(Row(SECTION, what, raw * (1 + growth), error, _judged(held)))
            continue
        square = float(np.sum((simulated.vectors @ view.gain.T - x @ rows.T) ** 2)) / len(x)
        spectrum = np.maximum(np.linalg.eigvalsh(view.covariance), 0.0)
        # The size is that which was promised, whatever the parts of the plan say now; they give its shape alone.
        law = SquareSum(spectrum * (raw * (1 + growth) / np.sum(spectrum)), len(x))
        typical = float(np.sqrt(raw / len(rows)))
        guess = typical * float(np.sqrt(1 + guessing.growth(rows)))
        beside = Compared("", len(rows), raw=typical, guessing=guess)
        share = part_of(Section.PROMISE, FALSE_ALARM) / (2 * len(asked))
        found.append(judged_row(what, beside, square, law, share, public=place == 0))
    return found


@dataclass(frozen=True, eq=False)
class Simulated(Summed):
    """What the simulated messages of some parts tell, and whether they are what the plan says.

    vectors:     b of every row, (T, L).
    information: J, (L, L).
    refused:     how many messages of credible readings were not sent.
    strayed:     how many numbers without noise are not what the plan says.
    tested:      how many numbers with noise were tested.
    worst:       the smallest p-value among them, and whose it is.
    """

    vectors: Array
    information: Array
    refused: int = 0
    strayed: int = 0
    tested: int = 0
    worst: tuple[float, str] = field(default=(1.0, ""), metadata=joined_by(min))


def simulated_sums(part: PartFile, seed: int, rows: int, whole: Network) -> Simulated:
    """A task: simulate the agents of a part in so many rows.

    whole: one imaginary agent in place of all.
    """
    x = drawn_x(seed, rows, whole)
    sensors = part_generator(part.name, seed, _OF_READINGS)
    noise = SeededNoise(part_generator(part.name, seed, _OF_AGENTS))
    found = Simulated(np.zeros(x.shape), np.zeros((whole.L, whole.L)))
    for stack in sent_by(part).stacks:
        for some in some_at_a_time(stack.count if stack.sent else 0, rows, stack.readings):
            few = stack.take(some)
            network = part.network.some(few.places)
            readings = draw_readings(network, x, sensors).reshape(rows, few.count, few.readings)
            sent = Mechanisms(network, [replace(few, places=np.arange(few.count))])
            messages = release_of(network, sent.stacks[0], readings, noise)
            names = [part.network.agents[place] for place in few.places.tolist()]
            found += _simulated(sent, readings, messages, whole, names)
    return found


def drawn_x(seed: int, rows: int, whole: Network) -> Array:
    """x in every row, the same for all parts."""
    return draw_x(whole, np.random.default_rng([seed, _OF_X]), rows)


def _simulated(
    sent: Mechanisms, readings: Array, messages: Array, whole: Network, names: list[str]
) -> Simulated:
    """What the messages (rows, count, k) of some agents tell, and what was added to their readings."""
    network, (stack,), rows = sent.network, sent.stacks, len(messages)
    assert stack.grid is not None  # a part of a plan always has one
    lost = np.asarray(~np.isfinite(messages).all(axis=2))
    weighed = weights_of(sent, whole)
    deviations = messages.reshape(rows, -1) - weighed.expected
    deviations[np.repeat(lost, messages.shape[2], axis=1)] = 0.0
    offset, steps = (network.blocks.groups[0].take(each) for each in (network.offset, network.steps))
    added = messages - np.einsum("tcn,ckn->tck", readings - offset, stack.compression)
    added[lost] = 0.0
    own = np.zeros(stack.grid.shape) if stack.variances is None else stack.variances
    variances = own + np.einsum("ckn,cn->ck", stack.compression**2, dither_variance(steps, MOST_DRAWS))
    noisy = variances > _NOISY * stack.grid**2
    squares = np.sum(added**2, axis=0) / np.where(noisy, variances, 1.0)
    chances = np.where(noisy, subgaussian_square_p(squares, rows, np.full(noisy.shape, 1 / _NOISY)), 1.0)
    dither = np.einsum("ckn,cn->ck", np.abs(stack.compression), MOST_DRAWS * steps / 2)
    furthest = np.where(own > 0, np.inf, stack.grid * (1 + _ROUNDED) + dither)
    least = np.min(chances, axis=1)
    return Simulated(
        deviations @ weighed.weights, weighed.rows.T @ weighed.rows, int(np.sum(lost)),
        int(np.sum(np.abs(added) > furthest)), int(np.sum(noisy)),
        (float(np.min(least)), names[int(np.argmin(least))]),
    )  # fmt: skip
