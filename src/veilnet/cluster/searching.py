"""Searches among the agents of a network in parts: prices or estimates go to all parts, L x L sums come back.

Trade-offs and limited noise power are searched for as for very many agents in one piece (:mod:`veilnet.designs.many`,
:mod:`veilnet.designs.power`), in coordinates in which the raw information of all is the identity. Every number that
decides is a sum over parts in an order of their own: the steps are the same with any number of workers, with none,
and after some died.

Workers remember what they made of a file from pass to pass, as long as there is room. Answers of all parts are kept
in ``plan/search`` until the plan is there, so that a run that was cut off goes on where it was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import solve_lower_batch
from veilnet._core.progress import Progress
from veilnet._core.stacks import Summing, summed
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Integers
from veilnet.bounds.knowledge import knowledge_of_factor
from veilnet.cluster.files import kept_arrays, write_arrays
from veilnet.cluster.parts import PartFile, Parts
from veilnet.cluster.plans import PLAN, SEARCH
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import PlanSums, Summed, key_of, sent_sums, share_sums
from veilnet.designs.floors import floors_of
from veilnet.designs.joint import SETTINGS, SearchOptions
from veilnet.designs.many import (
    SAMPLE_ENTRIES,
    Crowd,
    Effort,
    ManySearch,
    Question,
    Rule,
    evenly,
    mixed_answers,
    standing_for,
)
from veilnet.designs.power import Agents, AscentSearch, FreeStack, relative_gap, wanted_columns
from veilnet.designs.questions import read_amounts
from veilnet.designs.shrink import normal_rows
from veilnet.model.network import Network
from veilnet.model.standard_form import standard_form
from veilnet.plans.asked import Asked
from veilnet.verdict.shares import share_stack

EFFORT = Effort(first=20, steps=20, rounds=2, last=20)
"""Passes over all parts: fewer than in one piece, as each reads or asks for all of them."""
_WITHOUT_BOUND = 1e12
_REMEMBERED = 2**28  # bytes that a process keeps from pass to pass
_memory: OrderedDict[tuple[object, ...], Sequence[Any]] = OrderedDict()


class Prepared(Protocol):
    """What agents are asked about, made of a part once: a dataclass of all that it depends on beside the part."""

    def stacks(self, part: PartFile) -> Sequence[Any]:
        """Stacks of the agents of a part, arrays or dataclasses of them, few enough to be worked on at once."""


@dataclass(frozen=True, eq=False)
class AnswerSums:
    """Arrays that are added up, each by itself; none where there was nobody to ask."""

    arrays: tuple[Array, ...]

    def __add__(self, other: AnswerSums) -> AnswerSums:
        return AnswerSums(summed((each for each in (self, other) if each.arrays), lambda each: each.arrays))


def answer_sums(
    part: PartFile, prepared: Prepared, answer: Callable[..., Any], asked: tuple[Any, ...]
) -> AnswerSums:
    """A task: what the agents of a part answer to what is ``asked``, added up stack by stack."""
    return AnswerSums(summed(remembered(part, prepared), answer, *asked))


def remembered(part: PartFile, prepared: Prepared) -> Sequence[Any]:
    """What is made of a part, made anew when its file changed."""
    status = part.path.stat() if part.path.exists() else None
    key = (part.path, key_of(prepared), None if status is None else (status.st_mtime_ns, status.st_size))
    if key not in _memory:
        _memory[key] = prepared.stacks(part)
        while (
            len(_memory) > 1 and sum(_bytes(one) for each in _memory.values() for one in each) > _REMEMBERED
        ):
            _memory.popitem(last=False)
    _memory.move_to_end(key)
    return _memory[key]


def _bytes(stack: Any) -> int:
    return stack.nbytes if hasattr(stack, "nbytes") else sum(each.nbytes for each in vars(stack).values())


def asking(parts: Parts, prepared: Prepared, client: Any, *about: Any) -> Summing:
    """Passes over all parts of a network, in a search: what all agents answer, from a pass, or from an earlier run
    that asked the same.

    prepared: what its agents are asked about.
    about:    what else all questions of the search have in common.
    """
    common = key_of(prepared, *about)

    def answered(answer: Callable[..., Any], *asked: Any) -> tuple[Array, ...]:
        path = parts.folder / PLAN / SEARCH / f"{key_of(common, answer.__name__, *asked)[:32]}.npz"
        known = kept_arrays(path)
        if known is not None:
            return tuple(known[f"a{place}"] for place in range(len(known)))
        found: AnswerSums = over_parts(answer_sums, parts, prepared, answer, asked, client=client)
        write_arrays(path, {f"a{place}": array for place, array in enumerate(found.arrays)})
        return found.arrays

    return answered


@dataclass(frozen=True, eq=False)
class White:
    """R_i^-½ H_i T^-1 of the agents of a part, (s, n, L).

    change: T^-1 of the raw information T'T of all agents and the prior.
    """

    change: Array

    def stacks(self, part: PartFile) -> Sequence[Array]:
        """As :meth:`Prepared.stacks`."""
        observe, roots = part.network.stacked, part.network.roots
        return [
            solve_lower_batch(roots[some], observe[some]) @ self.change
            for some in some_at_a_time(*observe.shape)
        ]


@dataclass(frozen=True, eq=False)
class Chosen(Summed):
    """Agents that stand for others: their readings, (s, n, L), and for how many each of a stack stands."""

    stacks: tuple[Array, ...]
    stand_for: tuple[float, ...]


def chosen_agents(part: PartFile, white: White, fraction: float) -> Chosen:
    """A task: a fraction of the agents of a part, evenly spread, at least one."""
    stack = np.concatenate(remembered(part, white))
    places = evenly(len(stack), fraction)
    return Chosen((stack[places],), (len(stack) / len(places),))


def mixture_sums(part: PartFile, white: White, recipes: Sequence[Rule], weights: Array) -> PlanSums:
    """The last pass: what every agent of a part sends in a mixture, written as a part of the plan."""

    def make() -> tuple[Array, Array, Integers]:
        shrink = [mixed_answers(recipes, weights, each) for each in white.stacks(part)]
        return normal_rows(np.concatenate(shrink), part.network.roots)

    return sent_sums(part, key_of(part.digest, white, weights, *recipes), make)


class PartsTradeoff:
    """The trade-offs of a network in parts.

    ceiling: name -> privacy that is free.
    """

    def __init__(
        self, parts: Parts, whole: Network, readings: int, options: SearchOptions, client: Any
    ) -> None:
        self._how = {"client": client, "progress": options.progress, "what": "writing the plan"}
        self._parts, self._names = parts, list(whole.private)
        share = SAMPLE_ENTRIES * parts.agents / readings**2
        with one_thread():
            form = standard_form(whole)
            self._white = White(whole.in_raw_coordinates(np.eye(parts.length)))
        crowd = Crowd(form, asking(parts, self._white, client, form.public, *form.private))
        chosen: Chosen = over_parts(chosen_agents, parts, self._white, share, client=client)
        with one_thread():
            sample = standing_for(form, chosen.stacks, chosen.stand_for)
            self._search = ManySearch(crowd, sample, options, EFFORT)
            self._search.know_closed_forms(form, np.ones(len(self._names), bool))
        self.ceiling = dict(zip(self._names, self._search.ceiling.tolist(), strict=True))

    def keeping(self, asked: Asked, limit: Mapping[str, float]) -> Asked:
        """What is asked, refused where the search for parts has no answer; what is free becomes a floor, but for what
        is spared.
        """
        for name, target in asked.targets.items():
            if 0 < target > limit[name] * (1 - SETTINGS.near_limit):
                raise InvalidRequest(
                    f"privacy: {name} is asked for at its very limit, {limit[name]:.6g}; networks in parts reach any "
                    "privacy below it: ask for a little less"
                )
        unbounded = [name for name, free in self.ceiling.items() if free > _WITHOUT_BOUND]
        if unbounded:
            raise InvalidRequest(
                f"privacy: {unbounded[0]} is hidden without bound for free, which sums in doubles cannot keep; give "
                "save_parts a prior, or design without a target"
            )
        return asked.keeping(floors_of(self.ceiling, asked.spared) if len(self._names) > 1 else {})

    def answer(self, asked: Asked, margin: float) -> tuple[PlanSums, dict[str, Any]]:
        """The mixture found, aimed at with a margin so that rounding decides nothing, and written by all parts; its
        sums, and how it was found.
        """
        wanted, kept, divided = (
            np.array([(each or {}).get(name, 0.0) for name in self._names])
            for each in (asked.targets, asked.floors, asked.weights)
        )
        question = Question(np.maximum(wanted * (1 + margin), kept))
        if asked.most_loss is not None:
            question = Question(kept, divided, asked.most_loss * (1 - margin))
        with one_thread():
            found, agreed = self._search.answer(question)
        mixture = (self._white, found.recipes, found.weights)
        sums: PlanSums = over_parts(mixture_sums, self._parts, *mixture, **self._how)
        return sums, {
            "starts": self._search.starts,
            "starts_agreed": agreed,
            "iterations": found.passes,
            "kkt_residual": found.gap,
            "interrupted": found.interrupted or self._search.stopped,
            **({"given_up": sorted(asked.given_up)} if asked.given_up else {}),
        }


@dataclass(frozen=True, eq=False)
class Free:
    """Where the agents of a part may add noise.

    change:    T^-1, (L, L), with T'T the raw information of all.
    weights, tolerance: of the shares (:func:`veilnet.verdict.shares.share_stack`).
    powers:    largest noise power of an agent of each part, by the ``names`` of the parts; without names, of all.
    """

    change: Array
    weights: Array
    tolerance: float
    names: tuple[str, ...]
    powers: Array

    def agents(self, part: PartFile) -> Agents:
        """The agents of a part, with their shares and powers."""
        observe, roots = part.network.stacked, part.network.roots
        found = share_stack(observe, roots, self.weights, self.tolerance)
        power = np.full(len(observe), self.powers[self.names.index(part.name) if self.names else 0])
        return Agents(observe, roots, np.asarray(found.rows), found.ranks, power)

    def stacks(self, part: PartFile) -> Sequence[FreeStack]:
        """As :meth:`Prepared.stacks`."""
        return self.agents(part).free(self.change)


def noise_sums(part: PartFile, free: Free, estimate: Array) -> PlanSums:
    """The last pass: what every agent of a part sends whose noise answers an estimate, written as in the plan."""

    def make() -> tuple[Array, Array, Integers]:
        rows, variances, _ = free.agents(part).sending(free.change, estimate)
        return rows, variances, np.full(len(rows), rows.shape[1], dtype=np.intp)

    return sent_sums(part, key_of(part.digest, free, estimate), make)


class PartsPower:
    """The designs of limited noise power of a network in parts.

    whole:   one imaginary agent that tells what all agents tell.
    shares:  their weights and tolerance.
    power:   largest noise power of an agent, by the name of its part.
    ceiling: name -> privacy that shares alone would leave, as noise without limit does.
    """

    def __init__(
        self, parts: Parts, whole: Network, shares: tuple[Array, float], power: Mapping[str, float], client: Any,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self._parts, self._whole, self._client, self._progress = parts, whole, client, progress
        with one_thread():
            change = whole.in_raw_coordinates(np.eye(parts.length))
            # One power for all goes to workers as one number, however many parts there are.
            names, powers = tuple(power), tuple(power.values())
            if len(set(powers)) == 1:
                names, powers = (), powers[:1]
            self._free = Free(change, *shares, names, np.array(powers))
            self._wanted = wanted_columns(
                whole.in_raw_coordinates(whole.U), map(whole.in_raw_coordinates, whole.private.values())
            )
        self.ceiling = self._grown(over_parts(share_sums, parts, *shares, False, client=client))
        self._upper = float("inf")

    def answer(self, part_of_power: float) -> tuple[PlanSums, dict[str, Any]]:
        """The noise found within a part of the power, written by all parts; its sums, and how it was found."""
        free = replace(self._free, powers=part_of_power * self._free.powers)
        with one_thread():
            everybody = asking(self._parts, free, self._client, self._wanted)
            found = AscentSearch(everybody, self._wanted, self._progress).run()
        self._upper = found.upper_bound if part_of_power == 1.0 else self._upper
        sums: PlanSums = over_parts(
            noise_sums, self._parts, free, found.estimate, client=self._client, progress=self._progress,
            what="writing the plan",
        )  # fmt: skip
        total = sum(self._grown(sums).values())
        names, given = self._free.names, self._free.powers.tolist()
        return sums, {
            "total_privacy": total,
            "upper_bound": self._upper,
            "relative_gap": relative_gap(total, self._upper),
            "iterations": found.iterations,
            "interrupted": found.interrupted,
            "power_allowed": dict(zip(names, given, strict=True)) if names else given[0],
        }

    def _grown(self, sums: PlanSums) -> dict[str, float]:
        """Name -> p_j where no more is known than sums tell."""
        with one_thread():
            known = knowledge_of_factor(self._whole, sums.triangle)
            return {name: known.growth(rows) for name, rows in self._whole.private.items()}


def read_power_of_parts(parts: Parts, power: Any) -> dict[str, float]:
    """The noise power allowed to every agent of a part, by its name; 0 where a mapping leaves one out."""
    names = list(parts.before)
    if np.iterable(power) and not isinstance(power, str | Mapping):
        raise InvalidRequest(
            f"power: expected one number for all agents, or the name of a part -> number ({names[0]!r}: 1e4), found "
            f"{type(power).__name__}; agents of different powers go to different parts"
        )
    return dict.fromkeys(names, 0.0) | read_amounts(power, names, "power")
