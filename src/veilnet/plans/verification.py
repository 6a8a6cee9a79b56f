"""Does a saved plan keep what it promises, on a network that the user trusts?

Nothing that was saved is believed: every promise is recomputed from the sanitizers that the agents' files hold,
the grids and the centre's model are derived again, and the network must equal the given one to the last bit (but for
a step of time that only the plan has, which is said). A checksum only parts accidents from intact files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from veilnet._core.durations import duration_in_words, same_step
from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest, VeilnetError
from veilnet.agent.mechanisms import Mechanisms, as_rounded, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.detectability import detectability
from veilnet.centre.models import Messages, messages_of, same_messages
from veilnet.model.network import Network
from veilnet.plans.certificate import (
    CHANGE_OF,
    Certificate,
    Promise,
    certify,
    explained_by_rounding,
    recheck_of,
)
from veilnet.plans.in_words import floors_in_proof, that_keeps
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.plan import Plan, sealed_plan
from veilnet.plans.release_grid import with_release_grid
from veilnet.review.inspection import inspect
from veilnet.sums.handing_out import handed_out
from veilnet.sums.merging import merged_like
from veilnet.sums.program import proved_gap
from veilnet.verdict.exact_test import check
from veilnet.verdict.notes import limit_notes, refuse_narrow_limits

_MOST_INSPECTED = 2000  # agents that are looked at one by one for raw readings
_FLOOR_SLACK = 1e-6  # relative: floors lie a little below what is free, so that rounding does not decide
_NEARLY_UNBOUNDED = 1e6  # a deviation that grew a thousandfold
# An error without bound is a large one at the recheck's frequencies: d' beside it is off by up to so much.
_SEEN_ALIKE, _SEEN_AS_NOTHING = 1e-2, 1e-3
WITHIN_LIMITS = "readings are within their limits"


@dataclass(frozen=True)
class Check:
    """One thing that was verified.

    what:     which, in words.
    ok:       whether it is confirmed.
    promised: the figure the plan claims, None where it is not about a figure.
    found:    the figure that was recomputed, likewise.
    note:     what is wrong, where it is not confirmed; else what is worth knowing about it.
    """

    what: str
    ok: bool
    promised: float | None = None
    found: float | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class SavedPlan:
    """What the files of a plan hold, each of them valid by itself, none of it believed yet.

    where:         the file of the whole plan, for messages.
    trouble:       what is wrong with its seal, empty if nothing is.
    plan_id:       the id it bears.
    agent_files:   file name -> (the agent, what its file holds and the id of the plan that file belongs to, or the
                   complaint of who tried to read it).
    centre_file:   the same for the centre; None where the plan is one file.
    difference:    where a network differs from the saved one, empty if it does not.
    proof_file:    file name and the proof in it, or the complaint of who tried to read it; None without a proof.
    """

    where: str
    trouble: str
    plan_id: str
    network: Network
    sanitizers: Mapping[str, Sanitizer]
    method: str
    promise: Promise
    details: Mapping[str, Any]
    agent_files: Mapping[str, tuple[str, tuple[Sanitizer, str | None] | str]]
    centre_file: tuple[str, Messages | str] | None
    difference: Callable[[Network], str]
    proof_file: tuple[str, Proof | str] | None = None


def verify(plan: Plan | str | PathLike[str], network: Network | None = None) -> list[Check]:
    """Re-derive every promise of a plan; without a network, on the plan's own, taken on trust.

    plan:    a plan, checked as what it would be saved as; or where :meth:`veilnet.Plan.save` or ``veilnet design
             --out`` wrote it: a folder or plan.npz.
    network: the network you trust; the plan must have been made for exactly this one, except that a plan may have
             a step of time where the network has none (``design --step``), which is said and no failure.

    Raises InvalidPlan where the folder cannot be read as a plan at all.
    """
    from veilnet.io.plan_reading import read_plan_folder

    if isinstance(plan, Plan):
        with TemporaryDirectory() as folder:
            plan.save(Path(folder, "plan.npz"))
            return verify(Path(folder, "plan.npz"), network)
    saved = read_plan_folder(plan)
    checks = [Check(Path(saved.where).name, not saved.trouble, note=saved.trouble)]
    trusted = saved.network
    if network is not None:
        trusted, note = _with_planned_step(merged_like(network, saved.network), saved.network.step)
        trusted = trusted.replace(dither=saved.network.dither)  # the certificate judges it by what is sent
        # A step that differs is said in words; where only the plan has one, all else must still be the same.
        difference = saved.difference(trusted)
        if difference and not same_step(trusted.step, saved.network.step):
            difference = note
        checks.append(Check("network is the given one", not difference, note=difference or note))
    return [*checks, *_checks(saved, trusted)]


def _with_planned_step(network: Network, planned: float | None) -> tuple[Network, str]:
    """The network with the plan's step where it has none itself, and in words how the two differ in their steps."""
    if same_step(network.step, planned):
        return network, ""
    if planned is None:
        return network, f"the network has a step of {duration_in_words(network.step or 0.0)}, the plan none"
    has = f"the plan has a step of {duration_in_words(planned)}, the network"
    if network.step is None:
        return network.replace(step=planned), f"{has} none"
    return network, f"{has} one of {duration_in_words(network.step)}"


def load_plan(folder: str | PathLike[str]) -> Plan:
    """Read a plan folder and confirm all of it; InvalidPlan names the file that was changed, cut off or mixed up."""
    from veilnet.io.plan_reading import read_plan_folder

    return confirmed(read_plan_folder(folder))


def confirmed(saved: SavedPlan) -> Plan:
    """The plan that was saved, every promise of it recomputed; InvalidPlan where one thing is not confirmed."""
    if saved.trouble:
        raise InvalidPlan(f"{saved.where}: {saved.trouble}")
    for each in _file_checks(saved, saved.network):
        if not each.ok:
            raise InvalidPlan(each.note)
    for each in (*_grid_checks(saved, saved.network), *_limit_checks(saved.network)):
        if not each.ok:
            raise InvalidPlan(f"{saved.where}: {each.what}: {each.note}; save the plan again")
    certificate = _certified(saved.network, saved.sanitizers, saved.promise)
    if not certificate.ok:
        raise InvalidPlan(f"{saved.where}: its promise is not confirmed: {certificate.complaint()}")
    # The free privacy of a stream takes long to compute: verify does, loading does not.
    for each in () if saved.network.is_stream else _floor_checks(saved, saved.network):
        if not each.ok:
            raise InvalidPlan(f"{saved.where}: {each.note}; design the plan again")
    for each in _proof_checks(saved, saved.network):
        if not each.ok:
            raise InvalidPlan(each.note)
    proof = None if saved.proof_file is None or isinstance(saved.proof_file[1], str) else saved.proof_file[1]
    return sealed_plan(
        saved.network, saved.sanitizers, saved.method, saved.promise, certificate, saved.details, proof
    )


def _checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    try:
        mechanisms(network, saved.sanitizers)
    except InvalidRequest as error:
        yield Check("sanitizers fit the network", False, note=str(error))
        return
    yield from _file_checks(saved, network)
    yield from _grid_checks(saved, network)
    yield from _limit_checks(network)
    yield from _promise_checks(saved, network)
    yield from _change_checks(saved, network)
    yield from _floor_checks(saved, network)
    yield from _raw_readings(saved.sanitizers)
    yield from _proof_checks(saved, network)


def _raw_readings(sanitizers: Mapping[str, Sanitizer]) -> Iterator[Check]:
    """A plan may keep its promises and send raw readings, where nothing private depends on them: it is said."""
    for agent, sanitizer in islice(sanitizers.items(), _MOST_INSPECTED):
        for alarm in inspect(sanitizer).alarms:
            yield Check(f"what {agent} sends", True, note=alarm)
    if len(sanitizers) > _MOST_INSPECTED:
        note = f"of {len(sanitizers)} agents, the first {_MOST_INSPECTED} were looked at one by one for raw readings"
        yield Check("what agents send", True, note=note)


def _file_checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    """Each agent's file must hold exactly the plan's sanitizer, the centre's what they all imply."""
    each = handed_out(saved.network, saved.sanitizers) if saved.network.members else saved.sanitizers
    for name, (agent, content) in saved.agent_files.items():
        complaint = _agent_complaint(name, content, each[agent], saved.plan_id)
        yield Check(Path(name).name, not complaint, note=complaint)
    if saved.centre_file is None:
        return
    name, found = saved.centre_file
    complaint = _centre_complaint(name, found, network, saved)
    yield Check(Path(name).name, not complaint, note=complaint)


def _agent_complaint(
    name: str, content: tuple[Sanitizer, str | None] | str, expected: Sanitizer, plan_id: str
) -> str:
    if isinstance(content, str):
        return content
    found, belongs_to = content
    if belongs_to != plan_id:
        return f"{name}: belongs to another plan; save the plan again, or copy the right file"
    if not found.same_as(expected):
        return f"{name}: is not the sanitizer of the plan; save the plan again"
    return ""


def _centre_complaint(name: str, found: Messages | str, network: Network, saved: SavedPlan) -> str:
    if isinstance(found, str):
        return found
    try:
        coarse = saved.promise.rounding is not None
        sent = as_rounded(network, saved.sanitizers) if coarse else saved.sanitizers
        expected = messages_of(network, sent, saved.plan_id)
    except InvalidPlan as error:
        return str(error)
    if found.plan != saved.plan_id:
        return f"{name}: belongs to another plan; save the plan again, or copy the right file"
    if not same_messages(expected, found):
        return f"{name}: is not the centre's part of the plan; save the plan again"
    return ""


def _grid_checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    """A grid finer than the plan's would let low bits through, a coarser one cost utility."""
    try:
        with np.errstate(all="ignore"):
            expected = with_release_grid(network, saved.sanitizers, rounding=saved.promise.rounding)
    except (VeilnetError, np.linalg.LinAlgError) as error:
        yield Check("grids", False, note=str(error))
        return
    found = mechanisms(network, saved.sanitizers)
    wrong = _other_grids(found, expected)
    note = f"not the grid that the noise calls for: {', '.join(wrong[:5])}" if wrong else ""
    yield Check("grids", not wrong, note=note)
    if found.given is not None:  # otherwise they are the network's, whatever was saved
        loose = [agent for agent, s in found.given.items() if not s.same_readings_as(expected[agent])]
        note = f"not those of the network: {', '.join(loose[:5])}" if loose else ""
        yield Check("names, limits, resolution, step", not loose, note=note)


def _limit_checks(network: Network) -> Iterator[Check]:
    """Limits that readings are beyond too often: nothing is promised of rows in which one is."""
    note = "".join(limit_notes(network))
    try:
        refuse_narrow_limits(network)
    except InvalidNetwork as error:
        yield Check(WITHIN_LIMITS, False, note=str(error))
        return
    if note:
        yield Check(WITHIN_LIMITS, True, note=note)


def _other_grids(found: Mechanisms, expected: Mechanisms) -> list[str]:
    """The agents that have no grid, or another than expected."""
    if found.blocks.sizes.tolist() != expected.blocks.sizes.tolist():
        differ = found.blocks.sizes != expected.blocks.sizes
        return [found.network.agents[place] for place in np.flatnonzero(differ).tolist()]
    one, other = found.grid, expected.grid
    # On another machine, a deviation on the edge may round to the neighbouring power of two.
    off = found.blocks.owner[~((one <= 2 * other) & (other <= 2 * one))]
    return [found.network.agents[place] for place in np.unique(off).tolist()]


def _promise_checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    if set(saved.promise.privacy) != set(network.private):
        yield Check("promises", False, note="the plan promises other private parameters")
        return
    try:
        certificate = _certified(network, saved.sanitizers, saved.promise)
    except InvalidPlan as error:
        yield Check("promises", False, note=str(error))
        return
    for finding in certificate.findings:
        yield Check(finding.what, bool(finding.ok), finding.promised, finding.found)


def _change_checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    """How surely the change of each secret is seen in one row, asked for or not: d' as stated and as rechecked."""
    if not network.secrets:
        return
    try:
        stated = detectability(network, saved.sanitizers)
        model = recheck_of(network, saved.sanitizers)
        found = {name: model.deviations(each.rows, each.change, 1) for name, each in network.secrets.items()}
    except (VeilnetError, np.linalg.LinAlgError) as error:
        yield Check(
            "changes of secrets", False, note=f"how surely they are seen cannot be computed ({error})"
        )
        return
    for name, seen in found.items():
        held = bool(seen <= stated[name].mu * (1 + _SEEN_ALIKE) + _SEEN_AS_NOTHING)
        yield Check(f"{CHANGE_OF}{name} in one row", held, stated[name].mu, seen)


def _floor_checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    """Whether each floor is what is free on this network, and not less."""
    floors = saved.promise.floors
    if not floors or not set(floors) <= set(network.private):
        return
    try:
        free = check(network).ceiling
    except (VeilnetError, np.linalg.LinAlgError) as error:
        yield Check("floors are what is free", False, note=f"what is free cannot be computed ({error})")
        return
    slack = max(_FLOOR_SLACK, explained_by_rounding(network))
    for name, floor in floors.items():
        # Where doubles say "without bound", the floor may be the large figure that the recheck confirmed instead.
        enough = bool(floor >= (_NEARLY_UNBOUNDED if np.isinf(free[name]) else free[name] * (1 - slack)))
        note = "" if enough else f"the floor of {name} is {floor:.6g}, and {free[name]:.6g} is free"
        yield Check(f"floor of {name} is what is free", enough, floor, free[name], note)


def _proof_checks(saved: SavedPlan, network: Network) -> Iterator[Check]:
    """The proof of the gap, checked anew on this network from its multipliers alone."""
    multipliers = saved.details.get("multipliers")
    if multipliers is not None:
        promise = saved.promise
        asked = {
            name: max(promise.targets.get(name, 0.0), promise.floors.get(name, 0.0))
            for name in promise.privacy
        }
        loss = -promise.utility if promise.targets or promise.most_loss is None else promise.most_loss
        gap = proved_gap(network, multipliers, loss, promise.privacy, asked if promise.targets else {})
        note = "" if np.isfinite(gap) else "its multipliers prove nothing on this network"
        yield Check("gap to the best of all mechanisms", not note, found=gap, note=note)
    if saved.proof_file is None:
        return
    name, proof = saved.proof_file
    if isinstance(proof, str):
        yield Check(Path(name).name, False, note=proof)
        return
    yield Check(Path(name).name, True)
    holds = proof.holds(network)
    note = (
        ""
        if holds
        else f"{name}: the theorem's inequality does not hold with its multipliers; nothing is proved"
    )
    kept = floors_in_proof(proof, saved.promise.targets, saved.promise.floors)
    yield Check(f"loss that no linear design{that_keeps(kept)} undercuts", holds, proof.loss, note=note)


def _certified(network: Network, sanitizers: Mapping[str, Sanitizer], promise: Promise) -> Certificate:
    """The certificate of a promise; a model beyond floating point counts as not confirmed."""
    try:
        with np.errstate(all="ignore"):
            return certify(network, sanitizers, promise)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise InvalidPlan(f"the promise cannot be recomputed ({error}); design the plan again") from error
